import logging

import pytest

from millstream.client.errors import NetworkFailed
from millstream.client.hooks import NO_HOOKS, Call, Hooks, notify

CALL = Call("GET", "http://h.test/a", "read", 1)


def test_hooks_do_nothing_unless_overridden() -> None:
    error = NetworkFailed("gone")
    NO_HOOKS.on_request(CALL)
    NO_HOOKS.on_response(CALL, 200, 0.1, None)
    NO_HOOKS.on_retry(CALL, error, 0.1)
    NO_HOOKS.on_reconnect("http://h.test/a", "1_1", error)
    NO_HOOKS.on_delivery("http://h.test/a", 3, 0.1, error)


def test_a_hook_that_raises_is_logged_and_goes_no_further(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Hooks):
        def on_request(self, call: Call) -> None:
            raise KeyError("broken")

    with caplog.at_level(logging.ERROR, "millstream.client"):
        notify(Broken().on_request, CALL)
    assert [record.getMessage() for record in caplog.records] == ["a hook failed: on_request"]
    assert "h.test" not in caplog.text


def test_what_ends_the_program_is_not_held_back_by_a_hook() -> None:
    def leave() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        notify(leave)


def test_two_calls_are_never_equal_so_a_span_can_be_kept_under_each() -> None:
    twin = Call(CALL.method, CALL.url, CALL.operation, CALL.attempt)
    assert len({CALL: 1, twin: 2}) == 2
