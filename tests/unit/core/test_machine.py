"""The machine as a whole: whatever was decided can be replayed to the same state."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.events import Appended, StreamCreated
from millstream.core.machine import Bounds, Machine
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import Append, CreateStream
from millstream.core.streams.state import Streams
from tests.support.machines import TEXT, Mill, body

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
