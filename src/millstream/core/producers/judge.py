"""Say whether a producer's append is new, a repeat, fenced off, or out of order."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    Numbers = array[int]
else:
    # Not subscriptable before Python 3.12.
    Numbers = array


NO_SEQ: Final = -1
"""The sequence of a producer in an epoch that has taken no batch yet."""


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """Who writes, in which life, which batch."""

    producer_id: str
    epoch: int
    seq: int


class Producer(msgspec.Struct, array_like=True):
    """What is known of one producer on one stream.

    ``end_index`` is where the batch ``seq`` ended. ``history`` recalls where every earlier batch
    of this epoch ended, as runs (first seq, its end index, step): a producer that writes equal
    batches alone costs one run for ever, the worst case is 24 bytes a batch.
    """

    epoch: int
    seq: int
    end_index: int
    history: Numbers | None = None


class Accept(msgspec.Struct, frozen=True):
    """The batch is new."""


class Repeat(msgspec.Struct, frozen=True):
    """The batch was taken before; it ended at ``end_index`` and ``seq_last`` is the newest."""

    seq_last: int
    end_index: int


class Fenced(msgspec.Struct, frozen=True):
    """A newer epoch exists."""

    epoch_now: int


class Gap(msgspec.Struct, frozen=True):
    """A batch is missing in between."""

    seq_expected: int


class NotFirst(msgspec.Struct, frozen=True):
    """A new epoch has to begin with sequence 0."""


Verdict = Accept | Repeat | Fenced | Gap | NotFirst

_ACCEPT = Accept()
_NOT_FIRST = NotFirst()
_RUN = 3


def judge(last: Producer | None, claim: Claim) -> Verdict:
    """Return what to do with ``claim``, given all that this stream knows of the producer."""
    if last is None:
        return _ACCEPT if claim.seq == 0 else Gap(seq_expected=0)
    if claim.epoch > last.epoch:
        return _ACCEPT if claim.seq == 0 else _NOT_FIRST
    if claim.epoch < last.epoch:
        return Fenced(epoch_now=last.epoch)
    if claim.seq <= last.seq:
        # The first answer was lost on the way. Answer again; never write again.
        return Repeat(seq_last=last.seq, end_index=end_of(last, claim.seq))
    if claim.seq == last.seq + 1:
        return _ACCEPT
    return Gap(seq_expected=last.seq + 1)


def advance(last: Producer | None, epoch: int, seq: int, end_index: int) -> Producer:
    """Return the producer's state once batch ``seq`` ended at ``end_index``."""
    if last is None or epoch > last.epoch:
        return Producer(epoch, seq, end_index)
    history = last.history
    if history is None:
        history = array("q", (last.seq, last.end_index, 0))
        last.history = history
    _extend(history, seq, end_index)
    last.seq = seq
    last.end_index = end_index
    return last


def end_of(producer: Producer, seq: int) -> int:
    """Return where batch ``seq`` of the present epoch ended."""
    if seq == producer.seq or producer.history is None:
        return producer.end_index
    history = producer.history
    run = bisect_right(range(len(history) // _RUN), seq, key=lambda k: history[k * _RUN]) - 1
    first, end, step = history[run * _RUN : run * _RUN + _RUN]
    return end + (seq - first) * step


def _extend(history: Numbers, seq: int, end_index: int) -> None:
    first, end, step = history[-_RUN:]
    if seq == first + 1:
        history[-1] = end_index - end
    elif end + (seq - first) * step != end_index:
        history.extend((seq, end_index, 0))
