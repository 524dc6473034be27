"""The one seam to the network: a request in, an answer out, and nothing decided.

Every failure becomes NetworkFailed or Timeout with ``is_uncertain`` set truthfully. The errors of
the HTTP library are not chained to ours, because they print URLs with their queries.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from typing import Final

import aiohttp
import yarl

from millstream.client.core.answers import Answer
from millstream.client.core.requests import Request
from millstream.client.errors import BadOption, ClientClosed, ClientError, NetworkFailed, Timeout

# A live read may be silent as long as the server holds it; this comes on top of the time-out.
LIVE_SILENCE_S: Final = 90.0
# Servers drop idle connections; a request must not be the one to find out.
IDLE_S_MAX: Final = 10.0
# Above twice this much unread data the socket is left alone until the reader has caught up.
BUFFER_BYTES: Final = 256 * 1024


class Transport:
    """Connections to servers, opened when needed and kept for the next request.

    It belongs to the event loop of its first request.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 30.0,
        ssl: tls.SSLContext | bool | None = None,
        proxy: str | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._ssl = True if ssl is None else ssl
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def send(self, request: Request) -> Answer:
        """Return the whole answer, whatever its status. Raises NetworkFailed or Timeout."""
        streaming = await self.open(request)
        try:
            return await streaming.answer()
        finally:
            streaming.close()

    async def open(self, request: Request) -> Streaming:
        """Return the answer as soon as its head is there; the caller closes it.

        Raises NetworkFailed or Timeout.
        """
        session = self._opened()
        try:
            response = await session.request(
                request.method,
                yarl.URL(request.target, encoded=True),
                headers=request.headers,
                data=request.body or None,
                timeout=self._timeouts(request),
                # Following would turn a POST into a GET and could hand tokens to a stranger.
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise failure(request, error) from None
        return Streaming(request, response)

    async def close(self) -> None:
        """Drop all connections, in use or not. Safe to repeat."""
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise ClientClosed("the client is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # Every live reader holds a connection, so their number is the caller's business.
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=IDLE_S_MAX, ssl=self._ssl
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                proxy=self._proxy,
                read_bufsize=BUFFER_BYTES,
                skip_auto_headers=("Content-Type",),
            )
            # The library would repeat PUT and DELETE by itself, unseen by hooks and without a
            # fresh token; a DELETE whose answer was lost would then come back as 404.
            self._session._retry_connection = False  # noqa: SLF001 - there is no public switch
        return self._session

    def _timeouts(self, request: Request) -> aiohttp.ClientTimeout:
        limit = self._timeout_s
        if request.live is not None:
            silence = limit + LIVE_SILENCE_S
            return aiohttp.ClientTimeout(total=None, sock_connect=limit, sock_read=silence)
        if request.method == "GET":
            # A page may be long and the line slow: it is silence that counts, not size.
            return aiohttp.ClientTimeout(total=None, sock_connect=limit, sock_read=limit)
        return aiohttp.ClientTimeout(total=limit)


class Streaming:
    """An answer whose body is still coming. Nothing is read ahead beyond the socket's buffer."""

    def __init__(self, request: Request, response: aiohttp.ClientResponse) -> None:
        self._request = request
        self._response = response
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    async def chunk(self) -> bytes:
        """Return what has come, at least one byte, or nothing at the proper end of the body.

        Raises NetworkFailed when the body is cut short, or Timeout.
        """
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise failure(self._request, error) from None

    async def answer(self) -> Answer:
        """Return the whole answer. Raises as `chunk` does."""
        try:
            body = await self._response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise failure(self._request, error) from None
        return Answer(self.status, self.headers, body)

    def close(self) -> None:
        """Leave: a connection with an unread body is dropped, another is kept. Safe to repeat."""
        if self._response.content.is_eof():
            self._response.release()
        else:
            self._response.close()


def failure(request: Request, error: BaseException) -> ClientError:
    """Return what a failure of the HTTP library means to a request."""
    # A read has no effect that one could be uncertain about.
    changes = request.method not in {"GET", "HEAD"}
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return BadOption("the URL is not valid", url=request.url)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        # Trying again does not make it another certificate.
        return BadOption("the server's certificate does not check out", url=request.url)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Timeout("no connection in time", url=request.url)
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = error.os_error.strerror or type(error.os_error).__name__
        return NetworkFailed(f"the server cannot be reached: {reason}", url=request.url)
    if isinstance(error, asyncio.TimeoutError):
        return Timeout("no answer in time", url=request.url, is_uncertain=changes)
    return NetworkFailed(
        f"the connection broke ({type(error).__name__})", url=request.url, is_uncertain=changes
    )
