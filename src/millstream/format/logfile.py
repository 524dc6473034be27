"""The header of a log file: 64 bytes that say whose file it is and where in the log it stands.

Layout, little endian: magic ``MILLLOG1``, u32 version, u32 crc32c over the other 60 bytes,
16 bytes directory id, u64 ordinal, u64 first_lsn, u64 size of the whole file, 8 zero bytes.
"""

from __future__ import annotations

import re
import struct
from typing import Final

import msgspec

from millstream.format.checksum import crc32c
from millstream.format.defects import Corrupt, CutShort
from millstream.format.versions import LOG_VERSION, UnknownVersion

LOG_MAGIC: Final = b"MILLLOG1"
LOG_HEADER_BYTES: Final = 64
DIRECTORY_ID_BYTES: Final = 16

_HEADER = struct.Struct("<8sII16sQQQ8x")
_NAME = re.compile(r"([0-9]{16})\.log")


class LogHeader(msgspec.Struct, frozen=True):
    """What a log file says of itself. ``first_lsn`` is the LSN of its first frame."""

    directory_id: bytes
    ordinal: int
    first_lsn: int
    size: int
    """The length the file was made with; a shorter one has lost something."""


def log_name(ordinal: int) -> str:
    """Return the file name of a log file."""
    return f"{ordinal:016d}.log"


def log_ordinal(name: str) -> int | None:
    """Return the ordinal that a file name carries, or None when it is no log file's name."""
    found = _NAME.fullmatch(name)
    return int(found.group(1)) if found else None


def encode_log_header(header: LogHeader) -> bytes:
    """Return the 64 bytes of a log file's header. Raises ValueError on a bad directory id."""
    if len(header.directory_id) != DIRECTORY_ID_BYTES:
        raise ValueError(f"a directory id has {DIRECTORY_ID_BYTES} bytes")
    fields = (header.directory_id, header.ordinal, header.first_lsn, header.size)
    blank = _HEADER.pack(LOG_MAGIC, LOG_VERSION, 0, *fields)
    crc = crc32c(blank[16:], crc32c(blank[:12]))
    return _HEADER.pack(LOG_MAGIC, LOG_VERSION, crc, *fields)


def decode_log_header(data: bytes) -> LogHeader | CutShort | Corrupt | UnknownVersion:
    """Return the header in the first 64 bytes of ``data``, or why there is none."""
    if len(data) < LOG_HEADER_BYTES:
        return CutShort(LOG_HEADER_BYTES)
    head = data[:LOG_HEADER_BYTES]
    magic, version, crc, directory_id, ordinal, first_lsn, size = _HEADER.unpack(head)
    if magic != LOG_MAGIC:
        return Corrupt("this is not a log file: its first bytes are not the magic")
    if crc32c(head[16:], crc32c(head[:12])) != crc:
        return Corrupt("the log file's header does not match its checksum")
    if version != LOG_VERSION:
        return UnknownVersion("the log file", version, LOG_VERSION)
    if any(head[56:]) or ordinal == 0 or first_lsn == 0:
        return Corrupt("the log file's header contradicts itself")
    return LogHeader(directory_id, ordinal, first_lsn, size)
