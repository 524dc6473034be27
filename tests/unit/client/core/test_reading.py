import base64

import pytest

from millstream.client.core.answers import Answer
from millstream.client.core.reading import SHORT_DELAY_S_MAX, Batch, Reading, Want
from millstream.client.core.requests import Live
from millstream.client.errors import (
    BadOffset,
    BadOption,
    BadRequest,
    NotFound,
    ParseError,
    Unavailable,
)

URL = "http://h.test/a"
JSON = "application/json"
TEXT = "text/plain"
EVENTS = {"content-type": "text/event-stream"}


def page(
    offset: str,
    body: bytes = b"",
    *,
    status: int = 200,
    kind: str = TEXT,
    up: bool = False,
    closed: bool = False,
    cursor: str | None = None,
) -> Answer:
    headers = {"content-type": kind, "stream-next-offset": offset}
    if up:
        headers["stream-up-to-date"] = "true"
    if closed:
        headers["stream-closed"] = "true"
    if cursor:
        headers["stream-cursor"] = cursor
    return Answer(status, headers, body)


def control(offset: str, more: str = "") -> bytes:
    return f'event: control\ndata:{{"streamNextOffset":"{offset}"{more}}}\n\n'.encode()


def data(text: str) -> bytes:
    return f"event: data\ndata:{text}\n\n".encode()


def taken(reading: Reading) -> list[Batch]:
    batches = []
    while (batch := reading.take()) is not None:
        batches.append(batch)
    return batches


def live(want: Want = Want.SSE, kind: str = TEXT) -> Reading:
    """A reading that has caught up at 0_1."""
    reading = Reading(URL, "0_1", want, kind)
    reading.answered(page("0_1", kind=kind, up=True))
    taken(reading)
    return reading


def test_catching_up_goes_on_page_by_page_and_ends_at_the_tail() -> None:
    reading = Reading(URL, "-1", Want.CATCH_UP)
    assert reading.ask().query == {"offset": "-1"}
    reading.answered(page("0_2", b"ab"))
    assert reading.ask().query == {"offset": "0_2"}
    reading.answered(page("0_3", b"c", up=True))
    before = reading.is_done
    assert [(b.data, b.offset, b.is_up_to_date) for b in taken(reading)] == [
        (b"ab", "0_2", False),
        (b"c", "0_3", True),
    ]
    assert (before, reading.is_done) == (False, True)
    assert (reading.offset, reading.is_up_to_date, reading.is_closed) == ("0_3", True, False)


def test_the_offset_moves_with_what_is_handed_out_and_the_position_with_what_arrived() -> None:
    reading = Reading(URL, "-1", Want.CATCH_UP)
    reading.answered(page("0_2", b"ab"))
    assert (reading.offset, reading.position) == ("-1", "0_2")
    assert reading.peek() == reading.take()
    assert reading.offset == "0_2"


@pytest.mark.parametrize(
    "want,mode", [(Want.LONG_POLL, "long-poll"), (Want.SSE, "sse"), (Want.LIVE, "sse")]
)
def test_a_live_reader_catches_up_first_and_then_waits(want: Want, mode: str) -> None:
    reading = Reading(URL, "-1", want)
    assert reading.ask().query == {"offset": "-1"}
    reading.answered(page("0_2", b"ab", up=True, cursor="c1"))
    assert reading.ask().query == {"offset": "0_2", "live": mode, "cursor": "c1"}
    assert not reading.has_all


def test_from_now_on_it_waits_at_once() -> None:
    assert Reading(URL, "now", Want.LONG_POLL).ask().query == {"offset": "now", "live": "long-poll"}
    assert Reading(URL, "now", Want.CATCH_UP).ask().query == {"offset": "now"}


def test_a_long_poll_that_ends_without_data_tells_the_position_and_polls_again() -> None:
    reading = Reading(URL, "now", Want.LONG_POLL)
    reading.answered(page("0_5", status=204, cursor="c2"))
    assert [(b.is_empty, b.is_up_to_date) for b in taken(reading)] == [(True, True)]
    assert reading.ask().query == {"offset": "0_5", "live": "long-poll", "cursor": "c2"}


