"""A small blocking HTTP client for the verbs, over the standard library.

It knows the server's addresses and its errors; what a request means is the verb's business.
"""

import contextlib
import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import click

from millstream.cli.failures import UNAVAILABLE, USAGE, Failure, exit_code_of

STREAM_ROOT: Final = "/v1/stream"
LIST_PATH: Final = "/v1/streams"
# A server drops idle connections; a request must not be the one to find out.
IDLE_S_MAX: Final = 10.0


class Answer(NamedTuple):
    """What the server said; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def next_offset(self) -> str | None:
        """Position behind the last message the answer speaks of."""
        return self.headers.get("stream-next-offset")

    @property
    def is_closed(self) -> bool:
        """Whether the answer says that no more data will ever come."""
        return self.headers.get("stream-closed", "").lower() == "true"

    @property
    def is_up_to_date(self) -> bool:
        """Whether the answer reaches the end of the stream."""
        return self.headers.get("stream-up-to-date", "").lower() == "true"


_BODILESS = {404: "there is no such stream", 410: "the stream is deleted"}


def stream_path(name: str) -> str:
    """Return the URL path of a stream: its name, percent-encoded, under the stream root."""
    return f"{STREAM_ROOT}/{urllib.parse.quote(name.strip('/'), safe='/:@!$&()*+,;=~-._')}"


def refusal(answer: Answer) -> Failure:
    """Turn an error answer into the failure that a verb ends with."""
    problem = _problem(answer.body)
    code = problem.get("code")
    text = (
        problem.get("detail")
        or problem.get("title")
        or answer.body[:200].decode("utf-8", "replace")
    )
    # An answer to HEAD has no body to say it.
    reason = _BODILESS.get(answer.status) or http.client.responses.get(answer.status, "")
    message = f"{text.strip() or reason} (HTTP {answer.status}{f', {code}' if code else ''})"
    return Failure(
        message,
        exit_code_of(answer.status, code),
        status=answer.status,
        code=code,
        next_offset=answer.next_offset,
    )


def _problem(body: bytes) -> dict[str, str]:
    try:
        value: Any = json.loads(body)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: item for name, item in value.items() if isinstance(item, str)}


class Client:
    """One connection to one server, opened when needed and kept for the next request."""

    def __init__(self, url: str, timeout_s: float) -> None:
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise Failure(f"--url {url!r} is not a server; write http://localhost:4437", USAGE)
        # A URL that ends in the stream root is fine: other clients are given it that way.
        self._prefix = parts.path.rstrip("/").removesuffix(STREAM_ROOT)
        self.base = f"{parts.scheme}://{parts.netloc}{self._prefix}"
        try:
            self._connection = _connection(parts, timeout_s)
            self._used_at = time.monotonic()
        except ValueError as error:
            raise Failure(f"--url {url!r} is not a server: {error}", USAGE) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def url_of(self, name: str) -> str:
        """Return the full URL of a stream."""
        return f"{self.base}{stream_path(name)}"

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, str | None] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """Send a request and return the answer, whatever its status.

        Raises Failure (unavailable) when the server cannot be reached or stops answering. Then
        the request may or may not have had its effect: only what is safe to repeat may be.
        """
        sent = {name: value for name, value in (headers or {}).items() if value is not None}
        if time.monotonic() - self._used_at > IDLE_S_MAX:
            self._connection.close()
        try:
            self._connection.request(method, self._target(path, query), body or None, sent)
            response = self._connection.getresponse()
            answer = Answer(response.status, _lowered(response), response.read())
        except (OSError, http.client.HTTPException) as error:
            raise self._unavailable(error) from error
        self._used_at = time.monotonic()
        return answer

    def must(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, str | None] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """Send a request and return its answer; raises the refusal when it is an error."""
        answer = self.ask(method, path, query=query, headers=headers, body=body)
        if answer.status >= 300:
            raise refusal(answer)
        return answer

    @contextlib.contextmanager
    def follow(
        self, path: str, query: Mapping[str, str | int | None]
    ) -> Iterator[tuple[Answer, Iterator[bytes]]]:
        """Open an answer that has no end yet; gives its head and its lines as they come.

        The lines end when the connection does, properly or not.
        """
        try:
            self._connection.request("GET", self._target(path, query))
            response = self._connection.getresponse()
            head = Answer(response.status, _lowered(response), b"")
            if response.status >= 300:
                raise refusal(head._replace(body=response.read()))
        except (OSError, http.client.HTTPException) as error:
            raise self._unavailable(error) from error
        try:
            yield head, _lines(response)
        finally:
            self._connection.close()

    def _target(self, path: str, query: Mapping[str, str | int | None] | None) -> str:
        given = {name: str(value) for name, value in (query or {}).items() if value is not None}
        encoded = f"?{urllib.parse.urlencode(given)}" if given else ""
        return f"{self._prefix}{path}{encoded}"

    def _unavailable(self, error: Exception) -> Failure:
        self._connection.close()
        what = "no answer in time" if isinstance(error, TimeoutError) else str(error) or repr(error)
        return Failure(f"{self.base}: {what}", UNAVAILABLE)


def connect(context: click.Context) -> Client:
    """Return the client that the verb's flags ask for; it is closed when the verb ends."""
    client = Client(context.params["url"], float(context.params["timeout"]))
    return context.with_resource(client)


def _connection(parts: urllib.parse.SplitResult, timeout_s: float) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "https":
        trust = ssl.create_default_context()
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=trust)
    return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)


def _lowered(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    with contextlib.suppress(OSError, http.client.HTTPException):
        while line := response.readline():
            yield line.rstrip(b"\r\n")
