"""A producer's session: what to send next, and what an answer means. Time is handed in.

Stamps. A batch gets (epoch, sequence) when it is first sent and keeps both, and its bytes, until
the server has answered for it; whatever is sent again is exactly what was sent before. A stamp is
taken back only from a batch that certainly was not stored, together with those behind it, and
only if no lost try of any of them may still arrive.

Trouble. After a passing failure nothing is sent for a growing delay, then the oldest batch alone,
and the others when that one got through.

Deadlines. Delivery counts from the append; a batch expires with its oldest message. What was
never sent is dropped: not stored, and said so. What may have reached the server is reported as
uncertain, but its batch is kept and still goes out before any later one: dropping it would leave
a gap that makes the server refuse everything behind it. So an uncertain message may be stored
yet, in its place, and never twice.

Epochs. Until the server has taken a batch of an epoch, only one is under way. When an auto-claimed
epoch is fenced, the answers to everything under way are awaited; then what the server refused is
stamped anew in the next epoch, and what was lost fails as uncertain, since no answer of a later
epoch can tell whether it was stored. A declared or granted epoch that is fenced stops the
producer, unless our own lost request for an epoch can have done it. An epoch that we chose and
somebody else turns out to have used counts as fenced, too.

Refusals. A batch that the server can never take (400, 413) is halved until the message is found,
which fails alone; those behind it, which the server refused as a gap, are stamped anew. If a lost
try stands in the way, a new epoch does it, or the producer stops if the epoch was declared.
"""

from __future__ import annotations

import math
from typing import Final

from millstream.client.core.answers import Answer
from millstream.client.core.backoff import is_transient, may_have_happened
from millstream.client.core.batches import Batch, Delivered, Gatherer
from millstream.client.core.epochs import Epochs
from millstream.client.core.intake import Intake
from millstream.client.core.outcomes import Outcomes
from millstream.client.core.tries import Claim, Renew, Restamp, Sender, Stop, Try, Turn
from millstream.client.core.trouble import Trouble
from millstream.client.core.verdicts import (
    expired,
    is_about_content,
    is_foreign,
    proves_new,
    uncertain,
)
from millstream.client.core.windows import Window
from millstream.client.errors import (
    BadRequest,
    ClientError,
    Gap,
    ProducerFenced,
)
from millstream.client.producing_options import ProducerOptions

# More refusals in a row than halving needs to find a message: it is not about one message.
REFUSALS_MAX: Final = 40


