"""Machine and model side by side: each command goes to both, all that can be seen is compared."""

from __future__ import annotations

from array import array

from millstream.core.errors import Code, Refused
from millstream.core.machine import Bounds
from millstream.core.offsets import START, Position
from millstream.core.streams.commands import (
    Append,
    AppendRecords,
    Body,
    CreateStream,
    DeleteStream,
    ExpireStream,
    ForkPoint,
    ForkRequest,
)
from millstream.core.streams.state import Life
from millstream.engine.tails import Tail
from tests.property import model as m
from tests.property.subject import Subject, every_start, plain

BAD_JSON = Refused(code=Code.INVALID_JSON, detail="bad")


def is_json(kind: str | None) -> bool:
    return m.essence(kind) == "application/json"


def joined(messages: list[bytes] | None) -> Body | Refused:
    """Return messages as the doors hand them over; None stands for a body that is not JSON."""
    if messages is None:
        return BAD_JSON
    lengths = array("I", map(len, messages)).tobytes() if len(messages) > 1 else b""
    return Body(b",".join(messages), len(messages), lengths)


class Pair:
    """The machine and the model, which must agree."""

    def __init__(self, producers_max: int, hot_bytes_max: int, now_ms: int) -> None:
        self.subject = Subject(Bounds(producers_max=producers_max), hot_bytes_max)
        self.model = m.Model(producers_max)
        self.subject.now_ms = now_ms
        self.seen: dict[int, list[m.Message]] = {}

    @property
    def now(self) -> int:
        return self.subject.now_ms

    def kind_at(self, path: str) -> str | None:
        found = self.model.at_path.get(path)
        return found.kind if found is not None else None

    def put(
        self,
        path: str,
        kind: str | None = None,
        body: list[bytes] | None = None,
        *,
        ttl: int | None = None,
        expires: int | None = None,
        is_closed: bool = False,
        is_bad: bool = False,
        request: ForkRequest | None = None,
        found: tuple[ForkPoint | Refused, m.Point | m.Answer] | None = None,
    ) -> m.Answer:
        """Create a stream or a fork; ``found`` is a fork point that was looked up earlier."""
        if request is not None and found is None:
            found = self.look_up(request)
        messages = None if is_bad else body or []
        command = CreateStream(
            path=path,
            content_type=kind,
            ttl_s=ttl,
            expires_at_ms=expires,
            is_closed=is_closed,
            body=joined(messages),
            fork=found[0] if found else None,
            fork_request=request,
        )
        expected = self.model.create(command, messages, found[1] if found else None, self.now)
        assert plain(self.subject.give(command)) == expected
        self.read_all(path)
        return expected

    def look_up(self, request: ForkRequest) -> tuple[ForkPoint | Refused, m.Point | m.Answer]:
        point = self.subject.resolve(request)
        expected = self.model.resolve(request, self.now)
        if isinstance(point, Refused):
            assert plain(point) == expected
        else:
            assert isinstance(expected, m.Point), (point, expected)
            assert point.source_id == expected.source.stream_id
            assert point.prefix == expected.prefix
            index = len(expected.messages)
            assert point.base == Position(expected.source.time_at(index), index)
        return point, expected

    def post(self, command: Append, body: list[bytes] | None) -> m.Answer:
        expected = self.model.append(command, body, self.now)
        assert plain(self.subject.give(command)) == expected
        if expected[0] == "duplicate":
            self.check_original(command.path, expected)
        self.read_all(command.path)
        return expected

    def post_records(self, command: AppendRecords, body: list[bytes]) -> m.Answer:
        expected = self.model.append_records(command, body, self.now)
        answer = self.subject.give(command)
        assert plain(answer) == expected
        if isinstance(answer, Refused) and answer.code is Code.VERSION_FENCED:
            now = self.model.at_path[command.path].version
            assert (answer.version, answer.version_given) == (now, command.version)
        if expected[0] == "duplicate":
            self.check_original(command.path, expected)
        self.read_all(command.path)
        return expected

    def check_original(self, path: str, answer: m.Answer) -> None:
        """A duplicate is answered with the offset that the first one was answered with."""
        _, stream_id, end, *_ = answer
        assert isinstance(stream_id, int)
        assert isinstance(end, int)
        tail = self.subject.views.by_id(stream_id)
        assert tail is not None
        time_ms = self.model.at_path[path].time_at(end)
        assert tail.offset_at(end) == Position(time_ms, end).text()

    def delete(self, path: str) -> m.Answer:
        expected = self.model.delete(path, self.now)
        assert plain(self.subject.give(DeleteStream(path))) == expected
        return expected

    def expire_all(self) -> None:
        for stream in self.model.everything():
            self.model.expire(stream, self.now)
            self.subject.give(ExpireStream(stream.stream_id))

    def read_by(self, path: str) -> None:
        """A reader comes by: the stream lives longer if it has a time to live."""
        tail, stream = self.subject.find(path), self.model.find(path, self.now)
        if isinstance(tail, Refused):
            assert tail.code.code == stream
        else:
            assert isinstance(stream, m.Stream)
            self.subject.touch(tail)
            self.model.slide(stream, self.now, slack=True)

    def restart(self, *, from_snapshot: bool) -> None:
        subject = self.subject
        subject.restart(subject.reload() if from_snapshot else subject.replayed())
        self.model.restart()

    def read_all(self, path: str) -> None:
        """Compare every page that a reader may ask for, and every offset that it may be given."""
        tail, stream = self.subject.find(path), self.model.find(path, self.now)
        if isinstance(tail, Refused):
            assert tail.code.code == stream
            return
        assert isinstance(stream, m.Stream), stream
        assert tail.stream_id == stream.stream_id
        assert (tail.tail, tail.is_closed) == (stream.tail, stream.is_closed)
        self.check_positions(tail, stream)
        gap = b"," if is_json(stream.kind) else b""
        for start, bytes_max, count_max in every_start(len(stream.messages)):
            page = self.subject.page(tail, start, bytes_max, count_max)
            wanted = [message.data for message in stream.messages[start : page.end]]
            assert gap.join(page.parts) == gap.join(wanted)
            assert page.end - start <= count_max
            if bytes_max >= 1 << 30:
                assert page.end == min(len(stream.messages), start + count_max)
            assert page.end > start or start == len(stream.messages)

    def check_positions(self, tail: Tail, stream: m.Stream) -> None:
        assert tail.offset_at(0) == START
        times = [stream.time_at(index) for index in range(len(stream.messages) + 1)]
        assert times == sorted(times)
        for index, time_ms in enumerate(times):
            assert tail.time_at(index) == time_ms
            assert tail.knows(Position(time_ms, index))
            assert not tail.knows(Position(time_ms + 1, index))
            if index < len(stream.messages):
                assert tail.append_end(index) == stream.append_end(index)
            for moment in (time_ms, time_ms + 1):
                before = sum(1 for message in stream.messages if message.time_ms < moment)
                assert tail.index_since(moment) == before

    def check_log(self) -> None:
        """The log alone brings back the same state, but for the exact sliding deadlines."""
        subject = self.subject
        assert subject.replica.durable_records() == subject.durable_records()
        logged = subject.replica.deadlines()
        for stream_id, (deadline_ms, logged_ms) in subject.deadlines().items():
            # A restart goes by the logged one: it must never cut a life short.
            assert deadline_ms <= logged_ms == logged[stream_id][1]

    def check_snapshot(self) -> None:
        assert self.subject.reload().records() == self.subject.records()

    def check_history(self) -> None:
        """Nothing that was written ever changes, under any incarnation."""
        for stream in self.model.everything():
            before = self.seen.get(stream.stream_id, [])
            assert stream.messages[: len(before)] == before
            self.seen[stream.stream_id] = list(stream.messages)

    def check_kept(self) -> None:
        """No stream is kept longer than its forks need it, and none goes sooner."""
        everything = {stream.stream_id: stream for stream in self.model.everything()}
        streams = self.subject.machine.streams
        assert set(streams.by_id) == set(everything)
        assert {tail.stream_id for tail in self.subject.views.all()} == set(everything)
        sources = [s.source.stream_id for s in everything.values() if s.source is not None]
        for stream_id, stream in streams.by_id.items():
            assert stream.forks == sources.count(stream_id)
            assert stream.version == everything[stream_id].version
            assert (stream.life is not Life.LIVE) == everything[stream_id].is_deleted

    def check_end(self) -> None:
        again = self.subject.replayed()
        assert again.durable_records() == self.subject.durable_records()
        for path in tuple(self.model.at_path):
            self.read_all(path)
