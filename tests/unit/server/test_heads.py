import pytest

from millstream.server.heads import Heads, split_lines


def test_a_head_has_status_date_security_headers_and_the_given_ones_in_order() -> None:
    head = Heads(0.0).render(
        201, ((b"location", b"/a"), (b"etag", b'"b"')), b"content-length: 0\r\n"
    )
    assert head == (
        b"HTTP/1.1 201 Created\r\n"
        b"date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
        b"x-content-type-options: nosniff\r\n"
        b"cross-origin-resource-policy: cross-origin\r\n"
        b"location: /a\r\n"
        b'etag: "b"\r\n'
        b"content-length: 0\r\n"
        b"\r\n"
    )


def test_a_head_without_headers_ends_after_the_tail() -> None:
    assert Heads(0.0).render(204, (), b"").endswith(b"cross-origin\r\n\r\n")


def test_the_date_follows_the_clock() -> None:
    heads = Heads(0.0)
    heads.render(200, (), b"")
    heads.set_date(86_400.0)
    assert b"Fri, 02 Jan 1970" in heads.render(200, (), b"")


@pytest.mark.parametrize("value", [b"a\nb", b"a\rb", b"a\r\nb", b"a\0b"])
def test_a_value_with_a_line_break_is_not_sent(value: bytes) -> None:
    with pytest.raises(ValueError, match="line break"):
        Heads(0.0).render(200, ((b"x", b"y"), (b"x-a", value)), b"")


def test_a_status_without_a_standard_phrase_is_sent_all_the_same() -> None:
    assert Heads(0.0).render(299, (), b"").startswith(b"HTTP/1.1 299 Unknown\r\n")


@pytest.mark.parametrize("lines", [b"", b"a: b\r\n", b"a: b: c\r\nd: \r\n"])
def test_ready_made_lines_make_the_head_that_their_pairs_would_make(lines: bytes) -> None:
    heads, pairs = Heads(0.0), split_lines(lines)
    assert heads.complete(204, lines) == heads.render(204, pairs, b"")
    assert heads.complete(201, lines) == heads.render(201, pairs, b"content-length: 0\r\n")


def test_ready_made_lines_are_pairs_of_name_and_value() -> None:
    assert split_lines(b"a: b: c\r\nd: \r\n") == [(b"a", b"b: c"), (b"d", b"")]


def test_a_head_of_ready_made_lines_follows_the_clock() -> None:
    heads = Heads(0.0)
    heads.complete(204, b"")
    heads.set_date(86_400.0)
    assert b"Fri, 02 Jan 1970" in heads.complete(204, b"")
