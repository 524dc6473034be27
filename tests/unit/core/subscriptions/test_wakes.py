"""Wakes are claimed by one, acked forward only, fenced by name, and never forgotten."""

import msgspec
import pytest

from millstream.core.errors import Code, Refused
from millstream.core.offsets import ZERO, Position
from millstream.core.streams.commands import DONE
from millstream.core.subscriptions import wakes
from millstream.core.subscriptions.commands import (
    Ack,
    Acked,
    AckWake,
    AnnounceWake,
    Claimed,
    CreateSubscription,
    DeleteSubscription,
    Delivery,
    ExpireLease,
    Outcome,
    ReleaseWake,
    WebhookOutcome,
)
from millstream.core.subscriptions.state import RECEIVER, Phase
from tests.support.subscribing import World, ack_of, grant_of, pull, webhook


def refused(answer: object) -> Refused:
    assert isinstance(answer, Refused), answer
    return answer


def pulling(*paths: str) -> World:
    """A pull-wake subscription with pending work."""
    world = World()
    world.create("wake")
    world.subscribe("s", pull())
    for path in paths or ("events/a",):
        world.create(path, "1", "2")
    return world


def hooked() -> tuple[World, Delivery]:
    """A webhook subscription with a wake to be delivered."""
    world = World()
    world.subscribe("s", webhook())
    world.create("events/a", "1", "2")
    delivery = world.delivery()
    assert isinstance(delivery, Delivery)
    return world, delivery


def outcome(world: World, how: Outcome, attempts: int = 0, generation: int = 1) -> None:
    world.do(WebhookOutcome(world.sub().sub_no, generation, attempts, how, 0.5))


def called_back(world: World, *acks: Ack, done: bool) -> object:
    sub = world.sub()
    held = Claimed(sub.sub_no, "s", sub.generation, sub.wake_id, 1000, ())
    return world.do(ack_of(held, *acks, done=done, kind="callback"))


class TestClaim:
    def test_a_claim_tells_the_streams_and_their_tails(self) -> None:
        world = pulling("events/a", "events/b")
        held = world.claimed()
        assert (held.generation, held.wake_id, held.lease_ttl_ms) == (1, "w_1_1", 1000)
        assert {link.path: (link.acked, link.tail, link.has_pending) for link in held.links} == {
            "events/a": (ZERO, world.tail("events/a"), True),
            "events/b": (ZERO, world.tail("events/b"), True),
        }

    def test_a_held_wake_is_refused_with_its_holder(self) -> None:
        world = pulling()
        world.claimed(worker="w1")
        answer = refused(world.claim(worker="w2"))
        assert (answer.code, answer.holder, answer.generation) == (Code.ALREADY_CLAIMED, "w1", 1)

    def test_nothing_pending_is_nothing_to_claim(self) -> None:
        world = World()
        world.create("events/a", "1")
        world.subscribe("s", pull())
        assert refused(world.claim()).code is Code.NO_PENDING_WORK

    def test_a_claim_right_after_an_append_finds_the_work(self) -> None:
        world = pulling()
        world.ack(world.claimed(), "events/a", done=True)
        world.append("events/a")
        assert world.claimed().generation == 2

    def test_a_webhook_is_not_claimed(self) -> None:
        world, _ = hooked()
        assert refused(world.claim()).code is Code.BAD_REQUEST

    def test_nobody_is_nobody(self) -> None:
        assert refused(World().claim("nobody")).code is Code.SUBSCRIPTION_NOT_FOUND

    def test_a_lease_that_ran_out_gives_way_even_before_its_alarm(self) -> None:
        world = pulling()
        world.claimed(worker="w1")
        world.now_ms += 1000
        held = world.claimed(worker="w2")
        assert (held.generation, world.sub().holder) == (2, "w2")
        assert len(world.messages("wake")) == 1


