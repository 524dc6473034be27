"""The whole machine against a small model, command by command.

After each step the answer is the model's; the log alone brings back the same state; a snapshot
does too; and readers find exactly the model's messages, from every start, in pages of any size.
"""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millstream.core.errors import Refused
from millstream.core.offsets import ZERO, Position
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import Append, AppendRecords, Body, ForkPoint, ForkRequest
from tests.property import model as m
from tests.property.comparing import Pair, is_json, joined

NAMES = ["a", "b", "c", "d/e"]
PRODUCERS_MAX = 2
JSON = "application/json"
KINDS = st.sampled_from([JSON, "application/octet-stream", "text/plain", "Text/PLAIN; charset=x"])
JSON_VALUES = st.sampled_from([b"1", b"1.0", b'"x"', b'{"b":1,"a":2}', b"[]", b"null"])
RAW_BYTES = st.binary(min_size=1, max_size=24)
CLAIMS = st.builds(Claim, st.sampled_from(["p", "q", "r"]), st.integers(0, 2), st.integers(0, 3))
TTLS = st.sampled_from([None, None, None, None, 60, 8, 1, 0])
RARELY = st.integers(0, 9).map(lambda number: number == 9)

Found = tuple[ForkRequest, tuple[ForkPoint | Refused, m.Point | m.Answer]]


@st.composite
def bodies(draw: st.DrawFn, kind: str | None, least: int = 0) -> list[bytes] | None:
    """Messages that one request of this kind may carry; None for JSON that does not parse."""
    if not is_json(kind):
        return draw(st.lists(RAW_BYTES, min_size=least, max_size=1))
    if draw(RARELY):
        return None
    return draw(st.lists(JSON_VALUES, min_size=least, max_size=4))


