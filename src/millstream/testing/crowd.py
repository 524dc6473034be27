"""Everybody outside of the simulated server: writers, readers, administrators, and an auditor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.core import media
from millstream.core.errors import Code, Refused
from millstream.core.offsets import Position
from millstream.core.streams.commands import (
    Created,
    CreateStream,
    DeleteStream,
    Done,
    ForkPoint,
    ForkRequest,
)
from millstream.core.streams.state import Life as StreamLife
from millstream.engine.forking import resolve
from millstream.engine.tails import Tail
from millstream.testing.clients import INDEFINITE, Writer, batch
from millstream.testing.ledger import Known, Ledger, Tag
from millstream.testing.server_life import Life, split

if TYPE_CHECKING:
    import random

PATHS = ("a", "b", "c", "d", "e")
WRITERS_MAX = 6


class Crowd:
    """All clients. They outlive the server and keep one ledger of what it told them."""

    def __init__(self, rng: random.Random, say: Callable[[str], None]) -> None:
        """Act as ``rng`` says and ``say`` what comes back."""
        self.ledger = Ledger()
        self.step = 0
        self.answers = 0
        self.latest_ms = 0
        self._rng = rng
        self._say = say
        self._writers: list[Writer] = []
        self._busy_paths: set[str] = set()
        self._names = 0

    def cut_off(self) -> None:
        """The server is gone: whoever waits for an answer will ask again."""
        self._busy_paths.clear()
        for writer in self._writers:
            for request in (*writer.ghosts, writer.current):
                if request is not None:
                    request.is_open = False

    def write(self, life: Life) -> None:
        """Let the writers act, and a new one join them."""
        rng = self._rng
        self._writers = [writer for writer in self._writers if not writer.is_done]
        if len(self._writers) < WRITERS_MAX:
            tail = life.engine.find(rng.choice(PATHS))
            if isinstance(tail, Tail) and not tail.is_closed:
                self._names += 1
                name = f"p{self._names}"
                self._writers.append(
                    Writer(
                        name,
                        tail.path,
                        tail.stream_id,
                        rng,
                        self.ledger,
                        self._answered,
                    )
                )
        for writer in self._writers:
            if rng.random() < 0.6:
                writer.act(life, self.step)

    def _answered(self, line: str) -> None:
        self.answers += 1
        self._say(line)

    def read(self, life: Life) -> None:
        """Look at a stream, slide its expiry, and read a page of it."""
        rng = self._rng
        tail = self._look(life, rng.choice(PATHS))
        if tail is None:
            return
        known = self._known(tail)
        if rng.random() < 0.3:
            tail.watch(lambda: self._saw_tail(tail))
        life.engine.touch(tail)
        index = rng.randrange(tail.index + 1)

        def done(page: object) -> None:
            if isinstance(page, Refused):
                self.ledger.check(False, "D6", f"{tail.path}: {page.detail}")
                return
            assert isinstance(page, tuple)
            parts, end = page
            messages = split(parts) if end > index else []
            self.ledger.check(len(messages) == end - index, "D5", f"{tail.path}: {page}")
            for number, data in enumerate(messages, index + 1):
                self.ledger.learn(known, number, data, tail.time_at(number))
            self._say(f"read {tail.path} {index} to {end}")

        life.start_task(life.engine.read(tail, index, rng.choice((1, 300, 5000)), 9), done)

    def _look(self, life: Life, path: str) -> Tail | None:
        """Look a stream up, as HEAD does."""
        tail = life.engine.find(path)
        if isinstance(tail, Refused):
            return None
        self._saw_tail(tail)
        return tail

    def _saw_tail(self, tail: Tail) -> None:
        known = self._known(tail)
        self.ledger.check(
            not (known.is_deleted and tail.life is StreamLife.LIVE),
            "D8",
            f"{tail.path} ({tail.stream_id}) is back after its deletion",
        )
        self.ledger.learn_tail(known, tail.index, tail.time_ms, is_closed=tail.is_closed)

    def _known(self, tail: Tail) -> Known:
        known = self.ledger.stream(tail.stream_id, tail.path)
        known.base = tail.extents.base
        if tail.ttl_s is not None and known.must_live_until_ms is None:
            known.must_live_until_ms = 0
        return known

    def administer(self, life: Life) -> None:
        """Create, fork or delete."""
        rng = self._rng
        path = rng.choice(PATHS)
        if path in self._busy_paths:
            return
        self._busy_paths.add(path)
        choice = rng.random()
        if choice < 0.2:
            self._delete(life, path)
        elif choice < 0.55:
            self._fork(life, path, rng.choice(PATHS))
        else:
            ttl_s = rng.choice((None, None, None, 0, 2, 9))
            self._create(life, path, ttl_s, None, None)

    def _create(
        self,
        life: Life,
        path: str,
        ttl_s: int | None,
        request: ForkRequest | None,
        point: ForkPoint | Refused | None,
    ) -> None:
        self._names += 1
        tag = Tag(f"x{self._names}", 0, 0, 0, self._rng.randrange(4))
        sent_ms = life.loop.now_ms()
        command = CreateStream(
            path=path,
            content_type=media.JSON,
            ttl_s=ttl_s,
            body=batch(tag),
            fork=point,
            fork_request=request,
        )

        def answered(answer: object) -> None:
            self._busy_paths.discard(path)
            self._answered(f"create {path} {answer}")
            if isinstance(answer, Created) and answer.is_new:
                self._created(life, path, answer, tag, point)
                tail = life.engine.views.by_id(answer.stream_id)
                known = self.ledger.stream(answer.stream_id, path)
                if tail is not None and tail.ttl_s is not None:
                    known.must_live_until_ms = sent_ms + tail.ttl_s * 1000
            elif isinstance(answer, Refused) and answer.code not in INDEFINITE:
                self.ledger.never[tag.producer, 0, 0] = answer.code.code
            elif isinstance(answer, Created):
                self.ledger.never[tag.producer, 0, 0] = "it was there already"

        life.engine.submit(command, answered)

    def _created(
        self, life: Life, path: str, answer: Created, tag: Tag, point: ForkPoint | Refused | None
    ) -> None:
        ledger = self.ledger
        ledger.check(not life.slow_disk.is_poisoned, "D4", f"{path} was made by a failed log")
        known = ledger.stream(answer.stream_id, path)
        known.base = answer.tail.index - tag.parts
        if isinstance(point, ForkPoint):
            ledger.check(known.base == point.base.index, "D8", f"{path} leaves at {known.base}")
            source = ledger.streams.get(point.source_id)
            for index, seen in source.messages.items() if source is not None else ():
                if index <= known.base:
                    ledger.learn(known, index, seen.data, seen.time_ms)
        for part in range(tag.parts):
            data = tag._replace(part=part).encode()
            ledger.learn(known, known.base + part + 1, data, answer.tail.time_ms)

    def _fork(self, life: Life, path: str, source: str) -> None:
        rng = self._rng
        tail = self._look(life, source)
        anchor, sub = None, 0
        if tail is not None and rng.random() < 0.7:
            index = rng.randrange(tail.index + 1)
            anchor, sub = Position(tail.time_at(index), index), rng.choice((0, 0, 1, 2))
        request = ForkRequest(source, anchor, sub)
        ttl_s = rng.choice((None, None, 5))

        def found(point: ForkPoint | Refused) -> None:
            self._create(life, path, ttl_s, request, point)

        life.start_task(resolve(life.engine, request), found)

    def _delete(self, life: Life, path: str) -> None:
        tail = self._look(life, path)
        known = self._known(tail) if tail is not None else None
        for each in self.ledger.streams.values():
            # Also one that looks expired and is kept alive by an append on its way.
            each.is_maybe_gone = each.is_maybe_gone or each.path == path

        def answered(answer: object) -> None:
            self._busy_paths.discard(path)
            self._answered(f"delete {path} {answer}")
            poisoned = life.slow_disk.is_poisoned
            self.ledger.check(isinstance(answer, Refused) or not poisoned, "D4", f"delete {path}")
            if isinstance(answer, Done) and known is not None:
                known.is_deleted = True
            if isinstance(answer, Refused):
                self.ledger.check(answer.code is not Code.INTERNAL, "P5", f"delete {path}")

        life.engine.submit(DeleteStream(path), answered)

    def audit(self, life: Life) -> None:
        """Read everything there is and compare it with everything that was ever told."""
        # Time may have been set back since a stream expired.
        self.latest_ms = max(self.latest_ms, life.loop.now_ms())
        for tail in list(life.engine.views.all()):
            known = self._known(tail)
            self._saw_tail(tail)
            messages = life.messages(tail)
            self.ledger.check_whole(known, messages, is_closed=tail.is_closed)
            writer = life.engine.writer
            is_settled = writer.is_idle and writer.failure is None
            if is_settled and tail.life is StreamLife.LIVE:
                deadline_ms = life.machine.streams.by_id[tail.stream_id].deadline_ms
                is_same = tail.deadline_ms <= deadline_ms
                self.ledger.check(is_same, "D8", f"{tail.path} lives for readers, not for writers")
        for stream_id, known in self.ledger.streams.items():
            until = known.must_live_until_ms
            if known.is_maybe_gone or (until is not None and self.latest_ms >= until):
                continue
            tail_now = life.engine.views.by_id(stream_id)
            is_there = tail_now is not None and tail_now.life is StreamLife.LIVE
            self.ledger.check(is_there, "D1", f"{known.path} ({stream_id}) is gone")
        self._say(f"audited {len(life.engine.views)} streams")