class TestAck:
    def test_done_with_everything_acked_leaves_it_idle(self) -> None:
        world = pulling()
        assert world.ack(world.claimed(), "events/a", done=True) == Acked(is_next_wake=False)
        assert world.sub().phase is Phase.IDLE
        assert world.pending() == []

    def test_done_with_work_left_says_so_and_wakes_again(self) -> None:
        world = pulling("events/a", "events/b")
        assert world.ack(world.claimed(), "events/a", done=True) == Acked(is_next_wake=True)
        assert (world.sub().generation, world.sub().phase) == (2, Phase.WAKING)
        assert len(world.messages("wake")) == 2

    def test_an_ack_without_done_is_a_heartbeat(self) -> None:
        world = pulling()
        held = world.claimed()
        world.now_ms += 900
        assert world.ack(held) == Acked(is_next_wake=False)
        world.now_ms += 900
        world.do(ExpireLease(held.sub_no, held.generation))
        assert world.sub().holder == "w1"

    def test_half_of_a_stream_can_be_acked(self) -> None:
        world = pulling()
        held = world.claimed()
        world.do(ack_of(held, Ack("events/a", Position(world.now_ms, 1))))
        assert world.sub().links["events/a"].acked.index == 1
        assert world.pending() == ["events/a"]

    def test_a_cursor_never_moves_back_nor_past_the_end(self) -> None:
        world = pulling()
        held = world.claimed()
        world.ack(held, "events/a")
        back = refused(world.do(ack_of(held, Ack("events/a", Position(world.now_ms, 1)))))
        assert (back.code, back.field) == (Code.INVALID_OFFSET, "acks[0]")
        past = refused(world.do(ack_of(held, Ack("events/a", Position(world.now_ms, 3)))))
        assert past.code is Code.INVALID_OFFSET
        assert world.ack(held, "events/a") == Acked(is_next_wake=False)

    def test_offsets_of_another_time_and_unknown_streams_are_refused(self) -> None:
        world = pulling()
        held = world.claimed()
        wrong = (
            Ack("events/a", Position(world.now_ms + 5, 2)),
            Ack("events/a", Position(5, 1)),
            Ack("events/a", Position(world.now_ms + 5, 1)),
            Ack("events/other", Position(world.now_ms, 1)),
            Ack("wake", Position(world.now_ms, 1)),
        )
        for ack in wrong:
            assert refused(world.do(ack_of(held, ack))).code is Code.INVALID_OFFSET

    def test_one_bad_ack_refuses_them_all(self) -> None:
        world = pulling("events/a", "events/b")
        held = world.claimed()
        good = Ack("events/a", world.tail("events/a"))
        answer = refused(world.do(ack_of(held, good, Ack("none", ZERO), done=True)))
        assert answer.field == "acks[1]"
        assert world.sub().links["events/a"].acked == ZERO
        assert world.sub().phase is Phase.HELD

    def test_a_stream_made_again_during_the_wake_cannot_be_acked_in_it(self) -> None:
        world = pulling("events/a", "events/b")
        held = world.claimed()
        world.delete("events/a")
        world.create("events/a", "1", "2", "3")
        answer = refused(world.do(ack_of(held, Ack("events/a", Position(world.now_ms, 2)))))
        assert answer.code is Code.INVALID_OFFSET
        world.ack(held, "events/b", done=True)
        assert world.pending() == ["events/a"]

    def test_acks_of_a_deleted_stream_are_refused(self) -> None:
        world = pulling()
        held = world.claimed()
        tail = world.tail("events/a")
        world.delete("events/a")
        answer = refused(world.do(ack_of(held, Ack("events/a", tail), done=True)))
        assert answer.code is Code.INVALID_OFFSET


