"""The machine as a whole: whatever was decided can be replayed to the same state."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.errors import Code, Refused
from millstream.core.events import (
    Appended,
    DeadlineMoved,
    StreamCreated,
    StreamHidden,
    StreamRemoved,
)
from millstream.core.machine import Bounds, Machine
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import (
    DONE,
    Append,
    CreateStream,
    DeleteStream,
    ExpireStream,
    TouchStream,
)
from millstream.core.streams.state import Life, Streams
from tests.support.machines import START_MS, TEXT, Mill, body, kinds

PATHS = ("a", "b", "c")


def state_of(machine: Machine) -> object:
    """Everything durable of a machine's streams, comparable."""
    streams = machine.streams
    plain = [
        # The exact deadline is volatile by design.
        msgspec.structs.replace(stream, deadline_ms=0, producers=None)
        for stream in streams.by_id.values()
    ]
    producers = {
        (stream.stream_id, name): (p.epoch, p.seq, p.end_index, list(p.history or ()))
        for stream in streams.by_id.values()
        for name, p in (stream.producers or {}).items()
    }
    paths = {path: stream.stream_id for path, stream in streams.by_path.items()}
    return plain, producers, paths, streams.next_id


def test_handle_returns_what_is_to_be_written_and_has_applied_it() -> None:
    machine = Machine(Bounds())
    draft = machine.handle(CreateStream(path="a", content_type=TEXT, body=body(b"xy")), 5)
    assert draft.events == (
        StreamCreated(1, "a", TEXT, 5, None, None, None),
        Appended(1, 0, 1, 5),
    )
    assert draft.data == (b"", b"xy")
    assert machine.streams.by_path["a"].tail_index == 1


