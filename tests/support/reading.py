"""Streams of an open engine, written and read as a door would."""

from millstream.core.errors import Refused
from millstream.core.streams.commands import Append, CreateStream, ForkRequest
from millstream.engine.engine import Engine
from millstream.engine.forking import resolve
from millstream.engine.tails import Tail
from tests.support.machines import JSON, TEXT, body

ALL = 1 << 40


async def create(engine: Engine, path: str, *appends: bytes, content_type: str = TEXT) -> Tail:
    """Make a stream and add to it, one append a message."""
    answer = await engine.ask(CreateStream(path=path, content_type=content_type))
    assert not isinstance(answer, Refused), answer
    for message in appends:
        await append(engine, path, message, content_type=content_type)
    return find(engine, path)


async def append(engine: Engine, path: str, *messages: bytes, content_type: str = TEXT) -> object:
    """Append messages at once."""
    glue = b"," if content_type == JSON else b""
    size = sum(map(len, messages))
    return await engine.ask(Append(path, content_type, body(*messages, glue=glue)), size)


async def fork(engine: Engine, path: str, source: str, index: int | None, sub: int = 0) -> object:
    """Fork behind message `index`, and `sub` bytes or messages further."""
    anchor = None
    if index is not None:
        found = find(engine, source)
        anchor = type(found.tail)(found.time_at(index), index)
    request = ForkRequest(source, anchor, sub)
    point = await resolve(engine, request)
    command = CreateStream(path=path, content_type=None, fork=point, fork_request=request)
    return await engine.ask(command)


def find(engine: Engine, path: str) -> Tail:
    """Return a stream that is there."""
    found = engine.find(path)
    assert isinstance(found, Tail), found
    return found


async def read(
    engine: Engine, path: str, index: int = 0, bytes_max: int = ALL, count_max: int = ALL
) -> tuple[list[bytes], int]:
    """Return (parts, end) of the page behind a position, from disk where it must be."""
    page = await engine.read(find(engine, path), index, bytes_max, count_max)
    assert not isinstance(page, Refused), page
    return page.parts, page.end


async def text(engine: Engine, path: str, index: int = 0) -> bytes:
    """Return all bytes behind a position."""
    parts, _ = await read(engine, path, index)
    return b"".join(parts)
