"""Creation: new, confirmed, refused; and forks, whose bytes nobody can take away."""

import msgspec
import pytest

from millstream.core.errors import Code, Refused
from millstream.core.events import Appended, Fork, StreamCreated
from millstream.core.machine import Bounds
from millstream.core.offsets import ZERO, Position
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import Created, CreateStream, ForkPoint, ForkRequest
from millstream.core.streams.create import FORK_DEPTH_MAX
from millstream.core.streams.state import Life
from millstream.format.frame import EVENTS_MAX
from tests.support.machines import JSON, START_MS, TEXT, Mill, body, kinds

BAD = Refused(code=Code.INVALID_JSON, detail="not JSON")


def test_a_stream_is_new_once_and_then_confirmed() -> None:
    mill = Mill()
    assert mill.create("a") == Created(1, TEXT, ZERO, is_closed=False, is_new=True)
    assert mill.last == (StreamCreated(1, "a", TEXT, START_MS, None, None, None),)
    assert mill.create("a") == Created(1, TEXT, ZERO, is_closed=False, is_new=False)
    assert kinds(mill.last) == []


def test_without_a_content_type_it_holds_octets() -> None:
    mill = Mill()
    mill.create("a", content_type=None)
    assert mill.stream("a").content_type == "application/octet-stream"
    answer = mill.create("a", content_type=None)
    assert isinstance(answer, Created)
    assert not answer.is_new


def test_first_messages_and_closure_come_in_the_same_command() -> None:
    mill = Mill()
    command = CreateStream(path="a", content_type=TEXT, body=body(b"x", b"y"), is_closed=True)
    answer = mill.do(command)
    assert answer == Created(1, TEXT, Position(START_MS, 2), is_closed=True, is_new=True)
    assert kinds(mill.last) == ["StreamCreated", "Appended", "StreamClosed"]


def test_the_body_of_a_repeat_is_ignored_even_a_broken_one() -> None:
    mill = Mill()
    mill.create("a", b"x")
    again = CreateStream(path="a", content_type=TEXT, body=BAD)
    answer = mill.do(again)
    assert isinstance(answer, Created)
    assert answer.tail.index == 1


def test_a_broken_body_creates_nothing() -> None:
    mill = Mill()
    assert mill.refusal(CreateStream(path="a", content_type=JSON, body=BAD)) == BAD
    assert mill.paths == []


@pytest.mark.parametrize(
    "change, field",
    [
        ({"content_type": "text/html"}, "Content-Type"),
        ({"ttl_s": 61}, "Stream-TTL"),
        ({"ttl_s": None}, "Stream-TTL"),
        ({"ttl_s": None, "expires_at_ms": START_MS + 60_000}, "Stream-TTL"),
        ({"is_closed": True}, "Stream-Closed"),
        ({"fork_request": ForkRequest("b", None, 0)}, "Stream-Forked-From"),
    ],
)
def test_another_set_up_is_a_conflict_that_names_the_first_difference(
    change: dict[str, object], field: str
) -> None:
    mill = Mill()
    mill.create("a", b"x", ttl_s=60)
    same = CreateStream(path="a", content_type=TEXT, ttl_s=60)
    assert isinstance(mill.do(same), Created)
    refused = mill.refusal(msgspec.structs.replace(same, **change))
    assert refused.code is Code.STREAM_EXISTS
    assert refused.field == field
    assert refused.next_offset == mill.stream("a").tail_offset


def test_another_fixed_expiry_is_a_conflict() -> None:
    mill = Mill()
    mill.create("a", expires_at_ms=START_MS + 5)
    command = CreateStream(path="a", content_type=TEXT, expires_at_ms=START_MS + 6)
    assert mill.refusal(command).field == "Stream-Expires-At"


def test_a_full_server_takes_no_more_streams_but_confirms_old_ones() -> None:
    mill = Mill(Bounds(streams_max=2))
    mill.create("a")
    mill.create("b")
    refused = mill.refusal(CreateStream(path="c", content_type=TEXT))
    assert refused.code is Code.TOO_MANY_STREAMS
    assert refused.retry_after_s
    assert isinstance(mill.create("a"), Created)


def test_deleted_and_created_again_is_another_incarnation() -> None:
    mill = Mill()
    mill.create("a", b"x")
    mill.append("a", b"y", claim=Claim("p", 4, 0))
    mill.delete("a")
    assert mill.create("a") == Created(2, TEXT, ZERO, is_closed=False, is_new=True)
    assert mill.stream("a").producers is None