def test_a_refusal_changes_nothing() -> None:
    machine = Machine(Bounds())
    draft = machine.handle(Append("a", TEXT, body(b"x")), 5)
    assert (draft.events, draft.data) == ((), ())
    assert machine.streams == Streams.empty()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "ttl", "append", "produce", "close", "fork", "delete", "touch"]),
        st.sampled_from(PATHS),
        st.sampled_from(PATHS),
        st.integers(0, 3),
        st.integers(0, 3_000),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_log_alone_gives_back_the_state(
    steps: list[tuple[str, str, str, int, int]],
) -> None:
    mill = Mill()
    for what, path, other, number, milliseconds in steps:
        mill.now_ms += milliseconds
        match what:
            case "create":
                mill.create(path)
            case "ttl":
                mill.create(path, ttl_s=2)
            case "append":
                mill.append(path, *[b"x"] * (number + 1))
            case "produce":
                mill.append(path, b"x", claim=Claim("p", number // 2, number % 2))
            case "close":
                mill.close(path)
            case "fork" if other in mill.machine.streams.by_path:
                index = min(number, mill.stream(other).tail_index)
                mill.fork(path, other, index)
            case "delete":
                mill.delete(path)
            case "touch" if path in mill.machine.streams.by_path:
                mill.touch(path)
            case _:
                for stream in list(mill.machine.streams.by_id.values()):
                    mill.expire(stream)
    assert state_of(mill.replayed()) == state_of(mill.machine)


def test_forks_are_counted_right_after_any_order_of_deletions() -> None:
    mill = Mill()
    mill.create("a", b"1")
    for name in ("b", "c", "d"):
        mill.fork(name, "a")
    mill.fork("e", "b")
    for name in ("b", "a", "d", "c"):
        mill.delete(name)
    assert mill.paths == ["a", "b", "e"]
    assert [s.forks for s in mill.machine.streams.by_id.values()] == [1, 1, 0]
    mill.delete("e")
    assert mill.paths == []


class TestExpiry:
    def test_a_deadline_that_moved_does_nothing(self) -> None:
        mill = Mill()
        mill.create("a", ttl_s=10)
        mill.now_ms += 9_999
        mill.expire(mill.stream("a"))
        assert kinds(mill.last) == []

    def test_a_passed_deadline_removes(self) -> None:
        mill = Mill()
        mill.create("a", ttl_s=10)
        stream = mill.stream("a")
        mill.now_ms += 10_000
        mill.expire(stream)
        assert mill.last == (StreamRemoved(1),)
        mill.expire(stream)
        assert kinds(mill.last) == []

    def test_an_expired_stream_answers_no_more_even_before_its_timer(self) -> None:
        mill = Mill()
        mill.create("a", ttl_s=10)
        mill.now_ms += 10_000
        answer = mill.do(Append("a", TEXT, body(b"x")))
        assert isinstance(answer, Refused)
        assert answer.code is Code.STREAM_NOT_FOUND
        # Whoever is told so must not find it again after a crash: its end goes to the log too.
        assert mill.last == (StreamRemoved(1),)
        assert mill.code(DeleteStream("a")) is Code.STREAM_NOT_FOUND

    def test_a_ttl_of_zero_is_over_at_once(self) -> None:
        mill = Mill()
        mill.create("a", ttl_s=0)
        answer = mill.do(DeleteStream("a"))
        assert isinstance(answer, Refused)
        assert answer.code is Code.STREAM_NOT_FOUND
        assert mill.last == (StreamRemoved(1),)

    def test_an_expired_source_is_kept_for_its_forks_and_its_path_is_free(self) -> None:
        mill = Mill()
        mill.create("a", b"x", ttl_s=10)
        stream = mill.stream("a")
        mill.do(mill.fork_command("f", "a"))
        mill.append("f", b"later")
        mill.now_ms += 10_000
        mill.expire(stream)
        assert mill.last == (StreamHidden(1, is_expired=True),)
        assert stream.life is Life.EXPIRED
        assert "a" not in mill.machine.streams.by_path
        mill.expire(stream)
        assert kinds(mill.last) == []

    def test_an_append_and_a_close_slide_a_ttl(self) -> None:
        mill = Mill()
        mill.create("a", ttl_s=10)
        mill.now_ms += 6_000
        mill.append("a", b"x")
        assert mill.stream("a").deadline_ms == mill.now_ms + 10_000
        mill.now_ms += 6_000
        mill.close("a")
        assert mill.stream("a").deadline_ms == mill.now_ms + 10_000

    def test_a_fixed_expiry_never_slides(self) -> None:
        mill = Mill()
        mill.create("a", expires_at_ms=START_MS + 10_000)
        mill.now_ms += 5_000
        mill.append("a", b"x")
        mill.touch("a")
        assert kinds(mill.last) == []
        assert mill.stream("a").deadline_ms == START_MS + 10_000


class TestTouch:
    def test_a_touch_slides_and_logs_a_deadline_with_slack(self) -> None:
        mill = Mill()
        mill.create("a", ttl_s=80)
        mill.now_ms += 1
        mill.touch("a")
        assert mill.stream("a").deadline_ms == mill.now_ms + 80_000
        assert mill.last == (DeadlineMoved(1, mill.now_ms + 80_000 + 10_000),)

    def test_steady_reading_logs_once_a_slack_and_not_once_a_read(self) -> None:
        mill = Mill()
        mill.create("a", ttl_s=80)
        logged = 0
        for _ in range(800):
            mill.now_ms += 100
            mill.touch("a")
            logged += len(mill.last)
            assert mill.stream("a").deadline_ms == mill.now_ms + 80_000
            assert mill.stream("a").logged_deadline_ms >= mill.stream("a").deadline_ms
        assert logged == 8

    def test_a_short_ttl_has_a_second_of_slack(self) -> None:
        mill = Mill()
        mill.create("a", ttl_s=1)
        mill.now_ms += 1
        mill.touch("a")
        assert mill.last == (DeadlineMoved(1, mill.now_ms + 2_000),)

    def test_a_restart_never_lets_a_stream_die_sooner_than_a_reader_was_promised(self) -> None:
        mill = Mill()
        mill.create("a", ttl_s=80)
        for _ in range(50):
            mill.now_ms += 777
            mill.touch("a")
            promised = mill.stream("a").deadline_ms
            again = mill.replayed()
            again.settle(mill.now_ms)
            found = again.streams.by_path["a"].deadline_ms
            assert promised <= found <= promised + 10_000

    @pytest.mark.parametrize("stream_id", [1, 2, 99])
    def test_nothing_happens_without_a_ttl_after_the_end_or_without_a_stream(
        self, stream_id: int
    ) -> None:
        mill = Mill()
        mill.create("a")
        mill.create("b", ttl_s=1)
        mill.now_ms += 1000
        assert mill.do(TouchStream(stream_id)) == DONE
        assert kinds(mill.last) == []

    def test_an_unknown_stream_expires_silently(self) -> None:
        mill = Mill()
        assert mill.do(ExpireStream(99)) == DONE
