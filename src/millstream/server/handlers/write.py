"""Create, append to, close and delete a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.errors import Refused
from millstream.core.streams.commands import CreateStream, DeleteStream, Duplicate, ForkPoint
from millstream.engine.forking import resolve
from millstream.server.context import Context, refuse, respond
from millstream.server.http import Response
from millstream.wire import append as append_wire
from millstream.wire import create as create_wire

if TYPE_CHECKING:
    from millstream.server.http import Reply, Request


def append(context: Context, name: str, request: Request, reply: Reply) -> None:
    """POST: add messages, close, or both. Answers once that is durable."""
    command = append_wire.parse(name, request.headers, request.body)
    if isinstance(command, Refused):
        reply.send(refuse(command))
        return

    def answer(result: object) -> None:
        original = None
        if isinstance(result, Duplicate):
            tail = context.engine.views.by_id(result.stream_id)
            # A stream that was deleted since cannot tell; the batch was a duplicate all the same.
            original = tail.offset_at(result.end_index) if tail is not None else None
        reply.send(respond(append_wire.render_answer(result, original)))

    context.engine.submit(command, answer, len(request.body))


def create(context: Context, name: str, request: Request, reply: Reply) -> None:
    """PUT: make a stream or a fork, or confirm that it is there."""
    wanted = create_wire.parse(request.headers)
    if isinstance(wanted, Refused):
        reply.send(refuse(wanted))
        return
    base_url = request.base_url(context.settings.public_url)

    def answer(result: object) -> None:
        reply.send(respond(create_wire.render_answer(result, name, base_url)))

    if wanted.fork is None:
        command = _command(context, name, request.body, wanted, None)
        context.engine.submit(command, answer, len(request.body))
        return
    fork = wanted.fork

    async def create_fork() -> None:
        point = await resolve(context.engine, fork)
        command = _command(context, name, request.body, wanted, point)
        answer(await context.engine.ask(command, len(request.body)))

    reply.spawn(create_fork())


def _command(
    context: Context,
    name: str,
    body: bytes,
    wanted: create_wire.Wanted,
    point: ForkPoint | Refused | None,
) -> CreateStream:
    content_type = wanted.content_type
    if content_type is None and isinstance(point, ForkPoint):
        source = context.engine.views.by_id(point.source_id)
        content_type = source.content_type if source is not None else None
    return CreateStream(
        path=name,
        content_type=wanted.content_type,
        ttl_s=wanted.ttl_s,
        expires_at_ms=wanted.expires_at_ms,
        is_closed=wanted.is_closed,
        body=create_wire.parse_body(content_type, body),
        fork=point,
        fork_request=wanted.fork,
    )


def delete(context: Context, name: str, _request: Request, reply: Reply) -> None:
    """DELETE: remove the stream; what forks read of it stays."""

    def answer(result: object) -> None:
        reply.send(refuse(result) if isinstance(result, Refused) else Response(204))

    context.engine.submit(DeleteStream(name), answer)
