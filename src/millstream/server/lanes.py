"""Requests whose head was seen before need no parser: the short way in for what repeats.

A client sends the same header fields with every request, or nearly so. The parser's verdict on a
block of header fields depends on nothing but its bytes, so it is remembered: a request that
consists of a plain request line, a remembered block and exactly the body that the block announces
is the request that the parser would have made of it. Everything else goes to the parser. What is
remembered was accepted by the parser and the intake's own checks, byte for byte; this module adds
no grammar of its own but the plainest form of a request line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from millstream.core.errors import Refused
from millstream.server.http import Request, Response
from millstream.wire.append import Terms
from millstream.wire.create import Wanted

_LINE: Final = re.compile(
    rb"(GET|HEAD|POST|PUT|DELETE) (/[A-Za-z0-9._~/-]*)(?:\?([A-Za-z0-9._~=&-]*))? HTTP/1\.1"
)
_LINE_BYTES_MAX: Final = 512
_BLOCK_BYTES_MAX: Final = 1024
_KNOWN_MAX: Final = 4096
_GLIMPSED_MAX: Final = 8192

# Their meaning reaches beyond the one request, or the parser treats them in its own way.
_SPECIAL: Final = (
    b"connection",
    b"expect",
    b"transfer-encoding",
    b"upgrade",
    b"te",
    b"trailer",
)


class LaneReply(Protocol):
    """The way to answer a request that came in by a lane. Exactly one answer per request."""

    def reply_lines(self, status: int, lines: bytes) -> None:
        """Answer without a body; ``lines`` are ready-made header lines, each with its end."""

    def reply(self, response: Response) -> None:
        """Answer as any handler does."""


class Block:
    """A block of header fields that the parser has accepted."""

    __slots__ = ("append_terms", "body_bytes", "create_terms", "headers")

    def __init__(self, headers: dict[bytes, bytes], body_bytes: int) -> None:
        """Remember the fields, and the length of the body that they announce."""
        self.headers = headers
        self.body_bytes = body_bytes
        # What the two handlers that have lanes make of the fields.
        self.append_terms: Terms | Refused | None = None
        self.create_terms: Wanted | Refused | None = None


Lane = Callable[[Block, bytes, LaneReply], bool]
"""Takes a request's known header block and body, and answers; or tells by False that this request
must go to its handler the long way, and has then done nothing."""

FindLane = Callable[[str, bytes], Lane | None]
"""Says which lane a method and a path lead to, if any."""


class Line:
    """A request line taken apart, with the lane it leads to, if any."""

    __slots__ = ("lane", "method", "path", "query")

    def __init__(self, method: str, path: bytes, query: bytes | None, lane: Lane | None) -> None:
        """Remember the parts."""
        self.method = method
        self.path = path
        self.query = query
        self.lane = lane


class Lanes:
    """What is known of request lines and header blocks, within bounds."""

    __slots__ = ("_find_lane", "_glimpsed", "_line_bytes_max", "_lines", "blocks")

    def __init__(self, uri_bytes_max: int, find_lane: FindLane | None = None) -> None:
        """Start knowing nothing; ``find_lane`` says which method and path have a lane."""
        self.blocks: dict[bytes, Block] = {}
        self._lines: dict[bytes, Line] = {}
        self._glimpsed: set[int] = set()
        self._line_bytes_max = min(_LINE_BYTES_MAX, uri_bytes_max)
        self._find_lane = find_lane

    def line(self, raw: bytes) -> Line | None:
        """Return the parts of a plain request line, None for one that the parser must see."""
        found = self._lines.get(raw)
        return found if found is not None else self._take_apart(raw)

    def learn(self, block: bytes, request: Request) -> None:
        """Remember the header block of a request that the parser accepted, the second time.

        Blocks that never come again (they carry a sequence number, a trace id) leave no more
        than a number behind.
        """
        if len(block) > _BLOCK_BYTES_MAX:
            return
        mark = hash(block)
        if mark not in self._glimpsed:
            if len(self._glimpsed) >= _GLIMPSED_MAX:
                self._glimpsed.clear()
            self._glimpsed.add(mark)
            return
        headers = request.headers
        if any(name in headers for name in _SPECIAL):
            return
        if len(self.blocks) >= _KNOWN_MAX:
            self.blocks.clear()
        self.blocks[block] = Block(headers, len(request.body))

    def _take_apart(self, raw: bytes) -> Line | None:
        if len(raw) > self._line_bytes_max:
            return None
        match = _LINE.fullmatch(raw)
        if match is None:
            return None
        method, path, query = match[1].decode(), match[2], match[3]
        lane = None
        if query is None and self._find_lane is not None:
            lane = self._find_lane(method, path)
        line = Line(method, path, query, lane)
        if len(self._lines) >= _KNOWN_MAX:
            self._lines.clear()
        self._lines[raw] = line
        return line