@pytest.mark.parametrize("want", list(Want))
def test_closure_ends_every_way_of_reading(want: Want) -> None:
    reading = Reading(URL, "-1", want)
    reading.answered(page("0_2", b"ab", closed=True))
    taken(reading)
    assert reading.is_done
    assert (reading.is_closed, reading.is_up_to_date) == (True, True)


def test_an_empty_page_that_leads_nowhere_is_the_tail() -> None:
    reading = Reading(URL, "0_2", Want.CATCH_UP)
    reading.answered(page("0_2"))
    assert taken(reading)[0].is_up_to_date
    assert reading.is_done


def test_a_page_without_a_position_is_refused_and_changes_nothing() -> None:
    reading = Reading(URL, "-1", Want.CATCH_UP)
    with pytest.raises(ParseError, match="Stream-Next-Offset"):
        reading.answered(Answer(200, {"content-type": TEXT}, b"ab"))
    assert (reading.position, reading.take()) == ("-1", None)


def test_a_damaged_json_page_is_refused_and_asked_for_again() -> None:
    reading = Reading(URL, "-1", Want.CATCH_UP)
    with pytest.raises(ParseError):
        reading.answered(page("0_2", b"[1,2", kind=JSON, up=True))
    assert (reading.position, reading.offset, reading.take()) == ("-1", "-1", None)
    reading.answered(page("0_2", b"[1,2]", kind=JSON, up=True))
    assert taken(reading)[0].items() == [1, 2]


def test_an_empty_json_array_is_no_data() -> None:
    reading = Reading(URL, "-1", Want.CATCH_UP)
    reading.answered(page("0_0", b"[ ]", kind=JSON, up=True))
    batch = taken(reading)[0]
    assert (batch.is_empty, batch.data, batch.items()) == (True, b"", [])


def test_data_waits_for_its_control_event() -> None:
    reading = live()
    reading.opened(200, EVENTS, now=0.0)
    reading.received(data("ab"))
    assert reading.take() is None
    reading.received(control("0_3", ',"upToDate":true,"streamCursor":"c"'))
    assert taken(reading) == [
        Batch(b"ab", "0_3", is_up_to_date=True, cursor="c", url=URL),
    ]


def test_data_whose_control_event_never_came_is_dropped_and_asked_for_again() -> None:
    reading = live()
    reading.opened(200, EVENTS, now=0.0)
    reading.received(data("ab") + control("0_3") + data("cd"))
    reading.ended(now=10.0, draw=0.0)
    assert reading.ask().query == {"offset": "0_3", "live": "sse"}
    reading.opened(200, EVENTS, now=11.0)
    reading.received(data("cd") + control("0_5"))
    assert [batch.data for batch in taken(reading)] == [b"ab", b"cd"]


def test_several_data_events_before_one_control_are_one_batch() -> None:
    text = live()
    text.opened(200, EVENTS, now=0.0)
    text.received(data("ab") + data("cd") + control("0_5"))
    assert taken(text)[0].data == b"abcd"
    values = live(kind=JSON)
    values.opened(200, EVENTS, now=0.0)
    values.received(data("[1]") + data("[2,3]") + control("0_5"))
    assert taken(values)[0].items() == [1, 2, 3]


def test_bytes_come_as_base64_event_by_event() -> None:
    reading = live(kind="application/octet-stream")
    reading.opened(200, {**EVENTS, "stream-sse-data-encoding": "base64"}, now=0.0)
    first, second = base64.b64encode(b"\0\xff\x01").decode(), base64.b64encode(b"zz").decode()
    broken = f"event: data\ndata:{first[:2]}\ndata:{first[2:]}\n\n".encode()
    reading.received(broken + data(second) + control("0_6"))
    assert taken(reading)[0].data == b"\0\xff\x01zz"


