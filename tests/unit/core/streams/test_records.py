"""Records: a stream on first use, a version that bars older writers, one frame for all of it."""

from __future__ import annotations

import msgspec
import pytest

from millstream.core.errors import Code
from millstream.core.machine import Bounds
from millstream.core.offsets import Position
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import (
    EMPTY,
    Added,
    Append,
    AppendRecords,
    Duplicate,
    VersionNow,
)
from tests.support.machines import JSON, START_MS, TEXT, Mill, body, kinds


def records(
    *values: bytes, path: str = "a", version: int | None = None, claim: Claim | None = None
) -> AppendRecords:
    return AppendRecords(path, body(*values, glue=b","), version, claim)


@pytest.fixture
def mill() -> Mill:
    return Mill()


def test_the_first_records_make_the_stream_in_the_same_frame(mill: Mill) -> None:
    answer = mill.do(records(b"1", b"2"))
    assert answer == Added(1, Position(START_MS, 2), is_closed=False, count=2)
    assert kinds(mill.last) == ["StreamCreated", "Appended"]
    assert mill.stream("a").content_type == JSON
    assert mill.do(records(b"3")) == Added(1, Position(START_MS, 3), is_closed=False, count=1)
    assert kinds(mill.last) == ["Appended"]


def test_version_and_records_are_one_frame_also_with_the_stream(mill: Mill) -> None:
    mill.do(records(b"1", version=3))
    assert kinds(mill.last) == ["StreamCreated", "VersionRaised", "Appended"]
    mill.do(records(b"2", version=4))
    assert kinds(mill.last) == ["VersionRaised", "Appended"]
    mill.do(records(b"3", version=4))
    assert kinds(mill.last) == ["Appended"]
    assert mill.stream("a").version == 4


def test_a_lower_version_is_refused_with_both_and_leaves_no_trace(mill: Mill) -> None:
    mill.do(records(b"1", version=5))
    for values in ([b"2"], []):
        refusal = mill.refusal(records(*values, version=4))
        assert (refusal.code, refusal.field) == (Code.VERSION_FENCED, "version")
        assert (refusal.version, refusal.version_given) == (5, 4)
    assert mill.stream("a").tail_index == 1


def test_records_without_a_version_are_not_checked(mill: Mill) -> None:
    mill.do(records(b"1", version=5))
    assert isinstance(mill.do(records(b"2")), Added)
    assert isinstance(mill.do(Append("a", JSON, body(b"3"))), Added)
    assert mill.stream("a").version == 5


def test_no_records_ask_for_the_version_and_raise_it(mill: Mill) -> None:
    assert mill.do(records()) == VersionNow(0)
    assert mill.do(records(version=0)) == VersionNow(0)
    assert mill.paths == [], "a question makes no stream"
    assert mill.do(records(version=7)) == VersionNow(7)
    assert kinds(mill.last) == ["StreamCreated", "VersionRaised"]
    assert mill.do(records()) == VersionNow(7)
    assert mill.do(records(version=7)) == VersionNow(7)
    assert mill.last == ()
    assert mill.do(records(version=9)) == VersionNow(9)
    assert kinds(mill.last) == ["VersionRaised"]


def test_a_refused_request_does_not_raise_the_version(mill: Mill) -> None:
    mill.do(records(b"1"))
    mill.close("a")
    assert mill.code(records(b"2", version=3)) is Code.STREAM_CLOSED
    mill.do(records(b"1", path="b"))
    gap = records(b"2", path="b", version=3, claim=Claim("p", 0, 5))
    assert mill.code(gap) is Code.PRODUCER_GAP
    assert (mill.stream("a").version, mill.stream("b").version) == (0, 0)


def test_a_closed_stream_still_tells_and_raises_its_version(mill: Mill) -> None:
    mill.do(records(b"1", version=2))
    mill.close("a")
    assert mill.do(records()) == VersionNow(2)
    assert mill.do(records(version=3)) == VersionNow(3)
    assert mill.code(records(b"2", version=2)) is Code.VERSION_FENCED


