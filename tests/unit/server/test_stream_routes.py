from millstream.server.handlers.listing import LIMIT_MAX as ENTRIES_MAX
from millstream.server.openapi import document
from millstream.server.stream_routes import ALL_ROUTES
from millstream.wire.read import LIMIT_MAX as MESSAGES_MAX

PATHS = document(ALL_ROUTES, "1")["paths"]


def limit_of(path: str) -> int:
    found = [p["schema"] for p in PATHS[path]["get"]["parameters"] if p["name"] == "limit"]
    return int(found[0]["maximum"])


def test_every_method_of_a_stream_is_there() -> None:
    assert {"put", "post", "get", "head", "delete"} <= set(PATHS["/v1/stream/{path}"])


def test_the_documented_limits_are_the_real_ones() -> None:
    assert limit_of("/v1/stream/{path}") == MESSAGES_MAX
    assert limit_of("/v1/streams") == ENTRIES_MAX


def test_every_refusal_is_a_problem_document() -> None:
    for path, item in PATHS.items():
        for method, operation in item.items():
            for status, response in operation["responses"].items():
                is_refusal = status.startswith("4") and method != "head"
                if is_refusal and not path.startswith("/v1/stream/__ds"):
                    assert "application/problem+json" in response["content"], (path, status)
