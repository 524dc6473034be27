"""The handle of one stream: every verb of the protocol as a call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypedDict, Unpack
from urllib.parse import urlsplit

from millstream.client.aio.calls import Caller
from millstream.client.aio.producer import Producer
from millstream.client.aio.reader import Reader
from millstream.client.core import encoding, requests, results
from millstream.client.core.reading import Reading, Want
from millstream.client.core.requests import Creation
from millstream.client.core.results import Appended, Closed, Created, Head
from millstream.client.errors import BadMessage, BadOption
from millstream.client.options import Retry
from millstream.client.producing_options import Epoch, ProducerOptions
from millstream.core import media

LiveMode = Literal["long-poll", "sse"] | bool


class ProducerFields(TypedDict, total=False):
    """The options of a producer as keyword arguments; see `ProducerOptions`."""

    epoch: Epoch
    max_batch_bytes: int
    max_batch_messages: int
    linger_ms: float
    max_in_flight: int
    max_buffered_bytes: int
    max_message_bytes: int | None
    delivery_timeout_s: float
    retry: Retry


class Address:
    """Where streams of one client live; resolves names."""

    __slots__ = ("root", "server")

    def __init__(self, server: str, root: str) -> None:
        self.server = server
        self.root = root

    def url_of(self, name: str) -> str:
        """Return the URL of a stream by name; a full URL is taken as it is."""
        return requests.url_of(self.server, self.root, name)

    def path_of(self, name: str) -> str:
        """Return the URL path of a stream, the way a fork names its source."""
        return urlsplit(self.url_of(name)).path


class Stream:
    """One stream by its URL; made by `Client.stream`. It holds no connection and needs no closing.

    Calls that cannot do harm twice are retried as the client's `Retry` says. ``append`` and a
    ``close`` with a message are retried only if the failed try certainly had no effect; pass
    ``retry_unsafe=True`` to accept duplicates, or use a `producer`, which never makes any.
    """

    def __init__(
        self, caller: Caller, url: str, *, address: Address, content_type: str | None = None
    ) -> None:
        self.calls = caller
        self.url = url
        self._address = address
        self._content_type = content_type

    @property
    def content_type(self) -> str | None:
        """The stream's content type, as soon as some answer has told it."""
        return self._content_type

    async def create(  # noqa: PLR0913 - the headers of the protocol, each by its name
        self,
        content_type: str | None = None,
        *,
        ttl_s: int | None = None,
        expires_at: str | None = None,
        closed: bool = False,
        body: Any = None,
        fork_from: str | None = None,
        fork_offset: str | None = None,
        fork_sub_offset: int | None = None,
    ) -> Created:
        """Create the stream, or confirm that just such a stream is there.

        Without a content type a fork has its source's, and another stream
        ``application/octet-stream``. ``body`` is the first message. Raises CreateConflict.
        """
        kind = content_type or (None if fork_from else self._content_type or media.OCTETS)
        creation = Creation(
            content_type=kind,
            ttl_s=ttl_s,
            expires_at=expires_at,
            is_closed=closed,
            body=b"" if body is None else _body([body], kind or media.OCTETS),
            fork_from=None if fork_from is None else self._address.path_of(fork_from),
            fork_offset=fork_offset,
            fork_sub_offset=fork_sub_offset,
        )
        answer = await self.calls.run(requests.create(self.url, creation))
        created = results.created(self.url, answer)
        self._content_type = created.content_type or kind
        return created

    async def fork(
        self,
        name: str,
        *,
        offset: str | None = None,
        sub_offset: int | None = None,
        ttl_s: int | None = None,
        expires_at: str | None = None,
    ) -> Stream:
        """Create a fork of this stream, at its tail unless told otherwise; return its handle."""
        forked = Stream(self.calls, self._address.url_of(name), address=self._address)
        await forked.create(
            fork_from=self.url,
            fork_offset=offset,
            fork_sub_offset=sub_offset,
            ttl_s=ttl_s,
            expires_at=expires_at,
        )
        return forked

    async def connect(self) -> Head:
        """Make sure that the stream is there; the same as `head`. Raises NotFound."""
        return await self.head()

    async def head(self) -> Head:
        """Return what the stream is and where its tail is now. Raises NotFound."""
        answer = await self.calls.run(requests.head(self.url))
        head = results.head(self.url, answer)
        self._content_type = head.content_type or self._content_type
        return head

    async def append(
        self,
        message: Any,
        *,
        seq: str | None = None,
        if_match: str | None = None,
        content_type: str | None = None,
        retry_unsafe: bool = False,
    ) -> Appended:
        """Append one message. It is durable on return.

        JSON streams take any value that can be JSON, or `Raw`; others bytes or text. Raises
        SequenceConflict, OffsetConflict (``if_match``), StreamClosed. On NetworkFailed, Timeout
        and Unavailable ``is_uncertain`` tells whether the message may be there nevertheless.
        """
        kind = content_type or await self._known_type()
        request = requests.append(
            self.url, kind, _body([message], kind), seq=seq, if_match=if_match
        )
        answer = await self.calls.run(request, retry_unsafe=retry_unsafe)
        return Appended(offset=results.offset_of(self.url, answer))

    async def append_many(
        self, messages: Iterable[Any], *, content_type: str | None = None
    ) -> Appended:
        """Append messages in one request: all of them or none. At least one."""
        kind = content_type or await self._known_type()
        parts = list(messages)
        if not parts:
            raise BadMessage("there are no messages to append", url=self.url)
        request = requests.append(self.url, kind, _body(parts, kind))
        answer = await self.calls.run(request)
        return Appended(offset=results.offset_of(self.url, answer))

    async def close(self, message: Any = None, *, content_type: str | None = None) -> Closed:
        """Close the stream for ever, behind a last message if there is one, in one step.

        Closing a closed stream without a message changes nothing and is no error.
        """
        body, kind = b"", content_type
        if message is not None:
            kind = kind or await self._known_type()
            body = _body([message], kind)
        answer = await self.calls.run(requests.close(self.url, content_type=kind, body=body))
        return Closed(offset=results.offset_of(self.url, answer))

    async def delete(self) -> None:
        """Delete the stream. Raises NotFound if there is none."""
        await self.calls.run(requests.delete(self.url))
        self._content_type = None

    def read(
        self, offset: str = requests.START, *, live: LiveMode = False, with_empty: bool = False
    ) -> Reader:
        """Return a reader from ``offset`` on (``-1`` the start, ``now`` the tail).

        ``live=False`` ends at the tail of the moment. ``"long-poll"`` and ``"sse"`` catch up, then
        wait for more until the stream is closed; ``True`` is SSE where that works, else long-poll.
        ``with_empty`` also gives batches without data, which tell of positions and closure.
        """
        try:
            want = Want(live)
        except ValueError:
            raise BadOption('live must be False, True, "long-poll" or "sse"') from None
        reading = Reading(self.url, offset, want, self._content_type)
        return Reader(self.calls, reading, with_empty=with_empty, learn_type=self._learn_type)

    def producer(self, producer_id: str, **options: Unpack[ProducerFields]) -> Producer:
        """Return a producer: exactly-once appends in batches. See `ProducerOptions`."""
        return Producer(self, producer_id, ProducerOptions(**options))

    async def _known_type(self) -> str:
        if self._content_type is None:
            await self.head()
        return self._content_type or media.OCTETS

    def _learn_type(self, content_type: str) -> None:
        self._content_type = content_type


def _body(messages: list[Any], content_type: str) -> bytes:
    return encoding.body([encoding.encode(m, content_type) for m in messages], content_type)
