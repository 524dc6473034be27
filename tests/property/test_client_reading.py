"""The client's reader against any network: each message exactly once and in order.

The events are framed by the server's own code, cut at any byte and split into any chunks; pages
are lost; and now and then the reader dies and another goes on at the offset it had reached.
"""

import json

from hypothesis import given
from hypothesis import strategies as st

from millstream.client.core.answers import Answer
from millstream.client.core.reading import Batch, Reading, Want
from millstream.client.core.requests import Live, Request
from millstream.client.core.sse import Event, EventParser
from millstream.wire import sse

URL = "http://h.test/a"
EVENTS = {"content-type": "text/event-stream"}
TEXT = st.text(st.sampled_from("ab \n\u2028\x85ü:"), min_size=1, max_size=6)
# What a field may hold: anything but the two characters that end lines.
LINE = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=20)


def chunks_of(data: bytes, draw: st.DataObject) -> list[bytes]:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6), label="cuts"))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@given(
    lines=st.lists(st.tuples(st.sampled_from(["data", "event", "id", ""]), LINE), max_size=12),
    ends=st.lists(st.sampled_from(["\n", "\r", "\r\n"]), min_size=1, max_size=4),
    data=st.data(),
)
def test_any_cutting_gives_the_same_events(
    lines: list[tuple[str, str]], ends: list[str], data: st.DataObject
) -> None:
    fields = [f"{name}: {value}" if name else "" for name, value in lines] + ["data: last", ""]
    text = ""
    for number, field in enumerate(fields):
        end = ends[number % len(ends)]
        # An empty line that ends in LF, behind a CR, would be the second half of a CRLF.
        text += field + ("\r" if text.endswith("\r") and not field and end == "\n" else end)
    expected: list[Event] = []
    kind, parts = "message", list[str]()
    for name, value in [*lines, ("data", "last"), ("", "")]:
        if name == "data":
            parts.append(value)
        elif name == "event":
            kind = value or "message"
        elif not name:
            expected += [Event(kind, "\n".join(parts).encode())] if parts else []
            kind, parts = "message", []
    parser = EventParser()
    found = [event for chunk in chunks_of(text.encode(), data) for event in parser.feed(chunk)]
    assert found == expected
    bytewise = EventParser()
    assert [e for byte in text.encode() for e in bytewise.feed(bytes([byte]))] == expected


class World:
    """A stream that grows while it is read, over a network that cuts what it likes."""

    def __init__(self, kind: str, messages: list[bytes], data: st.DataObject) -> None:
        self.kind = kind
        self.messages = messages
        self.data = data
        self.stored = 0
        self.grow()
        self.now = 0.0

    def less(self, most: int, least: int, label: str) -> int:
        """Draw a number, the largest being the simplest: then the reader is soon done."""
        return most - self.data.draw(st.integers(0, most - least), label=label)

    def grow(self) -> None:
        self.stored = self.less(len(self.messages), self.stored, "not yet stored")

    def at(self, offset: str) -> int:
        return 0 if offset == "-1" else int(offset.partition("_")[2])

    def page(self, request: Request) -> Answer:
        start = self.at(request.query["offset"])
        stop = self.less(self.stored, min(start + 1, self.stored), "left for later")
        headers = {"content-type": self.kind, "stream-next-offset": f"0_{stop}"}
        if stop == self.stored:
            headers["stream-up-to-date"] = "true"
        if stop == len(self.messages):
            headers["stream-closed"] = "true"
        if start == stop and request.live is not None:
            return Answer(204, headers)
        return Answer(200, headers, self.joined(self.messages[start:stop]))

    def joined(self, messages: list[bytes]) -> bytes:
        is_json = self.kind == "application/json"
        return b"[" + b",".join(messages) + b"]" if is_json else b"".join(messages)

    def events(self, request: Request) -> bytes:
        start, text = self.at(request.query["offset"]), b""
        while True:
            self.grow()
            stop = self.less(self.stored, start, "left for later")
            part = self.messages[start:stop]
            if part:
                text += self.framed(part)
            is_end = stop == len(self.messages)
            text += sse.control_event(
                f"0_{stop}", 7, is_current=stop == self.stored, is_closed=is_end
            )
            start = stop
            if is_end or self.data.draw(st.sampled_from([True, False, False]), label="ends"):
                return text

    def framed(self, part: list[bytes]) -> bytes:
        if self.kind == "application/json":
            return sse.json_event(part)
        return sse.text_event(part) if self.kind == "text/plain" else sse.base64_event(part)


def step(reading: Reading, world: World) -> None:
    """Do what a driver does for one request, with a network that may cut it anywhere."""
    request = reading.ask()
    is_cut = world.data.draw(st.sampled_from([False, False, True]), label="cut")
    if request.live is not Live.SSE:
        world.grow()
        answer = world.page(request)
        if not is_cut:
            reading.answered(answer)
        return
    headers = dict(EVENTS)
    if world.kind == "application/octet-stream":
        headers["stream-sse-data-encoding"] = "base64"
    text = world.events(request)
    if is_cut:
        text = text[: world.data.draw(st.integers(0, len(text)), label="cut at")]
    reading.opened(200, headers, world.now)
    for chunk in chunks_of(text, world.data):
        reading.received(chunk)
    world.now += world.data.draw(st.sampled_from([0.5, 5.0]), label="lasted")
    reading.ended(world.now, 0.5)


def taken(reading: Reading, count: int = 1000) -> list[Batch]:
    batches = (reading.take() for _ in range(count))
    return [batch for batch in batches if batch is not None]


@given(
    want=st.sampled_from([Want.LIVE, Want.SSE, Want.LONG_POLL]),
    kind=st.sampled_from(["application/json", "text/plain", "application/octet-stream"]),
    texts=st.lists(TEXT, min_size=3, max_size=12),
    data=st.data(),
)
def test_whatever_is_cut_each_message_arrives_once_and_in_order(
    want: Want, kind: str, texts: list[str], data: st.DataObject
) -> None:
    is_json = kind == "application/json"
    messages = [json.dumps(text).encode() if is_json else text.encode() for text in texts]
    world = World(kind, messages, data)
    reading = Reading(URL, "-1", want, kind)
    batches: list[Batch] = []
    for _ in range(60):
        step(reading, world)
        batches += taken(
            reading, data.draw(st.sampled_from([1000, 0, 0, 1]), label="batches taken")
        )
        if data.draw(st.integers(0, 9), label="reader dies") == 9 and not reading.is_done:
            reading = Reading(URL, reading.offset, want, kind)
        if reading.has_all:
            break
    # Unlucky draws may never let the end through; what came must be right all the same.
    batches += taken(reading)
    position = world.at(reading.offset)
    if is_json:
        assert [value for batch in batches for value in batch.items()] == texts[:position]
    else:
        assert b"".join(batch.data for batch in batches) == b"".join(messages[:position])
    assert not reading.is_done or position == len(messages)
