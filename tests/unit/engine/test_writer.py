"""The writer: what is decided together is synced together, and nobody hears of it before."""

import errno

import pytest

from millstream.core.errors import Code, Refused
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import (
    DONE,
    Added,
    Append,
    Created,
    CreateStream,
    DeleteStream,
    Duplicate,
)
from millstream.engine.writer import Bounds, Writer
from millstream.format import frame
from tests.support.engines import WIDE, Bench, HeldDisk
from tests.support.machines import TEXT, body


def create(path: str) -> CreateStream:
    return CreateStream(path=path, content_type=TEXT)


def append(path: str, data: bytes = b"x", seq: int | None = None) -> Append:
    claim = None if seq is None else Claim("p", 0, seq)
    return Append(path, TEXT, body(data), claim=claim)


def code(answer: object) -> Code:
    assert isinstance(answer, Refused), answer
    return answer.code


class TestGroupCommit:
    def test_nothing_is_answered_or_published_before_the_sync(self) -> None:
        bench = Bench()
        bench.submit("create", create("a"))
        bench.turn()
        assert (bench.answers, bench.published) == ({}, [])
        assert bench.writer.durable_lsn == 0
        bench.disk.release()
        assert isinstance(bench.answers["create"], Created)
        assert len(bench.published) == 1
        assert bench.writer.durable_lsn == 1

    def test_publication_comes_before_the_answers(self) -> None:
        bench = Bench()
        seen: list[int] = []
        bench.writer.submit(create("a"), lambda _: seen.append(len(bench.published)))
        bench.turn()
        bench.disk.release()
        assert seen == [1]

    def test_all_that_comes_during_a_sync_goes_into_the_next_one(self) -> None:
        bench = Bench()
        bench.submit("create", create("a"))
        bench.turn()
        for number in range(5):
            bench.submit(f"append {number}", append("a"))
            bench.turn()
        assert len(bench.disk.held) == 1
        bench.disk.release()
        assert len(bench.disk.held) == 1
        assert list(bench.answers) == ["create"]
        bench.disk.release()
        assert bench.writer.syncs == 2
        assert len(bench.answers) == 6
        assert bench.writer.is_idle

    def test_one_command_is_one_frame_that_proves_the_batches_before_it(self) -> None:
        bench = Bench()
        bench.submit("create", create("a"))
        bench.turn()
        bench.submit("x", append("a"))
        bench.submit("close", Append("a", TEXT, body(b"y"), is_closing=True))
        bench.turn()
        bench.disk.release()
        bench.disk.release()
        assert bench.frames() == [
            (1, 0, ["StreamCreated"]),
            (2, 1, ["Appended"]),
            (3, 1, ["Appended", "StreamClosed"]),
        ]

    def test_a_batch_that_is_too_large_is_split_in_order(self) -> None:
        bench = Bench(WIDE._replace(flush_bytes_max=700))
        bench.submit("create", create("a"))
        bench.turn()
        for number in range(6):
            bench.submit(f"{number}", append("a", b"x" * 200))
        bench.turn()
        bench.disk.release()
        sizes = []
        while bench.disk.held:
            sizes.append(sum(map(len, bench.disk.held[0][0])))
            bench.disk.release()
        assert len(sizes) == 3
        assert all(size <= 700 for size in sizes)
        assert [lsn for lsn, _, _ in bench.frames()] == [1, 2, 3, 4, 5, 6, 7]
        assert list(bench.answers) == ["create", *"012345"]

    def test_one_command_larger_than_a_batch_goes_alone(self) -> None:
        bench = Bench(WIDE._replace(flush_bytes_max=700))
        bench.do("create", create("a"))
        bench.submit("hold", append("a"))
        bench.turn()
        bench.submit("refused", append("nowhere"))
        bench.submit("large", append("a", b"x" * 2000))
        bench.submit("small", append("a"))
        bench.turn()
        bench.disk.release()
        assert "refused" in bench.answers
        assert "large" not in bench.answers
        bench.disk.release()
        assert "large" in bench.answers
        assert "small" not in bench.answers
        bench.disk.release()
        assert bench.writer.is_idle

    def test_commands_are_decided_with_the_time_of_their_turn(self) -> None:
        bench = Bench()
        bench.do("create", create("a"))
        bench.clock.value_ms += 5
        answer = bench.do("append", append("a"))
        assert isinstance(answer, Added)
        assert answer.tail.time_ms == bench.clock.value_ms

    def test_without_a_callback_nobody_is_told_and_it_is_done_all_the_same(self) -> None:
        bench = Bench()
        bench.writer.submit(create("a"), None)
        bench.writer.submit(append("nowhere"), None)
        bench.turn()
        bench.disk.release()
        assert bench.writer.is_idle
        assert bench.writer.durable_lsn == 1


