"""The request and response types every handler is written against.

Handlers know nothing of sockets, parsers or event-loop transports: they get a `Request`, which is
complete (its body is in memory and within the limits), and a `Reply`, through which they answer
once. A handler may answer before it returns, later from a callback, or from a coroutine it spawns.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Final, Protocol

# Any of these twice means that two readers of the request could disagree about it.
_SINGLE: Final = frozenset(
    (
        b"host",
        b"content-length",
        b"content-type",
        b"content-encoding",
        b"transfer-encoding",
        b"authorization",
        b"expect",
        b"origin",
    )
)
_SINGLE_PREFIXES: Final = (b"producer-", b"stream-")


def is_single(name: bytes) -> bool:
    """Tell whether a request header, by its lower-case name, may come only once."""
    return name in _SINGLE or name.startswith(_SINGLE_PREFIXES)


Headers = Sequence[tuple[bytes, bytes]]
"""Response headers in the order they are sent; names in lower case."""


class Request:
    """One complete request. Immutable by convention; may be kept after the answer."""

    __slots__ = ("body", "has_query", "headers", "method", "path", "peer", "query", "scheme")

    def __init__(
        self,
        method: str,
        path: bytes,
        headers: dict[bytes, bytes],
        body: bytes = b"",
        query: bytes | None = None,
        peer: str = "",
    ) -> None:
        """Make a request; `query` None means that the target had no question mark."""
        self.method = method
        """Upper-case method name."""
        self.path = path
        """The path as sent: raw, undecoded, without the query. Starts with a slash
        (or is ``*`` for OPTIONS)."""
        self.has_query = query is not None
        """Whether the target had a question mark at all, even with nothing after it."""
        self.query = query or b""
        """Everything after the first question mark, raw."""
        self.headers = headers
        """Lower-case names; values without surrounding white space; repeated names joined by
        ``, ``. Names that must not repeat never do: the edge refuses them."""
        self.body = body
        """The whole body; empty when there was none."""
        self.scheme = "http"
        """``http`` or ``https``."""
        self.peer = peer
        """Address of the other end, for logs and limits; may be empty."""

    @property
    def host(self) -> str:
        """The Host header as text, port included; empty only for HTTP/1.0 without one."""
        return self.headers.get(b"host", b"").decode("ascii", "replace")

    def header(self, name: bytes) -> bytes | None:
        """Return the value of a header by its lower-case name, or None."""
        return self.headers.get(name)

    def base_url(self, public_url: str | None) -> str:
        """Return the URL prefix clients reach this server at, without a trailing slash."""
        return base_url_of(self.scheme, self.headers, public_url)


def base_url_of(scheme: str, headers: Mapping[bytes, bytes], public_url: str | None) -> str:
    """Return the URL prefix that a request with these headers came to."""
    if public_url:
        return public_url.rstrip("/")
    host = headers.get(b"host", b"").decode("ascii", "replace")
    return f"{scheme}://{host or 'localhost'}"


class Response:
    """A complete answer.

    The edge adds date, content-length, connection and the security headers; give none of them.
    A body is never sent with 204, 304 or in answer to HEAD. An answer to HEAD has a content-length
    only if `headers` says one: only the handler knows what GET would have sent.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(
        self, status: int, headers: Headers = (), body: bytes | Sequence[bytes] = b""
    ) -> None:
        """Make an answer; a `body` that is a sequence of parts is written without joining."""
        self.status = status
        self.headers = headers
        self.body = body


class Sink(Protocol):
    """Where a streaming body goes. Writing after the client left, or after close, does nothing."""

    @property
    def buffered(self) -> int:
        """Bytes written but not yet taken by the kernel."""

    @property
    def is_paused(self) -> bool:
        """Whether the client reads too slowly: stop writing until the drain callback comes."""

    def write(self, data: bytes) -> None:
        """Send some bytes; never blocks and never refuses, so watch `is_paused`."""

    def close(self) -> None:
        """End the body properly. Further calls do nothing."""

    def on_drain(self, callback: Callable[[], None]) -> None:
        """Call back each time the client caught up after a pause (replaces an earlier one)."""

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call back once if the client goes away before `close`; at once if it has gone."""


class Reply(Protocol):
    """The way to answer one request. Answering a client that has gone does nothing."""

    @property
    def is_disconnected(self) -> bool:
        """Whether the client has gone, so that nobody would read an answer."""

    def send(self, response: Response) -> None:
        """Answer. Exactly one `send` or `start` per request; a second one raises."""

    def start(self, status: int, headers: Headers) -> Sink:
        """Answer with a body that is written bit by bit: chunked, or until close for HTTP/1.0."""

    def spawn(self, coro: Coroutine[object, object, None]) -> None:
        """Run an async handler for this request.

        It is cancelled when the client leaves. If it raises, or ends without an answer, the
        client gets a 500 problem document and the log a traceback.
        """

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call back once if the client goes away unanswered; at once if it has gone."""


Handler = Callable[[Request, Reply], None]
"""What a route is bound to."""
