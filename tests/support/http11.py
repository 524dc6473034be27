"""A bare HTTP/1.1 connection for load tests: pipelining, chunked answers, nothing hidden."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Self

HOST = "127.0.0.1"


class Gone(Exception):
    """The connection is over; what was asked may or may not have happened."""


class Answer(NamedTuple):
    """An answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


class Connection:
    """One connection. Requests may be sent ahead of their answers, which come in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._asked: list[str] = []

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connect to a server on this machine. Raises Gone."""
        try:
            return cls(*await asyncio.open_connection(HOST, port, limit=1 << 22))
        except OSError as error:
            raise Gone from error

    def send(
        self, method: str, target: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> None:
        """Send a request without waiting."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {HOST}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body or method in ("POST", "PUT"):
            lines.append(f"Content-Length: {len(body)}")
        self._asked.append(method)
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def answer(self) -> Answer:
        """Return the next answer, whole. Raises Gone."""
        head = await self.head()
        if head.headers.get("transfer-encoding") == "chunked":
            pieces = []
            while piece := await self.chunk():
                pieces.append(piece)
            return head._replace(body=b"".join(pieces))
        length = int(head.headers.get("content-length", "0"))
        if length:
            try:
                return head._replace(body=await self._reader.readexactly(length))
            except (OSError, asyncio.IncompleteReadError) as error:
                raise Gone from error
        return head

    async def head(self) -> Answer:
        """Return the next answer's status and headers; the body is still to be read."""
        try:
            raw = await self._reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Gone from error
        first, *lines = raw.decode("latin-1").strip().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        headers = {name.lower(): value for name, value in pairs}
        if self._asked.pop(0) == "HEAD":
            headers.pop("content-length", None)
            headers.pop("transfer-encoding", None)
        return Answer(int(first.split(" ")[1]), headers)

    async def chunk(self) -> bytes:
        """Return the next chunk of a chunked body, empty at its end. Raises Gone."""
        try:
            size = int((await self._reader.readuntil(b"\r\n")).strip(), 16)
            return (await self._reader.readexactly(size + 2))[:-2]
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            raise Gone from error

    async def ask(
        self, method: str, target: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """Send one request and return its answer."""
        self.send(method, target, headers, body)
        return await self.answer()

    def close(self) -> None:
        """Drop the connection."""
        self._writer.close()
