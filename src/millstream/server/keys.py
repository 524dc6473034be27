"""The server's own keys: one that signs webhooks, one that seals the tokens of wakes.

Both are made at the first start and kept in the data directory, readable by its owner only.
Tokens carry all they prove, so none has to be remembered: a token of a wake that is over still
verifies, and is then fenced by name instead of being taken for a forgery.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from millstream.core.subscriptions.commands import Grant

FILE_NAME: Final = "keys.json"
CALLBACK: Final = "callback"
CLAIM: Final = "claim"

_VERSION: Final = 1
_KEY_BYTES: Final = 32
_TOKEN_PREFIX: Final = b"ms1"
_TOKEN_BYTES_MAX: Final = 4096


class KeysError(OSError):
    """The key file cannot be used; the message says which file and what to do."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    webhook_ed25519: str
    token_hmac: str
    check: str
    """SHA-256 over the fields before: a key with one wrong bit is a key as good as any other."""


class _Sealed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A grant as it stands inside a token."""

    kind: str
    sub_id: str
    sub_no: int
    generation: int
    wake_id: str


class Keys:
    """Signs webhooks, makes and verifies tokens."""

    def __init__(self, signing_seed: bytes, token_key: bytes) -> None:
        """Take both secrets, 32 bytes each."""
        self._signing = Ed25519PrivateKey.from_private_bytes(signing_seed)
        self._token_key = token_key
        public = _text(self._signing.public_key().public_bytes_raw())
        self.kid = f"ds_{_thumbprint(public)}"
        """The name of the signing key: RFC 7638 thumbprint of its public half."""
        self.jwks = msgspec.json.encode(
            {
                "keys": [
                    {
                        "kty": "OKP",
                        "crv": "Ed25519",
                        "kid": self.kid,
                        "use": "sig",
                        "alg": "EdDSA",
                        "x": public,
                    }
                ]
            }
        )
        """The public key as a JWK Set."""

    def signature(self, body: bytes, now_s: int) -> str:
        """Return the Webhook-Signature header for a body that is sent now."""
        signed = self._signing.sign(b"%d." % now_s + body)
        return f"t={now_s},kid={self.kid},ed25519={_text(signed)}"

    def token(self, grant: Grant) -> str:
        """Return a token that proves ``grant`` and nothing else."""
        sealed = _Sealed(grant.kind, grant.sub_id, grant.sub_no, grant.generation, grant.wake_id)
        payload = _text(msgspec.msgpack.encode(sealed)).encode()
        return b".".join((_TOKEN_PREFIX, payload, self._mac(payload))).decode()

    def grant(self, token: bytes, kind: str, sub_id: str) -> Grant | None:
        """Return what a token proves, or None unless it is ours, of that kind, for that id."""
        parts = token.split(b".")
        if len(token) > _TOKEN_BYTES_MAX or len(parts) != 3 or parts[0] != _TOKEN_PREFIX:
            return None
        # The seal is over the text as it stands, so one grant has one token.
        if not hmac.compare_digest(parts[2], self._mac(parts[1])):
            return None
        try:
            sealed = msgspec.msgpack.decode(_bytes(parts[1]), type=_Sealed)
        except (ValueError, msgspec.DecodeError):
            return None
        if sealed.kind != kind or sealed.sub_id != sub_id:
            return None
        return Grant(sealed.kind, sealed.sub_id, sealed.sub_no, sealed.generation, sealed.wake_id)

    def _mac(self, payload: bytes) -> bytes:
        digest = hmac.digest(self._token_key, _TOKEN_PREFIX + b"." + payload, hashlib.sha256)
        return _text(digest).encode()


def load_keys(data_dir: str | Path) -> Keys:
    """Return the keys of a data directory; made, and safely on disk, if it had none.

    Raises KeysError when the file is there but damaged: new keys would fence every worker and
    break every receiver without a word, so that is left to the operator.
    """
    path = Path(data_dir) / FILE_NAME
    keys = read_keys(path)
    return keys if keys is not None else _create(path)


def read_keys(path: Path) -> Keys | None:
    """Return the keys in the file at ``path``, None when there is no file. Raises KeysError."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"the key file {path} cannot be read: {error}"
        raise KeysError(message) from error
    try:
        stored = _checked(msgspec.json.decode(raw, type=_File))
        seed, token_key = (_key(stored.webhook_ed25519), _key(stored.token_hmac))
    except (ValueError, msgspec.DecodeError) as error:
        message = (
            f"the key file {path} is damaged ({error}); put it back from a backup, or remove it"
            " to have new keys made: webhook receivers then fetch the new public key, and wakes"
            " that are held have to be claimed again"
        )
        raise KeysError(message) from error
    if stored.version != _VERSION:
        message = f"the key file {path} has version {stored.version}; this server knows {_VERSION}"
        raise KeysError(message)
    return Keys(seed, token_key)


def _create(path: Path) -> Keys:
    seed, token_key = secrets.token_bytes(_KEY_BYTES), secrets.token_bytes(_KEY_BYTES)
    raw = msgspec.json.encode(_file(_text(seed), _text(token_key)))
    temporary = path.with_name(f"{path.name}.new")
    try:
        temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - the mode has to be set at creation
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        message = f"the key file {path} cannot be made: {error}"
        raise KeysError(message) from error
    return Keys(seed, token_key)


def _file(seed: str, token_key: str, version: int = _VERSION) -> _File:
    check = hashlib.sha256(f"{version}:{seed}:{token_key}".encode()).hexdigest()
    return _File(version, seed, token_key, check)


def _checked(stored: _File) -> _File:
    if stored != _file(stored.webhook_ed25519, stored.token_hmac, stored.version):
        message = "it does not match its check sum"
        raise ValueError(message)
    return stored


def _thumbprint(public: str) -> str:
    """Return the RFC 7638 thumbprint: the required members, in order, without white space."""
    canonical = f'{{"crv":"Ed25519","kty":"OKP","x":"{public}"}}'
    return _text(hashlib.sha256(canonical.encode()).digest())


def _key(text: str) -> bytes:
    raw = _bytes(text.encode())
    if len(raw) != _KEY_BYTES:
        message = f"a key of {_KEY_BYTES} bytes is expected, {len(raw)} are there"
        raise ValueError(message)
    return raw


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: bytes) -> bytes:
    return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
