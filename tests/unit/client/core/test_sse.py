import pytest

from millstream.client.core.sse import Event, EventParser


def parsed(*chunks: bytes) -> list[Event]:
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_at_lf_cr_or_crlf(end: bytes) -> None:
    text = end.join([b"event: data", b"data: a", b"data:b", b"", b"data:c", b"", b""])
    assert parsed(text) == [Event("data", b"a\nb"), Event("message", b"c")]


def test_a_line_does_not_end_at_other_separators() -> None:
    payload = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg".encode()
    assert parsed(b"data:" + payload + b"\n\n") == [Event("message", payload)]


def test_exactly_one_space_behind_the_colon_is_dropped() -> None:
    assert parsed(b"data:a\ndata: b\ndata:  c\n\n") == [Event("message", b"a\nb\n c")]


def test_comments_ids_unknown_fields_and_events_without_data_are_skipped() -> None:
    text = b": hello\nid: 7\nretry: 1\nnonsense\nevent: data\n\ndata: a\n\n"
    assert parsed(text) == [Event("message", b"a")]


def test_an_event_with_an_empty_data_line_is_an_event() -> None:
    assert parsed(b"event: control\ndata\n\n") == [Event("control", b"")]


def test_an_event_that_the_end_cuts_off_is_never_given_out() -> None:
    assert parsed(b"data: a\n\ndata: b\n") == [Event("message", b"a")]
    assert parsed(b"data: a\n\ndata: b") == [Event("message", b"a")]


def test_a_line_feed_that_follows_its_cr_in_the_next_chunk_ends_nothing() -> None:
    assert parsed(b"data: a\r", b"\ndata: b\r", b"", b"\n\r", b"\n") == [Event("message", b"a\nb")]
    assert parsed(b"data: a\r", b"\r") == [Event("message", b"a")]


def test_a_byte_order_mark_is_dropped_at_the_start_only() -> None:
    mark = b"\xef\xbb\xbf"
    assert parsed(mark[:1], mark[1:] + b"data: a\n\n") == [Event("message", b"a")]
    assert parsed(b"data: " + mark + b"\n\n") == [Event("message", mark)]


def test_a_huge_line_in_small_chunks_arrives_whole() -> None:
    payload = b"x" * 3_000_000
    chunks = [payload[at : at + 1000] for at in range(0, len(payload), 1000)]
    assert parsed(b"data:", *chunks, b"\n\n") == [Event("message", payload)]
