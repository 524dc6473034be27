"""What a decoder answers when the bytes are not what they should be. Decoders never raise."""

from __future__ import annotations

import msgspec


class Ended(msgspec.Struct, frozen=True):
    """Nothing was written here: the length is zero, or the buffer ends exactly here."""


class CutShort(msgspec.Struct, frozen=True):
    """The buffer ends before the bytes that are announced; ``needed`` is their number."""

    needed: int


class Corrupt(msgspec.Struct, frozen=True):
    """The bytes contradict their checksum or the layout; ``what`` says how."""

    what: str


Defect = Ended | CutShort | Corrupt


def describe(defect: Ended | CutShort | Corrupt) -> str:
    """Say in one phrase what is wrong."""
    match defect:
        case Ended():
            return "nothing is written here"
        case CutShort(needed=needed):
            return f"the file ends before the {needed} bytes that are announced here"
        case Corrupt(what=what):
            return what
