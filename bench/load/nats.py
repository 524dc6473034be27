"""The NATS protocol for JetStream: acked publishes, push consumers to follow, pull to catch up."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any, Final, Self

from bench.load.dialect import BadReply, Deliveries, Feed, Reader, Request, Subscriber
from bench.load.payload import MARK, marks_in

API: Final = "$JS.API."
AT_ONCE: Final = 50
"""Requests to the JetStream API that wait for their answers together."""
BATCH: Final = 1000
BUFFER_BYTES: Final = 1 << 18
CONSUMERS_MAX: Final = 20_000
CONNECT: Final = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":false,"no_responders":false,'
    b'"protocol":1,"echo":true}\r\n'
)


def publish(subject: str, reply: str, data: bytes) -> bytes:
    """Return the bytes of a publish whose acknowledgement goes to `reply`."""
    return f"PUB {subject} {reply} {len(data)}\r\n".encode() + data + b"\r\n"


def frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the payloads of the complete MSG frames in `data`, and the rest behind them."""
    found: list[bytes] = []
    while (line_end := data.find(b"\r\n")) >= 0:
        line = data[:line_end]
        if not line.startswith(b"MSG "):
            if line.startswith(b"-ERR"):
                raise BadReply(repr(line))
            data = data[line_end + 2 :]
            continue
        end = line_end + 2 + int(line.rpartition(b" ")[2])
        if len(data) < end + 2:
            break
        found.append(data[line_end + 2 : end])
        data = data[end + 2 :]
    return found, data


class Acks:
    """Counts publish acks: one closing brace each, and none in anything else that is sent."""

    __slots__ = ()

    def feed(self, data: bytes) -> int:
        """Take the next bytes; return how many acks they completed."""
        if b"error" in data or b"-ERR" in data:
            raise BadReply(repr(data[:300]))
        return data.count(b"}")


class Answers:
    """Counts answers of the JetStream API of one connection."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        """Start with a fresh connection."""
        self._rest = b""

    def feed(self, data: bytes) -> int:
        """Take the next bytes; return how many answers they completed."""
        found, self._rest = frames(self._rest + data)
        for payload in found:
            if b'"error"' in payload:
                raise BadReply(repr(payload[:300]))
        return len(found)


class Nats:
    """A NATS server with JetStream at an address. Each stream has the subject of its name."""

    greeting = CONNECT + b"PING\r\n"
    greeted = b"PONG"

    def __init__(self, host: str, port: int) -> None:
        """Talk to `host`:`port`."""
        self.host = host
        self.port = port
        self._inboxes = 0

    def create(self, stream: str) -> None:
        """Make a stream on disk."""
        self.ask(f"STREAM.CREATE.{stream}", stream_config(stream))

    def drop(self, stream: str) -> None:
        """Remove a stream with its consumers."""
        self.ask(f"STREAM.DELETE.{stream}", {})

    def append(self, stream: str, messages: Sequence[bytes]) -> Request:
        """One publish for each message, pipelined, all acked to an inbox of their own."""
        self._inboxes += 1
        inbox = f"inbox.{self._inboxes}"
        data = b"".join(publish(stream, inbox, message) for message in messages)
        return Request(data, len(messages), len(messages), listen(inbox))

    def opening(self, stream: str, message: bytes, number: int) -> Sequence[Request]:
        """Make the stream, then publish to it."""
        inbox = f"opening.{number}"
        config = json.dumps(stream_config(stream)).encode()
        create = publish(f"{API}STREAM.CREATE.{stream}", inbox, config)
        hello = listen(inbox)
        return (
            Request(create, 1, 0, hello),
            Request(publish(stream, inbox, message), 1, 1, hello),
        )

    def opening_whole(self, stream: str, message: bytes) -> None:
        """A stream is made empty, always."""

    def appended(self) -> Feed:
        """Count publish acks."""
        return Acks().feed

    def answered(self) -> Feed:
        """Count answers of any kind."""
        return Answers().feed

    def subscriber(self, stream: str, number: int, deliver: Deliveries) -> Subscriber:
        """Follow with a push consumer of its own; `settle` makes the consumers."""
        del stream
        return PushSubscriber(f"deliver.{number}", deliver)

    def settle(self, stream: str, subscribers: int) -> None:
        """Make a push consumer for each subscriber: in memory, unacked, from now on."""
        asked: list[tuple[str, dict[str, Any]]] = []
        for number in range(subscribers):
            config = consumer_config(f"push{number}", "new")
            config["deliver_subject"] = f"deliver.{number}"
            body = {"stream_name": stream, "config": config}
            asked.append((f"CONSUMER.CREATE.{stream}.push{number}", body))
        with Link(self.host, self.port) as link:
            for at in range(0, subscribers, AT_ONCE):
                link.ask_all(asked[at : at + AT_ONCE])

    def reader(self, stream: str, number: int, messages: int) -> Reader:
        """Read with a pull consumer of its own, a thousand messages at a time."""
        with Link(self.host, self.port) as link:
            names = link.ask(f"CONSUMER.NAMES.{stream}", {}).get("consumers") or []
            name = f"pull{number}"
            if name in names:
                link.ask(f"CONSUMER.DELETE.{stream}.{name}", {})
            body = {"stream_name": stream, "config": consumer_config(name, "all")}
            link.ask(f"CONSUMER.CREATE.{stream}.{name}", body)
        return PullReader(f"{API}CONSUMER.MSG.NEXT.{stream}.{name}", number, messages)

    def ask(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask the JetStream API on a connection of its own, blocking."""
        with Link(self.host, self.port) as link:
            return link.ask(verb, body)


