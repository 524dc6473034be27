"""The real machine and its views over a log in a dict, with a replica that only gets the log."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from millstream.core.errors import Refused
from millstream.core.machine import Bounds, Command, Machine
from millstream.core.streams.commands import (
    Added,
    Created,
    Done,
    Duplicate,
    ExpireStream,
    ForkPoint,
    ForkRequest,
    TouchStream,
    VersionNow,
)
from millstream.engine import pages
from millstream.engine.extents import pack_place
from millstream.engine.forking import resolve
from millstream.engine.snapshotting import Head, StreamRecord, dump, load
from millstream.engine.snapshotting import _decoder as record_decoder
from millstream.engine.tails import Tail
from millstream.engine.views import Views
from millstream.format.events import decode_event, encode_event
from millstream.format.frame import KIND_EVENTS, Frame, decode_frame, encode_frame
from tests.property.model import Answer

if TYPE_CHECKING:
    from millstream.engine.engine import Engine

T = TypeVar("T")


def plain(answer: object) -> Answer:
    """Return an answer of the machine in the words of the model."""
    match answer:
        case Refused():
            expected = answer.seq_expected
            code = answer.code.code
            return ("refused", code, answer.next_offset, answer.is_closed, answer.epoch, expected)
        case Created():
            return ("created", answer.stream_id, answer.tail, answer.is_closed, answer.is_new)
        case Added():
            return ("added", answer.stream_id, answer.tail, answer.is_closed, answer.count)
        case Duplicate():
            end, last = answer.end_index, answer.seq_last
            return ("duplicate", answer.stream_id, end, last, answer.is_closed)
        case VersionNow():
            return ("version", answer.version)
        case Done():
            return ("done",)
        case _:
            raise TypeError(answer)


class State:
    """A machine with its views, both fed the same events."""

    def __init__(self, bounds: Bounds, hot_bytes_max: int) -> None:
        self.machine = Machine(bounds)
        self.views = Views(hot_bytes_max)

    def records(self) -> list[bytes]:
        return list(dump(self.machine, self.views))

    def durable_records(self) -> list[object]:
        """Return the records without what lives in memory only: the exact sliding deadline."""
        found: list[object] = []
        for raw in self.records():
            record = record_decoder.decode(raw)
            if isinstance(record, StreamRecord):
                found.append(
                    (msgspec.structs.replace(record.stream, deadline_ms=0), record.extents)
                )
            else:
                assert isinstance(record, Head)
                found.append(record)
        return found

    def deadlines(self) -> dict[int, tuple[int, int]]:
        return {
            stream.stream_id: (stream.deadline_ms, stream.logged_deadline_ms)
            for stream in self.machine.streams.by_id.values()
        }


class Subject(State):
    """The state as the engine drives it, and the frames that it would have written."""

    def __init__(self, bounds: Bounds, hot_bytes_max: int) -> None:
        super().__init__(bounds, hot_bytes_max)
        self.bounds, self.hot_bytes_max = bounds, hot_bytes_max
        self.replica = State(bounds, 0)
        self.frames: dict[tuple[int, int], bytes] = {}
        self.position = 64
        self.now_ms = 0

    def give(self, command: Command) -> object:
        draft = self.machine.handle(command, self.now_ms)
        if draft.events:
            parts = [(encode_event(e), d) for e, d in zip(draft.events, draft.data, strict=True)]
            raw = b"".join(encode_frame(len(self.frames) + 1, 0, KIND_EVENTS, parts))
            place = pack_place(1, self.position)
            for event, data in zip(draft.events, draft.data, strict=True):
                self.views.apply(event, data, place, len(raw))
            apply_frame(self.replica, raw, place)
            self.frames[1, self.position] = raw
            self.position += len(raw)
        return draft.answer

    def find(self, path: str) -> Tail | Refused:
        return self.views.find(path, self.now_ms)

    def end_expired(self, path: str, then: Callable[[], None]) -> bool:
        """Do as the engine does when a reader comes too late."""
        tail = self.views.expiring(path, self.now_ms)
        if tail is None:
            return False
        self.give(ExpireStream(tail.stream_id))
        then()
        return True

    def touch(self, tail: Tail) -> None:
        """Do as the engine does when a reader comes by."""
        if tail.ttl_s is not None:
            tail.deadline_ms = max(tail.deadline_ms, self.now_ms + tail.ttl_s * 1000)
            self.give(TouchStream(tail.stream_id, self.now_ms))

    async def read(self, tail: Tail, index: int, bytes_max: int, count_max: int) -> pages.Page:
        return self.page(tail, index, bytes_max, count_max)

    def page(self, tail: Tail, index: int, bytes_max: int, count_max: int) -> pages.Page:
        found = pages.plan(tail, index, bytes_max, count_max)
        if not found.is_hot:
            found = pages.fetch(found, self.read_frame)
        return pages.assemble(found, is_json=tail.is_json)

    def read_frame(self, ordinal: int, position: int, length: int) -> bytes:
        raw = self.frames[ordinal, position]
        assert len(raw) == length
        return raw

    def resolve(self, request: ForkRequest) -> ForkPoint | Refused:
        return run_now(resolve(cast("Engine", self), request))

    def reload(self) -> State:
        """Return the state that a snapshot of this one brings back."""
        state = State(self.bounds, self.hot_bytes_max)
        state.machine, state.views = load(self.records(), self.bounds, self.hot_bytes_max)
        return state

    def replayed(self) -> State:
        """Return the state that the whole log brings back."""
        state = State(self.bounds, self.hot_bytes_max)
        for (ordinal, position), raw in self.frames.items():
            apply_frame(state, raw, pack_place(ordinal, position))
        return state

    def restart(self, state: State) -> None:
        """Go on with a state that came back, as the engine does at its start."""
        self.machine, self.views = state.machine, state.views
        self.machine.settle(self.now_ms)
        for stream in self.machine.streams.by_id.values():
            tail = self.views.by_id(stream.stream_id)
            assert tail is not None
            if stream.deadline_ms:
                tail.deadline_ms = stream.deadline_ms


def apply_frame(state: State, raw: bytes, place: int) -> None:
    frame = decode_frame(raw)
    assert isinstance(frame, Frame)
    for span in frame.spans:
        event = decode_event(raw[span.meta_at : span.meta_at + span.meta_length])
        state.machine.apply(event, span.data_length)
        state.views.apply(event, span.data_length, place, len(raw))


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never has to wait."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    raise AssertionError("it waited")


def every_start(count: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, page bytes, page messages) for all starts in a stream and telling sizes."""
    for start in range(count + 1):
        yield start, 1 << 30, 1 << 30
        yield start, 1, 1 << 30
        yield start, 1 << 30, 1 + start % 3
        yield start, 150, 2