@pytest.mark.parametrize("values", [[b"1"], []])
def test_a_stream_of_another_type_is_refused(mill: Mill, values: list[bytes]) -> None:
    mill.create("a", b"x", content_type=TEXT)
    assert mill.code(records(*values, version=1)) is Code.CONTENT_TYPE_MISMATCH


def test_json_with_parameters_is_json(mill: Mill) -> None:
    mill.create("a", content_type="Application/JSON; charset=utf-8")
    assert isinstance(mill.do(records(b"1")), Added)


def test_a_deleted_stream_that_forks_read_stays_gone(mill: Mill) -> None:
    mill.do(records(b"1"))
    mill.fork("f", "a")
    mill.delete("a")
    assert mill.code(records(b"2")) is Code.STREAM_GONE
    assert mill.code(records()) is Code.STREAM_GONE


def test_a_fork_and_the_next_stream_at_the_path_begin_without_a_version(mill: Mill) -> None:
    mill.do(records(b"1", version=8))
    mill.fork("f", "a")
    assert mill.do(records(path="f")) == VersionNow(0)
    mill.delete("f")
    mill.delete("a")
    assert mill.do(records(b"1", version=1)) == Added(3, Position(START_MS, 1), False, None, 1)


def test_the_number_of_streams_is_bounded() -> None:
    mill = Mill(Bounds(streams_max=1))
    mill.do(records(b"1"))
    assert mill.code(records(b"1", path="b")) is Code.TOO_MANY_STREAMS
    assert mill.do(records(path="b")) == VersionNow(0)


def test_an_expired_stream_is_replaced_in_the_same_frame(mill: Mill) -> None:
    mill.create("a", content_type=TEXT, ttl_s=1)
    mill.now_ms += 1000
    assert isinstance(mill.do(records(b"1", version=2)), Added)
    assert kinds(mill.last) == ["StreamRemoved", "StreamCreated", "VersionRaised", "Appended"]


@pytest.mark.parametrize("claim", [None, Claim("p", 0, 3)])
def test_what_rests_on_the_end_of_a_stream_makes_that_end_durable(
    mill: Mill, claim: Claim | None
) -> None:
    mill.create("a", content_type=JSON, ttl_s=1)
    mill.now_ms += 1000
    mill.do(records(*([b"1"] if claim else []), claim=claim))
    assert kinds(mill.last) == ["StreamRemoved"]
    assert mill.paths == []


def test_a_producers_batch_is_stored_once_also_as_the_first_of_its_stream(mill: Mill) -> None:
    claim = Claim("p", 0, 0)
    assert isinstance(mill.do(records(b"1", b"2", claim=claim)), Added)
    assert mill.do(records(b"1", b"2", claim=claim)) == Duplicate(1, 2, claim, 0, is_closed=False)
    assert mill.last == ()
    assert mill.code(records(b"3", claim=Claim("p", 0, 2))) is Code.PRODUCER_GAP
    assert mill.code(records(b"3", path="b", claim=Claim("p", 0, 1))) is Code.PRODUCER_GAP
    assert mill.paths == ["a"]


def test_a_repeat_under_a_higher_version_raises_it_and_stores_nothing(mill: Mill) -> None:
    claim = Claim("p", 0, 0)
    mill.do(records(b"1", claim=claim))
    assert isinstance(mill.do(records(b"1", version=2, claim=claim)), Duplicate)
    assert kinds(mill.last) == ["VersionRaised"]
    assert mill.stream("a").tail_index == 1


def test_a_replay_of_the_log_knows_the_versions(mill: Mill) -> None:
    mill.do(records(b"1", version=2))
    mill.do(records(version=5))
    mill.do(AppendRecords("b", EMPTY, 3))
    again = mill.replayed()
    assert again.streams == mill.machine.streams
    assert {path: s.version for path, s in again.streams.by_path.items()} == {"a": 5, "b": 3}
    assert msgspec.msgpack.encode(again.streams) == msgspec.msgpack.encode(mill.machine.streams)
