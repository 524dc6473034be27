"""A plain HTTP client for tests: streams by name, live readers, and bytes on a bare socket."""

import contextlib
import http.client
import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

HOST = "127.0.0.1"
TIMEOUT_S = 20.0
ROOT = "/v1/stream/"
JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}
STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) ")


class Answer(NamedTuple):
    """A whole answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def offset(self) -> str:
        """Where the answer says the stream, or the page, ends."""
        return self.headers["stream-next-offset"]

    @property
    def code(self) -> str:
        """The stable code of a problem document."""
        assert self.headers["content-type"] == "application/problem+json", self
        return str(self.json["code"])


class Client:
    """Asks one server; every request has a connection of its own, so any thread may call."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request to any target and return the whole answer."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=TIMEOUT_S)
        try:
            connection.request(method, target, body, dict(headers or {}))
            response = connection.getresponse()
            fields = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, fields, response.read())
        finally:
            connection.close()

    def put(self, name: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        """Create a stream."""
        return self.ask("PUT", ROOT + name, body, headers)

    def post(self, name: str, body: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        """Append to a stream."""
        return self.ask("POST", ROOT + name, body, headers)

    def get(self, name: str, query: str = "", headers: Mapping[str, str] | None = None) -> Answer:
        """Read a stream; `query` starts behind the question mark."""
        return self.ask("GET", ROOT + name + ("?" + query if query else ""), None, headers)

    def head(self, name: str) -> Answer:
        """Look at a stream without touching it."""
        return self.ask("HEAD", ROOT + name)

    def delete(self, name: str) -> Answer:
        """Delete a stream."""
        return self.ask("DELETE", ROOT + name)

    def follow(self, name: str, query: str = "offset=-1") -> "Live":
        """Open an SSE reader; use it in a `with`."""
        return Live(self.port, f"{ROOT}{name}?live=sse&{query}")

    def metric(self, name: str) -> float:
        """Return one sample of /metrics."""
        for line in self.ask("GET", "/metrics").body.decode().splitlines():
            if line.split("{")[0].split(" ")[0] == name:
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name}")


class Event(NamedTuple):
    """One SSE event; `lines` are the data lines as a client that follows the rules has them."""

    kind: str
    lines: list[str]

    @property
    def text(self) -> str:
        """The data as one text."""
        return "\n".join(self.lines)

    @property
    def json(self) -> Any:
        """The data as JSON."""
        return json.loads(self.text)


class Live:
    """One SSE connection, read event by event. It is open once this returns."""

    def __init__(self, port: int, target: str, headers: Mapping[str, str] | None = None) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
        self._connection.request("GET", target, headers=dict(headers or {}))
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.headers = {name.lower(): value for name, value in self._response.getheaders()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        while (event := self.next()) is not None:
            yield event

    def next(self) -> Event | None:
        """Return the next event, or None when the server has ended the answer."""
        kind = "message"
        lines: list[str] = []
        while line := self._response.readline():
            text = line.decode().removesuffix("\n")
            if not text:
                return Event(kind, lines)
            field, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                kind = value
            elif field == "data":
                lines.append(value)
        return None

    def expect(self, kind: str) -> Event:
        """Return the next event, which must be of this kind."""
        event = self.next()
        assert event is not None
        assert event.kind == kind
        return event

    def close(self) -> None:
        """Leave."""
        self._response.close()
        self._connection.close()


class Heard(NamedTuple):
    """What came back on a bare socket, and whether the server ended the connection."""

    data: bytes
    is_ended: bool

    @property
    def statuses(self) -> list[int]:
        """Statuses of all answers, in order; interim ones included."""
        return [int(found) for found in STATUS_LINE.findall(self.data)]


def connect(port: int, timeout_s: float = TIMEOUT_S) -> socket.socket:
    """Open a bare connection."""
    return socket.create_connection((HOST, port), timeout=timeout_s)


def listen(connection: socket.socket, until: Callable[[bytes], bool] = lambda _: False) -> Heard:
    """Read until the end, until `until` likes what came, or until nothing comes in time."""
    data = b""
    while not until(data):
        try:
            more = connection.recv(65536)
        except TimeoutError:
            return Heard(data, is_ended=False)
        except OSError:
            return Heard(data, is_ended=True)
        if not more:
            return Heard(data, is_ended=True)
        data += more
    return Heard(data, is_ended=False)


def shout(port: int, data: bytes, timeout_s: float = 5.0) -> Heard:
    """Send bytes, say that no more will follow, and return all that comes back."""
    with connect(port, timeout_s) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        return listen(connection)


def eventually(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Ask until the condition holds; the time limit is a failure."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.01)