class StreamsAgree(RuleBasedStateMachine):
    """Random lives of a few streams."""

    @initialize(
        hot=st.sampled_from([0, 40, 1 << 30]),
        now_ms=st.integers(1, 3000),
        ttls=st.tuples(TTLS, TTLS),
    )
    def begin(self, hot: int, now_ms: int, ttls: tuple[int | None, int | None]) -> None:
        self.pair = Pair(PRODUCERS_MAX, hot, now_ms)
        self.found_earlier: list[Found] = []
        self.pair.put("a", JSON, [b"0", b"00", b"000"], ttl=ttls[0])
        self.pair.put("b", "text/plain", [b"zero"], ttl=ttls[1])

    def taken(self, data: st.DataObject, label: str = "path") -> str:
        """Choose a path that holds a stream, most of the time."""
        return data.draw(st.sampled_from(sorted(self.pair.model.at_path) * 6 + NAMES), label)

    def free(self, data: st.DataObject) -> str:
        """Choose a path that holds no stream, most of the time."""
        names = [name for name in NAMES if name not in self.pair.model.at_path]
        return data.draw(st.sampled_from(names * 8 + NAMES), "path")

    @rule(step=st.sampled_from([0, 1, 500, 1000, 8000, 61_000]))
    def time_goes_on(self, step: int) -> None:
        self.pair.subject.now_ms += step

    @rule(step=st.sampled_from([1, 700, 5000]), is_so=RARELY)
    def the_clock_was_set_back_while_the_server_was_down(self, step: int, is_so: bool) -> None:
        if is_so:
            self.pair.subject.now_ms = max(1, self.pair.now - step)

    @rule(data=st.data(), kind=st.none() | KINDS, ttl=TTLS, is_closed=RARELY)
    def create(
        self, data: st.DataObject, kind: str | None, ttl: int | None, is_closed: bool
    ) -> None:
        expires = None
        if ttl is None and data.draw(RARELY):
            expires = self.pair.now + data.draw(st.sampled_from([-5, 0, 1, 900]))
        body = data.draw(bodies(kind))
        self.pair.put(
            self.free(data),
            kind,
            body,
            ttl=ttl,
            expires=expires,
            is_closed=is_closed,
            is_bad=body is None,
        )

    @rule(data=st.data())
    def repeat_a_creation(self, data: st.DataObject) -> None:
        stream = self.pair.model.at_path.get(self.taken(data))
        if stream is None:
            return
        request = stream.asked
        if request is not None and data.draw(st.booleans(), "leave the anchor out"):
            request = ForkRequest(request.source_path, None, request.sub_offset)
        ttl, expires = stream.ttl_s, stream.expires_ms
        if data.draw(RARELY):
            ttl, expires = None, 77
        is_closed = stream.is_closed ^ data.draw(RARELY)
        kind = stream.kind.upper()
        self.pair.put(
            stream.path,
            kind,
            ttl=ttl,
            expires=expires,
            is_closed=is_closed,
            request=request,
        )

    @rule(data=st.data(), ttl=TTLS, is_closed=RARELY)
    def fork(self, data: st.DataObject, ttl: int | None, is_closed: bool) -> None:
        source = self.taken(data, "source")
        kind = data.draw(st.sampled_from([None, self.pair.kind_at(source)]))
        if data.draw(RARELY):
            kind = data.draw(KINDS)
        request = self.draw_request(data, source)
        body = data.draw(bodies(kind or self.pair.kind_at(source)))
        self.pair.put(
            self.free(data),
            kind,
            body,
            ttl=ttl,
            is_closed=is_closed,
            is_bad=body is None,
            request=request,
        )

    @rule(data=st.data())
    def look_for_a_fork_point_and_wait(self, data: st.DataObject) -> None:
        request = self.draw_request(data, self.taken(data, "source"))
        self.found_earlier.append((request, self.pair.look_up(request)))

    @precondition(lambda self: bool(self.found_earlier))
    @rule(data=st.data())
    def fork_at_a_point_found_earlier(self, data: st.DataObject) -> None:
        request, found = self.found_earlier.pop()
        self.pair.put(self.free(data), request=request, found=found)

    def draw_request(self, data: st.DataObject, source: str) -> ForkRequest:
        found = self.pair.model.at_path.get(source)
        places = [ZERO, Position(max(self.pair.now - 500, 1), 0), Position(7, 99)]
        if found is not None:
            places += [Position(found.time_at(i), i) for i in range(len(found.messages) + 1)]
        anchor = data.draw(st.none() | st.sampled_from(places), "anchor")
        sub = data.draw(st.sampled_from([0, 0, 1, 2, 5]), "sub") if anchor is not None else 0
        return ForkRequest(source, anchor, sub)

    @rule(
        data=st.data(),
        claim=st.none() | CLAIMS,
        seq=st.sampled_from([None, None, "1", "2", "10", "é"]),
        is_closing=RARELY,
    )
    def append(
        self, data: st.DataObject, claim: Claim | None, seq: str | None, is_closing: bool
    ) -> None:
        path = self.taken(data)
        kind = self.pair.kind_at(path) or "text/plain"
        if data.draw(RARELY):
            kind = data.draw(KINDS)
        if_match = None
        if data.draw(RARELY):
            places = [ZERO, Position(1, 1)]
            if path in self.pair.model.at_path:
                places += [self.pair.model.at_path[path].tail] * 3
            if_match = data.draw(st.sampled_from(places))
        body = data.draw(bodies(kind, least=0 if is_closing else 1))
        command = Append(path, kind, joined(body), is_closing, claim, seq, if_match)
        self.pair.post(command, body)

    @rule(data=st.data(), name=st.sampled_from("pq"), is_closing=RARELY)
    def append_in_turn_or_again(self, data: st.DataObject, name: str, is_closing: bool) -> None:
        path = self.taken(data)
        stream = self.pair.model.at_path.get(path)
        if stream is None:
            return
        epoch, ends = stream.producers.get(name, (0, {}))
        again = data.draw(st.integers(0, len(ends)), "again")
        seq = data.draw(st.sampled_from([len(ends), len(ends), again]), "seq")
        body = data.draw(bodies(stream.kind, least=0 if is_closing else 1))
        claim = Claim(name, epoch, seq)
        self.pair.post(Append(path, stream.kind, joined(body), is_closing, claim), body)

    @rule(
        data=st.data(),
        body=st.lists(JSON_VALUES, max_size=3),
        version=st.none() | st.integers(0, 4),
        claim=st.none() | CLAIMS,
        is_first=RARELY,
    )
    def append_records(
        self,
        data: st.DataObject,
        body: list[bytes],
        version: int | None,
        claim: Claim | None,
        is_first: bool,
    ) -> None:
        path = self.free(data) if is_first else self.taken(data)
        messages = joined(body)
        assert isinstance(messages, Body)
        command = AppendRecords(path, messages, version, claim if body else None)
        self.pair.post_records(command, body)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.pair.delete(self.taken(data))

    @rule()
    def deadlines_come(self) -> None:
        self.pair.expire_all()

    @rule(data=st.data())
    def a_reader_comes_by(self, data: st.DataObject) -> None:
        path = self.taken(data)
        self.pair.read_by(path)
        self.pair.read_all(path)

    @rule(from_snapshot=st.booleans())
    def restart(self, from_snapshot: bool) -> None:
        self.pair.restart(from_snapshot=from_snapshot)

    @invariant()
    def all_agree(self) -> None:
        self.pair.check_log()
        self.pair.check_snapshot()
        self.pair.check_history()
        self.pair.check_kept()

    def teardown(self) -> None:
        if hasattr(self, "pair"):
            self.pair.check_end()


