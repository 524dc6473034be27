"""All streams as readers may see them, and the memory their newest messages take."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sortedcontainers import SortedDict

from millstream.core.errors import Code, Refused
from millstream.core.events import (
    Appended,
    Event,
    StreamClosed,
    StreamCreated,
    StreamHidden,
    StreamRemoved,
)
from millstream.core.streams.state import Life
from millstream.engine.tails import Tail

if TYPE_CHECKING:
    from collections.abc import Iterator

_STALE_MIN = 256


class Views:
    """The read model: a fold over durable events."""

    def __init__(self, hot_bytes_max: int) -> None:
        """Keep at most ``hot_bytes_max`` bytes of messages in memory; the rest is on disk."""
        self._by_id: dict[int, Tail] = {}
        self._by_path: SortedDict[str, Tail] = SortedDict()
        self._hot_bytes_max = hot_bytes_max
        self._hot_order: deque[Tail] = deque()
        self._hot_stale = 0
        self._changed: dict[Tail, None] = {}
        self.hot_bytes = 0
        self.stored_bytes = 0

    def __len__(self) -> int:
        """Return how many streams there are, hidden ones included."""
        return len(self._by_id)

    def find(self, path: str, now_ms: int) -> Tail | Refused:
        """Return the stream that answers at ``path``, or why none does."""
        tail: Tail | None = self._by_path.get(path)
        if tail is not None and tail.life is not Life.LIVE:
            return Refused(code=Code.STREAM_GONE, detail=f"the stream at {path!r} was deleted")
        if tail is None or 0 < tail.deadline_ms <= now_ms:
            return Refused(code=Code.STREAM_NOT_FOUND, detail=f"no stream at {path!r}")
        return tail

    def expiring(self, path: str, now_ms: int) -> Tail | None:
        """Return the stream at ``path`` whose time is over, but whose end is not durable yet."""
        tail: Tail | None = self._by_path.get(path)
        if tail is None or tail.life is not Life.LIVE or not 0 < tail.deadline_ms <= now_ms:
            return None
        return tail

    def by_id(self, stream_id: int) -> Tail | None:
        """Return a stream by its incarnation, hidden or not."""
        return self._by_id.get(stream_id)

    def listing(self, prefix: str, after: str) -> Iterator[Tail]:
        """Yield the streams whose path starts with ``prefix``, in order, behind ``after``."""
        is_after = after >= prefix and after != ""
        start = after if is_after else prefix
        for path in self._by_path.irange(minimum=start, inclusive=(not is_after, True)):
            if not path.startswith(prefix):
                return
            yield self._by_path[path]

    def restore(self, tail: Tail) -> None:
        """Take over a stream from a snapshot."""
        self._by_id[tail.stream_id] = tail
        if tail.life is not Life.EXPIRED:
            self._by_path[tail.path] = tail
        self.stored_bytes += tail.stored_bytes

    def all(self) -> Iterator[Tail]:
        """Yield every stream, hidden ones included."""
        return iter(self._by_id.values())

    def apply(self, event: Event, data: bytes | int, place: int, frame_bytes: int) -> None:
        """Take over one durable event that lies in the frame at ``place``.

        ``data`` is only a length when the bytes need not stay in memory (replay).
        """
        if isinstance(event, Appended):
            self.append(event, data, place, frame_bytes)
            return
        match event:
            case StreamCreated():
                source = self._by_id[event.fork.source_id] if event.fork else None
                tail = Tail(event, source)
                self._by_id[event.stream_id] = tail
                self._by_path[event.path] = tail
            case StreamClosed():
                tail = self._by_id[event.stream_id]
                tail.is_closed = True
                if tail.ttl_s is not None:
                    tail.deadline_ms = max(tail.deadline_ms, event.time_ms + tail.ttl_s * 1000)
                self._changed[tail] = None
            case StreamHidden():
                self._hide(event)
            case StreamRemoved():
                self._remove(event)
            case _:
                # Producers, deadlines and subscriptions are no reader's business.
                pass

    def take_changed(self) -> list[Tail]:
        """Return the streams that changed since the last call."""
        changed = list(self._changed)
        self._changed.clear()
        return changed

    def append(self, event: Appended, data: bytes | int, place: int, frame_bytes: int) -> None:
        """Take over one durable append that lies in the frame at ``place``."""
        tail = self._by_id[event.stream_id]
        tail.append(event, data, place, frame_bytes)
        self._changed[tail] = None
        if isinstance(data, int):
            self.stored_bytes += data
            return
        size = len(data)
        self.stored_bytes += size
        self.hot_bytes += size
        self._hot_order.append(tail)
        while self.hot_bytes > self._hot_bytes_max and self._hot_order:
            oldest = self._hot_order.popleft()
            self._hot_stale -= oldest.is_removed
            self.hot_bytes -= oldest.cool()

    def _hide(self, event: StreamHidden) -> None:
        tail = self._by_id[event.stream_id]
        tail.life = Life.EXPIRED if event.is_expired else Life.DELETED
        if event.is_expired:
            del self._by_path[tail.path]
        self._changed[tail] = None

    def _remove(self, event: StreamRemoved) -> None:
        tail = self._by_id.pop(event.stream_id)
        tail.is_removed = True
        self.stored_bytes -= tail.stored_bytes
        if self._by_path.get(tail.path) is tail:
            del self._by_path[tail.path]
        if tail.hot is not None:
            self.hot_bytes -= tail.hot.weight()
            self._hot_stale += len(tail.hot)
            tail.hot = None
            self._forget_stale()
        self._changed[tail] = None

    def _forget_stale(self) -> None:
        """Let go of removed streams in the order of cooling, once they are most of it."""
        if self._hot_stale > _STALE_MIN and self._hot_stale * 2 > len(self._hot_order):
            self._hot_order = deque(tail for tail in self._hot_order if not tail.is_removed)
            self._hot_stale = 0
