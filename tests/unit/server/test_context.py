import pytest

from millstream.core.errors import Code, Refused
from millstream.server.context import other_method, refuse, respond
from millstream.server.http import Request
from millstream.wire.problem import Rendered
from millstream.wire.read import CURSOR_EPOCH_MS, CURSOR_INTERVAL_MS, CURSOR_JITTER_MAX
from tests.support.doors import open_door

pytestmark = pytest.mark.anyio


async def test_a_cursor_is_the_present_interval_or_past_the_one_seen() -> None:
    async with open_door() as door:
        door.clock.value_ms = CURSOR_EPOCH_MS + 1000 * CURSOR_INTERVAL_MS
        assert door.context.cursor(None) == door.context.cursor(5) == 1000
        found = {door.context.cursor(2000) for _ in range(300)}
        assert min(found) > 2000
        assert max(found) <= 2000 + CURSOR_JITTER_MAX
        assert len(found) > 1


def test_what_was_rendered_becomes_the_edges_response() -> None:
    response = respond(Rendered(204, [(b"a", b"b")], b"c"))
    assert (response.status, response.headers, response.body) == (204, [(b"a", b"b")], b"c")
    assert refuse(Refused(code=Code.STREAM_GONE, detail="d")).status == 410


def test_another_method_is_told_which_ones_would_do() -> None:
    refused = other_method(Request("PATCH", b"/x", {}), b"GET")
    assert (refused.status, dict(refused.headers)[b"allow"]) == (405, b"GET")
    options = other_method(Request("OPTIONS", b"/x", {}), b"GET")
    assert (options.status, options.headers) == (204, ((b"allow", b"GET"),))
