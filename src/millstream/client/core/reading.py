"""One reader as a machine: what to ask next, what an answer means, and where to go on.

Two positions make reading free of gaps and repeats. ``_position`` is behind what has *arrived
whole* (a page, or SSE data together with its control event) and is what the next request asks
for. ``offset`` is behind what was *handed out* by `take`, and is what a caller may store. Data
whose position never arrived is dropped and asked for again.

    catch up ──up to date──▶ long-poll ⟲   or   SSE ⟲ ──cut short three times──▶ long-poll
"""

from __future__ import annotations

import binascii
import enum
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from millstream.client.core import bodies, requests
from millstream.client.core.answers import Answer
from millstream.client.core.requests import Live, Request
from millstream.client.core.sse import Event, EventParser
from millstream.client.errors import BadOption, BadRequest, ClientError, FixError, ParseError

# An SSE connection that ends sooner than this was cut short, by a proxy most likely.
SHORT_S: Final = 1.0
SHORT_CONNECTIONS_MAX: Final = 3
SHORT_DELAY_S: Final = 0.1
SHORT_DELAY_S_MAX: Final = 5.0


class Want(enum.Enum):
    """How the caller wants to read."""

    CATCH_UP = False
    LIVE = True
    LONG_POLL = "long-poll"
    SSE = "sse"


class Batch(msgspec.Struct, frozen=True):
    """Messages that arrived together, and the position behind them.

    ``data`` is their joined bytes; of a JSON stream, an array of them. ``is_up_to_date`` tells
    that it reached the tail at that moment, ``is_closed`` that nothing will ever follow.
    """

    data: bytes
    offset: str
    is_up_to_date: bool = False
    is_closed: bool = False
    cursor: str | None = None
    is_empty: bool = False
    url: str = ""

    def items(self) -> list[Any]:
        """Return the values of a JSON batch. Raises ParseError if it is no JSON."""
        return bodies.values(self.data, self.url)


class _Control(msgspec.Struct, frozen=True, rename="camel"):
    """The control event of SSE."""

    stream_next_offset: str
    stream_cursor: str | None = None
    up_to_date: bool = False
    stream_closed: bool = False


_CONTROL: Final = msgspec.json.Decoder(_Control)