def test_an_expired_path_is_taken_over_whatever_its_set_up_was() -> None:
    mill = Mill()
    mill.create("a", b"x", ttl_s=1)
    mill.now_ms += 1000
    answer = mill.create("a", content_type=JSON)
    assert answer == Created(2, JSON, ZERO, is_closed=False, is_new=True)
    assert kinds(mill.last) == ["StreamRemoved", "StreamCreated"]


def test_an_expired_source_created_again_leaves_the_bytes_of_its_forks_alone() -> None:
    mill = Mill()
    mill.create("a", b"x", b"y", ttl_s=1)
    mill.fork("f", "a")
    mill.append("f", b"keeps it alive")
    mill.now_ms += 1000
    mill.stream("f").deadline_ms += 60_000
    mill.create("a", b"new")
    old = mill.machine.streams.by_id[1]
    assert (old.life, old.forks, old.tail_index) == (Life.EXPIRED, 1, 2)
    assert mill.stream("a").stream_id == 3
    fork = mill.stream("f").fork
    assert fork is not None
    assert fork.source_id == 1
    mill.delete("f")
    assert mill.paths == ["a"]


class TestForks:
    def test_a_fork_starts_where_it_left_its_source(self) -> None:
        mill = self.mill()
        answer = mill.fork("f", "a", 2)
        assert answer == Created(2, TEXT, Position(START_MS, 2), is_closed=False, is_new=True)
        assert mill.stream("f").fork == Fork(1, "a", 2, 0, 2, START_MS)
        assert mill.stream("a").forks == 1

    def test_messages_go_on_behind_the_fork_point_in_both(self) -> None:
        mill = self.mill()
        mill.fork("f", "a", 2)
        mill.append("f", b"4")
        mill.append("a", b"4")
        assert (mill.stream("f").tail_index, mill.stream("a").tail_index) == (3, 4)

    def test_a_fork_of_a_fork_counts_on(self) -> None:
        mill = self.mill()
        mill.fork("f", "a", 2)
        mill.append("f", b"x", b"y")
        mill.fork("g", "f", 3)
        mill.append("g", b"z")
        assert mill.stream("g").tail_index == 4
        assert [mill.stream(path).forks for path in ("a", "f", "g")] == [1, 1, 0]

    def test_a_part_of_a_message_becomes_the_forks_first_own_one(self) -> None:
        mill = self.mill()
        mill.do(mill.fork_command("f", "a", 1, prefix=b"ha"))
        created, appended = mill.last
        assert isinstance(created, StreamCreated)
        assert appended == Appended(2, 1, 1, START_MS)
        assert mill.log[-1][1] == b"ha"

    def test_the_body_goes_behind_the_part(self) -> None:
        mill = self.mill()
        command = mill.fork_command("f", "a", 1, prefix=b"ha")
        mill.do(msgspec.structs.replace(command, body=body(b"new")))
        assert [data for _, data in mill.log[-2:]] == [b"ha", b"new"]
        assert mill.stream("f").tail_index == 3

    def test_a_closed_source_has_open_forks_without_its_producers(self) -> None:
        mill = self.mill()
        mill.append("a", b"x", claim=Claim("p", 0, 0))
        mill.close("a")
        mill.fork("f", "a")
        fork = mill.stream("f")
        assert (fork.is_closed, fork.producers, fork.seq) == (False, None, None)

    def test_a_fork_inherits_expiry_unless_it_brings_its_own(self) -> None:
        mill = Mill()
        mill.create("a", b"x", ttl_s=60)
        mill.fork("f", "a")
        command = mill.fork_command("g", "a")
        mill.do(msgspec.structs.replace(command, expires_at_ms=START_MS + 5))
        assert mill.stream("f").ttl_s == 60
        assert mill.stream("g").ttl_s is None
        assert mill.stream("g").expires_at_ms == START_MS + 5

    def test_a_repeated_fork_is_confirmed_although_the_source_moved_on_and_went(self) -> None:
        mill = self.mill()
        command = mill.fork_command("f", "a")
        mill.do(command)
        mill.append("a", b"4")
        assert isinstance(mill.do(command), Created)
        mill.delete("a")
        gone = Refused(code=Code.SOURCE_GONE, detail="gone")
        answer = mill.do(msgspec.structs.replace(command, fork=gone))
        assert isinstance(answer, Created)
        assert not answer.is_new

    @pytest.mark.parametrize(
        "request_, field",
        [
            (ForkRequest("b", Position(START_MS, 2), 0), "Stream-Forked-From"),
            (ForkRequest("a", Position(START_MS, 1), 0), "Stream-Fork-Offset"),
            (ForkRequest("a", Position(START_MS, 2), 1), "Stream-Fork-Sub-Offset"),
            (None, "Stream-Forked-From"),
        ],
    )
    def test_another_fork_point_is_a_conflict(
        self, request_: ForkRequest | None, field: str
    ) -> None:
        mill = self.mill()
        command = mill.fork_command("f", "a", 2)
        mill.do(command)
        assert mill.refusal(msgspec.structs.replace(command, fork_request=request_)).field == field

    def test_a_refused_fork_does_not_hold_its_source(self) -> None:
        mill = self.mill()
        command = msgspec.structs.replace(mill.fork_command("f", "a"), content_type=JSON)
        assert mill.code(command) is Code.CONTENT_TYPE_MISMATCH
        command = msgspec.structs.replace(mill.fork_command("f", "a"), body=BAD)
        assert mill.code(command) is Code.INVALID_JSON
        mill.delete("a")
        assert mill.paths == []

    def test_a_source_that_went_meanwhile_is_told_by_how_it_went(self) -> None:
        mill = self.mill()
        command = mill.fork_command("g", "a")
        mill.fork("f", "a")
        mill.delete("a")
        assert mill.code(command) is Code.SOURCE_GONE
        mill.delete("f")
        assert mill.code(command) is Code.SOURCE_NOT_FOUND
        mill.create("a")
        assert mill.code(command) is Code.SOURCE_GONE

    def test_an_expired_source_is_not_found(self) -> None:
        mill = Mill()
        mill.create("a", b"x", ttl_s=1)
        command = mill.fork_command("f", "a")
        mill.now_ms += 1000
        assert mill.code(command) is Code.SOURCE_NOT_FOUND

    def test_an_expired_stream_cannot_be_forked_onto_its_own_path(self) -> None:
        mill = Mill()
        mill.create("a", b"x", ttl_s=1)
        command = mill.fork_command("a", "a")
        mill.now_ms += 1000
        assert mill.code(command) is Code.SOURCE_NOT_FOUND

    def test_a_deleted_path_stays_taken_until_its_last_fork_goes(self) -> None:
        mill = self.mill()
        mill.fork("f", "a")
        mill.delete("a")
        assert mill.code(CreateStream(path="a", content_type=TEXT)) is Code.STREAM_EXISTS
        mill.delete("f")
        assert isinstance(mill.create("a"), Created)

    def test_a_fork_that_could_not_be_resolved_says_why(self) -> None:
        why = Refused(code=Code.FORK_INVALID, detail="no such position")
        command = CreateStream(
            path="f", content_type=None, fork=why, fork_request=ForkRequest("a", None, 0)
        )
        assert self.mill().refusal(command) == why

    def test_another_moment_as_fork_offset_is_a_conflict(self) -> None:
        mill = self.mill()
        stream = mill.stream("a")
        first, other = Position(START_MS - 5, 0), Position(START_MS + 5, 0)
        point = ForkPoint(stream.stream_id, "a", first, 0, ZERO)
        command = CreateStream(
            path="f", content_type=None, fork=point, fork_request=ForkRequest("a", first, 0)
        )
        mill.do(command)
        assert isinstance(mill.do(command), Created)
        changed = msgspec.structs.replace(command, fork_request=ForkRequest("a", other, 0))
        assert mill.refusal(changed).field == "Stream-Fork-Offset"

    def test_a_line_of_forks_ends_somewhere_and_goes_in_one_frame(self) -> None:
        mill = Mill()
        mill.create("0", b"x")
        for level in range(FORK_DEPTH_MAX):
            assert isinstance(mill.fork(f"{level + 1}", f"{level}"), Created)
        deepest = f"{FORK_DEPTH_MAX}"
        assert mill.refusal(mill.fork_command("deeper", deepest)).field == "Stream-Forked-From"
        for level in range(FORK_DEPTH_MAX):
            mill.delete(f"{level}")
        mill.delete(deepest)
        assert len(mill.last) == FORK_DEPTH_MAX + 1 <= EVENTS_MAX
        assert mill.paths == []

    def mill(self) -> Mill:
        mill = Mill()
        mill.create("a", b"1", b"2", b"3")
        return mill
