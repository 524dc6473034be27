"""The records dialect at ``/records/{stream}``: another way to write and read JSON streams."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

import msgspec

from millstream.core.errors import Code, Refused
from millstream.core.streams.commands import Added, DeleteStream, Duplicate, VersionNow
from millstream.server.context import Context, other_method, refuse
from millstream.server.handlers.record_reads import JSON_HEADERS, Arrivals, RecordRead
from millstream.server.http import Response
from millstream.wire.names import stream_name
from millstream.wire.records import RECORDS_ROOT, parse_append, parse_read, render_offsets

if TYPE_CHECKING:
    from millstream.server.http import Reply, Request

_ROOT_LENGTH = len(RECORDS_ROOT)
_METHODS = frozenset(("GET", "HEAD", "POST", "DELETE"))
_ALLOW = b"GET, HEAD, POST, DELETE, OPTIONS"
_DELETED = b'{"success":true}'


class RecordsDoor:
    """Answers everything below ``/records/``."""

    def __init__(self, context: Context) -> None:
        """Open the door; make one for each engine, since it listens for new streams."""
        self._context = context
        secret = context.settings.records_auth
        self._secret = None if secret is None else secret.encode()
        self._arrivals = Arrivals(context.engine)

    def __call__(self, request: Request, reply: Reply) -> None:
        """Handle one request."""
        method = request.method
        # A preflight cannot carry the secret.
        if method != "OPTIONS" and not self._is_allowed(request):
            reply.send(refuse(_unauthorized()))
            return
        if method not in _METHODS:
            reply.send(other_method(request, _ALLOW))
            return
        name = stream_name(request.path[_ROOT_LENGTH:])
        if isinstance(name, Refused):
            reply.send(refuse(name))
        elif method == "POST":
            self._append(name, request, reply)
        elif method == "DELETE":
            self._delete(name, reply)
        else:
            self._read(name, request, reply)

    def _is_allowed(self, request: Request) -> bool:
        if self._secret is None:
            return True
        return hmac.compare_digest(request.header(b"auth") or b"", self._secret)

    def _append(self, name: str, request: Request, reply: Reply) -> None:
        command = parse_append(name, request.query, request.headers, request.body)
        if isinstance(command, Refused):
            reply.send(refuse(command))
            return

        def answer(result: object) -> None:
            reply.send(self._answer(result))

        # A question for the version carries no messages: it needs no room in the log.
        size = len(request.body) if command.body.count else 0
        self._context.engine.submit(command, answer, size)

    def _answer(self, result: object) -> Response:
        match result:
            case Added(tail=tail, count=count):
                indexes = range(tail.index - count + 1, tail.index + 1)
                return Response(200, JSON_HEADERS, render_offsets(tail.time_ms, indexes))
            case VersionNow(version):
                return Response(200, JSON_HEADERS, msgspec.json.encode({"version": version}))
            case Duplicate():
                return self._original(result)
            case _:
                assert isinstance(result, Refused)
                return refuse(result)

    def _original(self, repeat: Duplicate) -> Response:
        """Answer a batch that was stored before as it was answered then."""
        tail = self._context.engine.views.by_id(repeat.stream_id)
        if tail is None:
            detail = "the batch was stored, and the stream deleted since"
            return refuse(Refused(code=Code.STREAM_NOT_FOUND, detail=detail))
        if repeat.end_index <= tail.extents.base:
            # It carried no messages: by another door a producer may close a stream that way.
            return Response(200, JSON_HEADERS, render_offsets(0, ()))
        # One batch is one append: its extent tells where it began, whatever the repeat carries.
        extent = tail.extents.row(tail.extents.holding(repeat.end_index - 1))
        indexes = range(extent.first + 1, extent.end + 1)
        return Response(200, JSON_HEADERS, render_offsets(extent.time_ms, indexes))

    def _delete(self, name: str, reply: Reply) -> None:
        def answer(result: object) -> None:
            if isinstance(result, Refused):
                reply.send(refuse(result))
            else:
                reply.send(Response(200, JSON_HEADERS, _DELETED))

        self._context.engine.submit(DeleteStream(name), answer)

    def _read(self, name: str, request: Request, reply: Reply) -> None:
        wanted = parse_read(request.query)
        if isinstance(wanted, Refused):
            reply.send(refuse(wanted))
            return
        if request.method == "HEAD":
            wanted = wanted._replace(timeout_s=0.0)
        RecordRead(self._context, self._arrivals, name, wanted, reply).begin()


def _unauthorized() -> Refused:
    detail = "the header `auth` must be the secret that the operator set as records_auth"
    return Refused(code=Code.UNAUTHORIZED, detail=detail, field="auth")