def listen(subject: str) -> bytes:
    """Return the bytes that subscribe a connection to `subject`."""
    return f"SUB {subject} 1\r\n".encode()


def stream_config(stream: str) -> dict[str, Any]:
    """Return the set-up of a stream on disk; everything else is JetStream's default.

    But for one: by default a stream takes a thousand consumers, and W6 has ten thousand.
    """
    return {
        "name": stream,
        "subjects": [stream],
        "storage": "file",
        "num_replicas": 1,
        "max_consumers": CONSUMERS_MAX,
    }


def consumer_config(name: str, start: str) -> dict[str, Any]:
    """Return the set-up of a consumer that costs the server as little as possible."""
    return {
        "name": name,
        "ack_policy": "none",
        "deliver_policy": start,
        "replay_policy": "instant",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": 600_000_000_000,
    }


class Link:
    """A blocking connection to the JetStream API."""

    def __init__(self, host: str, port: int) -> None:
        """Connect and listen for answers."""
        self._socket = socket.create_connection((host, port), timeout=60)
        self._rest = b""
        self._socket.sendall(CONNECT + listen("api") + b"PING\r\n")
        while b"PONG\r\n" not in self._rest:
            self._rest += self._socket.recv(1 << 16)
        self._rest = b""

    def __enter__(self) -> Self:
        """Use the link for a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        self._socket.close()

    def ask(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer; raises BadReply for an error."""
        return self.ask_all([(verb, body)])[0]

    def ask_all(self, asked: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
        """Send requests at once and return all answers; raises BadReply if one is an error."""
        sent = (publish(API + verb, "api", json.dumps(body).encode()) for verb, body in asked)
        self._socket.sendall(b"".join(sent))
        found: list[bytes] = []
        while len(found) < len(asked):
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the server closed the connection")
            more, self._rest = frames(self._rest + data)
            found += more
        answers: list[dict[str, Any]] = [json.loads(text) for text in found]
        for (verb, _), answer in zip(asked, answers, strict=True):
            if "error" in answer:
                raise BadReply(f"{verb}: {answer['error']}")
        return answers


class PushSubscriber(Subscriber):
    """Listens where a push consumer delivers."""

    def __init__(self, subject: str, deliver: Deliveries) -> None:
        """Listen on `subject` and report to `deliver`."""
        super().__init__(deliver)
        self._subject = subject

    def begin(self) -> None:
        """Subscribe; the answer to the ping says that it is done."""
        self.transport.write(listen(self._subject) + b"PING\r\n")

    def data_received(self, data: bytes) -> None:
        """Report marks and answer pings."""
        if not self.following.done() and b"PONG" in data:
            self.following.set_result(None)
        if b"PING\r\n" in data:
            self.transport.write(b"PONG\r\n")
        self.deliver(marks_in(data))


class PullReader(Reader):
    """Pulls batches, the next one asked for before the last one is through."""

    def __init__(self, subject: str, number: int, messages: int) -> None:
        """Ask at `subject` until `messages` messages are here."""
        super().__init__()
        inbox = f"pulled.{number}"
        self._hello = listen(inbox)
        self._pull = publish(subject, inbox, json.dumps({"batch": BATCH}).encode())
        self._wanted = messages
        self._asked = 0
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)

    def begin(self) -> None:
        """Ask for the first two batches."""
        self.transport.write(self._hello)
        self._ask()
        self._ask()

    def _ask(self) -> None:
        self._asked += BATCH
        self.transport.write(self._pull)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Read into the same memory again and again."""
        del sizehint
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Count messages and keep two batches asked for."""
        self.received += self._buffer.count(MARK, 0, nbytes)
        if self.received >= self._wanted:
            if not self.done.done():
                self.done.set_result(None)
            return
        while self._asked < self._wanted and self._asked - self.received < 2 * BATCH:
            self._ask()
