"""The session, event by event. What no single case shows is in tests/property."""

import pytest

from millstream.client.core.answers import Answer
from millstream.client.core.batches import Delivered
from millstream.client.errors import (
    BadRequest,
    ContentTypeMismatch,
    DeliveryExpired,
    Gap,
    MessageTooLarge,
    NotFound,
    ProducerFenced,
    StreamClosed,
)
from millstream.client.producing_options import GRANTED, AutoClaim, ProducerOptions
from tests.support.producer_world import (
    POISON,
    ModelServer,
    World,
    confirmed,
    is_uncertain,
    stamps,
    world,
)

TIMEOUT_S = 120.0


def test_batches_fly_together_once_the_epoch_is_known() -> None:
    made = world(1, 2, 3, max_in_flight=2)
    assert stamps(made) == [("0", "0")]
    made.deliver()
    made.pump()
    assert stamps(made) == [("0", "1"), ("0", "2")]
    assert made.session.in_flight_count == 2
    assert made.outcome(0) == Delivered("1", False, 0, 0)


def test_a_lost_answer_is_asked_for_again_with_the_same_stamp_and_bytes() -> None:
    made = confirmed(1)
    sent = made.flying[0].request
    made.lose_answer()
    assert made.pump() == [], "not at once"
    made.now = made.session.wake_s(made.now) or 0.0
    again = made.pump()
    assert again[0].request == sent
    assert again[0].attempt == 2
    made.deliver()
    assert made.outcome(1) == Delivered("2", True, 0, 1)
    assert made.own() == [0, 1]


def test_in_trouble_only_the_oldest_goes_out_and_then_all_the_others() -> None:
    made = confirmed(1, 2, 3)
    for _ in range(3):
        made.fail(is_sent=False)
    made.now += 10
    assert [sent.request.body for sent in made.pump()] == [b"[1]"]
    made.deliver()
    assert [sent.request.body for sent in made.pump()] == [b"[2]", b"[3]"]


def test_a_batch_that_overtook_another_is_sent_again_behind_it() -> None:
    made = confirmed(1, 2)
    made.deliver(1)
    assert made.pump() == [], "the earlier one is still under way"
    made.deliver(0)
    assert [sent.request.body for sent in made.pump()] == [b"[2]"]
    made.deliver()
    assert made.own() == [0, 1, 2]


def test_a_gap_that_is_older_than_what_we_know_is_no_news() -> None:
    made = confirmed(1, 2)
    late = made.server.handle(made.flying[1])
    made.deliver(0)
    made.answer(made.flying.pop(), late)
    assert made.session.error is None
    assert [sent.request.body for sent in made.pump()] == [b"[2]"]


def test_a_server_that_forgot_what_it_had_stored_stops_the_producer() -> None:
    made = confirmed(1)
    made.server.ends.clear()
    made.deliver()
    assert isinstance(made.session.error, Gap)
    assert isinstance(made.outcome(1), Gap)


def test_a_server_that_expects_more_has_the_batch_already() -> None:
    made = confirmed(1)
    made.refuse(409, headers={"producer-expected-seq": "2"})
    assert made.outcome(1) == Delivered(None, True, 0, 1)


@pytest.mark.parametrize(
    "headers, kind",
    [
        ({"stream-closed": "true"}, StreamClosed),
        ({"content-type": "text/plain"}, ContentTypeMismatch),
    ],
)
def test_other_conflicts_are_no_gaps_and_stop_once(headers: dict[str, str], kind: type) -> None:
    made = confirmed(1, 2, 3, max_in_flight=2)
    made.answer(made.flying.pop(0), Answer(409, headers, b"Content-Type mismatch"))
    made.deliver(0)
    assert made.pump() == []
    assert isinstance(made.session.error, kind)
    assert [type(made.outcome(k)) for k in (1, 2, 3)] == [kind, kind, kind]


def test_what_is_under_way_when_it_stops_may_still_be_delivered() -> None:
    made = confirmed(1, 2)
    made.server.handle(made.flying[0])
    made.refuse(404, 0)
    assert made.outcome(1) is None, "its neighbour may tell"
    made.deliver()
    assert isinstance(made.session.error, NotFound)
    # The second is stored, so the first is, whatever the server said about it.
    assert made.outcome(1) == Delivered(None, False, 0, 1)
    made.check()


def test_abandoned_batches_fail_as_uncertain_and_unsent_ones_do_not() -> None:
    made = confirmed(1, 2, max_in_flight=1)
    made.session.stop(NotFound("gone"), is_abandoned=True)
    assert [is_uncertain(made.outcome(k)) for k in (1, 2)] == [True, False]
    assert made.session.unsettled == []
    assert made.session.outcomes.buffered_bytes == 0


