"""The table says what the records door does, limits included."""

from millstream.server import openapi
from millstream.server.records_routes import RECORDS
from millstream.wire.records import LIMIT_MAX, TIMEOUT_S_MAX

ITEM = openapi.document(RECORDS, "1")["paths"]["/records/{path}"]


def test_every_method_of_the_door_is_there() -> None:
    assert set(ITEM) == {"post", "get", "delete"}


def test_the_documented_limits_are_the_real_ones() -> None:
    schemas = {each["name"]: each["schema"] for each in ITEM["get"]["parameters"]}
    assert schemas["limit"]["maximum"] == LIMIT_MAX
    assert schemas["timeout_sec"]["maximum"] == TIMEOUT_S_MAX


def test_every_operation_may_need_the_secret() -> None:
    for operation in ITEM.values():
        assert "auth" in {each["name"] for each in operation["parameters"]}
        assert "401" in operation["responses"]
