"""The checker of histories finds each kind of lie; one that finds nothing proves nothing."""

from __future__ import annotations

import random

import pytest

from tests.support.history import History, Look, Prefix, Write

LENGTH = 40


def honest(seed: int) -> tuple[History, list[bytes]]:
    """Return a history as a right server would make it, and its messages."""
    rng = random.Random(seed)
    history, messages, clock = History(), list[bytes](), 0.0
    prefix = Prefix()
    while len(messages) < LENGTH:
        batch = [b"%d" % (len(messages) + k) for k in range(rng.choice((1, 1, 3)))]
        clock += rng.random()
        write = Write(batch, clock)
        history.writes.append(write)
        messages += batch
        prefix.add(batch)
        clock += rng.random()
        if rng.random() < 0.8:
            write.answer(len(messages), clock)
        called, clock = clock, clock + rng.random()
        history.looks.append(Look(called, clock, len(messages), prefix.digests[-1]))
    history.writes.append(Write([b"never landed"], clock))
    return history, messages


@pytest.mark.parametrize("seed", range(50))
def test_an_honest_history_has_no_faults(seed: int) -> None:
    history, messages = honest(seed)
    assert history.faults(messages) == []


def test_a_lost_answered_append_is_found() -> None:
    history, messages = honest(1)
    history.looks.clear()
    last = max((w for w in history.writes if w.end), key=lambda w: w.end or 0)
    assert last.end is not None
    del messages[last.end - len(last.messages) :]
    assert "an answered append is lost" in " ".join(history.faults(messages))


def test_a_message_that_is_there_twice_is_found() -> None:
    history, messages = honest(2)
    assert "again" in " ".join(history.faults([*messages, messages[3]]))


def test_a_message_that_nobody_wrote_is_found() -> None:
    history, messages = honest(3)
    assert "by nobody" in " ".join(history.faults([*messages, b"ghost"]))


def test_an_append_at_another_place_is_found() -> None:
    history, messages = honest(4)
    write = next(w for w in history.writes if w.end)
    assert write.end is not None
    write.end += 1
    assert "ends at" in " ".join(history.faults(messages))


def test_a_torn_batch_is_found() -> None:
    history, messages = honest(5)
    history.looks.clear()
    history.writes.append(Write([b"one", b"two"], 1e6))
    assert "torn" in " ".join(history.faults([*messages, b"one"]))
    assert "in part" in " ".join(history.faults([*messages, b"two"]))


def test_a_reader_that_saw_what_is_gone_is_found() -> None:
    history, messages = honest(6)
    history.looks.append(Look(1e6, 1e6, len(messages) + 1, b""))
    assert "a reader saw" in " ".join(history.faults(messages))


def test_a_reader_that_saw_other_messages_is_found() -> None:
    history, messages = honest(7)
    history.looks[5] = history.looks[5]._replace(digest=b"other")
    assert "other messages" in " ".join(history.faults(messages))


def test_a_read_that_misses_an_answered_append_is_found() -> None:
    history, messages = honest(8)
    stale = history.looks[2]
    history.looks.append(stale._replace(called=1e6, returned=1e6 + 1))
    assert "came after something behind it" in " ".join(history.faults(messages))


def test_an_append_called_after_it_was_seen_is_found() -> None:
    history, messages = honest(9)
    history.writes[3].called = 1e6
    assert "came after something behind it" in " ".join(history.faults(messages))
