"""Create, append to, close and delete a stream."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from millstream.core.errors import Refused
from millstream.core.streams.commands import (
    Added,
    Created,
    CreateStream,
    DeleteStream,
    Duplicate,
    ForkPoint,
)
from millstream.engine.forking import resolve
from millstream.server.context import Context, refuse, respond
from millstream.server.http import Response, base_url_of
from millstream.wire import append as append_wire
from millstream.wire import create as create_wire

if TYPE_CHECKING:
    from millstream.server.http import Reply, Request
    from millstream.server.lanes import Block, LaneReply


def append(context: Context, name: str, request: Request, reply: Reply) -> None:
    """POST: add messages, close, or both. Answers once that is durable."""
    command = append_wire.parse(name, request.headers, request.body)
    if isinstance(command, Refused):
        reply.send(refuse(command))
        return

    def answer(result: object) -> None:
        reply.send(_answer(context, result))

    context.engine.submit(command, answer, len(request.body))


def append_known(context: Context, name: str, block: Block, body: bytes, reply: LaneReply) -> bool:
    """Do what `append` does, for a request whose header fields were read before."""
    terms = block.append_terms
    if terms is None:
        if b"producer-id" in block.headers:
            return False  # Its fields differ with every batch, so nothing is worth remembering.
        terms = block.append_terms = append_wire.parse_terms(block.headers)
    command = terms if isinstance(terms, Refused) else append_wire.fill(name, terms, body)
    if isinstance(command, Refused):
        reply.reply(refuse(command))
    else:
        context.engine.submit(command, partial(_answer_known, context, reply), len(body))
    return True


def _answer_known(context: Context, reply: LaneReply, result: object) -> None:
    if isinstance(result, Added) and result.claim is None and not result.is_closed:
        reply.reply_lines(204, append_wire.added_lines(result))
    else:
        reply.reply(_answer(context, result))


def _answer(context: Context, result: object) -> Response:
    original = None
    if isinstance(result, Duplicate):
        tail = context.engine.views.by_id(result.stream_id)
        # A stream that was deleted since cannot tell; the batch was a duplicate all the same.
        original = tail.offset_at(result.end_index) if tail is not None else None
    return respond(append_wire.render_answer(result, original))


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


def create_known(context: Context, name: str, block: Block, body: bytes, reply: LaneReply) -> bool:
    """Do what `create` does, for a request whose header fields were read before."""
    wanted = block.create_terms
    if wanted is None:
        wanted = block.create_terms = create_wire.parse(block.headers)
    if isinstance(wanted, Refused):
        reply.reply(refuse(wanted))
        return True
    if wanted.fork is not None:
        return False  # Where it leaves its source has to be looked up first.

    def answer(result: object) -> None:
        base_url = base_url_of("http", block.headers, context.settings.public_url)
        if isinstance(result, Created) and result.is_new and not result.is_closed:
            reply.reply_lines(201, create_wire.created_lines(result, name, base_url))
        else:
            reply.reply(respond(create_wire.render_answer(result, name, base_url)))

    context.engine.submit(_command(context, name, body, wanted, None), answer, len(body))
    return True


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