@pytest.mark.parametrize(
    "events",
    [
        b"event: control\ndata:\n\n",
        b"event: control\ndata:{nope\n\n",
        b'event: control\ndata:{"upToDate":true}\n\n',
        b'event: control\ndata:{"streamNextOffset":5}\n\n',
        b'event: control\ndata:{"streamNextOffset":"\xff"}\n\n',
        data("[1,2") + control("0_3"),
    ],
)
def test_events_that_break_the_protocol_are_parse_errors_behind_what_was_good(
    events: bytes,
) -> None:
    reading = live(kind=JSON)
    reading.opened(200, EVENTS, now=0.0)
    with pytest.raises(ParseError):
        reading.received(data("[1]") + control("0_2") + events)
    assert [batch.items() for batch in taken(reading)] == [[1]]
    assert reading.position == "0_2"


def test_bad_base64_is_a_parse_error() -> None:
    reading = live()
    reading.opened(200, {**EVENTS, "stream-sse-data-encoding": "base64"}, now=0.0)
    with pytest.raises(ParseError, match="base64"):
        reading.received(data("a-b*"))


def test_unknown_events_are_skipped() -> None:
    reading = live()
    reading.opened(200, EVENTS, now=0.0)
    reading.received(b"event: ping\ndata: x\n\ndata: y\n\n" + control("0_2"))
    assert [batch.is_empty for batch in taken(reading)] == [True]


def test_the_closing_event_ends_the_reading_with_its_data() -> None:
    reading = live()
    reading.opened(200, EVENTS, now=0.0)
    reading.received(data("ab") + control("0_3", ',"streamClosed":true'))
    assert reading.has_all
    before = reading.is_done
    assert [(b.data, b.is_closed, b.is_up_to_date) for b in taken(reading)] == [(b"ab", True, True)]
    assert (before, reading.is_done) == (False, True)
    assert reading.ended(now=0.1, draw=1.0) == 0.0


def short(reading: Reading, draw: float = 1.0) -> float:
    reading.opened(200, EVENTS, now=0.0)
    return reading.ended(now=0.9, draw=draw)


def test_three_short_connections_in_a_row_make_an_automatic_reader_poll() -> None:
    reading = live(Want.LIVE)
    ways = []
    for _ in range(3):
        short(reading)
        ways.append(reading.live)
    assert ways == [Live.SSE, Live.SSE, Live.LONG_POLL]


def test_a_long_connection_starts_the_count_anew() -> None:
    reading = live(Want.LIVE)
    short(reading)
    short(reading)
    reading.opened(200, EVENTS, now=0.0)
    assert reading.ended(now=1.0, draw=1.0) == 0.0
    short(reading)
    short(reading)
    assert reading.live is Live.SSE


def test_a_reader_that_wants_sse_only_waits_longer_after_each_short_connection() -> None:
    reading = live(Want.SSE)
    delays = [short(reading) for _ in range(20)]
    assert delays[:3] == [0.2, 0.4, 0.8]
    assert delays[-1] == SHORT_DELAY_S_MAX
    assert reading.live is Live.SSE


def test_an_automatic_reader_can_do_without_sse_and_another_cannot() -> None:
    refused = BadRequest("no", status=400)
    automatic = live(Want.LIVE)
    assert automatic.refused(refused)
    assert automatic.live is Live.LONG_POLL
    # Polling is the last way: what it is refused is refused.
    assert not automatic.refused(refused)
    assert not live(Want.SSE).refused(refused)


@pytest.mark.parametrize("error", [NotFound("x", status=404), Unavailable("x", status=503)])
def test_what_is_not_about_sse_does_not_change_the_way(
    error: NotFound | Unavailable,
) -> None:
    assert not live(Want.LIVE).refused(error)


def test_a_bad_offset_while_catching_up_is_refused() -> None:
    assert not Reading(URL, "x", Want.LIVE).refused(BadOffset("x", status=400))


def test_an_answer_that_is_no_event_stream_is_told_as_such() -> None:
    reading = live(Want.LIVE)
    with pytest.raises(BadRequest, match="events") as caught:
        reading.opened(200, {"content-type": "text/html"}, now=0.0)
    assert reading.refused(caught.value)


def test_an_empty_offset_is_refused() -> None:
    with pytest.raises(BadOption, match="offset"):
        Reading(URL, "", Want.CATCH_UP)
