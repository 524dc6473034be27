"""Every verdict on a producer's batch, and where each old batch ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.producers.judge import (
    Accept,
    Claim,
    Fenced,
    Gap,
    NotFirst,
    Producer,
    Repeat,
    Verdict,
    advance,
    end_of,
    judge,
)

KNOWN = Producer(epoch=3, seq=5, end_index=60)


@pytest.mark.parametrize(
    "epoch, seq, verdict",
    [
        (3, 6, Accept()),
        (3, 7, Gap(seq_expected=6)),
        (3, 5, Repeat(seq_last=5, end_index=60)),
        (4, 0, Accept()),
        (9, 0, Accept()),
        (4, 1, NotFirst()),
        (2, 6, Fenced(epoch_now=3)),
        (2, 0, Fenced(epoch_now=3)),
    ],
)
def test_a_known_producer_is_judged_by_epoch_then_sequence(
    epoch: int, seq: int, verdict: Verdict
) -> None:
    assert judge(KNOWN, Claim("p", epoch, seq)) == verdict


@pytest.mark.parametrize(
    "epoch, seq, verdict",
    [(0, 0, Accept()), (7, 0, Accept()), (0, 1, Gap(seq_expected=0)), (7, 3, Gap(seq_expected=0))],
)
def test_an_unknown_producer_starts_any_epoch_at_zero(
    epoch: int, seq: int, verdict: Verdict
) -> None:
    assert judge(None, Claim("p", epoch, seq)) == verdict


def history_of(ends: list[int]) -> Producer:
    producer: Producer | None = None
    for seq, end in enumerate(ends):
        producer = advance(producer, 0, seq, end)
    assert producer is not None
    return producer


def test_equal_batches_written_alone_cost_one_run_for_ever() -> None:
    producer = history_of([10 * (seq + 1) for seq in range(1000)])
    assert producer.history is not None
    assert len(producer.history) == 3
    assert [end_of(producer, seq) for seq in (0, 1, 500, 999)] == [10, 20, 5010, 10_000]


def test_a_change_of_pace_starts_another_run() -> None:
    ends = [1, 2, 3, 13, 23, 33, 34]
    producer = history_of(ends)
    assert [end_of(producer, seq) for seq in range(len(ends))] == ends


def test_a_close_that_adds_nothing_ends_where_the_batch_before_it_did() -> None:
    producer = history_of([4, 8, 8])
    assert judge(producer, Claim("p", 0, 2)) == Repeat(2, 8)
    assert judge(producer, Claim("p", 0, 1)) == Repeat(2, 8)
    assert judge(producer, Claim("p", 0, 0)) == Repeat(2, 4)


def test_a_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    producer = advance(history_of([1, 2, 3]), 1, 0, 9)
    assert producer == Producer(1, 0, 9)
    assert judge(producer, Claim("p", 0, 1)) == Fenced(1)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_the_end_of_every_batch_is_remembered_whatever_lay_between(steps: list[int]) -> None:
    # Steps are what this producer and others between its batches added.
    ends = [sum(steps[: at + 1]) for at in range(len(steps))]
    producer = history_of(ends)
    assert [end_of(producer, seq) for seq in range(len(ends))] == ends
