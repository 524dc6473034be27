"""The blocking reader: the asynchronous one, driven through the portal."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from millstream.client.aio.reader import Reader as AsyncReader
from millstream.client.core.reading import Batch
from millstream.client.core.requests import Live
from millstream.client.errors import ClientClosed
from millstream.client.sync.portal import Portal

T = TypeVar("T")
Data = bytes


class Reader:
    """Reads one stream from an offset on; made by `Stream.read`. See the asynchronous `Reader`.

    One thread at a time reads; any thread may `close` it, which ends a read that waits.
    """

    def __init__(self, portal: Portal, reader: AsyncReader) -> None:
        self._portal = portal
        self._reader = reader
        self._pending: concurrent.futures.Future[Any] | None = None

    @property
    def url(self) -> str:
        """The stream's URL."""
        return self._reader.url

    @property
    def offset(self) -> str:
        """The position behind everything that was handed out."""
        return self._reader.offset

    @property
    def is_up_to_date(self) -> bool:
        """Whether what was handed out reached the tail at that moment."""
        return self._reader.is_up_to_date

    @property
    def is_closed(self) -> bool:
        """Whether what was handed out is all there will ever be."""
        return self._reader.is_closed

    @property
    def cursor(self) -> str | None:
        """The server's last cursor, for caches."""
        return self._reader.cursor

    @property
    def status(self) -> int | None:
        """Status of the last answer."""
        return self._reader.status

    @property
    def content_type(self) -> str | None:
        """The stream's content type, as soon as it is known."""
        return self._reader.content_type

    @property
    def live(self) -> Live | None:
        """How it waits for more at present; None while it catches up."""
        return self._reader.live

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        batch = self.next_batch()
        if batch is None:
            raise StopIteration
        return batch

    def next_batch(self) -> Batch | None:
        """Return the next batch, waiting for it; None at the end."""
        return self._wait(self._reader.next_batch())

    def items(self) -> Iterator[Any]:
        """Give the values of a JSON stream one by one. Leaving and coming back loses none."""
        while self._wait(self._reader.load_items()):
            # The loop does not touch the reader while no call waits, so these need no crossing.
            yield from self._reader.loaded_items()

    def texts(self) -> Iterator[str]:
        """Give each batch as text. A character cut in two by a batch comes with the second."""
        return self._portal.iterate(self._reader.texts())

    def bytes(self) -> Data:
        """Return everything up to the tail as bytes; of a JSON stream, one array."""
        return self._wait(self._reader.bytes())

    def text(self) -> str:
        """Return everything up to the tail as text; what is no UTF-8 is replaced."""
        return self._wait(self._reader.text())

    def json(self) -> list[Any]:
        """Return the values of everything up to the tail."""
        return self._wait(self._reader.json())

    def close(self) -> None:
        """Drop the connection and end a read that waits in another thread. Safe to repeat."""
        pending = self._pending
        if pending is not None:
            pending.cancel()
        try:
            self._portal.run(self._reader.close())
        except ClientClosed:
            # The client went first and has dropped every connection.
            return

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._pending = future = self._portal.submit(coroutine)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClientClosed("the reader was closed while it waited", url=self.url) from None
        except BaseException:
            future.cancel()
            raise
        finally:
            self._pending = None
