"""What must hold after a power loss, whatever it left: the judge of the crash-state tests."""

from __future__ import annotations

from millstream.core.machine import Bounds, Machine
from millstream.core.producers.judge import Repeat, judge
from millstream.core.streams.state import Stream
from millstream.engine.replay import apply_frame
from millstream.engine.views import Views
from millstream.testing.files_memory import MemoryDisk
from tests.support.bench import Bench, read_all, recover, state_records


class Judge:
    """Compares what a start finds with what a bench was answered and the disk was given."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._machine = Machine(Bounds())
        self._views = Views(0)
        self._ever: set[int] = set()
        self._told: list[tuple[bytes, ...]] = [state_records(self._machine, self._views)]

    def _state_at(self, lsn: int) -> tuple[bytes, ...]:
        """Return the state that the first ``lsn`` given frames add up to."""
        while len(self._told) <= lsn:
            placed = self._bench.given[len(self._told) - 1]
            assert placed.frame.lsn == len(self._told)
            apply_frame(self._machine, self._views, placed)
            self._ever |= self._machine.streams.by_id.keys()
            self._told.append(state_records(self._machine, self._views))
        return self._told[lsn]

    def check(self, disk: MemoryDisk) -> None:
        """Start on the disk, twice, and compare. Raises AssertionError, or what the start does."""
        bench = self._bench
        machine, views, lsn, log = recover(disk.files, bench.file_bytes)
        assert lsn <= len(bench.given), "frames were found that nobody wrote"
        records = state_records(machine, views)
        assert records == self._state_at(lsn), f"the state at frame {lsn} is another one"
        messages = read_all(views, log)
        self._check_seen(machine, messages)
        self._check_answers(machine, messages)
        for stream in machine.streams.by_id.values():
            check_dedup(stream, messages[stream.stream_id])
        log.close()
        # What a start made of it must last: lose the power again before anything else is synced.
        again = next(disk.crash_states(1))
        machine, views, lsn_again, log = recover(again.files, bench.file_bytes)
        assert lsn_again == lsn
        assert state_records(machine, views) == records, "a second start found another state"
        assert read_all(views, log) == messages

    def _check_seen(self, machine: Machine, messages: dict[int, list[bytes]]) -> None:
        """Require that what a reader could see when the power went is still there."""
        if not hasattr(self._bench, "engine"):
            return
        for tail in self._bench.engine.views.all():
            if tail.stream_id in machine.streams.by_id:
                found = len(messages[tail.stream_id])
                assert found >= tail.index, f"a reader saw {tail.index} messages, {found} are there"
            else:
                assert tail.stream_id in self._asked_away(), "a stream that was seen is lost"

    def _check_answers(self, machine: Machine, messages: dict[int, list[bytes]]) -> None:
        bench = self._bench
        streams = machine.streams.by_id
        for stream_id in bench.created - bench.deleted:
            # One whose deletion was asked for and not answered may be gone.
            assert stream_id in streams or stream_id in self._asked_away(), "a stream is lost"
        for stream_id in bench.deleted:
            assert stream_id not in streams or streams[stream_id].life, "a deleted one is back"
        for stream_id in bench.closed:
            assert stream_id not in streams or streams[stream_id].is_closed
        for stored in bench.stored:
            if stored.stream_id not in streams:
                assert stored.stream_id in bench.deleted | self._asked_away()
                continue
            start = stored.end_index - len(stored.messages)
            found = messages[stored.stream_id][start : stored.end_index]
            assert found == list(stored.messages), f"{stored} is not at its place"
            if stored.claim is not None:
                known = streams[stored.stream_id].producers or {}
                verdict = judge(known.get(stored.claim.producer_id), stored.claim)
                assert isinstance(verdict, Repeat), f"a retry of {stored} would be {verdict}"
                assert verdict.end_index == stored.end_index
        for found in messages.values():
            assert len(found) == len(set(found)), "a message is there twice"

    def _asked_away(self) -> set[int]:
        """Return the streams that are gone by the last frame given."""
        self._state_at(len(self._bench.given))
        return self._ever - self._machine.streams.by_id.keys()


def check_dedup(stream: Stream, messages: list[bytes]) -> None:
    """Require that what is known of each producer is what its messages say."""
    base = stream.fork.base_index if stream.fork else 0
    last: dict[str, tuple[int, int]] = {}
    for index, message in enumerate(messages[base:], base + 1):
        if not message.startswith(b'"'):
            continue
        producer, _, seq, _ = message.decode().strip('"').split(".", 3)
        if producer != "none":
            assert producer not in last or int(seq) >= last[producer][0], "batches out of order"
            last[producer] = (int(seq), index)
    known = {name: (p.seq, p.end_index) for name, p in (stream.producers or {}).items()}
    assert known == last, "dedup state and data disagree"
