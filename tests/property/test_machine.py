"""The whole machine against a small model, command by command.

After each step the answer is the model's; the log alone brings back the same state; a snapshot
does too; and readers find exactly the model's messages, from every start, in pages of any size.
"""

from __future__ import annotations

from array import array

import hypothesis.strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from millstream.core.errors import Code, Refused
from millstream.core.machine import Bounds
from millstream.core.offsets import START, ZERO, Position
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import (
    Append,
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

PRODUCERS_MAX = 2
PATHS = st.sampled_from(["a", "b", "c", "d/e"])
KINDS = st.sampled_from(
    [
        "application/json",
        "application/octet-stream",
        "text/plain",
        "Application/JSON; charset=utf-8",
    ]
)
JSON_VALUES = st.sampled_from([b"1", b"1.0", b'"x"', b'{"b":1,"a":2}', b"[]", b"null"])
RAW_BYTES = st.binary(min_size=1, max_size=24)
CLAIMS = st.builds(Claim, st.sampled_from(["p", "q", "r"]), st.integers(0, 2), st.integers(0, 3))
TTLS = st.sampled_from([None, None, 0, 1, 8, 60])
BAD_JSON = Refused(code=Code.INVALID_JSON, detail="bad")


def is_json(kind: str | None) -> bool:
    return m.essence(kind) == "application/json"


def joined(kind: str | None, messages: list[bytes] | None) -> Body | Refused:
    """Return messages as the doors hand them over; None stands for a body that is not JSON."""
    if messages is None:
        return BAD_JSON
    lengths = array("I", map(len, messages)).tobytes() if len(messages) > 1 else b""
    return Body(b",".join(messages), len(messages), lengths)


@st.composite
def bodies(draw: st.DrawFn, kind: str | None, least: int = 0) -> list[bytes] | None:
    """Messages that one request of this kind may carry."""
    if not is_json(kind):
        return draw(st.lists(RAW_BYTES, min_size=least, max_size=1))
    return draw(st.none() | st.lists(JSON_VALUES, min_size=least, max_size=4))


class StreamsAgree(RuleBasedStateMachine):
    """Random lives of a few streams."""

    @initialize(hot=st.sampled_from([0, 40, 1 << 30]), start=st.integers(1, 3000))
    def begin(self, hot: int, start: int) -> None:
        self.subject = Subject(Bounds(producers_max=PRODUCERS_MAX), hot)
        self.model = m.Model(PRODUCERS_MAX)
        self.subject.now_ms = start
        self.stale: list[tuple[ForkRequest, ForkPoint | Refused, m.Point | m.Answer]] = []
        self.seen: dict[int, list[m.Message]] = {}

    @property
    def now(self) -> int:
        return self.subject.now_ms

    def kind_at(self, path: str) -> str | None:
        found = self.model.at_path.get(path)
        return found.kind if found is not None else None

    @rule(step=st.sampled_from([0, 1, 500, 1000, 1001, 8000, 61_000]))
    def time_goes_on(self, step: int) -> None:
        self.subject.now_ms += step

    @rule(step=st.sampled_from([1, 700, 5000]))
    def the_clock_was_set_back_before_a_restart(self, step: int) -> None:
        self.subject.now_ms = max(1, self.now - step)

    @rule(
        data=st.data(),
        path=PATHS,
        kind=st.none() | KINDS,
        ttl=TTLS,
        expires_in=st.sampled_from([None, None, None, -5, 0, 1, 900]),
        is_closed=st.booleans() | st.just(False),
    )
    def create(
        self,
        data: st.DataObject,
        path: str,
        kind: str | None,
        ttl: int | None,
        expires_in: int | None,
        is_closed: bool,
    ) -> None:
        body = data.draw(bodies(kind))
        expires = self.now + expires_in if expires_in is not None and ttl is None else None
        self.put(path, kind, ttl, expires, is_closed, body, None, None, None)

    def put(
        self,
        path: str,
        kind: str | None,
        ttl: int | None,
        expires: int | None,
        is_closed: bool,
        body: list[bytes] | None,
        request: ForkRequest | None,
        point: ForkPoint | Refused | None,
        expected_point: m.Point | m.Answer | None,
    ) -> None:
        command = CreateStream(
            path=path,
            content_type=kind,
            ttl_s=ttl,
            expires_at_ms=expires,
            is_closed=is_closed,
            body=joined(kind, body),
            fork=point,
            fork_request=request,
        )
        expected = self.model.create(command, body, expected_point, self.now)
        assert plain(self.subject.give(command)) == expected
        self.read_all(path)

    @rule(data=st.data(), path=PATHS)
    def repeat_the_creation(self, data: st.DataObject, path: str) -> None:
        stream = self.model.at_path.get(path)
        if stream is None:
            return
        request, point, expected_point = stream.asked, None, None
        if request is not None:
            if data.draw(st.booleans(), "leave the anchor out"):
                request = ForkRequest(request.source_path, None, request.sub_offset)
            point, expected_point = self.look_up(request)
        kind = stream.kind.upper()
        self.put(
            path,
            kind,
            stream.ttl_s,
            stream.expires_ms,
            stream.is_closed,
            [],
            request,
            point,
            expected_point,
        )

    @rule(
        data=st.data(),
        path=PATHS,
        source=PATHS,
        kind=st.none() | KINDS,
        ttl=TTLS,
        is_closed=st.just(False) | st.booleans(),
    )
    def fork(
        self,
        data: st.DataObject,
        path: str,
        source: str,
        kind: str | None,
        ttl: int | None,
        is_closed: bool,
    ) -> None:
        found = self.model.at_path.get(source)
        if found is not None and data.draw(st.integers(0, 3), "of its own kind"):
            kind = data.draw(st.sampled_from([None, found.kind]))
        request = self.draw_request(data, source)
        point, expected_point = self.look_up(request)
        body = data.draw(bodies(kind or self.kind_at(source)))
        self.put(path, kind, ttl, None, is_closed, body, request, point, expected_point)

    @rule(data=st.data(), source=PATHS)
    def look_for_a_fork_point_and_wait(self, data: st.DataObject, source: str) -> None:
        request = self.draw_request(data, source)
        self.stale.append((request, *self.look_up(request)))

    @precondition(lambda self: bool(self.stale))
    @rule(path=PATHS)
    def fork_at_a_point_found_earlier(self, path: str) -> None:
        request, point, expected = self.stale.pop()
        self.put(path, None, None, None, False, [], request, point, expected)

    def draw_request(self, data: st.DataObject, source: str) -> ForkRequest:
        found = self.model.at_path.get(source)
        count = len(found.messages) if found is not None else 0
        places = [ZERO, Position(max(self.now - 500, 1), 0), Position(7, 3)]
        if found is not None:
            places += [Position(found.time_at(i), i) for i in range(count + 1)]
        anchor = data.draw(st.none() | st.sampled_from(places), "anchor")
        sub = data.draw(st.sampled_from([0, 0, 1, 2, 5]), "sub") if anchor is not None else 0
        return ForkRequest(source, anchor, sub)

    def look_up(self, request: ForkRequest) -> tuple[ForkPoint | Refused, m.Point | m.Answer]:
        point = self.subject.resolve(request)
        expected = self.model.resolve(request, self.now)
        if isinstance(point, Refused):
            assert plain(point) == expected
        else:
            assert isinstance(expected, m.Point)
            assert point.source_id == expected.source.stream_id
            assert point.prefix == expected.prefix
            index = len(expected.messages)
            assert point.base == Position(expected.source.time_at(index), index)
        return point, expected

    @rule(
        data=st.data(),
        path=PATHS,
        claim=st.none() | CLAIMS,
        seq=st.sampled_from([None, None, "1", "2", "10", "é"]),
        is_closing=st.sampled_from([False] * 7 + [True]),
    )
    def append(
        self, data: st.DataObject, path: str, claim: Claim | None, seq: str | None, is_closing: bool
    ) -> None:
        kind = self.kind_at(path) or "text/plain"
        if data.draw(st.integers(0, 9), "its own kind") == 0:
            kind = data.draw(KINDS)
        if_match = None
        if data.draw(st.integers(0, 4), "If-Match") == 0:
            places = [ZERO, Position(1, 1)]
            if path in self.model.at_path:
                places.append(self.model.at_path[path].tail)
            if_match = data.draw(st.sampled_from(places))
        body = data.draw(bodies(kind, least=0 if is_closing else 1))
        self.post(Append(path, kind, joined(kind, body), is_closing, claim, seq, if_match), body)

    @rule(
        data=st.data(),
        path=PATHS,
        name=st.sampled_from("pq"),
        is_closing=st.sampled_from([0, 0, 1]),
    )
    def append_as_a_good_producer(
        self, data: st.DataObject, path: str, name: str, is_closing: int
    ) -> None:
        stream = self.model.at_path.get(path)
        if stream is None:
            return
        epoch, ends = stream.producers.get(name, (0, {}))
        claim = Claim(name, epoch, data.draw(st.sampled_from([len(ends), len(ends), 0])))
        body = data.draw(bodies(stream.kind, least=0 if is_closing else 1))
        command = Append(path, stream.kind, joined(stream.kind, body), bool(is_closing), claim)
        self.post(command, body)

    def post(self, command: Append, body: list[bytes] | None) -> None:
        expected = self.model.append(command, body, self.now)
        answer = plain(self.subject.give(command))
        assert answer == expected
        if expected[0] == "duplicate":
            self.check_original(command.path, expected)
        self.read_all(command.path)

    def check_original(self, path: str, answer: m.Answer) -> None:
        """A duplicate is answered with the offset that the first one was answered with."""
        _, stream_id, end, *_ = answer
        assert isinstance(stream_id, int)
        assert isinstance(end, int)
        tail = self.subject.views.by_id(stream_id)
        assert tail is not None
        time_ms = self.model.at_path[path].time_at(end)
        assert tail.offset_at(end) == Position(time_ms, end).text()

    @rule(path=PATHS)
    def delete(self, path: str) -> None:
        expected = self.model.delete(path, self.now)
        assert plain(self.subject.give(DeleteStream(path))) == expected

    @rule()
    def deadlines_come(self) -> None:
        for stream in self.model.everything():
            self.model.expire(stream, self.now)
            self.subject.give(ExpireStream(stream.stream_id))

    @rule(path=PATHS)
    def a_reader_comes_by(self, path: str) -> None:
        tail, stream = self.subject.find(path), self.model.find(path, self.now)
        if isinstance(tail, Refused):
            assert tail.code.code == stream
        else:
            assert isinstance(stream, m.Stream)
            self.subject.touch(tail)
            self.model.slide(stream, self.now, slack=True)

    @rule(how=st.sampled_from(["snapshot", "log"]))
    def restart(self, how: str) -> None:
        subject = self.subject
        subject.restart(subject.reload() if how == "snapshot" else subject.replayed())
        self.model.restart()

    @rule(path=PATHS)
    def read_all(self, path: str) -> None:
        """Compare every page that a reader may ask for, and every offset that it may be given."""
        tail, stream = self.subject.find(path), self.model.find(path, self.now)
        if isinstance(tail, Refused):
            assert tail.code.code == stream
            return
        assert isinstance(stream, m.Stream)
        assert tail.stream_id == stream.stream_id
        assert (tail.tail, tail.is_closed) == (stream.tail, stream.is_closed)
        self.check_positions(tail, stream)
        gap = b"," if is_json(stream.kind) else b""
        for start, bytes_max, count_max in every_start(len(stream.messages)):
            page = self.subject.page(tail, start, bytes_max, count_max)
            assert gap.join(page.parts) == gap.join(
                message.data for message in stream.messages[start : page.end]
            )
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
                before = sum(1 for m in stream.messages if m.time_ms < moment)
                assert tail.index_since(moment) == before

    @invariant()
    def the_log_brings_back_the_same_state(self) -> None:
        subject = self.subject
        assert subject.replica.durable_records() == subject.durable_records()
        logged = subject.replica.deadlines()
        for stream_id, (deadline_ms, logged_ms) in subject.deadlines().items():
            assert deadline_ms <= logged_ms == logged[stream_id][1]

    @invariant()
    def a_snapshot_brings_back_the_same_state(self) -> None:
        subject = self.subject
        assert subject.reload().records() == subject.records()

    @invariant()
    def nothing_that_was_written_ever_changes(self) -> None:
        for stream in self.model.everything():
            before = self.seen.get(stream.stream_id, [])
            assert stream.messages[: len(before)] == before
            self.seen[stream.stream_id] = list(stream.messages)

    @invariant()
    def nothing_is_kept_or_lost_beyond_what_forks_need(self) -> None:
        expected = {stream.stream_id for stream in self.model.everything()}
        streams = self.subject.machine.streams
        assert set(streams.by_id) == expected == {t.stream_id for t in self.subject.views.all()}
        for stream in streams.by_id.values():
            readers = [s for s in self.model.everything() if s.source is not None]
            forks = sum(1 for s in readers if s.source and s.source.stream_id == stream.stream_id)
            assert stream.forks == forks
            hidden = self.model.at_path.get(stream.path)
            if hidden is not None and hidden.stream_id == stream.stream_id:
                assert (stream.life is Life.DELETED) == hidden.is_deleted

    def teardown(self) -> None:
        if not hasattr(self, "subject"):
            return
        again = self.subject.replayed()
        assert again.durable_records() == self.subject.durable_records()
        for path in tuple(self.model.at_path):
            self.read_all(path)


TestStreamsAgree = StreamsAgree.TestCase
