"""SIGKILL at chosen calls: before and after a write, a sync, a roll, a snapshot (D1, D3, P2)."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import pytest

from millstream.engine.audit import audit_directory
from millstream.storage.verify import Severity
from tests.support.client import Client, Live
from tests.support.faults import Faulty, FaultyServer, wait_for
from tests.support.producing import NAME, Producer

LARGE = 12_000

# Where the kill falls, and what a retry of the unanswered batch must then be told.
AT_AN_APPEND = {
    "before the write": ("write:/log/:1:kill-before", (200,)),
    "in the middle of the write": ("write:/log/:1:tear", (200,)),
    "after the write, before the sync": ("write:/log/:1:kill-after", (204,)),
    "at the sync": ("sync:/log/:1:kill-before", (204,)),
    "after the sync, before the answer": ("sync:/log/:1:kill-after", (204,)),
}
AT_A_ROLL = {
    "before the header of the next file": ("write:next.tmp:1:kill-before", (200,)),
    "after the header of the next file": ("write:next.tmp:1:kill-after", (200,)),
    "at the sync of the next file": ("sync:next.tmp:1:kill-before", (200,)),
    "before the rename of the next file": ("rename:.log:1:kill-before", (200,)),
    "after the rename of the next file": ("rename:.log:1:kill-after", (200,)),
}


def whole(server: FaultyServer) -> bool:
    findings = audit_directory(server.data_dir)
    return not [f for f in findings if f.severity is Severity.DAMAGE]


@pytest.mark.parametrize("point", AT_AN_APPEND)
def test_a_kill_at_an_append_neither_loses_nor_repeats_it(point: str, faulty: Faulty) -> None:
    rule, retried = AT_AN_APPEND[point]
    server = faulty(rule)
    server.start()
    producer = Producer(server.port)
    producer.append(5)
    server.await_mark()
    server.arm()
    producer.append_until_death()
    server.await_death()
    again = server.start_whole()
    producer.check(again.port, retried=retried)
    assert again.stop() == 0
    assert whole(server)


@pytest.mark.parametrize("point", AT_A_ROLL)
def test_a_kill_during_a_roll_neither_loses_nor_repeats_an_append(
    point: str, faulty: Faulty
) -> None:
    rule, retried = AT_A_ROLL[point]
    server = faulty(rule)
    server.start()
    producer = Producer(server.port, LARGE)
    producer.append(1)
    log = server.data_dir / "log"
    wait_for((log / "next.tmp").exists, "no next file was prepared")
    server.await_mark()
    server.arm()
    producer.append_until_death()
    server.await_death()
    again = server.start_whole()
    producer.check(again.port, retried=retried)
    assert again.stop() == 0
    assert len(list(log.glob("*.log"))) >= 2
    assert whole(server)


@pytest.mark.parametrize("action", ["kill-before", "kill-after"])
def test_a_kill_during_the_rename_of_the_last_snapshot_loses_nothing(
    action: str, faulty: Faulty
) -> None:
    server = faulty(f"rename:.snap:1:{action}")
    server.start()
    producer = Producer(server.port)
    producer.append(5)
    server.arm()
    assert server.stop() == -9
    snapshots = list((server.data_dir / "snapshots").glob("*.snap"))
    assert len(snapshots) == (1 if action == "kill-after" else 0)
    again = server.start_whole()
    producer.check(again.port, retried=(200,))
    assert again.stop() == 0
    assert whole(server)


@pytest.mark.parametrize("action", ["kill-before", "kill-after"])
def test_a_snapshotter_that_is_killed_leaves_the_server_alone(action: str, faulty: Faulty) -> None:
    server = faulty(f"rename:.snap:1:{action}", "--snapshot-frames", "10")
    server.start()
    producer = Producer(server.port)
    server.arm()
    producer.append(12)
    server.await_hit()
    producer.append(3)
    assert server.is_running
    server.kill()
    again = server.start_whole()
    producer.check(again.port, retried=(200,))
    assert again.stop() == 0
    assert whole(server)


def test_nobody_sees_or_is_told_of_a_write_before_it_is_synced(faulty: Faulty) -> None:
    server = faulty("sync:/log/:1:hold")
    server.start()
    producer = Producer(server.port)
    producer.append(3)
    server.await_mark()
    pool = concurrent.futures.ThreadPoolExecutor()
    live = Client(server.port).follow(NAME, f"offset={producer.offsets[-1]}")
    try:
        check_held_write(server, producer, live, pool)
    finally:
        # Whatever still waits for an answer must not hold up the end of the test.
        server.kill_all()
        pool.shutdown()
        live.close()


def check_held_write(
    server: FaultyServer, producer: Producer, live: Live, pool: concurrent.futures.Executor
) -> None:
    before = producer.read()
    client = Client(server.port)
    tail = client.head(NAME).offset
    etag = client.get(NAME).headers["etag"]
    server.arm()
    live.expect("control")
    poll = pool.submit(client.get, NAME, f"offset={tail}&live=long-poll")
    event = pool.submit(live.next)
    held = pool.submit(producer.send, 3)
    server.await_hit()
    # A duplicate of what is not durable yet must wait, and so must a refusal.
    repeat = pool.submit(producer.send, 3)
    gap = pool.submit(producer.send, 9)
    assert producer.read() == before, "a catch-up read shows it"
    assert client.head(NAME).offset == tail, "the tail shows it"
    assert client.get(NAME).headers["etag"] == etag, "the ETag shows it"
    waiting: list[concurrent.futures.Future[Any]] = [poll, event, held, repeat, gap]
    done, _ = concurrent.futures.wait(waiting, timeout=0.4)
    assert not done, "something was answered before it was durable"
    server.disarm()
    assert held.result().status == 200
    assert repeat.result().status == 204
    assert gap.result().status == 409
    assert poll.result().json == producer.values(3)
    shown = event.result()
    assert shown is not None
    assert shown.json == producer.values(3)
