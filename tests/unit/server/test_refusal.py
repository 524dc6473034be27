import msgspec
import pytest

from millstream.server.refusal import Refusal, problem


def test_a_problem_names_its_code_and_says_what_is_wrong() -> None:
    response = problem("body_too_large", "the body may have at most 5 bytes.")
    assert response.status == 413
    assert (b"content-type", b"application/problem+json") in response.headers
    assert isinstance(response.body, bytes)
    document = msgspec.json.decode(response.body)
    assert document["code"] == "body_too_large"
    assert document["detail"] == "the body may have at most 5 bytes."


def test_a_problem_that_will_pass_says_when_to_come_back() -> None:
    assert (b"retry-after", b"1") in problem("overloaded", "full.").headers
    assert b"retry-after" not in dict(problem("bad_request", "bad.").headers)


@pytest.mark.parametrize(
    "code",
    [
        "bad_request",
        "request_timeout",
        "body_too_large",
        "uri_too_long",
        "unsupported_encoding",
        "headers_too_large",
        "internal",
        "overloaded",
    ],
)
def test_every_code_the_edge_uses_is_in_the_catalogue(code: str) -> None:
    assert problem(code, Refusal(code, "why.").detail).status >= 400
