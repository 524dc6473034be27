import pytest

from tests.support.doors import open_door

pytestmark = pytest.mark.anyio


async def test_streams_pages_and_control_have_their_own_ways() -> None:
    async with open_door() as door:
        assert (await door.ask("GET", "/healthz")).body == b"fine"
        assert (await door.ask("HEAD", "/healthz")).status == 200
        assert (await door.ask("GET", "/v1/stream/a")).status == 404
        assert (await door.ask("GET", "/v1/streams")).json["streams"] == []
        assert (await door.ask("GET", "/records/a?offset=-")).json == {"records": []}
        for path in ("/v1/stream/__ds", "/v1/stream/__ds/x"):
            assert (await door.ask("GET", path)).status == 299
        assert door.asked == ["/v1/stream/__ds", "/v1/stream/__ds/x"]
        assert (await door.ask("GET", "/v1/stream/__dsx")).json["code"] == "stream_not_found"


async def test_an_unknown_path_is_404() -> None:
    async with open_door() as door:
        answer = await door.ask("GET", "/nowhere")
        assert (answer.status, answer.json["code"]) == (404, "route_not_found")


@pytest.mark.parametrize("path", ["/healthz", "/v1/streams", "/v1/stream/a", "/records/a"])
async def test_another_method_is_405_and_options_says_which_would_do(path: str) -> None:
    async with open_door() as door:
        answer = await door.ask("PATCH", path)
        assert (answer.status, answer.json["code"]) == (405, "method_not_allowed")
        options = await door.ask("OPTIONS", path)
        assert options.status == 204
        assert options.headers["allow"] == answer.headers["allow"]
        assert "GET" in options.headers["allow"]


async def test_a_bad_name_is_refused_before_anything_else() -> None:
    async with open_door() as door:
        for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
            answer = await door.ask(method, "/v1/stream/a/../b")
            assert (answer.status, answer.json["code"]) == (400, "invalid_path")


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_appends_and_creations_have_a_lane_of_their_own(method: str) -> None:
    async with open_door() as door:
        assert door.app.lane(method, b"/v1/stream/a/b") is not None
        assert door.app.lane(method, b"/v1/stream/__dsx") is not None


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
async def test_other_methods_have_no_lane(method: str) -> None:
    async with open_door() as door:
        assert door.app.lane(method, b"/v1/stream/a") is None


@pytest.mark.parametrize(
    "path",
    [
        *(b"/", b"/healthz", b"/v1/streams", b"/v1/stream", b"/v1/stream/", b"/v1/stream/a//b"),
        *(b"/v1/stream/__ds", b"/v1/stream/__ds/x", b"/v1/stream/a/../b", b"/v1/stream/a/"),
        *(b"/records/", b"/records/a"),
    ],
)
async def test_no_lane_leads_where_no_stream_can_be(path: bytes) -> None:
    async with open_door() as door:
        assert door.app.lane("POST", path) is None
        assert door.app.lane("PUT", path) is None
