"""Stream paths: from the raw bytes of a URL to the one name that everybody means."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from millstream.core.errors import Code, Refused

STREAM_ROOT = b"/v1/stream/"
RESERVED = "__ds"
NAME_BYTES_MAX = 1024

_CACHED_BYTES_MAX = 128
"""Longer paths are parsed anew each time, so that nobody can fill the cache's memory with them."""
_ROOT = STREAM_ROOT.decode()
_PLAIN = re.compile(r"[A-Za-z0-9/~!$&'()*+,;=:@._-]*")
_HEX = frozenset(b"0123456789abcdefABCDEF")


def stream_name(raw: bytes) -> str | Refused:
    """Return the stream's name for the raw path behind the stream root.

    Decodes percent signs once; refuses whatever two parties could read in two ways.
    """
    return _cached_name(raw) if len(raw) <= _CACHED_BYTES_MAX else _parsed_name(raw)


def _parsed_name(raw: bytes) -> str | Refused:
    if not _is_percent_clean(raw):
        return _refuse("a percent sign must be followed by two hexadecimal digits")
    if b"%2f" in raw.lower():
        return _refuse("an encoded slash (%2F) is not taken; write the slash itself")
    decoded = unquote_to_bytes(raw) if b"%" in raw else raw
    if len(decoded) > NAME_BYTES_MAX:
        return _refuse(f"it is longer than {NAME_BYTES_MAX} bytes")
    try:
        name = decoded.decode("utf-8")
    except UnicodeDecodeError:
        return _refuse("it must be UTF-8")
    return check_name(name)


_cached_name = lru_cache(maxsize=65536)(_parsed_name)


def check_name(name: str) -> str | Refused:
    """Return ``name`` if it can be a stream's, else why not."""
    rule = _broken_rule(name)
    return _refuse(rule) if rule is not None else name


def source_name(header: bytes) -> str | Refused:
    """Return the name in a ``Stream-Forked-From`` header: a URL path below the stream root."""
    path = header.partition(b"?")[0]
    path = path.removeprefix(STREAM_ROOT)
    name = stream_name(path.lstrip(b"/"))
    if isinstance(name, Refused):
        return Refused(code=name.code, detail=name.detail, field="Stream-Forked-From")
    return name


def url_path(name: str) -> str:
    """Return the URL path of a stream, percent-encoded where due."""
    if _PLAIN.fullmatch(name):
        return _ROOT + name
    return _ROOT + quote(name, safe="/~!$&'()*+,;=:@-._")


def _is_percent_clean(raw: bytes) -> bool:
    at = raw.find(b"%")
    while at >= 0:
        pair = raw[at + 1 : at + 3]
        if len(pair) != 2 or not _HEX.issuperset(pair):
            return False
        at = raw.find(b"%", at + 1)
    return True


def _broken_rule(name: str) -> str | None:
    if not name:
        return "it is empty; a name must follow the slash"
    segments = name.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        return "it must not have empty segments, '.' or '..'"
    if segments[0] == RESERVED:
        return f"names below {RESERVED}/ are reserved"
    if "\\" in name:
        return "it must not contain a backslash"
    if name.isascii():
        return None if name.isprintable() else "it must not contain control characters"
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in name):
        return "it must not contain control characters"
    if not unicodedata.is_normalized("NFC", name):
        return "it must be in Unicode normal form C"
    return None


def _refuse(rule: str) -> Refused:
    return Refused(code=Code.INVALID_PATH, detail=f"the stream path is not valid: {rule}")
