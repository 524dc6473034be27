"""Keys are made once and kept; tokens prove one wake; nobody else makes either."""

import base64
import hashlib
import json
import stat
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.subscriptions.commands import Grant
from millstream.server.keys import CALLBACK, CLAIM, Keys, KeysError, load_keys

KEYS = Keys(bytes(32), b"k" * 32)
GRANT = Grant(CLAIM, "sub", 3, 7, "w_3_7")


def raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_keys_are_made_at_the_first_start_and_kept(tmp_path: Path) -> None:
    first, second = load_keys(tmp_path), load_keys(tmp_path)
    assert (first.kid, first.jwks) == (second.kid, second.jwks)
    assert second.grant(first.token(GRANT).encode(), CLAIM, "sub") == GRANT
    assert [path.name for path in tmp_path.iterdir()] == ["keys.json"]
    assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600


def test_two_directories_have_different_keys(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = load_keys(tmp_path / "a"), load_keys(tmp_path / "b")
    assert one.kid != other.kid
    assert other.grant(one.token(GRANT).encode(), CLAIM, "sub") is None


def test_a_temporary_file_left_by_a_crash_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "keys.json.new").write_text("half")
    load_keys(tmp_path)
    assert not (tmp_path / "keys.json.new").exists()


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", "short", "version", "extra", "text"])
def test_a_damaged_file_stops_the_start_and_is_left_alone(tmp_path: Path, damage: str) -> None:
    load_keys(tmp_path)
    path = tmp_path / "keys.json"
    stored = json.loads(path.read_text())
    changes = {
        "short": {"token_hmac": stored["token_hmac"][:-4]},
        "version": {"version": 2},
        "extra": {"more": 1},
        "text": {"webhook_ed25519": "*" * 43},
    }
    text = json.dumps(stored | changes[damage]) if damage in changes else damage
    path.write_text(text)
    with pytest.raises(KeysError, match=r"keys\.json"):
        load_keys(tmp_path)
    assert path.read_text() == text


def test_a_directory_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(KeysError, match="cannot be made"):
        load_keys(tmp_path / "missing")
    (tmp_path / "keys.json").mkdir()
    with pytest.raises(KeysError, match="cannot be read"):
        load_keys(tmp_path)


def test_the_key_is_named_by_its_thumbprint() -> None:
    (key,) = json.loads(KEYS.jwks)["keys"]
    required = {name: key[name] for name in ("crv", "kty", "x")}
    canonical = json.dumps(required, separators=(",", ":"), sort_keys=True).encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(canonical).digest()).rstrip(b"=")
    assert key["kid"] == KEYS.kid == f"ds_{digest.decode()}"
    assert (key["kty"], key["crv"], key["alg"], key["use"]) == ("OKP", "Ed25519", "EdDSA", "sig")
    assert set(key) == {"kty", "crv", "kid", "use", "alg", "x"}


def test_a_signature_verifies_with_the_published_key_over_time_and_body() -> None:
    (key,) = json.loads(KEYS.jwks)["keys"]
    public = Ed25519PublicKey.from_public_bytes(raw(key["x"]))
    parts = dict(part.split("=", 1) for part in KEYS.signature(b'{"a":1}', 1234).split(","))
    assert (parts["t"], parts["kid"]) == ("1234", key["kid"])
    public.verify(raw(parts["ed25519"]), b'1234.{"a":1}')
    with pytest.raises(InvalidSignature):
        public.verify(raw(parts["ed25519"]), b'1235.{"a":1}')


def test_a_token_proves_its_grant_only_for_its_kind_and_subscription() -> None:
    token = KEYS.token(GRANT).encode()
    assert KEYS.grant(token, CLAIM, "sub") == GRANT
    assert KEYS.grant(token, CALLBACK, "sub") is None
    assert KEYS.grant(token, CLAIM, "other") is None


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b".",
        b"..",
        b"ms1..",
        b"ms1.a.b",
        "ms1.\xfc.\xfc".encode(),
        b"ms1.\xff\xfe.\x00",
        b"a" * 100_000,
        b"eyJhbGciOiJub25lIn0.e30.",
    ],
)
def test_what_is_no_token_proves_nothing(token: bytes) -> None:
    assert KEYS.grant(token, CLAIM, "sub") is None


@given(st.data())
def test_no_changed_byte_of_a_token_goes_unnoticed(data: st.DataObject) -> None:
    token = bytearray(KEYS.token(GRANT).encode())
    at = data.draw(st.integers(0, len(token) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda each: each != token[at]))
    token[at] = value
    assert KEYS.grant(bytes(token), CLAIM, "sub") is None
    assert KEYS.grant(bytes(token[:at]), CLAIM, "sub") is None


@given(st.text(max_size=40), st.integers(0, 2**53), st.integers(0, 2**53))
def test_every_grant_survives_its_token(sub_id: str, sub_no: int, generation: int) -> None:
    try:
        sub_id.encode()
    except UnicodeEncodeError:
        return
    grant = Grant(CALLBACK, sub_id, sub_no, generation, f"w_{sub_no}_{generation}")
    assert KEYS.grant(KEYS.token(grant).encode(), CALLBACK, sub_id) == grant


def test_a_sealed_payload_that_is_no_grant_proves_nothing() -> None:
    for payload in (b"AA", b"!!", b"k2E"):
        seal = KEYS._mac(payload)
        assert KEYS.grant(b"ms1." + payload + b"." + seal, CLAIM, "sub") is None
