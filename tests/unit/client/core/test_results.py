import pytest

from millstream.client.core import results
from millstream.client.core.answers import Answer
from millstream.client.errors import ParseError

URL = "http://h.test/a"


def test_a_created_stream_is_told_from_one_that_was_there() -> None:
    headers = {"stream-next-offset": "1_1", "content-type": "text/plain; charset=utf-8"}
    new = results.created(URL, Answer(201, headers))
    assert new == results.Created(
        offset="1_1", existed=False, content_type="text/plain; charset=utf-8", is_closed=False
    )
    assert results.created(URL, Answer(200, {**headers, "stream-closed": "true"})).is_closed
    assert results.created(URL, Answer(200, headers)).existed


def test_a_head_has_every_fact_and_none_for_what_is_not_said() -> None:
    bare = results.head(URL, Answer(200, {"stream-next-offset": "1_1", "stream-ttl": "x"}))
    assert (bare.ttl_s, bare.expires_at, bare.etag, bare.content_type) == (None,) * 4
    assert bare.is_closed is False
    full = {
        "stream-next-offset": "1_1",
        "stream-ttl": "60",
        "stream-expires-at": "2030-01-01T00:00:00Z",
        "etag": '"e"',
        "stream-closed": "true",
    }
    head = results.head(URL, Answer(200, full))
    assert (head.ttl_s, head.expires_at, head.etag) == (60, "2030-01-01T00:00:00Z", '"e"')
    assert head.is_closed is True


def test_an_answer_without_its_offset_is_refused() -> None:
    with pytest.raises(ParseError, match="Stream-Next-Offset"):
        results.offset_of(URL, Answer(200, {}))
