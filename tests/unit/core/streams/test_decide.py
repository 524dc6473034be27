"""What a command to a stream comes to: the order of the checks, and the events that follow."""

from millstream.core.errors import Code, Refused
from millstream.core.events import (
    Appended,
    ProducerMoved,
    StreamClosed,
    StreamHidden,
    StreamRemoved,
)
from millstream.core.machine import Bounds
from millstream.core.offsets import ZERO, Position
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import (
    DONE,
    Added,
    Append,
    DeleteStream,
    Duplicate,
    Granted,
    GrantEpoch,
)
from tests.support.machines import START_MS, TEXT, Mill, body, kinds

BAD_JSON = Refused(code=Code.INVALID_JSON, detail="not JSON")
ELSEWHERE = Position(5, 5)


def everything_wrong(path: str) -> Append:
    """An append that breaks every rule; fields are put right one by one below."""
    return Append(path, "text/html", BAD_JSON, False, Claim("p", 0, 9), "0", ELSEWHERE)


class TestTheOrderOfChecks:
    """Each test mends what the one before it was refused for."""

    def test_first_comes_whether_there_is_a_stream(self) -> None:
        assert Mill().code(everything_wrong("a")) is Code.STREAM_NOT_FOUND

    def test_a_deleted_stream_that_forks_read_is_gone(self) -> None:
        mill = Mill()
        mill.create("a", b"x")
        mill.fork("f", "a")
        mill.delete("a")
        assert mill.code(everything_wrong("a")) is Code.STREAM_GONE

    def test_then_whether_it_is_closed(self) -> None:
        mill = Mill()
        mill.create("a", b"x")
        mill.close("a")
        refused = mill.refusal(everything_wrong("a"))
        assert refused.code is Code.STREAM_CLOSED
        assert refused.is_closed
        assert refused.next_offset == mill.stream("a").tail_offset

    def test_then_the_content_type(self) -> None:
        assert self.mill().code(everything_wrong("a")) is Code.CONTENT_TYPE_MISMATCH

    def test_then_the_producer(self) -> None:
        command = Append("a", TEXT, BAD_JSON, False, Claim("p", 0, 9), "0", ELSEWHERE)
        refused = self.mill().refusal(command)
        assert refused.code is Code.PRODUCER_GAP
        assert (refused.seq_expected, refused.seq_received) == (1, 9)

    def test_then_if_match(self) -> None:
        command = Append("a", TEXT, BAD_JSON, False, Claim("p", 0, 1), "0", ELSEWHERE)
        mill = self.mill()
        refused = mill.refusal(command)
        assert refused.code is Code.OFFSET_MISMATCH
        assert refused.next_offset == mill.stream("a").tail_offset

    def test_then_stream_seq(self) -> None:
        mill = self.mill()
        tail = mill.stream("a").tail
        command = Append("a", TEXT, BAD_JSON, False, Claim("p", 0, 1), "0", tail)
        assert mill.code(command) is Code.SEQUENCE_CONFLICT

    def test_then_the_body(self) -> None:
        command = Append("a", TEXT, BAD_JSON, False, Claim("p", 0, 1), "5", None)
        assert self.mill().refusal(command) == BAD_JSON

    def test_and_then_it_is_written(self) -> None:
        mill = self.mill()
        claim = Claim("p", 0, 1)
        answer = mill.do(Append("a", TEXT, body(b"y"), False, claim, "5", mill.stream("a").tail))
        assert answer == Added(1, Position(START_MS, 2), is_closed=False, claim=claim, count=1)
        assert mill.last == (Appended(1, 1, 1, START_MS, b"", "p", 0, 1, "5"),)

    def test_a_refused_append_moves_neither_producer_nor_stream_seq(self) -> None:
        mill = self.mill()
        mill.code(Append("a", TEXT, BAD_JSON, False, Claim("p", 0, 1), "7"))
        answer = mill.do(Append("a", TEXT, body(b"y"), False, Claim("p", 0, 1), "5"))
        assert isinstance(answer, Added)

    def mill(self) -> Mill:
        mill = Mill()
        mill.create("a")
        mill.do(Append("a", TEXT, body(b"x"), False, Claim("p", 0, 0), "4"))
        return mill


