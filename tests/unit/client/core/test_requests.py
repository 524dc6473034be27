from typing import Any

import pytest

from millstream.client.core import requests
from millstream.client.core.requests import Creation, Live, Stamp
from millstream.client.errors import BadOption

URL = "http://h.test/v1/stream/a"
STAMP = Stamp("p", 3, 9)


def test_a_name_is_encoded_below_the_root_and_a_url_taken_as_it_is() -> None:
    assert requests.url_of("http://h.test/", "/v1/stream/", "a b/ü%2F") == (
        "http://h.test/v1/stream/a%20b/%C3%BC%252F"
    )
    assert requests.url_of("http://h.test/x", "", "/a/") == "http://h.test/x/a"
    assert requests.url_of("http://h.test", "v1", "https://o.test/y?z=1") == "https://o.test/y?z=1"


@pytest.mark.parametrize("name", ["", "/", "//"])
def test_a_stream_needs_a_name(name: str) -> None:
    with pytest.raises(BadOption, match="name"):
        requests.url_of("http://h.test", "/v1/stream/", name)


def test_the_query_is_sorted_and_merged_and_the_protocol_wins() -> None:
    request = requests.read(URL + "?z=1&offset=7&b=%20x", "now", live=Live.LONG_POLL, cursor="c")
    extended = request.with_extras({}, {"token": "a&b", "live": "mine"})
    assert extended.target == URL + ("?b=%20x&cursor=c&live=long-poll&offset=now&token=a%26b&z=1")


def test_headers_of_the_caller_are_added_and_those_of_the_protocol_win_in_any_case() -> None:
    request = requests.append(URL, "text/plain", b"x", stamp=STAMP)
    extended = request.with_extras({"X-Mine": "1", "producer-EPOCH": "99"}, {})
    assert extended.headers == {
        "X-Mine": "1",
        "Content-Type": "text/plain",
        "Producer-Id": "p",
        "Producer-Epoch": "3",
        "Producer-Seq": "9",
    }


def test_a_page_has_no_live_and_no_cursor() -> None:
    request = requests.read(URL, "-1", cursor="c")
    assert request.target == URL + "?offset=-1"
    assert request.live is None


def test_an_sse_request_wants_events_that_no_proxy_compresses() -> None:
    request = requests.read(URL, "1_1", live=Live.SSE)
    assert request.query == {"offset": "1_1", "live": "sse"}
    assert request.headers == {"Accept": "text/event-stream", "Accept-Encoding": "identity"}


def test_create_sends_what_is_given_and_nothing_else() -> None:
    assert requests.create(URL, Creation(content_type="text/plain")).headers == {
        "Content-Type": "text/plain"
    }
    full = Creation(
        ttl_s=0, is_closed=True, fork_from="/v1/stream/b", fork_offset="1_1", fork_sub_offset=0
    )
    assert requests.create(URL, full).headers == {
        "Stream-TTL": "0",
        "Stream-Closed": "true",
        "Stream-Forked-From": "/v1/stream/b",
        "Stream-Fork-Offset": "1_1",
        "Stream-Fork-Sub-Offset": "0",
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"ttl_s": 1, "expires_at": "2030-01-01T00:00:00Z"},
        {"ttl_s": -1},
        {"fork_offset": "1_1"},
        {"fork_sub_offset": 0},
        {"fork_from": "b", "fork_sub_offset": -1},
    ],
)
def test_a_creation_that_no_server_could_accept_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        Creation(**fields)


def test_an_append_may_expect_a_tail_and_a_sequence() -> None:
    request = requests.append(URL, "text/plain", b"x", seq="7", if_match="1_1")
    assert request.headers["If-Match"] == '"1_1"'
    assert request.headers["Stream-Seq"] == "7"
    assert requests.append(URL, "t/x", b"x", if_match="*").headers["If-Match"] == "*"


def test_only_what_does_no_harm_twice_is_repeatable() -> None:
    harmless = [
        requests.create(URL, Creation()),
        requests.append(URL, "t/x", b"x", stamp=STAMP),
        requests.close(URL),
        requests.close(URL, content_type="t/x", body=b"x", stamp=STAMP),
        requests.grant(URL, "p"),
        requests.head(URL),
        requests.delete(URL),
        requests.read(URL, "-1"),
    ]
    harmful = [
        requests.append(URL, "t/x", b"x"),
        requests.append(URL, "t/x", b"x", if_match="1_1"),
        requests.close(URL, content_type="t/x", body=b"x"),
    ]
    assert [request.is_repeatable for request in harmless] == [True] * len(harmless)
    assert [request.is_repeatable for request in harmful] == [False] * len(harmful)


def test_a_bare_close_has_no_content_type() -> None:
    assert requests.close(URL, content_type="t/x").headers == {"Stream-Closed": "true"}


def test_a_grant_asks_for_the_next_epoch_without_a_sequence() -> None:
    request = requests.grant(URL, "p")
    assert request.headers == {"Producer-Id": "p", "Producer-Epoch": "next"}
    assert request.body == b""