class TestFencing:
    def stale(self, world: World, command: AckWake | ReleaseWake) -> None:
        answer = refused(world.do(command))
        assert answer.code is Code.FENCED
        assert world.last == ()

    def test_a_wake_that_is_done_is_over(self) -> None:
        world = pulling()
        held = world.claimed()
        world.ack(held, "events/a", done=True)
        self.stale(world, ack_of(held, done=True))
        self.stale(world, ReleaseWake("s", grant_of(held), held.wake_id, held.generation))

    def test_the_holder_of_an_expired_lease_is_fenced_by_the_next(self) -> None:
        world = pulling()
        old = world.claimed(worker="w1")
        world.now_ms += 1000
        world.do(ExpireLease(old.sub_no, old.generation))
        self.stale(world, ack_of(old, Ack("events/a", world.tail("events/a")), done=True))
        new = world.claimed(worker="w2")
        self.stale(world, ack_of(old, done=True))
        assert world.ack(new, "events/a", done=True) == Acked(is_next_wake=False)

    @pytest.mark.parametrize("change", ["token", "generation", "wake_id", "sub_no", "token_wake"])
    def test_token_and_words_must_name_the_same_wake(self, change: str) -> None:
        world = pulling()
        held = world.claimed()
        command = ack_of(held, done=True)
        grant = command.grant
        changes: dict[str, dict[str, object]] = {
            "token": {"grant": msgspec.structs.replace(grant, generation=2)},
            "sub_no": {"grant": msgspec.structs.replace(grant, sub_no=2)},
            "token_wake": {"grant": msgspec.structs.replace(grant, wake_id="w_1_2")},
            "generation": {"generation": 2},
            "wake_id": {"wake_id": "w_1_2"},
        }
        self.stale(world, msgspec.structs.replace(command, **changes[change]))

    def test_deleting_the_subscription_fences_everything_in_flight(self) -> None:
        world = pulling()
        held = world.claimed()
        world.do(DeleteSubscription("s"))
        assert refused(world.ack(held, done=True)).code is Code.SUBSCRIPTION_NOT_FOUND
        world.do(CreateSubscription("s", pull()))
        world.append("events/a")
        world.claimed(worker="w2")
        self.stale(world, ack_of(held, done=True))
        assert world.do(ExpireLease(held.sub_no, held.generation)) == DONE
        assert world.sub().holder == "w2"


class TestRelease:
    def test_released_work_is_announced_again(self) -> None:
        world = pulling()
        held = world.claimed()
        command = ReleaseWake("s", grant_of(held), held.wake_id, held.generation)
        assert world.do(command) == DONE
        assert world.sub().links["events/a"].acked == ZERO
        assert [m["generation"] for m in world.messages("wake") if isinstance(m, dict)] == [1, 2]
        assert world.claimed(worker="w2").generation == 2

    def test_nothing_left_is_not_announced(self) -> None:
        world = pulling()
        held = world.claimed()
        world.ack(held, "events/a")
        world.do(ReleaseWake("s", grant_of(held), held.wake_id, held.generation))
        assert world.sub().phase is Phase.IDLE
        assert len(world.messages("wake")) == 1

    def test_nobody_is_nobody(self) -> None:
        world = pulling()
        held = world.claimed()
        command = ReleaseWake("other", grant_of(held), held.wake_id, held.generation)
        assert refused(world.do(command)).code is Code.SUBSCRIPTION_NOT_FOUND


class TestLease:
    def test_a_lease_that_ran_out_clears_the_holder_and_wakes_again(self) -> None:
        world = pulling()
        held = world.claimed()
        world.now_ms += 1000
        world.do(ExpireLease(held.sub_no, held.generation))
        assert (world.sub().phase, world.sub().holder) == (Phase.WAKING, None)
        assert world.sub().generation == 2
        assert len(world.messages("wake")) == 2

    def test_an_alarm_that_is_out_of_date_does_nothing(self) -> None:
        world = pulling()
        held = world.claimed()
        for sub_no, generation in ((held.sub_no, 1), (held.sub_no, 7), (77, 1)):
            world.do(ExpireLease(sub_no, generation))
            assert world.last == ()
        assert world.sub().holder == "w1"