class TestAppend:
    def test_several_messages_are_one_event(self) -> None:
        mill = Mill()
        mill.create("a")
        answer = mill.append("a", b"one", b"three")
        assert answer == Added(1, Position(START_MS, 2), is_closed=False, count=2)
        assert mill.last == (Appended(1, 0, 2, START_MS, b"\3\0\0\0\5\0\0\0"),)

    def test_time_never_goes_back_within_a_stream(self) -> None:
        mill = Mill()
        mill.create("a", b"x")
        mill.now_ms -= 60_000
        answer = mill.append("a", b"y")
        assert isinstance(answer, Added)
        assert answer.tail == Position(START_MS, 2)

    def test_stream_seq_is_compared_byte_by_byte(self) -> None:
        mill = Mill()
        mill.create("a")
        taken = [
            isinstance(mill.do(Append("a", TEXT, body(b"x"), stream_seq=seq)), Added)
            for seq in ("09", "10", "2", "10", "2", "a", "B", "é", "z", "\U0001f600")
        ]
        assert taken == [True, True, True, False, False, True, False, True, False, True]

    def test_stream_seq_needs_no_content_type_when_only_closing(self) -> None:
        mill = Mill()
        mill.create("a", b"x")
        assert mill.close("a") == Added(1, mill.stream("a").tail, is_closed=True)
        assert mill.last == (StreamClosed(1, START_MS),)

    def test_messages_and_closure_are_one_command(self) -> None:
        mill = Mill()
        mill.create("a")
        answer = mill.do(Append("a", TEXT, body(b"x"), is_closing=True))
        assert answer == Added(1, Position(START_MS, 1), is_closed=True, count=1)
        assert kinds(mill.last) == ["Appended", "StreamClosed"]

    def test_closing_again_is_the_same_answer_and_no_event(self) -> None:
        mill = Mill()
        mill.create("a", b"x")
        first = mill.close("a")
        assert mill.close("a") == first
        assert kinds(mill.last) == []

    def test_closing_again_with_a_message_is_refused(self) -> None:
        mill = Mill()
        mill.create("a")
        mill.close("a")
        assert mill.code(Append("a", TEXT, body(b"x"), is_closing=True)) is Code.STREAM_CLOSED


