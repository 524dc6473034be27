import pytest

from millstream.client.core.epochs import GHOST_S, Epochs
from millstream.client.producing_options import GRANTED, AutoClaim, Epoch


@pytest.mark.parametrize("choice, first", [(3, 3), (AutoClaim(2), 2), (GRANTED, None)])
def test_the_first_epoch_is_declared_guessed_or_asked_for(choice: Epoch, first: int | None) -> None:
    epochs = Epochs(choice)
    assert epochs.now == first
    assert not epochs.is_confirmed
    assert epochs.is_guess is isinstance(choice, AutoClaim)


@pytest.mark.parametrize("choice", [0, GRANTED])
def test_a_declared_or_granted_epoch_is_not_taken_back(choice: Epoch) -> None:
    epochs = Epochs(choice)
    epochs.confirm(0)
    assert epochs.claim_after(5, 0.0) is None


def test_a_claim_goes_above_what_the_server_knows() -> None:
    epochs = Epochs(AutoClaim(0))
    assert epochs.claim_after(5, 0.0) == 6
    epochs.enter(6)
    assert epochs.now == 6
    assert epochs.is_guess
    epochs.confirm()
    assert not epochs.is_guess


def test_a_claim_that_is_lost_twice_is_given_up() -> None:
    epochs = Epochs(AutoClaim(0))
    epochs.enter(1)
    assert epochs.claim_after(2, 0.0) == 3
    epochs.enter(3)
    assert epochs.now == 3
    assert epochs.claim_after(4, 0.0) is None
    epochs.restart()
    assert epochs.claim_after(9, 0.0) == 10, "the caller wants it again"


def test_an_answer_that_makes_no_sense_claims_nothing() -> None:
    epochs = Epochs(AutoClaim(7))
    assert epochs.claim_after(3, 0.0) is None
    assert epochs.claim_after(None, 0.0) is None


def test_the_next_epoch_is_one_higher_or_granted() -> None:
    declared, granted = Epochs(4), Epochs(GRANTED)
    declared.confirm()
    granted.confirm(9)
    for epochs in (declared, granted):
        epochs.restart()
        assert not epochs.is_confirmed
    assert (declared.now, granted.now) == (5, None)
    assert declared.is_guess, "the caller declared 4 and did not say who uses 5"
    assert (declared.may_move_on, granted.may_move_on) == (False, True)


def test_a_granted_epoch_is_asked_for_again_if_our_own_lost_request_took_it() -> None:
    epochs = Epochs(GRANTED)
    epochs.haunt(10.0)
    epochs.confirm(3)
    assert epochs.claim_after(5, 11.0) is None, "one lost request cannot be two epochs"
    assert epochs.claim_after(4, 11.0 + GHOST_S) is None, "it is too long ago"
    assert epochs.claim_after(4, 11.0) is GRANTED
    epochs.enter_next()
    epochs.confirm(5)
    assert epochs.claim_after(6, 11.0) is None, "there was only one"
