"""A transport that keeps what is written, for tests of connections without sockets."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from millstream.server.connection import Connection
from millstream.server.edge import Edge
from millstream.server.http import Handler
from millstream.server.settings import Settings


class MemoryTransport(asyncio.Transport):
    """Keeps every write apart, so that a test sees how answers were gathered."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self._is_reading = True
        self.is_closed = False
        self.is_aborted = False
        self.has_eof = False
        self.unsent_bytes = 0

    @property
    def sent(self) -> bytes:
        return b"".join(self.writes)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.writes.append(b"".join(list_of_data))

    def write_eof(self) -> None:
        self.has_eof = True

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True

    def is_reading(self) -> bool:
        return self._is_reading


def connect(
    handler: Handler, settings: Settings | None = None
) -> tuple[Connection, MemoryTransport, Callable[[float], None]]:
    """Open a connection in memory; the third value moves its clock, in seconds."""
    edge = Edge(settings or Settings(), handler)
    connection = Connection(edge)
    transport = MemoryTransport()
    connection.connection_made(transport)

    def pass_time(seconds: float) -> None:
        edge.now += seconds
        if connection.deadline <= edge.now or connection.stall_at <= edge.now:
            connection.expire(edge.now)

    return connection, transport, pass_time