class Reading:
    """The state of one reader. Time is handed in, in seconds; nothing here waits.

    Ask: `ask` gives the request. A page: `answered`. An SSE connection: `opened`, `received` for
    every chunk, `ended`. A refusal: `refused`. Then `take` until it gives None.
    """

    def __init__(self, url: str, offset: str, want: Want, content_type: str | None = None) -> None:
        if not offset:
            raise BadOption("offset must not be empty")
        self.url = url
        self.offset = offset
        self.is_up_to_date = False
        self.is_closed = False
        self.status: int | None = None
        self.content_type = content_type
        self.cursor: str | None = None
        self._want = want
        self._position = offset
        self._is_live = want is not Want.CATCH_UP and offset == requests.NOW
        self._has_all = False
        self._waiting: deque[Batch] = deque()
        self._is_sse = want in {Want.LIVE, Want.SSE}
        self._parser = EventParser()
        self._parts: list[bytes] = []
        self._is_base64 = False
        self._opened_at = 0.0
        self._short_count = 0

    @property
    def position(self) -> str:
        """Where the next request starts: behind everything that arrived."""
        return self._position

    @property
    def is_json(self) -> bool:
        """Whether the stream is known to hold JSON values."""
        return bodies.is_json(self.content_type)

    @property
    def has_all(self) -> bool:
        """Whether nothing more needs to be asked for."""
        return self._has_all

    @property
    def is_done(self) -> bool:
        """Whether nothing more will ever be handed out."""
        return self._has_all and not self._waiting

    @property
    def live(self) -> Live | None:
        """How the next request waits, None for a page that is answered at once."""
        if not self._is_live:
            return None
        return Live.SSE if self._is_sse else Live.LONG_POLL

    def ask(self) -> Request:
        """Return the request to send next."""
        return requests.read(self.url, self._position, live=self.live, cursor=self.cursor)

    def take(self) -> Batch | None:
        """Hand out the next batch and move ``offset`` behind it; None if there is none now."""
        batch = self.peek()
        if batch is not None:
            self._waiting.popleft()
            self.offset = batch.offset
            self.is_up_to_date = batch.is_up_to_date
            self.is_closed = batch.is_closed
        return batch

    def peek(self) -> Batch | None:
        """Return what `take` would hand out, without doing so."""
        return self._waiting[0] if self._waiting else None

    def answered(self, answer: Answer) -> None:
        """Take in a page. Raises ParseError, with nothing changed, if it is damaged."""
        self.status = answer.status
        if answer.content_type is not None and answer.status != 204:
            self.content_type = answer.content_type
        offset = answer.next_offset
        if offset is None:
            raise ParseError("the answer has no Stream-Next-Offset", url=self.url)
        # A page without data that leads nowhere is the tail, whatever its headers say.
        is_stuck = not answer.body and offset == self._position
        self._arrived(
            answer.body if answer.status != 204 else b"",
            _Control(
                stream_next_offset=offset,
                stream_cursor=answer.cursor,
                up_to_date=answer.is_up_to_date or answer.status == 204 or is_stuck,
                stream_closed=answer.is_closed,
            ),
        )

    def opened(self, status: int, headers: Mapping[str, str], now: float) -> None:
        """Take in the head of an SSE answer. Raises BadRequest if it is something else."""
        self.status = status
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "text/event-stream":
            raise BadRequest("the server does not answer with events", url=self.url, status=status)
        self._parser = EventParser()
        self._parts = []
        self._is_base64 = headers.get("stream-sse-data-encoding", "").lower() == "base64"
        self._opened_at = now

    def received(self, chunk: bytes) -> None:
        """Take in a part of an SSE answer. Raises ParseError if it breaks the protocol."""
        for event in self._parser.feed(chunk):
            if event.kind == "data":
                self._parts.append(self._decoded(event))
            elif event.kind == "control":
                data = self._joined(self._parts)
                self._parts = []
                self._arrived(data, self._control(event))

    def ended(self, now: float, draw: float) -> float:
        """The SSE connection is over, however it ended. Return how long to wait before the next.

        Three short connections in a row make an automatic reader change to long-poll; one that
        wants SSE and nothing else waits longer each time.
        """
        self._parts = []
        if self._has_all or now - self._opened_at >= SHORT_S:
            self._short_count = 0
            return 0.0
        self._short_count += 1
        if self._want is Want.LIVE and self._short_count >= SHORT_CONNECTIONS_MAX:
            self._is_sse = False
            return 0.0
        return draw * min(SHORT_DELAY_S * 2.0 ** min(self._short_count, 10), SHORT_DELAY_S_MAX)

    def refused(self, error: ClientError) -> bool:
        """Tell whether there is another way to read; an automatic reader can do without SSE."""
        can_poll = self.live is Live.SSE and self._want is Want.LIVE
        is_about_sse = isinstance(error, FixError) or error.status == 501
        if can_poll and is_about_sse:
            self._is_sse = False
            return True
        return False

    def _arrived(self, data: bytes, control: _Control) -> None:
        is_empty = bodies.is_blank(data) if self.is_json else not data
        if self.is_json and not is_empty:
            bodies.check(data, self.url)
        is_closed = control.stream_closed
        self._waiting.append(
            Batch(
                data=b"" if is_empty else data,
                offset=control.stream_next_offset,
                is_up_to_date=control.up_to_date or is_closed,
                is_closed=is_closed,
                cursor=control.stream_cursor,
                is_empty=is_empty,
                url=self.url,
            )
        )
        self._position = control.stream_next_offset
        self.cursor = control.stream_cursor or self.cursor
        if is_closed:
            self._has_all = True
        elif control.up_to_date and not self._is_live:
            self._has_all = self._want is Want.CATCH_UP
            self._is_live = not self._has_all

    def _decoded(self, event: Event) -> bytes:
        if not self._is_base64:
            return event.data
        try:
            return binascii.a2b_base64(event.data.translate(None, b"\r\n"), strict_mode=True)
        except binascii.Error:
            raise ParseError("an event is not valid base64", url=self.url) from None

    def _joined(self, parts: list[bytes]) -> bytes:
        if len(parts) < 2:
            return parts[0] if parts else b""
        return bodies.joined(parts, self.url) if self.is_json else b"".join(parts)

    def _control(self, event: Event) -> _Control:
        try:
            return _CONTROL.decode(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ParseError("a control event is not valid JSON", url=self.url) from None
