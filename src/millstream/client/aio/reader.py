"""The asyncio reader: moves bytes between the transport and `core.reading`, and owns no task.

It reads only when it is asked, so a consumer that stalls stops the socket and, through it, the
server. A cancelled call drops the connection it waited on; the next call goes on at the same
position, and nothing is lost or repeated.
"""

from __future__ import annotations

import asyncio
import codecs
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Self

from millstream.client.aio.calls import Caller
from millstream.client.aio.transport import Streaming
from millstream.client.core import bodies, requests
from millstream.client.core.answers import refusal
from millstream.client.core.backoff import Backoff
from millstream.client.core.reading import Batch, Reading
from millstream.client.core.requests import Live
from millstream.client.errors import BadOption, ClientClosed, ClientError
from millstream.client.hooks import notify
from millstream.core import media

Data = bytes


class Reader:
    """Reads one stream from an offset on; made by `Stream.read`.

    Iterate over it for batches, over `items` for JSON values or over `texts` for text; or collect
    everything up to the tail with `bytes`, `text` or `json`. One task at a time.

    A failure that passes is waited out as the client's `Retry` says, counted from the last data.
    Anything else is raised, and raised again by later calls; ``offset`` then says where a new
    reader can go on.
    """

    def __init__(
        self,
        caller: Caller,
        reading: Reading,
        *,
        with_empty: bool = False,
        learn_type: Callable[[str], None] | None = None,
    ) -> None:
        self._caller = caller
        self._reading = reading
        self._with_empty = with_empty
        self._learn_type = learn_type
        self._backoff = Backoff(caller.retry, time.monotonic())
        self._streaming: Streaming | None = None
        self._values: deque[Any] = deque()
        self._failed: ClientError | None = None
        self._is_closed = False

    @property
    def url(self) -> str:
        """The stream's URL."""
        return self._reading.url

    @property
    def offset(self) -> str:
        """The position behind everything that was handed out: where another reader can go on.

        While the values of a batch are handed out one by one, it moves with the last of them.
        """
        return self._reading.offset

    @property
    def is_up_to_date(self) -> bool:
        """Whether what was handed out reached the tail at that moment."""
        return self._reading.is_up_to_date

    @property
    def is_closed(self) -> bool:
        """Whether what was handed out is all there will ever be."""
        return self._reading.is_closed

    @property
    def cursor(self) -> str | None:
        """The server's last cursor, for caches."""
        return self._reading.cursor

    @property
    def status(self) -> int | None:
        """Status of the last answer."""
        return self._reading.status

    @property
    def content_type(self) -> str | None:
        """The stream's content type, as soon as it is known."""
        return self._reading.content_type

    @property
    def live(self) -> Live | None:
        """How it waits for more at present; None while it catches up."""
        return self._reading.live

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        batch = await self.next_batch()
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def next_batch(self) -> Batch | None:
        """Return the next batch, waiting for it; None at the end."""
        return self._reading.take() if await self._ready(with_empty=self._with_empty) else None

    async def items(self) -> AsyncIterator[Any]:
        """Give the values of a JSON stream one by one. Leaving and coming back loses none."""
        while await self.load_items():
            for value in self.loaded_items():
                yield value

    async def load_items(self) -> bool:
        """Wait until `loaded_items` has something to give; False at the end."""
        if not self._values:
            batch = await self._ready(with_empty=False)
            if batch is None:
                return False
            self._values.extend(batch.items())
        return True

    def loaded_items(self) -> Iterator[Any]:
        """Give the values that are there, without waiting."""
        while self._values:
            value = self._values.popleft()
            if not self._values:
                self._reading.take()
            yield value

    async def texts(self) -> AsyncIterator[str]:
        """Give each batch as text. A character cut in two by a batch comes with the second."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while (batch := await self.next_batch()) is not None:
            if text := decoder.decode(batch.data):
                yield text
        if rest := decoder.decode(b"", final=True):
            yield rest

    async def bytes(self) -> Data:
        """Return everything up to the tail as bytes; of a JSON stream, one array."""
        parts = [batch.data async for batch in self._up_to_date() if not batch.is_empty]
        return bodies.joined(parts, self.url) if self._reading.is_json else b"".join(parts)

    async def text(self) -> str:
        """Return everything up to the tail as text; what is no UTF-8 is replaced."""
        return (await self.bytes()).decode("utf-8", "replace")

    async def json(self) -> list[Any]:
        """Return the values of everything up to the tail."""
        found: list[Any] = []
        async for batch in self._up_to_date():
            found += batch.items()
        return found

    async def close(self) -> None:
        """Drop the connection, if there is one; later calls raise ClientClosed. Safe to repeat."""
        self._is_closed = True
        self._drop()

    async def _up_to_date(self) -> AsyncIterator[Batch]:
        while await self._ready(with_empty=True):
            batch = self._reading.take()
            assert batch is not None
            yield batch
            if batch.is_up_to_date:
                return

    async def _ready(self, *, with_empty: bool) -> Batch | None:
        """Wait until there is a batch to hand out and return it; None at the end."""
        if self._values:
            raise BadOption("some items of a batch are not taken yet; finish items() first")
        reading = self._reading
        while True:
            while (batch := reading.peek()) is not None:
                if with_empty or not batch.is_empty:
                    return batch
                reading.take()
            if self._failed is not None:
                raise self._failed
            if reading.is_done:
                return None
            if self._is_closed:
                raise ClientClosed("the reader is closed", url=reading.url)
            await self._advance()

    async def _advance(self) -> None:
        try:
            if self._streaming is not None:
                await self._receive(self._streaming)
            elif self._reading.live is Live.SSE:
                await self._connect()
            else:
                await self._ask()
        except ClientError as error:
            if self._is_closed:
                raise ClientClosed("the reader is closed", url=self._reading.url) from None
            await self._recover(error)
        except BaseException:
            # Cancelled: whatever was on its way stays on the server.
            self._drop()
            raise

    async def _ask(self) -> None:
        request = self._reading.ask()
        answer = await self._caller.once(request, self._backoff.attempt)
        error = refusal(request, answer)
        if error is not None:
            raise error
        self._reading.answered(answer)
        self._backoff.succeeded(time.monotonic())
        if answer.status != 204:
            self._learned(answer.content_type)

    async def _connect(self) -> None:
        if self._reading.content_type is None:
            # Events do not tell it, and it decides how they are joined and checked.
            head = await self._caller.run(requests.head(self._reading.url))
            self._learned(head.content_type)
        streaming = await self._caller.open(self._reading.ask(), self._backoff.attempt)
        self._streaming = streaming
        self._reading.opened(streaming.status, streaming.headers, time.monotonic())

    def _learned(self, content_type: str | None) -> None:
        self._reading.content_type = content_type or media.OCTETS
        if self._learn_type is not None and content_type is not None:
            self._learn_type(content_type)

    async def _receive(self, streaming: Streaming) -> None:
        chunk = await streaming.chunk()
        if not chunk:
            await self._reconnect(None, self._drop())
            return
        self._reading.received(chunk)
        if self._reading.peek() is not None:
            self._backoff.succeeded(time.monotonic())
        if self._reading.has_all:
            self._drop()

    async def _recover(self, error: ClientError) -> None:
        """Wait and go on, or keep the error for when all that arrived is handed out."""
        short_s = self._drop()
        if self._reading.refused(error):
            await self._reconnect(error, 0.0)
            return
        delay_s = self._caller.delay_s(self._backoff, error)
        if delay_s is None:
            self._failed = error
            return
        await self._reconnect(error, max(delay_s, short_s))

    async def _reconnect(self, error: ClientError | None, delay_s: float) -> None:
        notify(self._caller.hooks.on_reconnect, self._reading.url, self._reading.position, error)
        if delay_s:
            await asyncio.sleep(delay_s)

    def _drop(self) -> float:
        """Let go of the connection; return how long a new one should wait."""
        streaming, self._streaming = self._streaming, None
        if streaming is None:
            return 0.0
        streaming.close()
        return self._reading.ended(time.monotonic(), self._caller.draw())
