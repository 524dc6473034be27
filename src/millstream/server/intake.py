"""Bytes from one connection in, complete requests out, and nothing outside the limits.

The grammar is httptools' (llhttp in its strict mode: it refuses bare line feeds, folded headers,
control bytes and contradictory framing). What the grammar lets through and we do not is refused
here. This module does no I/O and knows no clock.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpRequestParser,
)

from millstream.server.http import Request, is_single
from millstream.server.refusal import Refusal

IDLE: Final = 0
"""Between requests."""
HEAD: Final = 1
"""Some bytes of a request line or header have come, the blank line has not."""
BODY: Final = 2
"""The header is complete, the body is not."""

PIECE_BYTES: Final = 16 * 1024
"""Feed at most this much at once outside a body, so that limits bite before memory is spent."""

_METHODS: Final = {
    name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
}

# As numbers: looking for bytes in bytes makes and drops an exception each time.
_HASH: Final = ord("#")
_SLASH: Final = ord("/")

_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_ABSOLUTE: Final = re.compile(rb"(?i:https?)://([^/?#]*)(.*)", re.DOTALL)


class IntakeLimits(Protocol):
    """The settings the intake looks at."""

    @property
    def body_bytes_max(self) -> int: ...  # noqa: D102

    @property
    def header_bytes_max(self) -> int: ...  # noqa: D102

    @property
    def header_count_max(self) -> int: ...  # noqa: D102

    @property
    def uri_bytes_max(self) -> int: ...  # noqa: D102


class Receiver(Protocol):
    """Who takes what the intake makes of the bytes."""

    def accept(self, request: Request, is_kept: bool, is_old: bool) -> None:  # noqa: FBT001
        """Take a complete request, told whether more may follow it and whether it is HTTP/1.0."""

    def invite_body(self) -> None:
        """The client waits for ``100 Continue`` before it sends the body."""


class Intake:
    """Assembles the requests of one connection.

    `feed` raises `Refusal`, after which the intake must not be fed again.
    """

    __slots__ = (
        "_body_parts",
        "_fed_bytes",
        "_headers",
        "_host_good",
        "_is_kept",
        "_is_old",
        "_is_upgrade",
        "_limits",
        "_parser",
        "_receiver",
        "_request_headers",
        "_url",
        "body_bytes",
        "is_finished",
        "peer",
        "phase",
    )

    def __init__(self, limits: IntakeLimits, receiver: Receiver, peer: str = "") -> None:
        """Start between requests."""
        self._limits = limits
        self._receiver = receiver
        self._parser = HttpRequestParser(self)
        self.peer = peer
        self.phase = IDLE
        """Where in a request the bytes so far end."""
        self.body_bytes = 0
        """Bytes of the present request's body that are held so far."""
        self.is_finished = False
        """Whether the last request of the connection has come; what follows is ignored."""
        self._host_good = b"\0"
        self._is_upgrade = False
        self._is_old = False
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._request_headers = self._headers
        self._is_kept = True
        # Bytes fed since the last request or piece of a body, so without visible use.
        self._fed_bytes = 0
        self._body_parts: list[bytes] = []

    @property
    def is_between(self) -> bool:
        """Whether not one byte of a next request has come."""
        return self.phase == IDLE and not self._fed_bytes

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next bytes; complete requests go to the receiver before this returns."""
        self._fed_bytes += len(data)
        while True:
            try:
                self._parser.feed_data(data)
            except HttpParserUpgrade as upgrade:
                data = self._without_upgrade() + bytes(data[upgrade.args[0] :])
                continue
            except HttpParserCallbackError as error:
                if isinstance(error.__context__, Refusal):
                    raise error.__context__ from None
                raise
            except HttpParserError as error:
                if not self.is_finished:
                    raise Refusal("bad_request", f"malformed HTTP: {error}.") from None
            break
        if self._fed_bytes or self.phase != IDLE:
            self._check_unfinished()

    def _check_unfinished(self) -> None:
        # The parser keeps an unfinished line to itself: a header, a chunk extension, a trailer.
        # The count may include one piece that belonged to the request before.
        if self.phase == IDLE:
            self.phase = HEAD
        limits = self._limits
        self._check_head_size()
        if self._fed_bytes > limits.header_bytes_max + limits.uri_bytes_max + PIECE_BYTES:
            self._refuse_head()

    def _check_head_size(self) -> None:
        headers = self._headers
        if len(headers) > self._limits.header_count_max:
            raise Refusal(
                "headers_too_large",
                f"a request may have at most {self._limits.header_count_max} header fields.",
            )
        head_bytes = sum(map(len, headers)) + sum(map(len, headers.values())) + 4 * len(headers)
        if head_bytes > self._limits.header_bytes_max:
            self._refuse_head()

    def _refuse_head(self) -> None:
        limit = self._limits.header_bytes_max
        raise Refusal("headers_too_large", f"the header may have at most {limit} bytes.")

    # -- called by the parser -------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of a request has come, though its method stays with the parser."""
        self.phase = HEAD

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request target."""
        if self._url:
            url = self._url + url
        self._url = url
        self.phase = HEAD
        if len(url) > self._limits.uri_bytes_max:
            raise Refusal(
                "uri_too_long",
                f"the request target may have at most {self._limits.uri_bytes_max} bytes.",
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header field (or a trailer field, which is checked and dropped)."""
        name = name.lower()
        headers = self._headers
        if name not in headers:
            headers[name] = value.rstrip()
        elif is_single(name):
            raise Refusal("bad_request", f"the header {name.decode()} may be given only once.")
        else:
            headers[name] = b"%b, %b" % (headers[name], value.rstrip())

    def on_headers_complete(self) -> None:
        """Check the header as a whole, before the first byte of a body is kept."""
        self.phase = BODY
        parser = self._parser
        if parser.should_upgrade():
            if parser.get_method() == b"CONNECT":
                raise Refusal("bad_request", "CONNECT is not served here: this is no proxy.")
            # Handled in `feed`, which comes back here with the same header less the upgrade.
            self._is_upgrade = True
            return
        headers = self._headers
        limits = self._limits
        if self._fed_bytes > limits.header_bytes_max or len(headers) > limits.header_count_max:
            self._check_head_size()
        self._is_kept = is_kept = parser.should_keep_alive()
        # Asking for the version is dear; a request kept open without a word about it is 1.1.
        self._is_old = (
            not is_kept or b"connection" in headers or b"proxy-connection" in headers
        ) and parser.get_http_version() != "1.1"
        if self._is_old and parser.get_http_version() != "1.0":
            raise Refusal("bad_request", "only HTTP/1.1 and HTTP/1.0 are spoken here.")
        host = headers.get(b"host")
        if self._url[0] != _SLASH:
            host = self._rewrite_target(host)
        if host is None or host != self._host_good:
            self._check_host(host)
        if b"content-length" in headers:
            # The parser has checked its size; zeros in front could still be too many for int().
            length = int(headers[b"content-length"].lstrip(b"0") or b"0")
            if length > limits.body_bytes_max:
                self._refuse_body()
        elif b"transfer-encoding" in headers:
            self._check_transfer_encoding(headers[b"transfer-encoding"])
        if b"content-encoding" in headers:
            self._check_content_encoding(headers[b"content-encoding"])
        if _HASH in self._url:
            raise Refusal("bad_request", "the request target may not have a fragment (#).")
        self._request_headers = headers
        if b"expect" in headers:
            self._check_expect(headers[b"expect"])

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        self.body_bytes += len(data)
        if self.body_bytes > self._limits.body_bytes_max:
            self._refuse_body()
        self._body_parts.append(data)
        self._fed_bytes = 0

    def on_message_complete(self) -> None:
        """Hand over the request."""
        if self._is_upgrade:
            self._is_upgrade = False
            return
        parts = self._body_parts
        if not parts:
            body = b""
        else:
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            self._body_parts = []
        self.body_bytes = 0
        self._fed_bytes = 0
        self.phase = IDLE
        is_kept = self._is_kept
        if not is_kept:
            self.is_finished = True
        name = self._parser.get_method()
        path, mark, query = self._url.partition(b"?")
        self._url = b""
        self._headers = {}
        request = Request(
            _METHODS.get(name) or name.decode(),
            path,
            self._request_headers,
            body,
            query if mark else None,
            self.peer,
        )
        self._receiver.accept(request, is_kept, self._is_old)

    # -- the less common cases --------------------------------------------------------------

    def _rewrite_target(self, host: bytes | None) -> bytes | None:
        if self._url == b"*" and self._parser.get_method() == b"OPTIONS":
            return host
        absolute = _ABSOLUTE.fullmatch(self._url)
        if absolute is None:
            raise Refusal("bad_request", "the request target must be a path that starts with /.")
        if host is None and not self._is_old:
            self._check_host(None)
        # RFC 9112, 3.2.2: the target's authority wins over the Host header.
        host, rest = absolute[1], absolute[2]
        self._url = rest if rest.startswith(b"/") else b"/" + rest
        self._headers[b"host"] = host
        return host

    def _check_host(self, host: bytes | None) -> None:
        if host is None:
            if not self._is_old:
                raise Refusal("bad_request", "an HTTP/1.1 request must have a Host header.")
        elif not _HOST.fullmatch(host):
            raise Refusal("bad_request", "the Host header must be a host name or address.")
        else:
            self._host_good = host

    def _check_transfer_encoding(self, coding: bytes) -> None:
        if coding.lower() != b"chunked" or self._is_old:
            raise Refusal("bad_request", "Transfer-Encoding may only be chunked, on HTTP/1.1.")
        # Trailer fields come through on_header: keep them away from the request's own.
        self._request_headers = self._headers
        self._headers = {}

    def _check_content_encoding(self, coding: bytes) -> None:
        if coding.lower() not in (b"", b"identity"):
            raise Refusal(
                "unsupported_encoding",
                "send the body as it is: Content-Encoding may only be identity.",
            )

    def _check_expect(self, expectation: bytes) -> None:
        if expectation.lower() != b"100-continue":
            raise Refusal("bad_request", "Expect may only be 100-continue.")
        headers = self._request_headers
        if (
            not self._is_old
            and headers.get(b"content-length", b"1") != b"0"
            and (b"content-length" in headers or b"transfer-encoding" in headers)
        ):
            self._receiver.invite_body()

    def _refuse_body(self) -> None:
        limit = self._limits.body_bytes_max
        raise Refusal("body_too_large", f"the body may have at most {limit} bytes.")

    def _without_upgrade(self) -> bytes:
        # We stay with HTTP/1.1, as RFC 9110, 7.8 allows. The parser, however, takes the header's
        # end for the message's end when it sees an upgrade, and would read the body as the next
        # request. So a fresh parser reads the same header without the offer.
        method = self._parser.get_method()
        version = self._parser.get_http_version()
        headers = self._headers
        headers.pop(b"upgrade", None)
        connection = headers.pop(b"connection", b"").lower()
        if b"close" in connection:
            headers[b"connection"] = b"close"
        lines = b"".join([b"%b: %b\r\n" % field for field in headers.items()])
        head = b"%b %b HTTP/%b\r\n%b\r\n" % (method, self._url, version.encode(), lines)
        self._url = b""
        self._headers = {}
        self._parser = HttpRequestParser(self)
        return head
