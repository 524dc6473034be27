"""A server and a bad network in memory, between which a producer's session has to do its work.

A request that is given up may still arrive later: it stays in `ghosts` until somebody delivers it.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from millstream.client.core.answers import Answer, refusal
from millstream.client.core.batches import Batch, Delivered, Outcome
from millstream.client.core.producing import Session
from millstream.client.core.tries import Sender, Try
from millstream.client.errors import ClientError, NetworkFailed
from millstream.client.producing_options import ProducerOptions

URL = "http://server.test/v1/stream/s"
JSON = "application/json"
POISON = "poison"


def is_uncertain(outcome: Outcome | None) -> bool:
    """Tell whether an error admits that its message may be stored."""
    return bool(getattr(outcome, "is_uncertain", False))


class ModelServer:
    """One stream that knows one producer, by the rules of docs/protocol.md."""

    def __init__(self, *, messages_max: int = 1000) -> None:
        self.log: list[Any] = []
        self.epoch: int | None = None
        self.ends: list[int] = []
        self.messages_max = messages_max
        self.is_closed = False
        self.closer: tuple[int, int] | None = None

    def fence(self, by: int = 1) -> None:
        """Let another writer take the next epoch but ``by - 1``, and write two batches."""
        self.epoch = (-1 if self.epoch is None else self.epoch) + by
        self.log += ["other", "other"]
        self.ends = [len(self.log) - 1, len(self.log)]

    def handle(self, sent: Try) -> Answer:
        """Decide, apply and answer one request."""
        headers = sent.request.headers
        if headers["Producer-Epoch"] == "next":
            self.epoch = 0 if self.epoch is None else self.epoch + 1
            self.ends = []
            return Answer(204, {"producer-epoch": str(self.epoch)})
        epoch, seq = int(headers["Producer-Epoch"]), int(headers["Producer-Seq"])
        if self.is_closed and (epoch, seq) != self.closer:
            return _problem(409, "stream_closed", **{"stream-closed": "true"})
        known = -1 if self.epoch is None else self.epoch
        if epoch < known:
            return _problem(403, "producer_fenced", **{"producer-epoch": str(known)})
        if epoch > known and self.epoch is not None and seq:
            return _problem(400, "epoch_start")
        expected = len(self.ends) if epoch == known else 0
        if seq < expected:
            newest = str(len(self.ends) - 1)
            return self._done(204, self.ends[seq], **{"producer-seq": newest})
        if seq > expected:
            gap = {"producer-expected-seq": str(expected), "producer-received-seq": str(seq)}
            return _problem(409, "producer_gap", **gap)
        values = json.loads(sent.request.body) if sent.request.body else []
        if len(values) > self.messages_max:
            return _problem(413, "body_too_large")
        if any(str(value).startswith(POISON) for value in values):
            return _problem(400, "invalid_json")
        return self._store(epoch, seq, values, closes="Stream-Closed" in headers)

    def _store(self, epoch: int, seq: int, values: list[Any], *, closes: bool) -> Answer:
        if epoch != self.epoch:
            self.epoch, self.ends = epoch, []
        self.log += values
        self.ends.append(len(self.log))
        if closes:
            self.is_closed, self.closer = True, (epoch, seq)
        return self._done(200 if values else 204, len(self.log))

    def _done(self, status: int, end: int, **more: str) -> Answer:
        closed = {"stream-closed": "true"} if self.is_closed else {}
        return Answer(status, {"stream-next-offset": str(end), **closed, **more})


def _problem(status: int, code: str, **headers: str) -> Answer:
    kind = {"content-type": "application/problem+json"}
    return Answer(status, {**kind, **headers}, msgspec.json.encode({"code": code}))


class World:
    """A session, its server, the requests between them, and the books of what was appended."""

    def __init__(self, options: ProducerOptions, server: ModelServer | None = None) -> None:
        self.now = 1000.0
        self.session = Session(Sender(URL, "p", JSON), options)
        self.server = server or ModelServer()
        self.flying: list[Try] = []
        self.ghosts: list[Try] = []
        self.books: list[tuple[Any, Batch, int]] = []

    def append(self, value: Any) -> Batch:
        """Append one message and enter it into the books."""
        batch = self.session.intake.append(json.dumps(value).encode(), self.now)
        self.books.append((value, batch, batch.count - 1))
        return batch

    def pump(self) -> list[Try]:
        """Let everything go out that may."""
        new = []
        while (sent := self.session.next(self.now)) is not None:
            new.append(sent)
        self.flying += new
        return new

    def deliver(self, index: int = 0) -> Answer:
        """Let a request arrive and its answer come back."""
        sent = self.flying.pop(index)
        answer = self.server.handle(sent)
        self.answer(sent, answer)
        return answer

    def answer(self, sent: Try, answer: Answer) -> None:
        """Hand an answer to the session."""
        error = refusal(sent.request, answer)
        if error is None:
            self.session.accepted(sent, answer)
        else:
            self.session.failed(sent, error, self.now, 0.5)

    def fail(self, index: int = 0, *, is_sent: bool = True) -> None:
        """Break a connection: before sending, or with the request under way to nobody knows."""
        sent = self.flying.pop(index)
        if is_sent:
            self.ghosts.append(sent)
        error = NetworkFailed("broken", is_uncertain=is_sent)
        self.session.failed(sent, error, self.now, 0.5)

    def lose_answer(self, index: int = 0) -> None:
        """Let a request arrive, and its answer get lost."""
        self.server.handle(self.flying[index])
        sent = self.flying.pop(index)
        error = NetworkFailed("broken", is_uncertain=True)
        self.session.failed(sent, error, self.now, 0.5)

    def refuse(self, status: int, index: int = 0, headers: dict[str, str] | None = None) -> None:
        """Answer with a status in place of the server."""
        self.answer(self.flying.pop(index), Answer(status, headers or {}))

    def haunt(self, index: int = 0) -> None:
        """Let a request arrive that the session has given up."""
        self.server.handle(self.ghosts.pop(index))

    def settle(self) -> None:
        """Heal the network and let it all run to its end, which must come."""
        self.session.intake.seal()
        for _ in range(5000):
            self.pump()
            if self.flying:
                self.deliver()
            elif not self.session.unsettled:
                return
            else:
                wake_s = self.session.wake_s(self.now)
                assert wake_s is not None, "the session waits for nothing"
                self.now = wake_s
        raise AssertionError("the session does not come to an end")

    def outcome(self, index: int) -> Outcome | None:
        """Return what was reported for the message with this number."""
        _, batch, place = self.books[index]
        return batch.holder(place)[0].outcome

    def own(self) -> list[Any]:
        """Return what the stream holds of this producer."""
        return [value for value in self.server.log if value != "other"]

    def check(self) -> None:
        """Compare the books with the stream: once, in order, and every report true."""
        held = self.own()
        assert len(set(map(repr, held))) == len(held), f"stored twice: {held}"
        order = {repr(value): place for place, (value, _, _) in enumerate(self.books)}
        places = [order[repr(value)] for value in held]
        assert places == sorted(places), f"out of order: {held}"
        for value, batch, place in self.books:
            holder, _ = batch.holder(place)
            match holder.outcome:
                case Delivered(offset=offset):
                    assert value in held, f"{value} is reported as delivered"
                    if offset is not None:
                        assert self.server.log.index(value) < int(offset)
                case ClientError() as error if not is_uncertain(error):
                    assert value not in held, f"{value} failed ({error!r}) and is stored"
                case _:
                    pass
        assert self.session.outcomes.buffered_bytes >= 0


def world(*values: Any, server: ModelServer | None = None, **options: Any) -> World:
    """A session with one batch for each value, and everything sent that may be."""
    options = {"max_batch_messages": 1, **options}
    made = World(ProducerOptions(**options), server)
    for value in values:
        made.append(value)
    made.pump()
    return made


def confirmed(*values: Any, **options: Any) -> World:
    """The same behind a first batch that is stored, so that the epoch is known."""
    made = world(0, **options)
    while made.flying or not isinstance(made.outcome(0), Delivered):
        made.deliver()
        made.pump()
    for value in values:
        made.append(value)
    made.pump()
    return made


def stamps(made: World) -> list[tuple[str, str]]:
    headers = [sent.request.headers for sent in made.flying]
    return [(h["Producer-Epoch"], h.get("Producer-Seq", "")) for h in headers]
