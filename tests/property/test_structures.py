"""Small structures against lists and dicts."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from millstream.core.offsets import Position, format_offset, parse_offset
from millstream.core.producers.judge import (
    Accept,
    Claim,
    Fenced,
    Gap,
    NotFirst,
    Producer,
    Repeat,
    advance,
    judge,
)
from millstream.core.streams.commands import ExpireStream
from millstream.engine.extents import Extents, pack_place, unpack_place
from millstream.engine.timers import Timers

NUMBERS = st.integers(0, 10**16 - 1)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_offsets_sort_as_text_as_they_do_as_numbers(a: int, b: int, c: int, d: int) -> None:
    one, two = format_offset(a, b), format_offset(c, d)
    assert (one < two) == ((a, b) < (c, d))
    assert (one == two) == ((a, b) == (c, d))
    assert len(one) == 33


@given(NUMBERS, NUMBERS)
def test_an_offset_comes_back_from_its_text(time_ms: int, index: int) -> None:
    assert parse_offset(format_offset(time_ms, index)) == Position(time_ms, index)


@given(st.text(max_size=40) | st.text("0123456789_-+ ²", min_size=33, max_size=33))
def test_any_text_is_an_offset_in_its_one_form_or_none(text: str) -> None:
    position = parse_offset(text)
    assert position is None or position.text() == text


BATCHES = st.lists(
    st.tuples(st.sampled_from(["next", "next", "next", "epoch"]), st.integers(0, 3)), max_size=60
)


@given(BATCHES, st.lists(st.tuples(st.integers(0, 4), st.integers(0, 70)), max_size=30))
def test_a_producers_history_is_a_dict_of_ends(
    batches: list[tuple[str, int]], probes: list[tuple[int, int]]
) -> None:
    last: Producer | None = None
    epoch, end = 0, 0
    ends: dict[int, int] = {}
    for what, size in batches:
        if what == "epoch":
            epoch, ends = epoch + 1, {}
        claim = Claim("p", epoch, len(ends))
        assert judge(last, claim) == Accept()
        end += size
        last = advance(last, epoch, claim.seq, end)
        ends[claim.seq] = end
        for seq, its_end in ends.items():
            assert judge(last, Claim("p", epoch, seq)) == Repeat(len(ends) - 1, its_end)
    for its_epoch, seq in probes:
        verdict = judge(last, Claim("p", its_epoch, seq))
        if last is None:
            assert verdict == (Gap(0) if seq else Accept())
        elif its_epoch < epoch:
            assert verdict == Fenced(epoch)
        elif its_epoch > epoch:
            assert verdict == (NotFirst() if seq else Accept())
        elif seq > len(ends):
            assert verdict == Gap(len(ends))


APPENDS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=25)


@given(st.integers(0, 5), APPENDS)
def test_extents_are_a_list_of_messages(base: int, appends: list[tuple[int, int]]) -> None:
    extents = Extents(base)
    owners: list[int] = []
    times: list[int] = []
    time_ms = 1
    for number, (count, later) in enumerate(appends):
        time_ms += later
        owners += [number] * count
        times += [time_ms] * count
        extents.add(base + len(owners), time_ms, pack_place(7, number), 100 + number)
    again = Extents(base, extents.packed())
    for each in (extents, again):
        assert len(each) == len(appends)
        for index, owner in enumerate(owners):
            assert each.holding(base + index) == owner
            assert each.time_at(base + index + 1) == times[index]
            row = each.row(owner)
            assert row.first <= base + index < row.end
            assert (unpack_place(row.place), row.frame_bytes) == ((7, owner), 100 + owner)
        for moment in range(time_ms + 2):
            assert each.first_since(moment) == base + sum(1 for t in times if t < moment)


@given(st.integers(0, 2**24), st.integers(0, 2**36 - 1))
def test_a_place_comes_back(ordinal: int, position: int) -> None:
    assert unpack_place(pack_place(ordinal, position)) == (ordinal, position)


class HandClock:
    """A clock that is moved on by hand."""

    def __init__(self) -> None:
        self.ms = 1

    def now_ms(self) -> int:
        return self.ms


@given(st.lists(st.integers(0, 90), min_size=1, max_size=25), st.data())
def test_every_deadline_fires_once_and_never_early(plan: list[int], data: st.DataObject) -> None:
    clock = HandClock()
    fired: list[tuple[int, int]] = []
    wakes: list[tuple[float, int]] = []
    due = {number: clock.ms + later for number, later in enumerate(plan)}

    def wake_in(seconds: float, _callback: object) -> None:
        wakes.append((clock.ms + seconds * 1000, len(wakes)))

    def submit(command: object) -> None:
        assert isinstance(command, ExpireStream)
        fired.append((command.stream_id, clock.ms))

    timers = Timers(clock, submit, wake_in)
    for number, deadline_ms in due.items():
        timers.at(deadline_ms, ExpireStream(number))
    while wakes:
        # The loop may be late, and may call wakes that were overtaken.
        wakes.sort()
        at_ms, _ = wakes.pop(0)
        clock.ms = max(clock.ms, round(at_ms)) + data.draw(st.integers(0, 3))
        timers.fire()
    assert sorted(number for number, _ in fired) == sorted(due)
    assert len(timers) == 0
    for number, at in fired:
        assert at >= due[number]
    order = [due[number] for number, _ in fired]
    assert order == sorted(order)
