"""Writers of the simulation: they lose answers, ask again, and remember what they were told."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from millstream.core import media
from millstream.core.errors import Code, Refused
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import EMPTY, Added, Append, Body, Duplicate
from millstream.testing.ledger import Ledger, Tag

if TYPE_CHECKING:
    import random

    from millstream.testing.server_life import Life

GONE = (Code.STREAM_NOT_FOUND, Code.STREAM_GONE, Code.STREAM_CLOSED)
INDEFINITE = (Code.STORAGE_FAILED, Code.INTERNAL)
LATER = (Code.OVERLOADED, Code.STOPPING, Code.LOG_FULL)
LOST_ANSWER = 0.1
PATIENCE = 12
"""Steps after which a client takes an answer for lost and asks again."""


def batch(tag: Tag) -> Body:
    """Return the messages of one batch, each with its own tag."""
    parts = [tag._replace(part=part).encode() for part in range(tag.parts)]
    if not parts:
        return EMPTY
    lengths = array("I", map(len, parts)).tobytes() if len(parts) > 1 else b""
    return Body(b",".join(parts), len(parts), lengths)


@dataclass
class Request:
    """One append, sent as often as it takes."""

    command: Append
    tag: Tag
    is_in_order: bool = True
    sent_step: int = -1000
    sent_ms: int = 0
    is_open: bool = False
    is_maybe_stored: bool = False


@dataclass
class Writer:
    """An idempotent producer on one stream, sometimes a careless one."""

    name: str
    path: str
    stream_id: int
    rng: random.Random
    ledger: Ledger
    say: Callable[[str], None]
    epoch: int = 0
    seq: int = 0
    count: int = 0
    is_done: bool = False
    current: Request | None = None
    ghosts: list[Request] = field(default_factory=list)

    def act(self, life: Life, step: int) -> None:
        """Send something new, something again, or wait."""
        rng = self.rng
        if self.ghosts and rng.random() < 0.2:
            self._send(life, step, rng.choice(self.ghosts))
        if self.current is None:
            stray = self._stray()
            if stray is not None:
                self._send(life, step, stray)
            self.current = self._next()
        request = self.current
        if not request.is_open or step - request.sent_step > PATIENCE:
            self._send(life, step, request)
        elif rng.random() < 0.03:
            # A new life of this producer takes over while the old one is still at it.
            self.ghosts.append(request)
            self.epoch, self.seq, self.current = self.epoch + 1, 0, None

    def _stray(self) -> Request | None:
        """Return, now and then, what must never be taken: an old epoch, or what follows a gap."""
        rng, self.count = self.rng, self.count + 1
        odd = rng.random()
        if odd < 0.05 and self.epoch and self.seq:
            # Sequence 0 of this epoch was answered for, so the old one is over for ever.
            claim = Claim(self.name, self.epoch - 1, rng.randrange(4))
        elif odd < 0.1:
            claim = Claim(self.name, self.epoch, self.seq + 2)
        else:
            return None
        tag = Tag(self.name, claim.epoch, 1000 + self.count, 0, rng.randrange(1, 5))
        request = Request(self._command(claim, tag), tag, is_in_order=False)
        if claim.epoch < self.epoch:
            self.ghosts.append(request)
        return request

    def _next(self) -> Request:
        odd = self.rng.random()
        parts = self.rng.randrange(1, 5) if odd < 0.995 else 0
        tag = Tag(self.name, self.epoch, self.seq, 0, parts)
        claim = Claim(self.name, self.epoch, self.seq)
        return Request(self._command(claim, tag, is_closing=odd > 0.985), tag)

    def _command(self, claim: Claim, tag: Tag, *, is_closing: bool = False) -> Append:
        return Append(self.path, media.JSON, batch(tag), is_closing, claim)

    def _send(self, life: Life, step: int, request: Request) -> None:
        request.sent_step, request.sent_ms = step, life.loop.now_ms()
        request.is_open = True
        is_lost = self.rng.random() < LOST_ANSWER
        was_maybe_stored, request.is_maybe_stored = request.is_maybe_stored, True

        def answered(answer: object) -> None:
            if is_lost:
                self.say(f"{self.name} lost an answer")
                return
            self.say(f"{self.name} {request.tag} {answer}")
            self._told(life, request, answer, was_maybe_stored=was_maybe_stored)

        life.engine.submit(request.command, answered, len(batch(request.tag).data))

    def _told(
        self, life: Life, request: Request, answer: object, *, was_maybe_stored: bool
    ) -> None:
        request.is_open = False
        if isinstance(answer, Refused):
            self._refused(life, request, answer, was_maybe_stored=was_maybe_stored)
            return
        assert isinstance(answer, Added | Duplicate)
        check = self.ledger.check
        check(not life.slow_disk.is_poisoned, "D4", f"{self.name} was answered by a failed log")
        end = answer.tail.index if isinstance(answer, Added) else answer.end_index
        known = self.ledger.stream(answer.stream_id, self.path)
        tail = life.engine.views.by_id(answer.stream_id)
        if tail is not None:
            check(tail.index >= end, "D3", f"{self.path} shows {tail.index}, answered {end}")
        if not request.is_in_order:
            check(False, "P3", f"{request.tag} of an old epoch or behind a gap was taken")
            return
        first = end - request.tag.parts
        for part in range(request.tag.parts):
            data = request.tag._replace(part=part).encode()
            # Only the last message's time is told; the others have the same, being one append.
            time_ms = answer.tail.time_ms if isinstance(answer, Added) else None
            self.ledger.learn(known, first + 1 + part, data, time_ms)
        if tail is not None and isinstance(answer, Duplicate) and request.tag.parts:
            self.ledger.learn(known, end, known.messages[end].data, tail.time_at(end))
        known.is_closed = known.is_closed or answer.is_closed
        if tail is not None and tail.ttl_s is not None and isinstance(answer, Added):
            until = request.sent_ms + tail.ttl_s * 1000
            known.must_live_until_ms = max(known.must_live_until_ms or 0, until)
        if request is self.current:
            self.current, self.seq = None, self.seq + 1
        if answer.is_closed:
            self.is_done = True

    def _refused(
        self, life: Life, request: Request, answer: Refused, *, was_maybe_stored: bool
    ) -> None:
        check, code = self.ledger.check, answer.code
        check(code is not Code.INTERNAL, "P5", f"{request.tag}: the machine broke")
        if code in INDEFINITE:
            return
        request.is_maybe_stored = was_maybe_stored
        if code in LATER:
            return
        if code in GONE:
            self.is_done = True
        elif request is self.current:
            tail = life.engine.views.by_id(self.stream_id)
            if tail is not None and not tail.is_removed:
                check(False, "P1", f"{request.tag} is in order and was refused: {answer.detail}")
            self.is_done = True
        if not request.is_maybe_stored:
            key = (request.tag.producer, request.tag.epoch, request.tag.seq)
            self.ledger.never[key] = code.code
            if request in self.ghosts:
                self.ghosts.remove(request)
