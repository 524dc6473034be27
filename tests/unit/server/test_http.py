from millstream.server.http import Request, Response


def test_a_query_that_is_empty_differs_from_none() -> None:
    assert Request("GET", b"/a", {}, query=b"").has_query
    assert not Request("GET", b"/a", {}).has_query
    assert Request("GET", b"/a", {}).query == b""


def test_headers_are_found_by_lower_case_name() -> None:
    request = Request("GET", b"/a", {b"x-a": b"1"})
    assert request.header(b"x-a") == b"1"
    assert request.header(b"x-b") is None


def test_the_base_url_is_the_public_one_or_the_one_asked_for() -> None:
    request = Request("GET", b"/a", {b"host": b"streams.example:81"})
    assert request.base_url("https://public.example/") == "https://public.example"
    assert request.base_url(None) == "http://streams.example:81"
    assert Request("GET", b"/a", {}).base_url(None) == "http://localhost"


def test_a_response_may_be_nothing_but_a_status() -> None:
    assert (Response(204).headers, Response(204).body) == ((), b"")