class TestRefusals:
    def test_a_refusal_waits_for_the_sync_of_what_it_rests_on(self) -> None:
        """I-03: the stream it conflicts with could still vanish in a crash."""
        bench = Bench()
        bench.submit("create", create("a"))
        bench.submit("conflict", CreateStream(path="a", content_type="text/html"))
        bench.turn()
        assert bench.answers == {}
        bench.disk.release()
        assert code(bench.answers["conflict"]) is Code.STREAM_EXISTS

    def test_a_refusal_during_a_sync_waits_for_that_sync(self) -> None:
        bench = Bench()
        bench.submit("create", create("a"))
        bench.turn()
        bench.submit("conflict", CreateStream(path="a", content_type="text/html"))
        bench.turn()
        assert bench.answers == {}
        bench.disk.release()
        assert set(bench.answers) == {"create", "conflict"}
        assert bench.disk.held == []

    def test_a_duplicate_waits_until_its_original_is_durable(self) -> None:
        bench = Bench()
        bench.do("create", create("a"))
        bench.submit("original", append("a", seq=0))
        bench.turn()
        bench.submit("retry", append("a", seq=0))
        bench.turn()
        assert list(bench.answers) == ["create"]
        bench.disk.release()
        assert isinstance(bench.answers["retry"], Duplicate)

    def test_a_duplicate_of_what_failed_to_sync_is_not_called_stored(self) -> None:
        bench = Bench()
        bench.do("create", create("a"))
        bench.memory.fail("sync", 1)
        bench.submit("original", append("a", seq=0))
        bench.turn()
        bench.submit("retry", append("a", seq=0))
        bench.turn()
        bench.disk.release()
        assert code(bench.answers["original"]) is Code.STORAGE_FAILED
        assert code(bench.answers["retry"]) is Code.STORAGE_FAILED

    def test_a_refusal_on_a_quiet_log_comes_at_once_and_costs_no_sync(self) -> None:
        bench = Bench()
        bench.do("create", create("a"))
        bench.submit("nowhere", append("b"))
        bench.turn()
        assert code(bench.answers["nowhere"]) is Code.STREAM_NOT_FOUND
        assert bench.writer.syncs == 1
        assert bench.writer.is_idle


