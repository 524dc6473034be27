"""What streams promise, in plain dicts and lists: slow, forgetful of nothing, easy to believe.

A fork copies its source's messages. A hidden stream is kept for as long as some stream says that
it came from it. Answers are tuples, so that a test can compare them with anything.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Optional

from millstream.core.offsets import Position
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import (
    EMPTY,
    Append,
    AppendRecords,
    CreateStream,
    ForkRequest,
)

Answer = tuple[object, ...]


class Message(NamedTuple):
    """When it was committed, in which append, and its bytes."""

    time_ms: int
    batch: int
    data: bytes


@dataclass(eq=False)
class Stream:
    stream_id: int
    path: str
    kind: str
    ttl_s: int | None
    expires_ms: int | None
    deadline_ms: int
    logged_ms: int
    source: Optional["Stream"] = None
    asked: ForkRequest | None = None
    messages: list[Message] = field(default_factory=list)
    is_closed: bool = False
    closed_by: Claim | None = None
    seq: bytes = b""
    producers: dict[str, tuple[int, dict[int, int]]] = field(default_factory=dict)
    is_deleted: bool = False
    version: int = 0

    def time_at(self, index: int) -> int:
        return self.messages[index - 1].time_ms if index else 0

    @property
    def tail(self) -> Position:
        return Position(self.time_at(len(self.messages)), len(self.messages))

    def append_end(self, index: int) -> int:
        batch = self.messages[index].batch
        return sum(1 for m in self.messages[index:] if m.batch == batch) + index


class Point(NamedTuple):
    """A fork point that was found: in which stream, behind which messages, with which prefix."""

    source: Stream
    anchor: Position
    messages: list[Message]
    prefix: bytes


def no(
    code: str, stream: Stream | None = None, *, epoch: object = None, seq: object = None
) -> Answer:
    tail = (stream.tail.text(), stream.is_closed) if stream else (None, False)
    return ("refused", code, *tail, epoch, seq)


def essence(kind: str | None) -> str:
    return (kind or "application/octet-stream").lower().split(";")[0].strip()


class Model:
    """All streams: those that answer at a path, and those that only their forks need."""

    def __init__(self, producers_max: int) -> None:
        self.at_path: dict[str, Stream] = {}
        self.kept: list[Stream] = []
        self.producers_max, self.ids, self.batches = producers_max, 0, 0

    def everything(self) -> list[Stream]:
        return [*self.at_path.values(), *self.kept]

    def find(self, path: str, now: int) -> Stream | str:
        stream = self.at_path.get(path)
        if stream is None or (not stream.is_deleted and self.is_over(stream, now)):
            return "stream_not_found"
        return "stream_gone" if stream.is_deleted else stream

    def seek(self, path: str, now: int) -> Stream | str:
        """Find, and let a stream go that turns out to be over: being told so makes it final."""
        found = self.find(path, now)
        if found == "stream_not_found" and path in self.at_path:
            self.take_away(self.at_path[path], is_expired=True)
        return found

    @staticmethod
    def is_over(stream: Stream, now: int) -> bool:
        return stream.deadline_ms != 0 and now >= stream.deadline_ms

    def source(self, path: str, now: int) -> Stream | Answer:
        found = self.find(path, now)
        return found if isinstance(found, Stream) else no(found.replace("stream", "source"))

    def resolve(self, request: ForkRequest, now: int) -> Point | Answer:
        self.seek(request.source_path, now)
        source, anchor, sub = (
            self.source(request.source_path, now),
            request.anchor,
            request.sub_offset,
        )
        if not isinstance(source, Stream):
            return source
        if anchor is None:
            anchor = source.tail
        elif anchor.index == 0 and anchor.time_ms:
            index = sum(1 for m in source.messages if m.time_ms < anchor.time_ms)
            anchor = Position(source.time_at(index), index)
        elif anchor not in [
            Position(source.time_at(i), i) for i in range(len(source.messages) + 1)
        ]:
            return no("fork_invalid")
        at, prefix = anchor.index, b""
        if sub and at == len(source.messages):
            return no("fork_invalid")
        if sub and essence(source.kind) == "application/json":
            at += sub
            if at > source.append_end(anchor.index):
                return no("fork_invalid")
        elif sub:
            data = source.messages[at].data
            if sub > len(data):
                return no("fork_invalid")
            prefix, at = (data[:sub], at) if sub < len(data) else (b"", at + 1)
        return Point(source, anchor, source.messages[:at], prefix)

    def create(
        self, c: CreateStream, body: list[bytes] | None, point: Point | Answer | None, now: int
    ) -> Answer:
        old, kind, ttl_s, expires = (
            self.at_path.get(c.path),
            c.content_type,
            c.ttl_s,
            c.expires_at_ms,
        )
        if old is not None and old.is_deleted:
            return no("stream_exists")
        if old is not None and not self.is_over(old, now):
            if self.differs(old, c):
                return no("stream_exists", old)
            return ("created", old.stream_id, old.tail, old.is_closed, False)
        if isinstance(point, Point):
            source = self.source(point.source.path, now)
            if not isinstance(source, Stream):
                return source
            if source is not point.source:
                return no("source_gone")
            if kind is not None and essence(kind) != essence(source.kind):
                return no("content_type_mismatch")
            kind = source.kind
            if ttl_s is None and expires is None:
                ttl_s, expires = source.ttl_s, source.expires_ms
        elif point is not None:
            return point
        if body is None:
            return no("invalid_json")
        if old is not None:
            self.take_away(old, is_expired=True)
        self.ids += 1
        deadline = (
            now + ttl_s * 1000
            if ttl_s is not None
            else max(expires, 1)
            if expires is not None
            else 0
        )
        stream = Stream(self.ids, c.path, kind or essence(kind), ttl_s, expires, deadline, deadline)
        self.at_path[c.path] = stream
        if isinstance(point, Point) and c.fork_request is not None:
            anchor = c.fork_request.anchor or point.anchor
            stream.asked = ForkRequest(point.source.path, anchor, c.fork_request.sub_offset)
            stream.source, stream.messages = point.source, list(point.messages)
            self.add(stream, [point.prefix] if point.prefix else [], now)
        self.add(stream, body, now)
        self.close(stream, None, now) if c.is_closed else None
        return ("created", stream.stream_id, stream.tail, c.is_closed, True)

    @staticmethod
    def differs(stream: Stream, c: CreateStream) -> bool:
        mine, asked, kind = stream.asked, c.fork_request, c.content_type
        if mine is None or asked is None:
            if mine is not asked:
                return True
            kind = essence(kind)
        elif ForkRequest(asked.source_path, asked.anchor or mine.anchor, asked.sub_offset) != mine:
            return True
        is_silent = mine is not None and c.ttl_s is None and c.expires_at_ms is None
        is_other_life = (c.ttl_s, c.expires_at_ms) != (stream.ttl_s, stream.expires_ms)
        is_other_kind = kind is not None and essence(kind) != essence(stream.kind)
        return is_other_kind or (is_other_life and not is_silent) or c.is_closed != stream.is_closed

    def append(self, c: Append, body: list[bytes] | None, now: int) -> Answer:
        stream, claim = self.seek(c.path, now), c.claim
        if isinstance(stream, str):
            return no(stream)
        if stream.is_closed:
            if claim is not None and claim == stream.closed_by:
                return ("duplicate", stream.stream_id, len(stream.messages), claim.seq, True)
            verdict = self.judge(stream, claim) if claim is not None else None
            if verdict is not None and verdict[0] == "duplicate":
                return (*verdict[:-1], True)
            if c.is_closing and body == [] and claim is None:
                return ("added", stream.stream_id, stream.tail, True, 0)
            return no("stream_closed", stream)
        if body != [] and essence(c.content_type) != essence(stream.kind):
            return no("content_type_mismatch", stream)
        verdict = self.judge(stream, claim) if claim is not None else None
        if verdict is not None:
            return verdict
        if c.if_match is not None and c.if_match != stream.tail:
            return no("offset_mismatch", stream)
        if c.stream_seq is not None and stream.seq and c.stream_seq.encode() <= stream.seq:
            return no("sequence_conflict", stream)
        if body is None:
            return no("invalid_json")
        if body and c.stream_seq is not None:
            stream.seq = c.stream_seq.encode()
        self.add(stream, body, now)
        if claim is not None:
            epoch, ends = stream.producers.get(claim.producer_id, (claim.epoch, {}))
            ends = ends if epoch == claim.epoch else {}
            stream.producers[claim.producer_id] = (
                claim.epoch,
                ends | {claim.seq: len(stream.messages)},
            )
        self.close(stream, claim, now) if c.is_closing else None
        return ("added", stream.stream_id, stream.tail, c.is_closing, len(body))

    def append_records(self, c: AppendRecords, body: list[bytes], now: int) -> Answer:
        found = self.seek(c.path, now)
        if found == "stream_gone":
            return no(found)
        if isinstance(found, str) and not body and not c.version:
            return ("version", 0)
        if isinstance(found, str):
            if body and c.claim is not None and c.claim.seq:
                return no("producer_gap", seq=0)
            self.create(CreateStream(path=c.path, content_type="application/json"), [], None, now)
        stream = self.at_path[c.path]
        if essence(stream.kind) != "application/json":
            return (*no("content_type_mismatch", stream)[:3], False, None, None)
        if c.version is not None and c.version < stream.version:
            return no("version_fenced")
        answer: Answer = ("version", max(stream.version, c.version or 0))
        if body:
            answer = self.append(Append(c.path, stream.kind, EMPTY, claim=c.claim), body, now)
        if answer[0] != "refused":
            stream.version = max(stream.version, c.version or 0)
        return answer

    def judge(self, stream: Stream, claim: Claim) -> Answer | None:
        known = stream.producers.get(claim.producer_id)
        if known is None and claim.seq == 0 and len(stream.producers) >= self.producers_max:
            return no("too_many_producers")
        epoch, ends = known or (claim.epoch, {})
        if claim.epoch < epoch:
            return no("producer_fenced", epoch=epoch)
        if claim.epoch > epoch:
            return None if claim.seq == 0 else no("epoch_start")
        if claim.seq in ends:
            return ("duplicate", stream.stream_id, ends[claim.seq], max(ends), False)
        return None if claim.seq == len(ends) else no("producer_gap", seq=len(ends))

    def add(self, stream: Stream, body: list[bytes], now: int) -> None:
        self.batches += 1
        time_ms = max(now, stream.tail.time_ms)
        stream.messages += [Message(time_ms, self.batches, data) for data in body]
        self.slide(stream, time_ms) if body else None

    def close(self, stream: Stream, claim: Claim | None, now: int) -> None:
        stream.is_closed, stream.closed_by = True, claim
        self.slide(stream, max(now, stream.tail.time_ms))

    @staticmethod
    def slide(stream: Stream, time_ms: int, slack: bool = False) -> None:
        """Live longer; what a restart knows of reads lags behind, to the stream's favour."""
        if stream.ttl_s is not None:
            stream.deadline_ms = max(stream.deadline_ms, time_ms + stream.ttl_s * 1000)
            if stream.deadline_ms > stream.logged_ms:
                stream.logged_ms = stream.deadline_ms + slack * max(stream.ttl_s * 125, 1000)

    def restart(self) -> None:
        for stream in self.everything():
            stream.deadline_ms = max(stream.deadline_ms, stream.logged_ms)

    def delete(self, path: str, now: int) -> Answer:
        stream = self.seek(path, now)
        if isinstance(stream, str):
            return no(stream)
        self.take_away(stream, is_expired=False)
        return ("done",)

    def expire(self, stream: Stream, now: int) -> None:
        is_live = self.at_path.get(stream.path) is stream and not stream.is_deleted
        if is_live and self.is_over(stream, now):
            self.take_away(stream, is_expired=True)

    def take_away(self, stream: Stream, *, is_expired: bool) -> None:
        stream.is_deleted = True
        if is_expired:
            self.kept.append(self.at_path.pop(stream.path))
        # A chain of hidden streams goes link by link, so look until nothing changes.
        for _ in self.everything():
            needed = {s.source for s in self.everything()}
            self.kept = [s for s in self.kept if s in needed]
            self.at_path = {
                p: s for p, s in self.at_path.items() if s in needed or not s.is_deleted
            }
