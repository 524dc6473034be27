"""Power loss at every disk call that a real server made, its snapshotters included (D2)."""

from __future__ import annotations

from typing import NamedTuple

from millstream.testing.files_memory import MemoryDisk
from tests.support.bench import read_all, recover
from tests.support.client import Client
from tests.support.faults import Faulty, FaultyServer, wait_for
from tests.support.producing import NAME, Producer
from tests.support.recorded import make, read_calls

FILE_BYTES = 65536
BATCHES = 24


class Acked(NamedTuple):
    """So many batches were answered for when the record was this long."""

    record_bytes: int
    batches: int


def live(server: FaultyServer) -> tuple[Producer, list[Acked]]:
    """Let a server roll, take snapshots, be killed and start again; note every answer."""
    producer = Producer(server.port, 6000)
    acked = [Acked(server.record.stat().st_size, 0)]
    written = server.data_dir / "snapshots"
    for number in range(BATCHES):
        producer.append(1)
        acked.append(Acked(server.record.stat().st_size, number + 1))
        if number == BATCHES // 2:
            wait_for(lambda: any(written.glob("*.snap")), "no snapshot was written")
            server.restart(kill=True)
            producer.client = Client(server.port)
    assert server.stop() == 0
    return producer, acked


def check(state: MemoryDisk, producer: Producer, batches: int) -> None:
    """Start on what is left: at least so many batches, each whole, and known as stored."""
    machine, views, _, log = recover(state.files, FILE_BYTES)
    stream = machine.streams.by_path.get(NAME)
    if stream is None:
        assert batches == 0, "the stream is lost"
        return
    messages = [message.decode().strip('"') for message in read_all(views, log)[stream.stream_id]]
    found = len(messages) // 2
    assert messages == [value for seq in range(found) for value in producer.values(seq)]
    assert found >= batches, f"{batches} batches were answered for, {found} are there"
    known = (stream.producers or {}).get("p")
    assert (known.seq + 1 if known else 0) == found, "dedup state and data disagree"


def test_no_power_loss_at_any_call_of_a_real_server_takes_an_answer_back(
    faulty: Faulty, crash_states: int
) -> None:
    server = faulty("write:none:1:kill-before", "--snapshot-frames", "9")
    server.is_recorded = True
    server.start()
    producer, acked = live(server)
    calls = list(read_calls(server.record, server.data_dir.parent))
    share = max(2, crash_states // len(calls))
    disk = MemoryDisk()
    # A state that was fine before an answer need not be fine behind it.
    seen: dict[int, int] = {}
    for number, call in enumerate(calls):
        make(disk, call)
        batches = max((a.batches for a in acked if a.record_bytes <= call.end), default=0)
        for state in disk.crash_states(share, number):
            mark = state.fingerprint()
            if seen.get(mark) == batches:
                continue
            seen[mark] = batches
            try:
                check(state, producer, batches)
            except Exception as error:
                kind, path = call.kind, call.path
                error.add_note(f"power lost after call {number}: {kind} {path} {call.other}")
                raise
    print(f"{len(seen)} states of {len(calls)} calls")
    assert any(call.kind == "rename" and call.other.endswith(".snap") for call in calls)
    assert sum(call.kind == "rename" and call.other.endswith(".log") for call in calls) >= 3
