"""What no client can beat: `python -m bench.client.bare VERB URL COUNT`.

A bare socket reads the same pages into one buffer, and for JSON decodes each with one call.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import msgspec

from bench.client.load import report

LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: (\d+)")
NEXT: Final = re.compile(rb"(?i)\r\nstream-next-offset: (\S+)")
LAST: Final = re.compile(rb"(?i)\r\nstream-up-to-date: true")
HEAD_BYTES_MAX: Final = 1 << 16
# Larger than any page of the bench; touched now, so that the clock does not see it being made.
BUFFER: Final = memoryview(bytearray(b"\1") * (1 << 23))


async def read_bytes(url: str, count: int) -> float:
    """Read `count` bytes of a stream; return the seconds."""
    began = time.perf_counter()
    total = sum(len(page) for page in pages(url))
    seconds = time.perf_counter() - began
    assert total == count
    return seconds


async def read_json(url: str, count: int) -> float:
    """Read and decode `count` JSON items; return the seconds."""
    decode = msgspec.json.Decoder(list[object]).decode
    items: list[object] = []
    began = time.perf_counter()
    for page in pages(url):
        items += decode(page)
    seconds = time.perf_counter() - began
    assert len(items) == count
    return seconds


def pages(url: str) -> Iterator[memoryview]:
    """Yield the bodies of all pages; each is valid until the next one is asked for."""
    parts = urlsplit(url)
    held = BUFFER
    offset = b"-1"
    with socket.create_connection((parts.hostname or "", parts.port or 80)) as server:
        while True:
            target = b"%s?offset=%s" % (parts.path.encode(), offset)
            server.sendall(b"GET %s HTTP/1.1\r\nHost: bench\r\n\r\n" % target)
            filled = server.recv_into(held)
            end = bytes(held[: min(filled, HEAD_BYTES_MAX)]).index(b"\r\n\r\n")
            head = bytes(held[:end])
            [length] = LENGTH.findall(head)
            whole = end + 4 + int(length)
            while filled < whole:
                filled += server.recv_into(held[filled:])
            yield held[end + 4 : whole]
            if LAST.search(head):
                return
            [offset] = NEXT.findall(head)


if __name__ == "__main__":
    report(sys.argv, {"bytes": read_bytes, "json": read_json})
