"""A writer that knows of room takes and refuses just what one does that asks every time."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from millstream.core.streams.commands import Append, CreateStream, DeleteStream
from millstream.engine import writer
from millstream.engine.writer import Bounds
from tests.support.engines import Bench, HeldDisk
from tests.support.machines import TEXT, body

KIB = 1024
LIGHT_COMMANDS = 4
"""Far fewer than in earnest, so that small messages come near the bounds."""
SPARE = KIB + 512 * LIGHT_COMMANDS
"""What is never taken for sure: the reserve, and what the frames beside the messages may take."""
Step = int | str
STEPS = st.lists(
    st.sampled_from([0, 1, 100, KIB, 4 * KIB])
    | st.integers(0, 6 * KIB)
    | st.sampled_from(["turn", "turn", "release", "release", "delete", "mark"]),
    max_size=25,
)
BOUNDS = st.builds(
    Bounds,
    commands_max=st.sampled_from([1, 3, 2000]),
    bytes_max=st.sampled_from([100, 2 * KIB, 100 * KIB]),
    flush_bytes_max=st.sampled_from([1, 2 * KIB, 100 * KIB]),
    log_bytes_max=st.sampled_from([0, 1, SPARE, SPARE + KIB, 8 * KIB]),
    reserve_bytes=st.just(KIB),
)


class Disk(HeldDisk):
    """A disk of one file that fills up; `is_telling` says whether it tells how much is left."""

    room_bytes = 0
    is_telling = True

    @property
    def room(self) -> int:
        return self.room_bytes if self.is_telling else -1

    def has_room(self, total_bytes: int) -> bool:
        super().has_room(total_bytes)
        return total_bytes <= self.room_bytes

    def release(self) -> None:
        """Report a write; nothing needs to be kept."""
        _, _, done = self.held.pop(0)
        done(None)


def bench(bounds: Bounds, room_bytes: int, *, is_telling: bool) -> Bench:
    """Return a writer on such a disk, with the stream that is appended to."""
    made = Bench(bounds, file_bytes=1 << 18)
    disk = made.disk = made.writer._disk = Disk(made.disk.log)
    disk.room_bytes, disk.is_telling = room_bytes, is_telling
    plan = disk.plan

    def plan_and_fill(total_bytes: int) -> object:
        disk.room_bytes -= total_bytes
        return plan(total_bytes)

    disk.plan = plan_and_fill  # type: ignore[method-assign, assignment]
    made.do("create", CreateStream(path="a", content_type=TEXT))
    return made


def take(made: Bench, number: int, step: Step) -> None:
    """Take one step of the play."""
    if isinstance(step, int):
        made.submit(str(number), Append("a", TEXT, body(bytes(step or 1))), step)
    elif step == "delete":
        made.submit(str(number), DeleteStream("nowhere"))
    elif step == "turn":
        made.turn()
    elif step == "mark":
        made.writer.mark()
    elif made.disk.held:
        made.disk.release()


@given(steps=STEPS, bounds=BOUNDS, room_bytes=st.sampled_from([SPARE + KIB, 10 * KIB, 100 * KIB]))
@example(
    steps=[4 * KIB, "turn", "release", 4 * KIB],
    bounds=Bounds(2000, 100 * KIB, 100 * KIB, 8 * KIB, KIB),
    room_bytes=100 * KIB,
)
def test_what_is_taken_unasked_would_have_been_taken_when_asked(
    steps: list[Step], bounds: Bounds, room_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "_LIGHT_COMMANDS", LIGHT_COMMANDS)
        knowing = bench(bounds, room_bytes, is_telling=True)
        asking = bench(bounds, room_bytes, is_telling=False)
        for number, step in enumerate(steps):
            take(knowing, number, step)
            take(asking, number, step)
            assert knowing.answers == asking.answers, step
            assert knowing.writer.waiting == asking.writer.waiting
        assert len(knowing.disk.asked_room) <= len(asking.disk.asked_room)