def test_fencing_stops_everything_once() -> None:
    made = confirmed(1, 2, 3, max_in_flight=2)
    made.server.fence()
    made.deliver()
    made.deliver()
    assert made.pump() == []
    error = made.session.error
    assert isinstance(error, ProducerFenced)
    assert error.current_epoch == 1
    assert [made.outcome(k) for k in (1, 2, 3)] == [error] * 3


def test_an_auto_claim_takes_the_next_epoch_and_stamps_what_was_refused_anew() -> None:
    server = ModelServer()
    server.fence(by=5)
    made = world(1, 2, 3, server=server, epoch=AutoClaim(0))
    made.deliver()
    made.pump()
    assert stamps(made) == [("5", "0")]
    made.settle()
    assert made.own() == [1, 2, 3]
    assert made.session.epoch == 5


def test_a_claim_in_mid_flight_waits_for_all_answers() -> None:
    made = confirmed(1, 2, 3, epoch=AutoClaim(0), max_in_flight=2)
    made.server.fence()
    made.deliver(1)
    assert made.pump() == []
    made.deliver(0)
    made.settle()
    assert made.session.epoch == 2
    assert made.own() == [0, 1, 2, 3]


def test_a_batch_lost_before_a_claim_fails_as_uncertain_and_later_ones_go_on() -> None:
    made = confirmed(1, epoch=AutoClaim(0))
    made.lose_answer()
    made.server.fence()
    made.append(2)
    made.settle()
    assert isinstance(made.outcome(1), ProducerFenced)
    assert is_uncertain(made.outcome(1))
    assert isinstance(made.outcome(2), Delivered)
    assert made.own() == [0, 1, 2]


def test_two_that_claim_against_each_other_come_to_an_end() -> None:
    made = confirmed(1, epoch=AutoClaim(0))
    for value in (2, 3):
        made.server.fence()
        made.settle()
        made.append(value)
    made.server.fence()
    made.settle()
    assert isinstance(made.session.error, ProducerFenced)


def test_an_epoch_that_somebody_used_before_is_not_mistaken_for_ours() -> None:
    server = ModelServer()
    server.fence()
    made = world(1, server=server, epoch=AutoClaim(0))
    made.settle()
    assert made.own() == [1]
    assert made.outcome(0) == Delivered("3", False, 1, 0)


def test_a_granted_epoch_is_asked_for_when_there_is_something_to_send() -> None:
    made = world(epoch=GRANTED)
    assert (made.flying, made.session.epoch) == ([], None)
    made.append(1)
    made.append(2)
    made.pump()
    assert stamps(made) == [("next", "")]
    made.fail()
    made.now += 10
    made.pump()
    made.deliver()
    made.pump()
    assert stamps(made) == [("0", "0"), ("0", "1")]


def test_a_late_grant_of_our_own_does_not_stop_us() -> None:
    made = world(1, epoch=GRANTED)
    made.fail()
    made.now += 10
    made.pump()
    made.deliver()
    made.haunt()
    made.settle()
    assert made.own() == [1]
    assert made.session.epoch == 2


def test_a_server_that_grants_no_epochs_is_a_clear_error() -> None:
    made = world(1, epoch=GRANTED)
    made.refuse(400)
    assert isinstance(made.session.error, BadRequest)
    assert "declare the epoch" in str(made.outcome(0))
    other = world(1, epoch=GRANTED)
    other.refuse(204)
    assert isinstance(other.session.error, BadRequest)


def test_a_refused_message_fails_alone_and_those_behind_it_close_ranks() -> None:
    made = confirmed(1, POISON, 2, 3)
    made.settle()
    assert made.own() == [0, 1, 2, 3]
    assert isinstance(made.outcome(2), BadRequest)
    assert made.session.next_seq == 4


def test_a_batch_is_halved_until_the_message_is_found() -> None:
    made = World(ProducerOptions(max_batch_messages=100))
    for value in [*range(20), POISON, *range(20, 30)]:
        made.append(value)
    made.settle()
    assert made.own() == list(range(30))
    assert [k for k in range(31) if not isinstance(made.outcome(k), Delivered)] == [20]
    made.check()


def test_a_batch_too_large_for_the_server_goes_in_pieces() -> None:
    made = World(ProducerOptions(max_batch_messages=100), ModelServer(messages_max=3))
    for value in range(10):
        made.append(value)
    made.settle()
    assert made.own() == list(range(10))
    assert made.session.outcomes.first_failure(99) is None


