import pytest

from millstream.client import errors
from millstream.client.core.backoff import Backoff, ceiling_s, is_transient, may_have_happened
from millstream.client.options import Retry

BROKEN = errors.NetworkFailed("broken")
RETRY = Retry(max_retries=3, initial_delay_s=1.0, multiplier=2.0, max_delay_s=3.0, deadline_s=100.0)


def test_delays_grow_up_to_the_limit_and_end_with_the_count() -> None:
    backoff = Backoff(RETRY, now=0.0)
    assert [backoff.delay_s(BROKEN, now=0.0, draw=1.0) for _ in range(4)] == [1.0, 2.0, 3.0, None]
    assert backoff.attempt == 4


def test_the_delay_is_drawn_between_nothing_and_its_ceiling() -> None:
    assert Backoff(RETRY, 0.0).delay_s(BROKEN, now=0.0, draw=0.0) == 0.0
    assert Backoff(RETRY, 0.0).delay_s(BROKEN, now=0.0, draw=0.5) == 0.5


def test_the_delay_is_never_shorter_than_the_server_asks() -> None:
    error = errors.RateLimited("wait", retry_after_s=9.0)
    assert Backoff(RETRY, 0.0).delay_s(error, now=0.0, draw=0.0) == 9.0


def test_a_try_that_would_begin_behind_the_deadline_is_not_made() -> None:
    assert Backoff(RETRY, 10.0).delay_s(BROKEN, now=109.0, draw=1.0) == 1.0
    assert Backoff(RETRY, 10.0).delay_s(BROKEN, now=109.1, draw=1.0) is None
    slow = errors.RateLimited("wait", retry_after_s=101.0)
    assert Backoff(RETRY, 10.0).delay_s(slow, now=10.0, draw=0.0) is None


def test_progress_starts_the_count_and_the_deadline_anew() -> None:
    backoff = Backoff(RETRY, now=0.0)
    for _ in range(3):
        backoff.delay_s(BROKEN, now=0.0, draw=1.0)
    backoff.succeeded(now=1000.0)
    assert backoff.attempt == 1
    assert backoff.delay_s(BROKEN, now=1000.0, draw=1.0) == 1.0


def test_without_limits_it_never_gives_up_nor_overflows() -> None:
    retry = Retry(max_retries=None, deadline_s=None, max_delay_s=5.0)
    assert ceiling_s(retry, 100_000) == 5.0
    backoff = Backoff(retry, 0.0)
    assert all(backoff.delay_s(BROKEN, now=1e9, draw=1.0) is not None for _ in range(2000))


@pytest.mark.parametrize(
    "error,expected",
    [
        (errors.NetworkFailed("x"), True),
        (errors.Timeout("x"), True),
        (errors.Unavailable("x"), True),
        (errors.RateLimited("x"), True),
        (errors.ParseError("x"), False),
        (errors.BufferFull("x"), False),
        (errors.DeliveryExpired("x"), False),
        (errors.NotFound("x"), False),
        (errors.BadRequest("x"), False),
        (errors.Unauthorized("x"), False),
    ],
)
def test_only_failures_of_network_and_server_pass(
    error: errors.ClientError, expected: bool
) -> None:
    assert is_transient(error) is expected
    assert (Backoff(RETRY, 0.0).delay_s(error, now=0.0, draw=1.0) is not None) is expected


def test_an_error_tells_whether_the_request_may_have_happened() -> None:
    assert may_have_happened(errors.NetworkFailed("x", is_uncertain=True))
    assert not may_have_happened(errors.NetworkFailed("x"))
    assert not may_have_happened(errors.NotFound("x"))