class TestAnnouncing:
    def test_an_unclaimed_wake_is_announced_again_ever_more_rarely(self) -> None:
        world = pulling()
        waits = []
        for _ in range(9):
            wait = world.sub().next_attempt_ms - world.now_ms
            waits.append(wait)
            world.now_ms += wait
            world.do(AnnounceWake(world.sub().sub_no, 1))
        assert waits[:3] == [30_000, 60_000, 120_000]
        assert waits[-1] == 3_600_000
        assert [m["generation"] for m in world.messages("wake") if isinstance(m, dict)] == [1] * 10
        assert world.claimed().generation == 1

    def test_too_early_too_late_and_for_webhooks_it_does_nothing(self) -> None:
        world = pulling()
        world.do(AnnounceWake(world.sub().sub_no, 1))
        assert world.last == ()
        world.claimed()
        world.now_ms += 60_000
        world.do(AnnounceWake(world.sub().sub_no, 1))
        assert world.last == ()
        hook, _ = hooked()
        hook.do(AnnounceWake(hook.sub().sub_no, 1))
        assert hook.last == ()


class TestWebhook:
    def test_done_acks_what_was_sent_and_not_what_came_since(self) -> None:
        world, delivery = hooked()
        (sent,) = delivery.links
        world.append("events/a")
        outcome(world, Outcome.DONE)
        assert world.sub().links["events/a"].acked == sent.tail
        assert (world.sub().generation, world.sub().phase) == (2, Phase.WAKING)
        outcome(world, Outcome.DONE, generation=2)
        assert world.sub().phase is Phase.IDLE
        assert world.pending() == []

    def test_an_accepted_delivery_is_held_under_a_lease(self) -> None:
        world, _ = hooked()
        outcome(world, Outcome.ACCEPTED)
        assert (world.sub().phase, world.sub().holder) == (Phase.HELD, RECEIVER)
        world.now_ms += 1000
        world.do(ExpireLease(world.sub().sub_no, 1))
        assert (world.sub().generation, world.sub().phase) == (2, Phase.WAKING)

    def test_a_callback_acks_and_ends_the_wake(self) -> None:
        world, _ = hooked()
        outcome(world, Outcome.ACCEPTED)
        ack = Ack("events/a", world.tail("events/a"))
        assert called_back(world, ack, done=True) == Acked(is_next_wake=False)
        assert refused(called_back(world, ack, done=True)).code is Code.FENCED

    def test_a_callback_may_come_before_the_answer_to_the_delivery(self) -> None:
        world, _ = hooked()
        assert called_back(world, done=False) == Acked(is_next_wake=False)
        assert world.sub().phase is Phase.HELD
        outcome(world, Outcome.FAILED)
        assert world.last == ()
        outcome(world, Outcome.ACCEPTED)
        assert world.last == ()
        outcome(world, Outcome.DONE)
        assert world.pending() == []

    def test_a_failure_is_tried_again_later_and_later(self) -> None:
        world, _ = hooked()
        waits = []
        for attempt in range(9):
            outcome(world, Outcome.FAILED, attempt)
            waits.append(world.sub().next_attempt_ms - world.now_ms)
            world.now_ms = world.sub().next_attempt_ms
        assert waits == [1100, 2200, 4400, 8800, 17600, 35200, 55000, 55000, 55000]
        assert world.sub().is_failing
        assert world.facts().is_failing
        assert world.sub().generation == 1
        outcome(world, Outcome.ACCEPTED, 9)
        assert not world.facts().is_failing

    def test_retry_delays_stay_between_one_and_sixty_seconds(self) -> None:
        for attempts in range(1, 100):
            for jitter in (0.0, 0.5, 0.999999):
                assert 1_000 <= wakes.retry_delay_ms(attempts, jitter) <= 60_000

    def test_the_report_of_another_attempt_or_wake_changes_nothing(self) -> None:
        world, _ = hooked()
        for attempts, generation in ((1, 1), (0, 2), (0, 0)):
            outcome(world, Outcome.FAILED, attempts, generation)
            assert world.last == ()
        world.do(WebhookOutcome(99, 1, 0, Outcome.DONE))
        assert world.last == ()

    def test_done_for_a_stream_made_again_does_not_move_its_cursor(self) -> None:
        world, _ = hooked()
        world.create("events/b", "1")
        world.delete("events/a")
        world.create("events/a", "1", "2", "3")
        outcome(world, Outcome.DONE)
        assert world.sub().links["events/a"].acked == ZERO
        assert set(world.pending()) == {"events/a", "events/b"}
