import msgspec
import pytest

from millstream.core.errors import Code, Refused
from millstream.wire.problem import by_code, render


@pytest.mark.parametrize("code", list(Code))
def test_every_code_is_a_problem_document_with_its_own_status(code: Code) -> None:
    answer = render(Refused(code=code, detail="what happened", field="X"))
    document = msgspec.json.decode(answer.body)
    assert answer.status == document["status"] == code.status
    assert (b"content-type", b"application/problem+json") in answer.headers
    assert document["type"] == f"urn:millstream:problem:{code.code}"
    assert (document["detail"], document["field"]) == ("what happened", "X")
    assert by_code(code.code) is code


def test_the_protocols_headers_say_the_same_as_the_document() -> None:
    refusal = Refused(
        code=Code.PRODUCER_GAP,
        detail="d",
        next_offset="o",
        is_closed=True,
        epoch=1,
        seq_expected=2,
        seq_received=5,
        retry_after_s=7,
    )
    headers = dict(render(refusal).headers)
    assert headers[b"stream-next-offset"] == b"o"
    assert headers[b"stream-closed"] == b"true"
    assert headers[b"producer-epoch"] == b"1"
    assert headers[b"producer-expected-seq"] == b"2"
    assert headers[b"producer-received-seq"] == b"5"
    assert headers[b"retry-after"] == b"7"


def test_a_version_that_is_over_comes_with_both_versions() -> None:
    refusal = Refused(code=Code.VERSION_FENCED, detail="d", version=5, version_given=0)
    document = msgspec.json.decode(render(refusal).body)
    assert (document["current_version"], document["provided_version"]) == (5, 0)
    assert document["error"] == "d"


def test_what_is_not_known_is_left_out() -> None:
    answer = render(Refused(code=Code.STREAM_NOT_FOUND, detail="d"))
    assert [name for name, _ in answer.headers] == [b"content-type", b"cache-control"]
    assert not {"error", "current_version"} & set(msgspec.json.decode(answer.body))
    assert "field" not in msgspec.json.decode(answer.body)


def test_an_unknown_code_is_an_error_of_ours() -> None:
    with pytest.raises(KeyError):
        by_code("no_such_code")