def test_a_server_that_refuses_everything_is_not_asked_about_every_message() -> None:
    made = World(ProducerOptions(max_batch_messages=1000), ModelServer(messages_max=0))
    for value in range(1000):
        made.append(value)
    made.session.intake.seal()
    requests = sum(len([made.deliver()]) for _ in iter(made.pump, []))
    assert requests < 100
    assert all(isinstance(made.outcome(k), MessageTooLarge) for k in range(1000))


def test_only_a_server_that_says_why_proves_that_a_lost_try_was_refused_too() -> None:
    made = confirmed(POISON)
    made.fail()
    made.settle()
    assert made.session.error is None
    assert not is_uncertain(made.outcome(1))
    other = confirmed(1)
    other.lose_answer()
    other.now += 10
    other.pump()
    other.refuse(400)
    assert isinstance(other.session.error, BadRequest)
    assert is_uncertain(other.outcome(1))


def test_nothing_is_stamped_anew_while_a_lost_try_behind_it_may_arrive() -> None:
    made = confirmed(POISON, 1, 2)
    made.fail(1)
    made.deliver(0)
    made.deliver(0)
    assert isinstance(made.session.error, BadRequest)
    assert not is_uncertain(made.outcome(2)), "it cannot be stored behind a gap"
    made.haunt()
    made.check()


def test_an_auto_claim_begins_a_new_epoch_where_a_lost_try_is_in_the_way() -> None:
    made = confirmed(POISON, 1, 2, epoch=AutoClaim(0))
    made.fail(1)
    made.deliver(0)
    made.deliver(0)
    made.pump()
    assert stamps(made) == [("1", "0")]
    made.haunt()
    made.settle()
    assert made.own() == [0, 1, 2]


def test_what_was_never_sent_expires_for_certain() -> None:
    made = confirmed(1, 2)
    for _ in range(2):
        made.fail(is_sent=False)
    made.now += TIMEOUT_S
    made.pump()
    for number in (1, 2):
        assert isinstance(made.outcome(number), DeliveryExpired)
        assert not is_uncertain(made.outcome(number))
    made.append(3)
    made.settle()
    assert made.own() == [0, 3]
    assert made.session.next_seq == 2


def test_what_may_be_stored_expires_as_uncertain_and_still_goes_out_first() -> None:
    made = confirmed(1)
    made.fail()
    made.now += TIMEOUT_S
    assert made.pump() == []
    assert is_uncertain(made.outcome(1))
    made.now += 10
    assert made.pump() == [], "nobody waits for it"
    made.append(2)
    made.settle()
    assert made.own() == [0, 1, 2]
    assert isinstance(made.outcome(1), DeliveryExpired), "what was reported stays"
    assert made.session.outcomes.buffered_bytes == 0


def test_what_is_known_to_be_stored_does_not_expire() -> None:
    made = confirmed(1, 2)
    made.lose_answer(0)
    made.deliver(0)
    made.now += TIMEOUT_S
    made.pump()
    assert made.outcome(1) == Delivered(None, False, 0, 1)


def test_a_close_is_stamped_and_taken_up_again_as_it_was() -> None:
    made = confirmed()
    batch = made.session.close(b"9", made.now)
    made.pump()
    sent = made.flying[0].request
    assert sent.headers["Stream-Closed"] == "true"
    made.lose_answer()
    made.now += TIMEOUT_S
    made.pump()
    assert is_uncertain(batch.outcome)
    assert made.session.close(b"9", made.now, batch) is batch
    made.now += 10
    assert made.pump()[0].request == sent
    made.deliver()
    assert isinstance(batch.outcome, Delivered)
    assert made.server.log == [0, 9]


def test_a_restart_begins_the_next_epoch_and_revives_what_has_stopped() -> None:
    made = confirmed(1)
    made.refuse(404)
    made.session.restart()
    assert (made.session.error, made.session.epoch, made.session.next_seq) == (None, 1, 0)
    made.append(2)
    made.settle()
    assert made.own() == [0, 2]


def test_a_restart_waits_for_what_has_expired_and_is_under_way() -> None:
    made = confirmed(1)
    made.now += TIMEOUT_S
    made.pump()
    made.session.restart()
    made.append(2)
    assert made.pump() == []
    made.deliver()
    made.settle()
    assert made.session.epoch == 1
    assert made.own() == [0, 1, 2]


def test_the_last_offset_is_that_of_the_newest_batch() -> None:
    made = confirmed(1, 2)
    sent = made.flying
    answers = [made.server.handle(each) for each in sent]
    made.answer(sent[1], answers[1])
    made.answer(sent[0], answers[0])
    assert made.session.last_offset == "3"
