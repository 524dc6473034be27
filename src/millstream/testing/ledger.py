"""What clients were told and readers have seen: whatever the server says later must agree.

The names of the rules are those of docs/invariants.md. A broken rule is noted, not raised: the
code under test may catch what is raised inside its callbacks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Seen(NamedTuple):
    """One message as it was read: its bytes, and the commit time where it was told."""

    data: bytes
    time_ms: int | None


class Tag(NamedTuple):
    """What a client writes into each message, so that the log tells its own story."""

    producer: str
    epoch: int
    seq: int
    part: int
    parts: int

    def encode(self) -> bytes:
        """Return the message: a JSON string."""
        return f'"{self.producer}.{self.epoch}.{self.seq}.{self.part}.{self.parts}"'.encode()

    @classmethod
    def decode(cls, data: bytes) -> Tag | None:
        """Return what a message says, None if no client wrote it so."""
        parts = data.decode("ascii", "replace").strip('"').split(".")
        if len(parts) != 5 or not all(part.isdigit() for part in parts[1:]):
            return None
        tag = cls(parts[0], *map(int, parts[1:]))
        return tag if tag.encode() == data else None


@dataclass
class Known:
    """All that was ever told of one stream, by its incarnation."""

    path: str
    base: int = 0
    messages: dict[int, Seen] = field(default_factory=dict)
    tail_index: int = 0
    tail_time_ms: int = 0
    is_closed: bool = False
    closed_index: int | None = None
    """Where it was closed, once somebody was told."""
    is_deleted: bool = False
    is_maybe_gone: bool = False
    must_live_until_ms: int | None = None
    """None: until it is deleted."""


class Ledger:
    """The memory of the outside world."""

    def __init__(self) -> None:
        """Start knowing nothing."""
        self.streams: dict[int, Known] = {}
        self.broken: list[str] = []
        self.never: dict[tuple[str, int, int], str] = {}
        self.checks = 0

    def check(self, holds: bool, rule: str, detail: str) -> None:  # noqa: FBT001 - as require()
        """Note a broken rule."""
        self.checks += 1
        if not holds:
            self.broken.append(f"{rule}: {detail}")

    def stream(self, stream_id: int, path: str) -> Known:
        """Return what is known of a stream; its id belongs to one path for ever."""
        known = self.streams.get(stream_id)
        if known is None:
            known = self.streams[stream_id] = Known(path)
        self.check(known.path == path, "D7", f"stream {stream_id} is at {known.path} and {path}")
        return known

    def learn(self, known: Known, index: int, data: bytes, time_ms: int | None = None) -> None:
        """Message ``index`` is ``data``: told once, it is so for ever."""
        before = known.messages.get(index)
        if before is not None:
            same = before.data == data
            self.check(same, "D7", f"{known.path} message {index}: {before.data!r}, now {data!r}")
            if before.time_ms is not None and time_ms is not None:
                same = before.time_ms == time_ms
                self.check(same, "D7", f"{known.path} time of {index}: {before.time_ms}, {time_ms}")
            time_ms = before.time_ms if time_ms is None else time_ms
        known.messages[index] = Seen(data, time_ms)
        known.tail_index = max(known.tail_index, index)

    def learn_tail(self, known: Known, index: int, time_ms: int, *, is_closed: bool) -> None:
        """Somebody was told where the stream ends."""
        going_on = index >= known.tail_index and time_ms >= known.tail_time_ms
        what = f"{known.path} ends at {time_ms}_{index}, was at {known.tail_time_ms}_"
        self.check(going_on, "D3", f"{what}{known.tail_index}")
        grown = known.closed_index is not None and index > known.closed_index
        self.check(not grown, "D8", f"{known.path} grew after its close at {known.closed_index}")
        self.check(is_closed or not known.is_closed, "D8", f"{known.path} is open again")
        known.tail_index, known.tail_time_ms = index, time_ms
        known.is_closed = is_closed
        if is_closed:
            known.closed_index = index

    def check_whole(self, known: Known, messages: list[Seen], *, is_closed: bool) -> None:
        """Compare all that a stream now holds with all that was ever told of it."""
        for index, seen in sorted(known.messages.items()):
            if index > len(messages):
                self.check(False, "D1", f"{known.path} lost message {index}: {seen.data!r}")
                return
        for index, now in enumerate(messages, 1):
            self.learn(known, index, now.data, now.time_ms)
        last_ms = (messages[-1].time_ms if messages else 0) or 0
        self.learn_tail(known, len(messages), last_ms, is_closed=is_closed)
        times = [message.time_ms or 0 for message in messages]
        self.check(times == sorted(times), "D7", f"times go back in {known.path}: {times}")
        self._check_story(known, messages)

    def _check_story(self, known: Known, messages: list[Seen]) -> None:
        """The messages themselves tell of doubles, gaps, halves and old epochs."""
        heads: dict[str, tuple[int, int]] = {}
        index = known.base
        while index < len(messages):
            tag = Tag.decode(messages[index].data)
            if tag is None:
                self.check(False, "D5", f"{known.path} {index + 1}: {messages[index].data!r}")
                return
            found = [Tag.decode(m.data) for m in messages[index : index + tag.parts]]
            whole = [tag._replace(part=part) for part in range(tag.parts)]
            self.check(found == whole, "D5", f"{known.path} {index + 1}: half a batch {found}")
            self._check_turn(known, tag, heads)
            index += max(tag.parts, 1)

    def _check_turn(self, known: Known, tag: Tag, heads: dict[str, tuple[int, int]]) -> None:
        where = f"{known.path}: {tag}"
        told = self.never.get((tag.producer, tag.epoch, tag.seq))
        self.check(told is None, "P5", f"{where} was refused ({told}) and is there")
        epoch, seq = heads.get(tag.producer, (-1, -1))
        self.check(tag.epoch >= epoch, "P3", f"{where} behind epoch {epoch}")
        if tag.epoch == epoch:
            self.check(tag.seq == seq + 1, "P1", f"{where} behind {seq}")
        elif tag.epoch > epoch:
            self.check(tag.seq == 0, "P1", f"{where} is the first of its epoch")
        heads[tag.producer] = (tag.epoch, tag.seq)
