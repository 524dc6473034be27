"""The suite's `read` command: collect what a reader gives until a limit is reached."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from millstream.client.adapter_commands import Read
from millstream.client.aio.reader import Reader
from millstream.client.core.bodies import is_json
from millstream.client.core.reading import Batch

Chunk = dict[str, str]


class Collected(msgspec.Struct):
    """What a read came to so far."""

    chunks: list[Chunk]
    offset: str
    status: int | None = None
    is_up_to_date: bool = False
    is_closed: bool = False

    def fields(self) -> dict[str, Any]:
        """Return it as the suite names it."""
        return {
            "chunks": self.chunks,
            "offset": self.offset,
            "status": self.status,
            "upToDate": self.is_up_to_date,
            "streamClosed": self.is_closed,
        }


async def collect(reader: Reader, command: Read, content_type: str | None) -> Collected:
    """Read until the command's limits, the end of the stream, or its time is over."""
    found = Collected([], command.offset)
    limit = asyncio.timeout(command.timeout_ms / 1000)
    try:
        async with reader, limit:
            if command.live is False:
                await _catch_up(reader, found, content_type)
            else:
                await _follow(reader, found, command, content_type)
    except TimeoutError:
        if not limit.expired():
            raise
        # Nothing more came in time, so what there is was read.
        found.is_up_to_date = True
    found.status = reader.status or 200
    return found


async def _catch_up(reader: Reader, found: Collected, content_type: str | None) -> None:
    if is_json(content_type):
        items = await reader.json()
        texts = [msgspec.json.encode(items).decode()] if items else []
    else:
        data = await reader.bytes()
        texts = [data.decode("utf-8", "replace")] if data else []
    _note(found, reader)
    found.chunks += [{"data": text, "offset": found.offset} for text in texts]


async def _follow(
    reader: Reader, found: Collected, command: Read, content_type: str | None
) -> None:
    async for batch in reader:
        if batch.data:
            text = _text(batch, content_type)
            found.chunks.append({"data": text, "offset": batch.offset})
        _note(found, reader)
        is_idle = reader.status == 204
        is_enough = len(found.chunks) >= command.max_chunks
        if is_idle or is_enough or (command.wait_for_up_to_date and found.is_up_to_date):
            return


def _note(found: Collected, reader: Reader) -> None:
    found.offset = reader.offset
    found.is_up_to_date = reader.is_up_to_date
    found.is_closed = reader.is_closed


def _text(batch: Batch, content_type: str | None) -> str:
    if is_json(content_type):
        return msgspec.json.encode(batch.items()).decode()
    return batch.data.decode("utf-8", "replace")
