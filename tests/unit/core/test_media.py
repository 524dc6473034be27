"""Content types: compared without case and parameters; JSON mode only for application/json."""

import pytest

from millstream.core import media


@pytest.mark.parametrize(
    "left, right",
    [
        ("text/plain", "TEXT/Plain"),
        ("text/plain", "text/plain; charset=utf-8"),
        ("application/json;charset=utf-8", "application/json"),
    ],
)
def test_case_and_parameters_do_not_make_a_difference(left: str, right: str) -> None:
    assert media.is_same(left, right)


def test_another_subtype_is_another_type() -> None:
    assert not media.is_same("text/plain", "text/html")
    assert not media.is_same("", "text/plain")


@pytest.mark.parametrize(
    "content_type, expected",
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/vnd.api+json", False),
        ("application/jsonl", False),
        ("text/json", False),
    ],
)
def test_only_application_json_means_json_mode(content_type: str, expected: bool) -> None:
    assert media.is_json(content_type) is expected


@pytest.mark.parametrize(
    "content_type, expected",
    [
        ("text/plain", True),
        ("TEXT/event-stream", True),
        ("application/json; a=b", True),
        ("application/octet-stream", False),
        ("application/xml", False),
    ],
)
def test_text_and_json_travel_over_sse_as_they_are(content_type: str, expected: bool) -> None:
    assert media.is_text(content_type) is expected
