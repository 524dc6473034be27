"""The blocking handle of a stream: the asynchronous one, driven through the portal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from millstream.client.aio.stream import LiveMode, ProducerFields
from millstream.client.aio.stream import Stream as AsyncStream
from millstream.client.core import requests
from millstream.client.core.results import Appended, Closed, Created, Head
from millstream.client.sync.portal import Portal
from millstream.client.sync.producer import Producer
from millstream.client.sync.reader import Reader


class Stream:
    """One stream by its URL; made by `Client.stream`. See the asynchronous `Stream`."""

    def __init__(self, portal: Portal, stream: AsyncStream) -> None:
        self._portal = portal
        self._stream = stream

    @property
    def url(self) -> str:
        """The stream's URL."""
        return self._stream.url

    @property
    def content_type(self) -> str | None:
        """The stream's content type, as soon as some answer has told it."""
        return self._stream.content_type

    def create(  # noqa: PLR0913 - the headers of the protocol, each by its name
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
        """Create the stream, or confirm that just such a stream is there."""
        return self._portal.run(
            self._stream.create(
                content_type,
                ttl_s=ttl_s,
                expires_at=expires_at,
                closed=closed,
                body=body,
                fork_from=fork_from,
                fork_offset=fork_offset,
                fork_sub_offset=fork_sub_offset,
            )
        )

    def fork(
        self,
        name: str,
        *,
        offset: str | None = None,
        sub_offset: int | None = None,
        ttl_s: int | None = None,
        expires_at: str | None = None,
    ) -> Stream:
        """Create a fork of this stream, at its tail unless told otherwise; return its handle."""
        forked = self._stream.fork(
            name, offset=offset, sub_offset=sub_offset, ttl_s=ttl_s, expires_at=expires_at
        )
        return Stream(self._portal, self._portal.run(forked))

    def connect(self) -> Head:
        """Make sure that the stream is there. Raises NotFound."""
        return self._portal.run(self._stream.connect())

    def head(self) -> Head:
        """Return what the stream is and where its tail is now. Raises NotFound."""
        return self._portal.run(self._stream.head())

    def append(
        self,
        message: Any,
        *,
        seq: str | None = None,
        if_match: str | None = None,
        content_type: str | None = None,
        retry_unsafe: bool = False,
    ) -> Appended:
        """Append one message. It is durable on return."""
        return self._portal.run(
            self._stream.append(
                message,
                seq=seq,
                if_match=if_match,
                content_type=content_type,
                retry_unsafe=retry_unsafe,
            )
        )

    def append_many(self, messages: Iterable[Any], *, content_type: str | None = None) -> Appended:
        """Append messages in one request: all of them or none. At least one."""
        # The caller's iterable is the caller's code: it runs on the caller's thread.
        many = list(messages)
        return self._portal.run(self._stream.append_many(many, content_type=content_type))

    def close(self, message: Any = None, *, content_type: str | None = None) -> Closed:
        """Close the stream for ever, behind a last message if there is one, in one step."""
        return self._portal.run(self._stream.close(message, content_type=content_type))

    def delete(self) -> None:
        """Delete the stream. Raises NotFound if there is none."""
        self._portal.run(self._stream.delete())

    def read(
        self, offset: str = requests.START, *, live: LiveMode = False, with_empty: bool = False
    ) -> Reader:
        """Return a reader from ``offset`` on; see the asynchronous `Stream.read`."""
        return Reader(self._portal, self._stream.read(offset, live=live, with_empty=with_empty))

    def producer(self, producer_id: str, **options: Unpack[ProducerFields]) -> Producer:
        """Return a producer: exactly-once appends in batches. See `ProducerOptions`."""
        return Producer(self._portal, self._stream, producer_id, **options)