class TestFailure:
    def failed(self) -> Bench:
        """Fail the sync of one command, with another gathered and a third in the inbox."""
        bench = Bench()
        bench.do("create", create("a"))
        bench.memory.fail("sync", 1, errno.EIO)
        bench.submit("in flight", append("a"), 1)
        bench.turn()
        bench.submit("gathered", append("a"), 1)
        bench.submit("refused", append("nowhere"), 1)
        bench.turn()
        bench.submit("inbox", append("a"), 1)
        bench.disk.release()
        return bench

    def test_everybody_who_waits_is_told(self) -> None:
        bench = self.failed()
        for name in ("in flight", "gathered", "refused", "inbox"):
            assert code(bench.answers[name]) is Code.STORAGE_FAILED, name
        assert len(bench.failures) == 1
        assert bench.writer.waiting == 0
        assert bench.writer.is_idle
        bench.turn()
        assert len(bench.answers) == 5

    def test_nothing_more_is_taken_or_published(self) -> None:
        bench = self.failed()
        published = len(bench.published)
        bench.memory.heal()
        bench.submit("later", append("a"))
        assert code(bench.answers["later"]) is Code.STORAGE_FAILED
        bench.turn()
        bench.writer.mark()
        assert bench.disk.held == []
        assert len(bench.published) == published
        assert bench.writer.durable_lsn == 1

    def test_whoever_waits_for_quiet_is_woken(self) -> None:
        bench = Bench()
        bench.memory.fail("write", 1, errno.ENOSPC)
        woken: list[bool] = []
        bench.writer.on_idle = lambda: woken.append(bench.writer.is_idle)
        bench.submit("create", create("a"))
        bench.turn()
        bench.disk.release()
        assert woken == [True]

    def test_a_command_that_breaks_the_machine_stops_the_writer_for_good(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench = Bench()
        bench.submit("in flight", create("a"))
        bench.turn()
        monkeypatch.setattr(type(bench.machine), "handle", lambda *_: 1 // 0)
        bench.submit("broken", append("a"))
        bench.submit("behind it", append("a"))
        bench.turn()
        assert code(bench.answers["broken"]) is Code.INTERNAL
        assert code(bench.answers["behind it"]) is Code.STORAGE_FAILED
        assert code(bench.answers["in flight"]) is Code.STORAGE_FAILED
        bench.disk.release()
        assert bench.published == []

    def test_a_command_that_no_frame_can_hold_stops_the_writer_and_leaves_no_gap(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The machine has applied it: going on would write a log that cannot be replayed."""
        bench = Bench()
        bench.do("create", create("a"))
        monkeypatch.setattr(frame, "EVENTS_MAX", 1)
        bench.submit("impossible", Append("a", TEXT, body(b"x"), is_closing=True))
        bench.submit("behind it", create("b"))
        bench.turn()
        assert code(bench.answers["impossible"]) is Code.INTERNAL
        assert code(bench.answers["behind it"]) is Code.STORAGE_FAILED
        assert bench.disk.held == []
        assert [lsn for lsn, _, _ in bench.frames()] == [1]

    def test_an_answer_that_cannot_be_delivered_keeps_nobody_else_waiting(self) -> None:
        bench = Bench()

        def broken(_: object) -> None:
            raise ConnectionError("gone")

        bench.writer.submit(create("a"), broken)
        bench.submit("other", create("b"))
        bench.turn()
        bench.disk.release()
        assert isinstance(bench.answers["other"], Created)
        bench.writer.submit(append("nowhere"), broken)
        bench.submit("refused", append("nowhere"))
        bench.turn()
        assert "refused" in bench.answers
        assert bench.writer.is_idle


class TestBounds:
    def test_more_commands_than_may_wait_are_refused_at_once(self) -> None:
        bench = Bench(WIDE._replace(commands_max=2))
        bench.submit("1", create("a"))
        bench.turn()
        bench.submit("2", append("a"))
        bench.submit("3", append("a"))
        refused = bench.answers["3"]
        assert code(refused) is Code.OVERLOADED
        assert isinstance(refused, Refused)
        assert refused.retry_after_s
        bench.turn()
        bench.disk.release()
        bench.submit("4", append("a"))
        assert "4" not in bench.answers

    def test_bytes_wait_until_they_are_answered_not_until_they_are_decided(self) -> None:
        bench = Bench(WIDE._replace(bytes_max=250))
        bench.do("create", create("a"))
        for name in ("1", "2", "3"):
            bench.submit(name, append("a", b"x" * 100), 100)
            bench.turn()
        assert code(bench.answers["3"]) is Code.OVERLOADED
        bench.disk.release()
        bench.submit("4", append("a", b"x" * 100), 100)
        assert "4" not in bench.answers

    def test_one_body_above_the_whole_budget_is_taken_when_it_is_alone(self) -> None:
        bench = Bench(WIDE._replace(bytes_max=250))
        bench.submit("1", create("a"), 251)
        assert "1" not in bench.answers
        bench.submit("2", append("a", b"x"), 1)
        assert code(bench.answers["2"]) is Code.OVERLOADED

    def test_what_waits_is_counted_back_to_zero(self) -> None:
        bench = Bench()
        bench.submit("1", create("a"), 10)
        bench.submit("2", append("a", b"x" * 100), 100)
        bench.submit("3", append("nowhere", b"x" * 100), 100)
        assert bench.writer.waiting == 3
        bench.turn()
        bench.disk.release()
        assert bench.writer.waiting == 0
        assert bench.writer._waiting_bytes == 0

    def test_after_a_failure_nothing_is_counted_as_waiting(self) -> None:
        bench = TestFailure().failed()
        assert (bench.writer.waiting, bench.writer._waiting_bytes) == (0, 0)

    def test_a_full_disk_refuses_messages_but_not_deletions(self) -> None:
        bench = Bench()
        bench.do("create", create("a"))
        bench.disk.is_full = True
        bench.submit("append", append("a"), 1)
        assert code(bench.answers["append"]) is Code.LOG_FULL
        assert bench.do("delete", DeleteStream("a")) == DONE

    def test_the_room_asked_for_covers_what_waits_and_the_reserve(self) -> None:
        bench = Bench()
        bench.do("create", create("a"))
        bench.submit("1", append("a"), 1000)
        bench.submit("2", append("a"), 1000)
        assert bench.disk.asked_room[-1] >= 2000 + WIDE.reserve_bytes

    def test_a_log_at_its_budget_refuses_messages(self) -> None:
        bench = Bench(WIDE._replace(log_bytes_max=1400))
        bench.do("create", create("a"))
        bench.submit("1", append("a", b"x" * 900), 900)
        assert code(bench.answers["1"]) is Code.LOG_FULL
        assert isinstance(bench.do("2", append("a"), 1), Added)
        assert bench.do("delete", DeleteStream("a")) == DONE

    def test_while_there_is_room_for_sure_the_disk_is_not_asked(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(HeldDisk, "room", 1 << 20)
        bench = Bench(WIDE._replace(log_bytes_max=1 << 20))
        bench.do("create", create("a"), 1)
        asked = len(bench.disk.asked_room)
        bench.do("1", append("a", b"x" * 400_000), 400_000)
        assert len(bench.disk.asked_room) == asked
        # The first is written and answered; what is left for sure is what it has left.
        assert code(bench.do("2", append("a", b"x" * 700_000), 700_000)) is Code.LOG_FULL

    def test_a_server_that_stops_takes_nothing_more_but_finishes(self) -> None:
        bench = Bench()
        bench.submit("before", create("a"))
        bench.writer.is_stopping = True
        bench.submit("after", append("a"))
        assert code(bench.answers["after"]) is Code.STOPPING
        bench.turn()
        bench.disk.release()
        assert isinstance(bench.answers["before"], Created)


def test_a_writer_that_nobody_wired_says_so() -> None:
    bench = Bench()
    writer = Writer(bench.machine, bench.disk, bench.clock, Bounds(1, 1, 1, 0), 0)
    with pytest.raises(RuntimeError, match="before the engine wired it"):
        writer.submit(create("a"), None)
