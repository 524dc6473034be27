"""The way from a request to its handler."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from millstream.core.errors import Code, Refused
from millstream.server.context import Context, other_method, refuse
from millstream.server.handlers import listing, read, write
from millstream.server.handlers.records import RecordsDoor
from millstream.wire.names import STREAM_ROOT, stream_name
from millstream.wire.records import RECORDS_ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from millstream.server.http import Handler, Reply, Request
    from millstream.server.lanes import Lane

    StreamHandler = Callable[[Context, str, Request, Reply], None]

_ROOT_LENGTH = len(STREAM_ROOT)
_CONTROL = STREAM_ROOT + b"__ds/"
_METHODS: Mapping[str, StreamHandler] = {
    "POST": write.append,
    "GET": read.read,
    "HEAD": read.head,
    "PUT": write.create,
    "DELETE": write.delete,
}
_LANES = {"POST": write.append_known, "PUT": write.create_known}
_ALLOW = b"GET, HEAD, POST, PUT, DELETE, OPTIONS"


class App:
    """Dispatches requests: streams first, since nearly all are for them."""

    def __init__(
        self, context: Context, control: Handler, pages: Mapping[tuple[str, bytes], Handler]
    ) -> None:
        """``control`` serves everything below ``__ds``; ``pages`` all fixed paths."""
        self._context = context
        self._control = control
        self._records = RecordsDoor(context)
        self._pages = {
            ("GET", b"/v1/streams"): self._list,
            **pages,
        }
        self._paths = {path for _, path in self._pages}

    def __call__(self, request: Request, reply: Reply) -> None:
        """Handle one request."""
        path = request.path
        if not path.startswith(STREAM_ROOT):
            if path.startswith(RECORDS_ROOT):
                self._records(request, reply)
            else:
                self._page(request, reply)
            return
        if path.startswith(_CONTROL) or path == _CONTROL[:-1]:
            self._control(request, reply)
            return
        handler = _METHODS.get(request.method)
        if handler is None:
            reply.send(other_method(request, _ALLOW))
            return
        name = stream_name(path[_ROOT_LENGTH:])
        if isinstance(name, Refused):
            reply.send(refuse(name))
            return
        handler(self._context, name, request, reply)

    def lane(self, method: str, path: bytes) -> Lane | None:
        """Return the short way to append to or create a stream; other requests have none."""
        handler = _LANES.get(method)
        if handler is None or not path.startswith(STREAM_ROOT) or path.startswith(_CONTROL):
            return None
        name = stream_name(path[_ROOT_LENGTH:])
        return None if isinstance(name, Refused) else partial(handler, self._context, name)

    def _page(self, request: Request, reply: Reply) -> None:
        method = "GET" if request.method == "HEAD" else request.method
        handler = self._pages.get((method, request.path))
        if handler is not None:
            handler(request, reply)
        elif request.path in self._paths:
            reply.send(other_method(request, b"GET, HEAD, OPTIONS"))
        else:
            text = request.path.decode("latin-1")
            reply.send(refuse(Refused(code=Code.ROUTE_NOT_FOUND, detail=f"no route at {text!r}")))

    def _list(self, request: Request, reply: Reply) -> None:
        listing.list_streams(self._context, request, reply)