class TestProducers:
    def test_a_duplicate_gets_its_own_offset_and_the_newest_sequence(self) -> None:
        mill = Mill()
        mill.create("a")
        for seq in range(3):
            mill.append("a", b"x", b"y", claim=Claim("p", 0, seq))
        claim = Claim("p", 0, 1)
        assert mill.append("a", b"other", claim=claim) == Duplicate(
            1, end_index=4, claim=claim, seq_last=2, is_closed=False
        )
        assert kinds(mill.last) == []
        assert mill.stream("a").tail_index == 6

    def test_interleaved_producers_each_find_their_old_batches(self) -> None:
        mill = Mill()
        mill.create("a")
        ends: dict[Claim, int] = {}
        for turn in range(60):
            claim = Claim(f"p{turn % 3}", 0, turn // 3)
            mill.append("a", *[b"x"] * (1 + turn * 7 % 5), claim=claim)
            ends[claim] = mill.stream("a").tail_index
        for claim, end in ends.items():
            answer = mill.append("a", b"again", claim=claim)
            assert isinstance(answer, Duplicate)
            assert answer.end_index == end, claim

    def test_a_duplicate_is_recognised_before_if_match_and_stream_seq(self) -> None:
        mill = Mill()
        mill.create("a")
        command = Append("a", TEXT, body(b"x"), False, Claim("p", 0, 0), "5", ZERO)
        assert isinstance(mill.do(command), Added)
        assert isinstance(mill.do(command), Duplicate)

    def test_a_duplicate_is_recognised_although_its_body_is_broken(self) -> None:
        mill = Mill()
        mill.create("a")
        mill.append("a", b"x", claim=Claim("p", 0, 0))
        assert isinstance(mill.do(Append("a", TEXT, BAD_JSON, claim=Claim("p", 0, 0))), Duplicate)

    def test_a_new_epoch_fences_the_old_one_for_ever(self) -> None:
        mill = Mill()
        mill.create("a")
        mill.append("a", b"x", claim=Claim("p", 1, 0))
        mill.append("a", b"y", claim=Claim("p", 2, 0))
        refused = mill.refusal(Append("a", TEXT, body(b"z"), claim=Claim("p", 1, 1)))
        assert refused.code is Code.PRODUCER_FENCED
        assert refused.epoch == 2

    def test_a_new_epoch_must_start_at_zero(self) -> None:
        mill = Mill()
        mill.create("a")
        mill.append("a", b"x", claim=Claim("p", 1, 0))
        command = Append("a", TEXT, body(b"z"), claim=Claim("p", 2, 1))
        assert mill.code(command) is Code.EPOCH_START

    def test_a_gap_can_be_filled_later(self) -> None:
        mill = Mill()
        mill.create("a")
        assert isinstance(mill.append("a", b"x", claim=Claim("p", 0, 1)), Refused)
        assert isinstance(mill.append("a", b"x", claim=Claim("p", 0, 0)), Added)
        assert isinstance(mill.append("a", b"y", claim=Claim("p", 0, 1)), Added)

    def test_a_stream_remembers_no_more_producers_than_it_may(self) -> None:
        mill = Mill(Bounds(producers_max=2))
        mill.create("a")
        mill.append("a", b"x", claim=Claim("p1", 0, 0))
        mill.append("a", b"x", claim=Claim("p2", 0, 0))
        refused = mill.refusal(Append("a", TEXT, body(b"x"), claim=Claim("p3", 0, 0)))
        assert refused.code is Code.TOO_MANY_PRODUCERS
        assert refused.retry_after_s
        assert isinstance(mill.append("a", b"x", claim=Claim("p2", 0, 1)), Added)

    def test_closing_without_a_message_uses_up_a_sequence(self) -> None:
        mill = Mill()
        mill.create("a")
        mill.append("a", b"x", claim=Claim("p", 0, 0))
        claim = Claim("p", 0, 1)
        answer = mill.close("a", claim)
        assert answer == Added(1, Position(START_MS, 1), is_closed=True, claim=claim)
        assert mill.last == (ProducerMoved(1, "p", 0, 1), StreamClosed(1, START_MS, "p", 0, 1))

    def test_only_the_very_claim_that_closed_is_a_duplicate_afterwards(self) -> None:
        mill = Mill()
        mill.create("a")
        claim = Claim("p", 0, 0)
        mill.do(Append("a", TEXT, body(b"x"), True, claim))
        again = mill.do(Append("a", TEXT, body(b"other"), True, claim))
        assert again == Duplicate(1, 1, claim, 0, is_closed=True)
        for other in (Claim("p", 0, 1), Claim("p", 1, 0), Claim("q", 0, 0)):
            assert mill.code(Append("a", TEXT, body(b"x"), True, other)) is Code.STREAM_CLOSED


class TestDelete:
    def test_a_stream_alone_is_removed(self) -> None:
        mill = Mill()
        mill.create("a", b"x")
        assert mill.delete("a") == DONE
        assert mill.last == (StreamRemoved(1),)
        assert mill.code(DeleteStream("a")) is Code.STREAM_NOT_FOUND

    def test_a_stream_that_forks_read_only_goes_out_of_sight(self) -> None:
        mill = Mill()
        mill.create("a", b"x")
        mill.fork("f", "a")
        mill.delete("a")
        assert mill.last == (StreamHidden(1, is_expired=False),)
        assert mill.code(DeleteStream("a")) is Code.STREAM_GONE

    def test_the_last_fork_takes_three_hidden_levels_with_it_in_one_command(self) -> None:
        mill = self.chain()
        for path in ("a", "b", "c"):
            mill.delete(path)
        assert mill.paths == ["a", "b", "c", "d"]
        mill.delete("d")
        assert mill.last == tuple(StreamRemoved(number) for number in (4, 3, 2, 1))
        assert mill.paths == []
        assert mill.replayed().streams.by_id == {}

    def test_a_live_stream_stops_the_cascade(self) -> None:
        mill = self.chain()
        for path in ("a", "c", "d"):
            mill.delete(path)
        assert mill.paths == ["a", "b"]
        assert mill.stream("b").forks == 0
        mill.delete("b")
        assert mill.paths == []

    def test_a_second_fork_keeps_the_hidden_source(self) -> None:
        mill = Mill()
        mill.create("a", b"x")
        mill.fork("f", "a")
        mill.fork("g", "a")
        mill.delete("a")
        mill.delete("f")
        assert mill.paths == ["a", "g"]
        mill.delete("g")
        assert mill.paths == []

    def chain(self) -> Mill:
        mill = Mill()
        mill.create("a", b"x")
        mill.fork("b", "a")
        mill.fork("c", "b")
        mill.fork("d", "c")
        return mill


class TestEpochsGrantedByTheServer:
    def test_a_new_producer_gets_epoch_0_and_starts_at_sequence_0(self) -> None:
        mill = Mill()
        mill.create("a", b"x")
        assert mill.do(GrantEpoch("a", "p")) == Granted(0, mill.stream("a").tail)
        assert isinstance(mill.append("a", b"1", claim=Claim("p", 0, 0)), Added)
        assert isinstance(mill.append("a", b"2", claim=Claim("p", 0, 1)), Added)
        assert mill.replayed().streams == mill.machine.streams

    def test_a_known_one_gets_the_next_and_is_fenced_at_once(self) -> None:
        mill = Mill()
        mill.create("a")
        mill.append("a", b"1", claim=Claim("p", 7, 0))
        granted = mill.do(GrantEpoch("a", "p"))
        assert isinstance(granted, Granted)
        assert granted.epoch == 8
        fenced = mill.refusal(Append("a", TEXT, body(b"2"), False, Claim("p", 7, 1)))
        assert (fenced.code, fenced.epoch) == (Code.PRODUCER_FENCED, 8)
        gap = mill.refusal(Append("a", TEXT, body(b"2"), False, Claim("p", 8, 1)))
        assert (gap.code, gap.seq_expected) == (Code.PRODUCER_GAP, 0)

    def test_two_that_ask_get_two_epochs(self) -> None:
        mill = Mill()
        mill.create("a")
        epochs = [mill.do(GrantEpoch("a", "p")) for _ in range(3)]
        assert [epoch.epoch for epoch in epochs if isinstance(epoch, Granted)] == [0, 1, 2]

    def test_duplicates_of_a_granted_epoch_end_where_they_did(self) -> None:
        mill = Mill()
        mill.create("a")
        mill.do(GrantEpoch("a", "p"))
        for seq in range(3):
            mill.append("a", b"x", b"y", claim=Claim("p", 0, seq))
        ends = []
        for seq in range(3):
            answer = mill.append("a", b"x", claim=Claim("p", 0, seq))
            assert isinstance(answer, Duplicate)
            ends.append(answer.end_index)
        assert ends == [2, 4, 6]

    def test_it_is_refused_where_an_append_would_be(self) -> None:
        mill = Mill(Bounds(producers_max=1))
        assert mill.code(GrantEpoch("a", "p")) is Code.STREAM_NOT_FOUND
        mill.create("a")
        mill.do(GrantEpoch("a", "p"))
        assert mill.code(GrantEpoch("a", "q")) is Code.TOO_MANY_PRODUCERS
        mill.close("a")
        assert mill.code(GrantEpoch("a", "p")) is Code.STREAM_CLOSED
