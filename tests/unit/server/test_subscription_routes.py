"""The table names every control route, and the door serves every one that it names."""

from millstream.server import openapi
from millstream.server.handlers.subscriptions import _ROUTES
from millstream.server.subscription_routes import SUBSCRIPTIONS

PREFIX = "/v1/stream/__ds/subscriptions/{id}"


def test_the_table_and_the_door_agree() -> None:
    listed = {
        (route.method, route.path.removeprefix(PREFIX).lstrip("/"))
        for route in SUBSCRIPTIONS
        if route.path.startswith(PREFIX)
    }
    served = {
        (method, "streams/{path:path}" if action == "link" else action)
        for action, methods in _ROUTES.items()
        for method in methods
    }
    assert listed == served


def test_the_routes_make_a_document() -> None:
    document = openapi.document(SUBSCRIPTIONS, "1")
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert len(operations) == len(SUBSCRIPTIONS)
    tokens = [
        operation["operationId"]
        for operation in operations
        if any(each["name"] == "Authorization" for each in operation.get("parameters", ()))
    ]
    assert tokens == ["callback_wake_post", "ack_wake_post", "release_wake_post"]
