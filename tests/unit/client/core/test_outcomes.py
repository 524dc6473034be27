from millstream.client.core.batches import Batch, Delivered
from millstream.client.core.outcomes import FAILURES_KEPT_MAX, Outcomes
from millstream.client.errors import BadMessage, Unavailable

DONE = Delivered("5", False, 0, 0)


def test_an_outcome_is_given_once() -> None:
    outcomes = Outcomes()
    batch = Batch(1, 0.0)
    outcomes.settle(batch, DONE)
    outcomes.settle(batch, BadMessage("late"))
    assert batch.outcome == DONE
    assert outcomes.settled == [batch]
    assert outcomes.first_failure(9) is None


def test_what_is_discarded_gives_its_bytes_back_once() -> None:
    outcomes = Outcomes()
    batch = Batch(1, 0.0)
    batch.add(b"abc")
    outcomes.buffered_bytes = batch.cost_bytes
    outcomes.discard(batch, DONE)
    outcomes.discard(batch, DONE)
    assert outcomes.buffered_bytes == 0
    assert batch.parts == []


def test_the_first_failure_is_told_once_and_later_ones_wait_for_their_flush() -> None:
    outcomes = Outcomes()
    errors = {number: Unavailable(str(number)) for number in (3, 1, 2)}
    for number, error in errors.items():
        outcomes.settle(Batch(number, 0.0), error)
    assert outcomes.first_failure(2) is errors[1]
    assert outcomes.first_failure(2) is None
    assert outcomes.first_failure(3) is errors[3]


def test_a_failed_close_is_no_failure_of_a_flush() -> None:
    outcomes = Outcomes()
    batch = Batch(1, 0.0)
    batch.closes = True
    outcomes.settle(batch, Unavailable("x"))
    assert outcomes.first_failure(1) is None


def test_failures_that_nobody_asks_for_do_not_pile_up() -> None:
    outcomes = Outcomes()
    for number in range(3 * FAILURES_KEPT_MAX):
        outcomes.settle(Batch(number, 0.0), Unavailable("x"))
    assert len(outcomes._failures) == FAILURES_KEPT_MAX
    assert outcomes.first_failure(0) is not None