TestStreamsAgree = StreamsAgree.TestCase


def test_a_deleted_source_stays_gone_when_its_deadline_passes() -> None:
    pair = Pair(PRODUCERS_MAX, 0, 1000)
    pair.put("a", JSON, [b"1"], ttl=1)
    pair.put("b", request=ForkRequest("a", None, 0), ttl=60)
    assert pair.delete("a") == ("done",)
    pair.subject.now_ms += 5000
    assert pair.delete("a")[1] == "stream_gone"
    pair.read_all("a")
    assert pair.put("c", request=ForkRequest("a", None, 0))[1] == "source_gone"


def test_a_fork_at_a_point_in_time_is_confirmed_only_by_that_point() -> None:
    pair = Pair(PRODUCERS_MAX, 0, 1000)
    pair.put("a", JSON, [b"1"])
    pair.subject.now_ms += 1000
    pair.post(Append("a", JSON, joined([b"2"])), [b"2"])
    moment = ForkRequest("a", Position(1500, 0), 0)
    assert pair.put("b", request=moment)[0] == "created"
    assert pair.put("b", request=moment)[-1] is False
    assert pair.put("b", request=ForkRequest("a", ZERO, 0))[1] == "stream_exists"


def test_a_fork_may_leave_before_its_source_left_its_own() -> None:
    pair = Pair(PRODUCERS_MAX, 0, 1000)
    pair.put("a", JSON, [b"1", b"2", b"3"])
    pair.put("b", JSON, [b"4"], request=ForkRequest("a", None, 0))
    pair.put("c", JSON, [b"5"], request=ForkRequest("b", Position(1000, 1), 0))
    pair.put("d/e", JSON, [b"6"], request=ForkRequest("c", Position(1000, 1), 1))
    pair.delete("a")
    pair.delete("b")
    for from_snapshot in (True, False):
        pair.restart(from_snapshot=from_snapshot)
        pair.check_end()


def test_a_batch_stored_before_the_close_is_still_recognised() -> None:
    pair = Pair(PRODUCERS_MAX, 0, 1000)
    pair.put("a", JSON)
    first = Append("a", JSON, joined([b"1", b"2"]), claim=Claim("p", 0, 0))
    pair.post(first, [b"1", b"2"])
    pair.post(Append("a", None, joined([]), is_closing=True), [])
    assert pair.post(first, [b"1", b"2"]) == ("duplicate", 1, 2, 0, True)


@pytest.mark.parametrize("from_snapshot", [False, True])
def test_a_version_bars_lower_ones_also_after_a_restart(from_snapshot: bool) -> None:
    pair = Pair(PRODUCERS_MAX, 0, 1000)
    two = Body(b"1,2", 2, b"\x01\0\0\0\x01\0\0\0")
    assert pair.post_records(AppendRecords("a", two, 3), [b"1", b"2"])[0] == "added"
    assert pair.post_records(AppendRecords("b", Body(b"", 0), 5), []) == ("version", 5)
    pair.restart(from_snapshot=from_snapshot)
    assert pair.post_records(AppendRecords("a", two, 2), [b"1", b"2"])[1] == "version_fenced"
    assert pair.post_records(AppendRecords("b", Body(b"", 0), 4), [])[1] == "version_fenced"
    assert pair.post_records(AppendRecords("a", two), [b"1", b"2"])[0] == "added"
    pair.check_log()
    pair.check_snapshot()
    pair.check_kept()


@pytest.mark.parametrize("how", ["append", "close", "read"])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_is_used_lives_on(how: str, is_restarted: bool) -> None:
    pair = Pair(PRODUCERS_MAX, 0, 1000)
    pair.put("a", JSON, [b"1"], ttl=8)
    pair.subject.now_ms += 5000
    if how == "append":
        pair.post(Append("a", JSON, joined([b"2"])), [b"2"])
    elif how == "close":
        pair.post(Append("a", None, joined([]), is_closing=True), [])
    else:
        pair.read_by("a")
    if is_restarted:
        pair.restart(from_snapshot=False)
    pair.subject.now_ms += 5000
    pair.read_all("a")
    assert not isinstance(pair.subject.find("a"), Refused)
    pair.check_log()
    pair.subject.now_ms += 9000
    pair.expire_all()
    pair.check_kept()
    assert pair.delete("a")[1] == "stream_not_found"