class Session:
    """All state of one producer: ``intake`` takes messages, ``outcomes`` has what became of them.

    ``error`` is why it stopped; a stopped session takes and sends nothing until it is restarted.
    ``start_offset`` is the stream's tail before the first batch went out, if the driver knows it.
    """

    def __init__(self, sender: Sender, options: ProducerOptions) -> None:
        self._sender = sender
        self._options = options
        self._gatherer = Gatherer(options)
        self._window = Window()
        self._epochs = Epochs(options.epoch)
        self.trouble = Trouble(options.retry)
        # What to do as soon as nothing is under way; until then nothing more is sent.
        self._turn: Turn | None = None
        self._is_asking = False
        self._refusals = 0
        self._last_seq = -1
        self.outcomes = Outcomes()
        self.intake = Intake(self._gatherer, self.outcomes, options)
        self.error: ClientError | None = None
        self.last_offset: str | None = None
        self.start_offset: str | None = None

    @property
    def epoch(self) -> int | None:
        """The present epoch, None until the server has granted one."""
        return self._epochs.now

    @property
    def next_seq(self) -> int:
        """The sequence that the next new batch gets."""
        return self._window.next_seq

    @property
    def is_fresh(self) -> bool:
        """Whether nothing was ever appended, so that nothing can have been sent."""
        return self._gatherer.number == 0

    @property
    def in_flight_count(self) -> int:
        """Batches under way: sent, and not yet answered."""
        return self._window.flying_count

    @property
    def unsettled(self) -> list[Batch]:
        """Batches without an outcome, oldest first."""
        kept = [batch for batch in self._window.batches if batch.outcome is None]
        kept.extend(self._gatherer.queue)
        if self._gatherer.filling is not None:
            kept.append(self._gatherer.filling)
        return kept

    def close(self, payload: bytes | None, now: float, former: Batch | None = None) -> Batch:
        """Close the stream behind a last message; return the batch that does it.

        ``former`` is the batch of an earlier close. If that one is not settled, or may have been
        stored, it is taken up again as it is: a second one would be refused behind the first.
        """
        if former is not None and (former.outcome is None or former in self._window.batches):
            former.outcome = None
            former.born_s = now
            return former
        return self.intake.append_last(payload, now)

    def next(self, now: float) -> Try | None:
        """Return what to send now, or None; call it until it returns None."""
        self._expire(now)
        if self._turn is not None or self.error is not None or now < self.trouble.ready_s:
            return None
        is_probing = self.trouble.count > 0
        if self._is_asking or (is_probing and self._window.flying_count):
            return None
        if not self._has_work(now):
            return None
        epoch = self._epochs.now
        if epoch is None:
            self._is_asking = True
            return self._sender.ask(self.trouble.count + 1)
        batch = self._window.sendable()
        if batch is None:
            is_narrow = is_probing or not self._epochs.is_confirmed
            if len(self._window.batches) >= (1 if is_narrow else self._options.max_in_flight):
                return None
            batch = self._gatherer.take(now)
            if batch is None:
                return None
            self._window.stamp(batch)
        self._window.launch(batch)
        return self._sender.send(batch, epoch)

    def wake_s(self, now: float) -> float | None:
        """Return when to call `next` again although nothing has happened, or None."""
        times = [self.trouble.ready_s, self._gatherer.due_s or 0.0]
        oldest = self._oldest()
        if oldest is not None:
            times.append(self._deadline_s(oldest))
        return min((time for time in times if time > now), default=None)

    def accepted(self, sent: Try, answer: Answer) -> None:
        """Take the answer to a try that the server did."""
        if sent.batch is None:
            self._granted(answer)
        else:
            self._taken(sent.batch, answer)
        self._turn_if_quiet()

    def failed(self, sent: Try, error: ClientError, now: float, draw: float) -> None:
        """Take the failure of a try. ``draw`` is a random number from 0 to 1."""
        batch = sent.batch
        if batch is None:
            self._is_asking = False
            if may_have_happened(error):
                self._epochs.haunt(now)
        else:
            self._window.land(batch)
            batch.is_lost = batch.is_lost or may_have_happened(error)
        if is_transient(error):
            self.trouble.note(error, now, draw)
        elif batch is None:
            self.stop(error)
        elif isinstance(error, ProducerFenced):
            self._fenced(error, now)
        elif isinstance(error, Gap) and error.expected_seq is not None:
            self._gap(batch, error, error.expected_seq, now, draw)
        elif is_about_content(error):
            batch.refused = error
            batch.is_lost = batch.is_lost and not proves_new(error)
            self._turn = self._turn or Restamp()
        else:
            self.stop(error)
        self._turn_if_quiet()

    def stop(self, error: ClientError, *, is_abandoned: bool = False) -> None:
        """Send nothing more and fail what waits; what is under way is failed when it is back.

        ``is_abandoned`` tells that nobody waits for answers any more: what is under way fails as
        uncertain at once. Repeated, the first error stays.
        """
        if self.error is None:
            self.error = error
            self._turn = Stop(error)
            self._gatherer.seal()
            while self._gatherer.queue:
                self.outcomes.discard(self._gatherer.queue.popleft(), error)
        if is_abandoned:
            self._is_asking = False
            for batch in self._window.batches:
                if batch.is_flying:
                    self._window.land(batch)
                    batch.is_lost = True
        self._turn_if_quiet()

    def restart(self) -> None:
        """Go on in the next epoch, at sequence 0, also after a stop. Everything must be settled."""
        self.error = None
        self._turn = Renew()
        self._turn_if_quiet()

    def _oldest(self) -> Batch | None:
        for batch in self._window.batches:
            if batch.outcome is None:
                return batch
        return self._gatherer.queue[0] if self._gatherer.queue else self._gatherer.filling

    def _has_work(self, now: float) -> bool:
        """Tell whether somebody waits; what has only expired does not go out for its own sake."""
        due_s = self._gatherer.due_s
        return (
            bool(self._gatherer.queue)
            or (due_s is not None and due_s <= now)
            or any(batch.outcome is None for batch in self._window.batches)
        )

    def _granted(self, answer: Answer) -> None:
        self._is_asking = False
        if answer.epoch is None:
            text = "the server does not grant epochs; declare the epoch yourself"
            self.stop(BadRequest(text, url=self._sender.url, status=answer.status))
            return
        self._epochs.confirm(answer.epoch)
        self.trouble.clear()

    def _taken(self, batch: Batch, answer: Answer) -> None:
        self._window.land(batch)
        is_doubtful = batch.closes or self._epochs.is_guess
        if is_doubtful and is_foreign(batch, answer, self.start_offset):
            self._taken_for_another(batch)
            return
        self._epochs.confirm()
        self._refusals = 0
        self.trouble.clear()
        is_repeat = answer.status == 204 and not batch.closes
        self._stored(batch, answer.next_offset, is_duplicate=is_repeat)

    def _taken_for_another(self, batch: Batch) -> None:
        batch.is_lost = False
        text = "another writer has used this producer id and epoch; nothing was stored"
        error = ProducerFenced(text, url=self._sender.url, current_epoch=self._epochs.now)
        self._fenced(error, math.inf)

    def _stored(self, batch: Batch, offset: str | None, *, is_duplicate: bool) -> None:
        self._window.store(batch.seq)
        self._window.batches.remove(batch)
        if offset is not None and batch.seq > self._last_seq:
            self.last_offset = offset
            self._last_seq = batch.seq
        epoch = self._epochs.now or 0
        self.outcomes.discard(batch, Delivered(offset, is_duplicate, epoch, batch.seq))

    def _fenced(self, error: ProducerFenced, now: float) -> None:
        if isinstance(self._turn, Claim | Stop):
            # Batches that were under way together are fenced together.
            return
        epoch = self._epochs.claim_after(error.current_epoch, now)
        if epoch is None:
            self.stop(error)
        else:
            self._turn = Claim(epoch, error)

    def _gap(self, batch: Batch, error: Gap, expected: int, now: float, draw: float) -> None:
        if expected > batch.seq:
            # It has been taken, by a try whose answer was lost.
            self._stored(batch, None, is_duplicate=True)
        elif expected < batch.floor_seq:
            # What the server now misses was stored before this try went out.
            self.stop(error)
        elif expected == batch.seq:
            self.trouble.note(error, now, draw)
        else:
            batch.waits_for_seq = expected
            self._window.store(expected - 1)

    def _turn_if_quiet(self) -> None:
        turn = self._turn
        if turn is None or self._window.flying_count or self._is_asking:
            return
        self._turn = None
        if isinstance(turn, Stop):
            for batch in self._leave(turn.error):
                self.outcomes.discard(batch, batch.refused or turn.error)
        elif isinstance(turn, Claim):
            left = self._leave(turn.error)
            if isinstance(turn.epoch, int):
                self._epochs.enter(turn.epoch)
            else:
                self._epochs.enter_next()
            self._give_back(left)
        elif isinstance(turn, Renew):
            left = self._leave(self._expiry(is_uncertain=True))
            self._epochs.restart()
            self._give_back(left)
        else:
            self._restamp()

    def _restamp(self) -> None:
        taken = self._window.take_from_refused()
        if taken is None:
            error = next(b.refused for b in self._window.batches if b.refused is not None)
            if not self._epochs.may_move_on:
                self.stop(error)
                return
            taken = self._leave(error)
            self._epochs.enter_next()
        self._give_back(taken)

    def _sifted(self, batch: Batch, error: ClientError) -> list[Batch]:
        """Return what is left to send of a refused batch: its halves, or nothing."""
        self._refusals += 1
        if batch.count < 2 or self._refusals > REFUSALS_MAX:
            self.outcomes.discard(batch, error)
            return []
        self.outcomes.settled.append(batch)
        return list(batch.split())

    def _leave(self, error: ClientError) -> list[Batch]:
        """End the epoch; return what certainly was not stored in it. What may be fails so."""
        judged = self._window.leave()
        self._last_seq = -1
        self.trouble.clear()
        for batch in judged.stored:
            outcome = Delivered(None, False, self._epochs.now or 0, batch.seq)
            self.outcomes.discard(batch, outcome)
        for batch in judged.uncertain:
            self.outcomes.discard(batch, uncertain(batch.refused or error))
        return judged.unsent

    def _give_back(self, batches: list[Batch]) -> None:
        """Queue unstamped batches again, before all others; but nobody waits for expired ones."""
        kept: list[Batch] = []
        for batch in batches:
            if batch.outcome is not None:
                self.outcomes.discard(batch, batch.outcome)
            elif batch.refused is not None:
                kept.extend(self._sifted(batch, batch.refused))
            else:
                kept.append(batch)
        self._gatherer.give_back(kept)

    def _deadline_s(self, batch: Batch) -> float:
        return batch.born_s + self._options.delivery_timeout_s

    def _expire(self, now: float) -> None:
        oldest = self._oldest()
        if oldest is None or self._deadline_s(oldest) > now:
            return
        if self._turn is None:
            self._give_back(self._window.take_unsent_tail())
        for batch in [b for b in self._window.batches if self._deadline_s(b) <= now]:
            if batch.seq <= self._window.stored_seq and not batch.is_flying:
                self._stored(batch, None, is_duplicate=False)
            else:
                self.outcomes.settle(batch, self._expiry(is_uncertain=True))
        queue = self._gatherer.queue
        filling = self._gatherer.filling
        if filling is not None and self._deadline_s(filling) <= now:
            self._gatherer.seal()
        while queue and self._deadline_s(queue[0]) <= now:
            self.outcomes.discard(queue.popleft(), self._expiry(is_uncertain=False))

    def _expiry(self, *, is_uncertain: bool) -> ClientError:
        timeout_s = self._options.delivery_timeout_s
        return expired(self._sender.url, timeout_s, is_uncertain=is_uncertain)
