"""A real HTTP server in a thread that answers what a test tells it to, and remembers requests."""

import contextlib
import http.server
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Asked(NamedTuple):
    """A request as it arrived; header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Reply(NamedTuple):
    """What to answer. `cut` drops the connection in place of an answer."""

    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    body: bytes = b""
    cut: bool = False


Script = Callable[[Asked], Reply]


class Scripted:
    """The running server: its URL, what it was asked, and the script it answers by."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.url = ""


def replies(*answers: Reply) -> Script:
    """Answer with one reply after the other; the last is repeated."""
    waiting = list(answers)

    def script(_: Asked) -> Reply:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return script


@contextlib.contextmanager
def scripted(script: Script) -> Iterator[Scripted]:
    """Run the server for the length of the block."""
    state = Scripted(script)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            asked = Asked(
                self.command,
                parts.path,
                dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True)),
                {name.lower(): value for name, value in self.headers.items()},
                body,
            )
            state.asked.append(asked)
            reply = state.script(asked)
            if reply.cut:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.headers.get("content-type") == "text/event-stream":
                self.close_connection = True
            else:
                self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
