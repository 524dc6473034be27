"""Find the exact point at which a fork leaves its source.

The source's messages never change, so the point is worked out before the command is given; the
machine then only has to check that the source is still the same stream.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from millstream.core.errors import Code, Refused
from millstream.core.offsets import Position
from millstream.core.streams.commands import ForkPoint, ForkRequest

if TYPE_CHECKING:
    from millstream.engine.engine import Engine
    from millstream.engine.tails import Tail


async def resolve(engine: Engine, request: ForkRequest) -> ForkPoint | Refused:
    """Return the fork point that ``request`` names, or why there is none."""
    source = engine.find(request.source_path)
    ended = asyncio.Event()
    if isinstance(source, Refused) and engine.end_expired(request.source_path, ended.set):
        await ended.wait()
    if isinstance(source, Refused):
        is_gone = source.code is Code.STREAM_GONE
        return Refused(
            code=Code.SOURCE_GONE if is_gone else Code.SOURCE_NOT_FOUND,
            detail=f"Stream-Forked-From: {source.detail}",
            field="Stream-Forked-From",
        )
    anchor = request.anchor
    if anchor is None:
        anchor = source.tail
    elif anchor.is_point_in_time:
        index = source.index_since(anchor.time_ms)
        anchor = Position(source.time_at(index), index)
    elif not source.knows(anchor):
        return _refuse("Stream-Fork-Offset", "is not a position of the source stream")
    base, prefix = anchor, b""
    if request.sub_offset:
        found = await _past(engine, source, anchor, request.sub_offset)
        if isinstance(found, Refused):
            return found
        base, prefix = found
    return ForkPoint(
        source.stream_id, source.path, request.anchor, request.sub_offset, base, prefix
    )


async def _past(
    engine: Engine, source: Tail, anchor: Position, sub_offset: int
) -> tuple[Position, bytes] | Refused:
    """Return the position ``sub_offset`` past the anchor, within the append that follows it."""
    field = "Stream-Fork-Sub-Offset"
    if anchor.index >= source.index:
        return _refuse(field, "nothing lies behind the fork offset")
    if source.is_json:
        index = anchor.index + sub_offset
        if index > source.append_end(anchor.index):
            return _refuse(field, "is past the messages appended behind the fork offset")
        return Position(source.time_at(index), index), b""
    page = await engine.read(source, anchor.index, 1, 1)
    if isinstance(page, Refused):
        return page
    message = b"".join(page.parts)
    if sub_offset > len(message):
        return _refuse(field, f"is past the next message, which has {len(message)} bytes")
    if sub_offset == len(message):
        index = anchor.index + 1
        return Position(source.time_at(index), index), b""
    return anchor, message[:sub_offset]


def _refuse(field: str, rule: str) -> Refused:
    return Refused(code=Code.FORK_INVALID, detail=f"{field}: {rule}", field=field)
