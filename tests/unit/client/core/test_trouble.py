from millstream.client.core.trouble import Trouble
from millstream.client.errors import NetworkFailed, RateLimited
from millstream.client.options import Retry

RETRY = Retry(initial_delay_s=1.0, multiplier=2.0, max_delay_s=3.0)
BROKEN = NetworkFailed("broken")


def test_the_delay_grows_up_to_its_limit_and_is_drawn() -> None:
    trouble = Trouble(RETRY)
    now = 10.0
    delays = []
    for _ in range(4):
        trouble.note(BROKEN, now, 0.5)
        delays.append(trouble.ready_s - now)
        now = trouble.ready_s
    assert delays == [0.5, 1.0, 1.5, 1.5]


def test_requests_that_fail_together_count_once() -> None:
    trouble = Trouble(RETRY)
    for _ in range(5):
        trouble.note(BROKEN, 10.0, 0.5)
    assert (trouble.count, trouble.ready_s) == (1, 10.5)


def test_the_server_may_ask_for_more() -> None:
    trouble = Trouble(RETRY)
    trouble.note(BROKEN, 10.0, 0.5)
    trouble.note(RateLimited("busy", retry_after_s=7.0), 10.1, 0.5)
    assert trouble.ready_s == 17.1


def test_success_ends_it() -> None:
    trouble = Trouble(RETRY)
    trouble.note(BROKEN, 10.0, 0.5)
    trouble.clear()
    assert (trouble.count, trouble.ready_s) == (0, 0.0)
