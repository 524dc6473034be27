import msgspec
import pytest

from millstream.server.openapi import document
from millstream.server.routes import OPERATIONS, Answer, Body, Parameter, Route

NAME = Parameter(name="name", place="path", text="What it is called.")
PUT = Route(
    method="PUT",
    path="/things/{name:path}",
    handler="put_thing",
    summary="Keep a thing",
    tag="things",
    parameters=(NAME, Parameter(name="X-A", place="header", text="An A.", is_required=True)),
    body=Body(text="The thing."),
    answers=(
        Answer(status=201, text="Kept.", headers=("Location",)),
        Answer(status=409, text="Another is there."),
    ),
)


def test_the_document_has_every_route() -> None:
    result = document(OPERATIONS, "1.2.3", "http://localhost:4437")
    assert result["openapi"].startswith("3.1")
    assert set(result["paths"]) == {route.path for route in OPERATIONS}
    assert result["servers"] == [{"url": "http://localhost:4437"}]
    assert msgspec.json.decode(msgspec.json.encode(result)) == result


def test_a_route_is_described_with_parameters_body_and_answers() -> None:
    operation = document([PUT], "1")["paths"]["/things/{name}"]["put"]
    assert [(p["name"], p["in"], p["required"]) for p in operation["parameters"]] == [
        ("name", "path", True),
        ("X-A", "header", True),
    ]
    assert "*/*" in operation["requestBody"]["content"]
    assert operation["responses"]["201"]["headers"] == {"Location": {"schema": {"type": "string"}}}
    assert "application/problem+json" in operation["responses"]["409"]["content"]


def test_answers_to_head_have_no_content() -> None:
    head = msgspec.structs.replace(PUT, method="HEAD", body=None)
    responses = document([head], "1")["paths"]["/things/{name}"]["head"]["responses"]
    assert "content" not in responses["409"]


def test_a_route_may_not_be_there_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        document([PUT, PUT], "1")


def test_path_parameters_must_be_described() -> None:
    with pytest.raises(ValueError, match="described"):
        document([msgspec.structs.replace(PUT, parameters=())], "1")
