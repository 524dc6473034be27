"""A producer's session against a model server and a network that does its worst.

Requests are lost, answers are lost, either arrives in any order, some long after they were given
up; the server fails, is busy, and is taken over by others. Whatever happens: each message is stored
at most once and in order, every report is true, flush raises if and only if something was not
delivered, and when the network heals everything comes to an end.
"""

from __future__ import annotations

import random

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millstream.client.core.batches import Delivered
from millstream.client.errors import ClientError, FencedError
from millstream.client.producing_options import (
    GRANTED,
    AutoClaim,
    Epoch,
    Granted,
    ProducerOptions,
)
from tests.support.producer_world import POISON, ModelServer, World, is_uncertain

EPOCHS: st.SearchStrategy[Epoch] = st.sampled_from([0, 3, GRANTED, AutoClaim(0), AutoClaim(2)])
TIMEOUT_S = 60.0


class ProducerTellsTheTruth(RuleBasedStateMachine):
    """Random lives of one producer."""

    @initialize(
        epoch=EPOCHS,
        in_flight=st.sampled_from([1, 2, 5]),
        per_batch=st.sampled_from([1, 2, 3, 8]),
        per_request=st.sampled_from([1, 2, 1000]),
        taken=st.sampled_from([0, 0, 1, 4]),
    )
    def begin(
        self, epoch: Epoch, in_flight: int, per_batch: int, per_request: int, taken: int
    ) -> None:
        options = ProducerOptions(
            epoch=epoch,
            max_in_flight=in_flight,
            max_batch_messages=per_batch,
            linger_ms=10,
            delivery_timeout_s=TIMEOUT_S,
        )
        self.world = World(options, ModelServer(messages_max=per_request))
        if taken and taken - 1 != epoch:
            # Two writers of one declared epoch cannot be told apart, by anybody.
            self.world.server.fence(by=taken)
        self.options = options
        self.number = 0
        self.unflushed: list[int] = []

    def has_flying(self) -> bool:
        return bool(self.world.flying)

    def pick(self, data: st.DataObject) -> int:
        return data.draw(st.integers(0, len(self.world.flying) - 1), label="request")

    @precondition(lambda self: self.world.session.error is None)
    @rule(count=st.integers(1, 6), now=st.booleans())
    def append(self, count: int, now: bool) -> None:
        for _ in range(count):
            self.unflushed.append(len(self.world.books))
            self.world.append(self.number)
            self.number += 1
        if now:
            self.world.session.intake.seal()
        self.world.pump()

    @precondition(lambda self: self.world.session.error is None)
    @rule()
    def append_poison(self) -> None:
        self.unflushed.append(len(self.world.books))
        self.world.append(f"{POISON}-{self.number}")
        self.number += 1

    @rule(delay_s=st.sampled_from([0.001, 0.02, 1.0, 10.0, 30.0]))
    def wait(self, delay_s: float) -> None:
        self.world.now += delay_s
        self.world.pump()

    @precondition(has_flying)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        answer = self.world.deliver(self.pick(data))
        assert b"epoch_start" not in answer.body, "a new epoch began behind its start"
        self.world.pump()

    @precondition(has_flying)
    @rule()
    def deliver_all(self) -> None:
        while self.world.flying:
            self.world.deliver()
            self.world.pump()

    @precondition(has_flying)
    @rule(data=st.data(), is_sent=st.booleans())
    def break_connection(self, data: st.DataObject, is_sent: bool) -> None:
        self.world.fail(self.pick(data), is_sent=is_sent)
        self.world.pump()

    @precondition(has_flying)
    @rule(data=st.data())
    def lose_answer(self, data: st.DataObject) -> None:
        self.world.lose_answer(self.pick(data))
        self.world.pump()

    @precondition(has_flying)
    @rule(data=st.data(), status=st.sampled_from([500, 503, 429, 502, 408]))
    def fail_at_the_server(self, data: st.DataObject, status: int) -> None:
        self.world.refuse(status, self.pick(data))
        self.world.pump()

    @precondition(has_flying)
    @rule()
    def restart_server(self) -> None:
        while self.world.flying:
            self.world.fail(is_sent=True)
        self.world.ghosts.clear()
        self.world.pump()

    @precondition(lambda self: bool(self.world.ghosts))
    @rule(data=st.data())
    def let_a_late_request_arrive(self, data: st.DataObject) -> None:
        self.world.haunt(data.draw(st.integers(0, len(self.world.ghosts) - 1), label="ghost"))

    @rule(by=st.sampled_from([1, 2]), really=st.integers(0, 4))
    def fence(self, by: int, really: int) -> None:
        # Not too often: after it, declared and granted producers have nothing left to do.
        epoch = self.world.session.epoch
        if really == 0 and self.world.server.epoch is not None and epoch is not None:
            self.world.server.fence(by + max(epoch - self.world.server.epoch, 0))

    @precondition(lambda self: self.world.session.error is None)
    @rule()
    def flush(self) -> None:
        """Let the network be well for a while, and wait for it all."""
        number = self.world.session.intake.seal()
        self.world.settle()
        self.expect_failure(number)

    @precondition(lambda self: not self.world.session.unsettled)
    @rule()
    def restart(self) -> None:
        if not isinstance(self.world.session.error, FencedError):
            self.expect_failure(self.world.session.intake.seal())
            self.world.session.restart()
            self.world.pump()

    def expect_failure(self, number: int) -> None:
        raised = self.world.session.outcomes.first_failure(number)
        outcomes = [self.world.outcome(index) for index in self.unflushed]
        assert None not in outcomes
        assert (raised is not None) == any(isinstance(o, ClientError) for o in outcomes)
        self.unflushed = []

    @invariant()
    def every_report_is_true(self) -> None:
        self.world.check()

    @invariant()
    def no_more_is_under_way_than_allowed(self) -> None:
        assert self.world.session.in_flight_count <= self.options.max_in_flight
        epochs = {sent.request.headers["Producer-Epoch"] for sent in self.world.flying}
        assert len(epochs) <= 1

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.settle()
        while world.ghosts:
            world.haunt()
        world.check()
        if world.session.error is None and not isinstance(self.options.epoch, Granted):
            self.goes_on()
        assert not world.session.unsettled

    def goes_on(self) -> None:
        """What is not stopped works, whatever it went through; but it may find itself fenced."""
        world = self.world
        world.append("last")
        world.settle()
        outcome = world.outcome(-1)
        if not isinstance(outcome, Delivered):
            assert isinstance(outcome, FencedError)
            assert not is_uncertain(outcome)
        else:
            assert world.server.log[-1] == "last"
            assert world.session.outcomes.buffered_bytes == 0
        world.check()


