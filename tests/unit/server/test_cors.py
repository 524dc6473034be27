from millstream.server.cors import Cors


def test_any_origin_is_allowed_by_a_star_with_or_without_an_origin_header() -> None:
    cors = Cors(["*"])
    assert b"access-control-allow-origin: *\r\n" in cors.lines(b"https://a.example")
    assert b"access-control-allow-origin: *\r\n" in cors.lines(None)
    assert b"vary" not in cors.lines(None)


def test_only_listed_origins_are_allowed_and_caches_are_told() -> None:
    cors = Cors(["https://a.example", "https://b.example:8443"])
    lines = cors.lines(b"https://b.example:8443")
    assert b"access-control-allow-origin: https://b.example:8443\r\n" in lines
    for origin in (b"https://c.example", b"https://a.example.evil.example", None):
        assert cors.lines(origin) == b"vary: Origin\r\n"
    assert b"vary: Origin\r\n" in lines


def test_protocol_headers_may_be_sent_and_read() -> None:
    headers = dict(Cors(["*"]).preflight().headers)
    allowed = headers[b"access-control-allow-headers"].lower()
    for name in (b"content-type", b"if-none-match", b"producer-id", b"stream-forked-from"):
        assert name in allowed
    exposed = Cors(["*"]).lines(None).lower()
    for name in (b"stream-next-offset", b"etag", b"location", b"producer-expected-seq"):
        assert name in exposed


def test_a_preflight_allows_every_method_of_the_protocol() -> None:
    response = Cors(["*"]).preflight()
    methods = dict(response.headers)[b"access-control-allow-methods"]
    assert response.status == 204
    assert methods == b"GET, HEAD, POST, PUT, DELETE, OPTIONS"
