"""Messages of exact size that carry one mark byte, so that counting never needs parsing.

A mark is an ASCII byte that no protocol here uses in its own framing. Each message holds exactly
one, so the marks in any chunk of bytes are the messages whose end is in it, wherever it was cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MARKS: Final = b"~^|@#%&!?;<>=+`'"
"""One mark for each append that may be in flight at once."""

MARK: Final = MARKS[:1]
"""The mark where one kind of message is enough."""

END: Final = b'"}'
"""What follows the mark, and ends every message."""

_NOT_MARKS: Final = bytes(sorted(set(range(256)) - set(MARKS)))
_START: Final = b'{"kind":"bench","text":"'


def message(size: int, mark: bytes = MARK) -> bytes:
    """Return a JSON object of exactly `size` bytes that holds `mark` once, right before its end."""
    pad = size - len(_START) - len(mark) - len(END)
    if pad < 0:
        raise ValueError(f"a message has at least {size - pad} bytes, not {size}")
    return _START + b"x" * pad + mark + END


def marks_in(data: bytes) -> bytes:
    """Return the marks of `data` in their order, and nothing else."""
    return data.translate(None, _NOT_MARKS)


def array(messages: Sequence[bytes]) -> bytes:
    """Return the JSON array of messages."""
    return b"[" + b",".join(messages) + b"]"
