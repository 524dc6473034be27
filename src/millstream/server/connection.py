"""One client connection: the order of answers, deadlines and back-pressure.

Requests of one connection are handled strictly one
after the other (RFC 9112, 9.3.2 allows no more for methods that change things); further ones wait
parsed, within bounds, and then unread. No request costs a timer, a task or a future.

Answers that come out of one read, or of one run through the queue, are sent together.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, cast

from millstream.server.edge import Edge
from millstream.server.exchange import TAKEN, Exchange, Taken
from millstream.server.heads import CONTINUE, split_lines
from millstream.server.http import Request, Response
from millstream.server.intake import BODY, HEAD, IDLE, PIECE_BYTES, Intake
from millstream.server.lanes import Block, Lane
from millstream.server.outbox import Outbox
from millstream.server.refusal import Refusal
from millstream.server.watched import NEVER, Watched

_log = logging.getLogger(__name__)

_QUEUE_REQUESTS_MAX: Final = 16
_QUEUE_BYTES_MAX: Final = 1024 * 1024


class Connection(Watched):
    """One client connection."""

    __slots__ = (
        "_backlog",
        "_candidate",
        "_exchange",
        "_intake",
        "_is_deaf",
        "_is_ending",
        "_is_half_closed",
        "_is_pumping",
        "_is_read_paused",
        "_owes_continue",
        "_phase_noted",
        "_phase_since",
        "_queue",
        "_queue_bytes",
        "_refusal",
    )

    def __init__(self, edge: Edge) -> None:
        """Wait for the transport."""
        super().__init__(edge)
        self._intake = cast("Intake", None)
        self._exchange: Exchange | Taken | None = None
        self._queue: deque[tuple[Request, bool, bool]] | None = None
        self._queue_bytes = 0
        self._backlog: bytes | memoryview = b""
        self._refusal: Refusal | None = None
        self._is_deaf = False
        self._is_ending = False
        self._is_half_closed = False
        self._candidate: bytes | None = None
        self._is_pumping = False
        self._is_read_paused = False
        self._owes_continue = False
        self._phase_noted = IDLE
        self._phase_since = 0.0

    # -- called by the transport ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register, or refuse when the server is full."""
        self.transport = cast("asyncio.Transport", transport)
        self.outbox = Outbox(self.transport)
        edge = self.edge
        limit = edge.settings.write_buffer_bytes
        self.transport.set_write_buffer_limits(high=limit, low=limit // 4)
        peer = self.transport.get_extra_info("peername")
        self._intake = Intake(edge.settings, self, str(peer[0]) if peer else "")
        self.deadline = edge.now + edge.idle_s
        if not edge.admit(self):
            if edge.is_flooded:
                self.transport.abort()
                return
            detail = f"the server already has {edge.settings.connections_max} connections."
            self._refuse(Refusal("overloaded", detail))

    def data_received(self, data: bytes) -> None:
        """Parse; complete requests are dispatched or queued before this returns."""
        if self._is_deaf:
            return
        intake = self._intake
        if (
            self._exchange is None
            and intake.is_between
            and not self._queue
            and not self.is_write_paused
            and self._enter(data)
        ):
            return
        self.outbox.hold()
        try:
            if len(data) <= PIECE_BYTES:
                intake.feed(data)
            else:
                self._feed_pieces(data)
        except Refusal as refusal:
            self._refuse(refusal)
        except Exception:  # noqa: BLE001 - a fault of ours must not look like the client's
            _log.exception("the edge failed on input")
            self.transport.abort()
        self._candidate = None
        self.outbox.release()
        if intake.phase != IDLE or self._phase_noted != IDLE:
            self._note_phase()

    def eof_received(self) -> bool:
        """Half-closed by the client: answer what was asked, then close."""
        self._is_deaf = True
        exchange = self._exchange
        if self._is_ending or (exchange is None and not self._queue):
            return False
        if exchange is not None and exchange.is_streaming:
            return False  # Nobody is known to read on; a live body must not run for nobody.
        self._is_half_closed = True
        self.deadline = NEVER
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Let go of everything, and tell the handler that is at work."""
        self._is_deaf = True
        self.deadline = self.stall_at = NEVER
        self._queue = None
        self._backlog = b""
        self.outbox.clear()
        self._charge(0)
        self.edge.dismiss(self)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.disconnect()

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        if self._exchange is not None:
            self._exchange.drain()
        else:
            self._pump()

    # -- called by the intake ---------------------------------------------------------------

    def accept(self, request: Request, is_kept: bool, is_old: bool) -> None:  # noqa: FBT001
        """Take a parsed request: handle it now, or when those before it are answered."""
        if self._candidate is not None and is_kept and not is_old:
            self.edge.lanes.learn(self._candidate, request)
        self._candidate = None
        if self._exchange is None and not self._queue and not self.is_write_paused:
            self._dispatch(request, is_kept, is_old)
            return
        if self._queue is None:
            self._queue = deque()
        self._queue.append((request, is_kept, is_old))
        self._queue_bytes += len(request.body)
        if len(self._queue) >= _QUEUE_REQUESTS_MAX or self._queue_bytes >= _QUEUE_BYTES_MAX:
            self._pause_reading()

    def invite_body(self) -> None:
        """Say 100 Continue as soon as no earlier answer is outstanding."""
        if self._exchange is None and not self._queue:
            self.outbox.write(CONTINUE)
        else:
            self._owes_continue = True

    # -- called by the exchange and the edge --------------------------------------------------

    def reply_lines(self, status: int, lines: bytes) -> None:
        """See `LaneReply`."""
        if self._exchange is TAKEN and not self.edge.is_stopping:
            self.outbox.write(self.edge.heads.complete(status, lines))
            self.finish(True, status)
        else:
            self.reply(Response(status, split_lines(lines)))

    def reply(self, response: Response) -> None:
        """See `LaneReply`."""
        if self._exchange is TAKEN:
            exchange = self._exchange = Exchange(self, False, True, False)
            exchange.send(response)

    def finish(self, is_kept: bool, status: int) -> None:  # noqa: FBT001
        """The present request is answered: go on with the next, or close."""
        self._exchange = None
        edge = self.edge
        edge.counters.responses[status // 100] += 1
        if not is_kept:
            self._close()
        elif self._queue:
            self._pump()
        elif self._refusal is not None:
            self._refuse(self._refusal)
        elif self._is_half_closed:
            self._close()
        else:
            if self._phase_noted == IDLE:
                self.deadline = edge.now + edge.idle_s
            if self._owes_continue:
                self._owes_continue = False
                if self._intake.phase == BODY and not self._intake.body_bytes:
                    self.outbox.write(CONTINUE)

    def expire(self, now: float) -> None:
        """A deadline has passed."""
        if self.stall_at <= now and not self._is_making_progress(now):
            self.edge.counters.connections_stalled += 1
            self.transport.abort()
        elif self.deadline <= now:
            self.deadline = NEVER
            if self._intake.phase != IDLE and not self._is_ending:
                part = "header" if self._intake.phase == HEAD else "body"
                self.edge.counters.requests_timed_out += 1
                self._refuse(Refusal("request_timeout", f"the {part} came too slowly."))
            elif self.transport.get_write_buffer_size():
                # Not idle but slow: that is for the other deadline to judge.
                self.deadline = now + self.edge.idle_s
                if self.stall_at == NEVER:
                    self._watch_reader(now)
            elif self._is_ending:
                self.transport.abort()
            else:
                self._close()

    def wind_down(self) -> None:
        """The server stops: close now if nothing is in flight, else after the answer."""
        if self._exchange is None and not self._queue and self._intake.phase == IDLE:
            self._close()

    # -- inner workings -----------------------------------------------------------------------

    def _enter(self, data: bytes) -> bool:
        """Take a whole request whose header block is known past the parser, if this is one."""
        lanes = self.edge.lanes
        line_end = data.find(b"\r\n")
        body_at = data.find(b"\r\n\r\n", line_end) + 4
        raw_block = data[line_end:body_at]
        block = lanes.blocks.get(raw_block)
        if block is None:
            # Other lines have a say in the fields: an absolute target takes the host's place.
            is_plain = body_at > line_end > 0 and lanes.line(data[:line_end]) is not None
            self._candidate = raw_block if is_plain else None
            return False
        if len(data) - body_at != block.body_bytes:
            return False
        line = lanes.line(data[:line_end])
        if line is None:
            return False
        body = data[body_at:]
        if line.lane is None or not self._take(line.lane, block, body):
            peer = self._intake.peer
            request = Request(line.method, line.path, block.headers, body, line.query, peer)
            self._dispatch(request, True, False)
        return True

    def _take(self, lane: Lane, block: Block, body: bytes) -> bool:
        self._exchange = TAKEN
        self.deadline = NEVER
        try:
            if lane(block, body, self):
                return True
        except Exception:  # noqa: BLE001 - the last line of defence for every handler
            if self._exchange is not TAKEN:
                _log.exception("a lane raised after its answer")
                return True
            exchange = self._exchange = Exchange(self, False, True, False)
            exchange.fail("a lane raised")
            return True
        self._exchange = None
        return False

    def _feed_pieces(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest and not self._is_deaf:
            if self._is_read_paused:
                self._backlog = rest
                return
            size = len(rest) if self._intake.phase == BODY else PIECE_BYTES
            self._intake.feed(rest[:size])
            rest = rest[size:]

    def _dispatch(self, request: Request, is_kept: bool, is_old: bool) -> None:  # noqa: FBT001
        edge = self.edge
        exchange = self._exchange = Exchange(self, request.method == "HEAD", is_kept, is_old)
        self.deadline = NEVER
        if not is_kept:
            self._is_deaf = True
        try:
            if edge.cors is not None:
                exchange.extra = edge.cors.lines(request.headers.get(b"origin"))
                if request.method == "OPTIONS":
                    exchange.send(edge.cors.preflight())
                    return
            edge.handler(request, exchange)
        except Exception:  # noqa: BLE001 - the last line of defence for every handler
            exchange.fail(f"{request.method} handler raised")

    def _pump(self) -> None:
        if self._is_pumping:
            return
        self._is_pumping = True
        was_held = self.outbox.hold()
        while self._queue and self._exchange is None and not self.is_write_paused:
            item = self._queue.popleft()
            self._queue_bytes -= len(item[0].body)
            self._dispatch(*item)
        self._is_pumping = False
        if not was_held:
            self.outbox.release()
        if self._queue:
            return
        if self._exchange is None and self._refusal is not None:
            self._refuse(self._refusal)
        elif self._exchange is None and self._is_half_closed:
            self._close()
        elif self._is_read_paused:
            self._resume_reading()

    def _pause_reading(self) -> None:
        if not self._is_read_paused and not self.transport.is_closing():
            self._is_read_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        self._is_read_paused = False
        if self.transport.is_closing():
            return
        self.transport.resume_reading()
        backlog, self._backlog = self._backlog, b""
        self._phase_noted = IDLE  # The client could not go on: its time starts anew.
        if backlog:
            self.data_received(bytes(backlog))
        self._note_phase()

    def _note_phase(self) -> None:
        edge = self.edge
        phase = self._intake.phase
        if phase != self._phase_noted:
            self._phase_noted = phase
            self._phase_since = edge.now
        self._charge(self._intake.body_bytes)
        if self._is_deaf or self._is_ending:
            return
        if self._is_read_paused:
            self.deadline = NEVER
        elif phase == HEAD:
            self.deadline = self._phase_since + edge.header_s
        elif phase == BODY:
            grace_s = edge.body_s + self._intake.body_bytes / edge.settings.body_bytes_per_s_min
            self.deadline = self._phase_since + grace_s
            if edge.is_overfull and self._charged_bytes:
                detail = "too many request bodies are being received at once."
                self._refuse(Refusal("overloaded", detail))
        else:
            self.deadline = NEVER if self._exchange is not None else edge.now + edge.idle_s

    def _refuse(self, refusal: Refusal) -> None:
        self._is_deaf = True
        self._refusal = refusal
        if self._exchange is not None or self._queue or self._is_ending:
            return  # Answers keep their order: `finish` comes back here.
        self._charge(0)
        self.edge.counters.requests_refused += 1
        self._is_ending = True
        exchange = self._exchange = Exchange(self, is_head=False, is_kept=False, is_old=False)
        if self.edge.cors is not None:
            exchange.extra = self.edge.cors.lines(None)
        exchange.send(self.edge.problem(refusal.code, refusal.detail))

    def _close(self) -> None:
        """Close once everything is sent.

        The reading side stays open for a moment: closing a socket with unread input would make
        the kernel throw away the answer as well.
        """
        self._is_ending = True
        self._is_deaf = True
        self.outbox.flush()
        self.deadline = self.edge.now + self.edge.linger_s
        if self.transport.is_closing():
            return
        if self._refusal is None:
            self.transport.close()
            return
        if self._is_read_paused:
            self._is_read_paused = False
            self._backlog = b""
            self.transport.resume_reading()
        self.transport.write_eof()
