"""Each promise, broken on purpose: the simulation or the model must see it within a few seeds.

A check that never failed proves nothing.
"""

from __future__ import annotations

import contextlib
import re
from array import array
from typing import Any

import msgspec
import pytest

from millstream.core.events import Appended, StreamCreated
from millstream.core.producers import judge as producers
from millstream.core.producers.judge import Accept, Claim, Producer, Repeat, Verdict
from millstream.core.streams import apply as apply_stream
from millstream.core.streams import decide
from millstream.core.streams.commands import ForkRequest
from millstream.core.streams.decide import Draft
from millstream.core.streams.state import Streams
from millstream.engine.engine import Engine
from millstream.engine.writer import Entry, Writer
from millstream.format import frame as frames
from millstream.storage.log import Log, Place
from millstream.testing.server_life import SlowDisk
from millstream.testing.world import Broken, World
from tests.property.comparing import Pair

SEEDS = 40
STEPS = 300

Patch = pytest.MonkeyPatch


def assert_seen(*rules: str, seeds: int = SEEDS) -> None:
    """Some seed breaks, and says that it was one of these rules."""
    for seed in range(1, seeds + 1):
        try:
            World(seed).run(STEPS)
        except Broken as broken:
            print(f"caught after {seed} seeds: {broken}"[:300])
            if set(re.findall(r"\b([DP]\d): ", str(broken))) & set(rules):
                return
    pytest.fail(f"{seeds} seeds did not see it")


def test_dedup_skipped(monkeypatch: Patch) -> None:
    real = producers.judge

    def judge(last: Producer | None, claim: Claim) -> Verdict:
        verdict = real(last, claim)
        return Accept() if isinstance(verdict, Repeat) else verdict

    monkeypatch.setattr(decide, "judge", judge)
    assert_seen("P1")


def test_an_old_epoch_taken(monkeypatch: Patch) -> None:
    real = producers.judge

    def judge(last: Producer | None, claim: Claim) -> Verdict:
        if last is not None and claim.epoch < last.epoch:
            return Accept()
        return real(last, claim)

    monkeypatch.setattr(decide, "judge", judge)
    assert_seen("P3")


def test_answers_before_the_sync(monkeypatch: Patch) -> None:
    real = Writer._gather

    def gather(self: Writer, callback: Any, draft: Any, size: int) -> None:
        if callback is not None:
            callback(draft.answer)
        real(self, None, draft, size)

    monkeypatch.setattr(Writer, "_gather", gather)
    assert_seen("D1", "D3", "D4")


def test_answers_and_readers_before_the_sync(monkeypatch: Patch) -> None:
    real = SlowDisk.write

    def write(self: SlowDisk, buffers: Any, place: Place, done: Any) -> None:
        self._loop.call_soon(done, None)
        real(self, buffers, place, lambda _error: None)

    monkeypatch.setattr(SlowDisk, "write", write)
    assert_seen("D1", "D3", "D4")


def test_readers_before_the_sync(monkeypatch: Patch) -> None:
    real_flush, real_publish, real_plan = Writer._flush, Engine._publish, SlowDisk.plan
    early: list[list[Entry]] = []
    places: list[Place] = []

    def plan(self: SlowDisk, total_bytes: int) -> Place:
        places.append(real_plan(self, total_bytes))
        return places[-1]

    def flush(self: Writer) -> None:
        real_flush(self)
        batch = self._in_flight
        if batch is not None and not any(batch is each for each in early):
            self.publish(batch, places[-1])
            early.append(batch)

    def publish(self: Engine, batch: list[Entry], place: Place) -> None:
        if not any(batch is each for each in early):
            real_publish(self, batch, place)

    monkeypatch.setattr(SlowDisk, "plan", plan)
    monkeypatch.setattr(Writer, "_flush", flush)
    monkeypatch.setattr(Engine, "_publish", publish)
    assert_seen("D1", "D3", "D7")


def test_a_failed_sync_overlooked(monkeypatch: Patch) -> None:
    def write(self: Log, buffers: Any, place: Place) -> None:
        with contextlib.suppress(OSError):
            self._write(buffers, place)
            return
        self._written = (place.ordinal, place.position + sum(map(len, buffers)))

    monkeypatch.setattr(Log, "write", write)
    assert_seen("D1", "D3", "D5", "D7")


def test_fork_count_off(monkeypatch: Patch) -> None:
    """A source is removed under its fork: the model sees it at once, the world after a restart."""
    real = apply_stream.created

    def created(state: Streams, event: StreamCreated) -> None:
        real(state, event)
        if event.fork is not None:
            state.by_id[event.fork.source_id].forks -= 1

    monkeypatch.setattr(apply_stream, "created", created)
    with pytest.raises((AssertionError, KeyError)):
        fork_and_delete()
    assert_seen("D1", "D7")


def test_fork_count_on_is_fine() -> None:
    """The same steps without sabotage, so that the test above fails for its own reason."""
    fork_and_delete()


def fork_and_delete() -> None:
    pair = Pair(2, 0, 1000)
    pair.put("a", "application/json", [b"1", b"2"])
    pair.put("b", request=ForkRequest("a", None, 0))
    pair.check_kept()
    pair.delete("a")
    pair.check_kept()
    pair.restart(from_snapshot=True)
    pair.check_end()


def test_time_goes_back(monkeypatch: Patch) -> None:
    monkeypatch.setattr(decide, "max", lambda now_ms, _other: now_ms, raising=False)
    monkeypatch.setattr(apply_stream, "require", lambda *_: None)
    assert_seen("D3", "D7")


def test_time_going_back_stops_the_machine_before_it_is_written(monkeypatch: Patch) -> None:
    monkeypatch.setattr(decide, "max", lambda now_ms, _other: now_ms, raising=False)
    assert_seen("P5")


def test_a_torn_batch_taken(monkeypatch: Patch) -> None:
    """Recovery believes every frame whose header is there, whatever its checksum says."""
    monkeypatch.setattr(frames, "crc32c", lambda *_: 0)
    assert_seen("D5", "D7", "D1")


def test_half_a_batch_in_a_frame_of_its_own(monkeypatch: Patch) -> None:
    """Messages of one batch as separate commits: the reference servers' way."""
    real = Writer._gather

    def gather(self: Writer, callback: Any, draft: Draft, size: int) -> None:
        event = draft.events[0]
        if len(draft.events) > 1 or not isinstance(event, Appended) or event.count < 2:
            real(self, callback, draft, size)
            return
        lengths = array("I", event.lengths)
        at = 0
        for number, length in enumerate(lengths):
            one = msgspec.structs.replace(event, index=event.index + number, count=1, lengths=b"")
            data = draft.data[0][at : at + length]
            is_last = number + 1 == len(lengths)
            tell = callback if is_last else None
            real(self, tell, Draft((one,), (data,), draft.answer), size if is_last else 0)
            self._waiting += 0 if is_last else 1
            at += length + 1

    monkeypatch.setattr(Writer, "_gather", gather)
    assert_seen("D5")