TestProducerTellsTheTruth = ProducerTellsTheTruth.TestCase


def live(seed: int, steps: int = 120) -> None:
    """One long life with more faults than a search for short ones would try."""
    draw = random.Random(seed)
    life = ProducerTellsTheTruth()
    life.begin(
        draw.choice([0, 3, GRANTED, AutoClaim(0), AutoClaim(2)]),
        draw.choice([1, 2, 5]),
        draw.choice([1, 2, 3, 8]),
        draw.choice([1, 2, 1000, 1000]),
        draw.choice([0, 0, 1, 4]),
    )
    world = life.world
    for _ in range(steps):
        index = draw.randrange(len(world.flying)) if world.flying else None
        match draw.randrange(16):
            case 0 | 1 | 2 if world.session.error is None:
                life.append(draw.randint(1, 4), draw.random() < 0.7)
            case 3 if draw.random() < 0.5 and world.session.error is None:
                life.append_poison()
            case 4 | 5:
                life.wait(draw.choice([0.001, 0.02, 1.0, 10.0, 30.0]))
            case 6 | 7 | 8 if index is not None:
                answer = world.deliver(index)
                assert b"epoch_start" not in answer.body
            case 9 | 10 if index is not None:
                world.fail(index, is_sent=draw.random() < 0.7)
            case 11 if index is not None:
                world.lose_answer(index)
            case 12 if index is not None:
                world.refuse(draw.choice([500, 503, 429]), index)
            case 13 if draw.random() < 0.3:
                life.restart_server()
            case 14 if draw.random() < 0.1:
                life.fence(draw.choice([1, 2]), 0)
            case 15 if draw.random() < 0.3 and world.session.error is None:
                life.flush()
            case _:
                pass
        if world.ghosts and draw.random() < 0.2:
            world.haunt(draw.randrange(len(world.ghosts)))
        world.pump()
        life.every_report_is_true()
        life.no_more_is_under_way_than_allowed()
    life.teardown()


def test_long_lives_end_well() -> None:
    for seed in range(400):
        try:
            live(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
