import pickle

import pytest

from millstream.client.core.answers import Answer
from millstream.client.core.batches import Batch
from millstream.client.core.verdicts import (
    expired,
    is_about_content,
    is_foreign,
    proves_new,
    uncertain,
)
from millstream.client.errors import BadRequest, ClientError, MessageTooLarge, ProducerFenced


@pytest.mark.parametrize(
    "error, expected",
    [
        (BadRequest("", status=400), True),
        (BadRequest("", status=400, code="invalid_json"), True),
        (MessageTooLarge("", status=413, code="body_too_large"), True),
        (MessageTooLarge("", status=413), True),
        (BadRequest("", status=400, code="epoch_start"), False),
        (BadRequest("", status=400, code="invalid_header"), False),
        (BadRequest("", status=405), False),
        (ProducerFenced("", status=403), False),
    ],
)
def test_only_some_refusals_are_about_the_messages(error: ClientError, expected: bool) -> None:
    assert is_about_content(error) is expected


def test_only_our_server_proves_by_a_refusal_that_the_batch_is_new() -> None:
    assert proves_new(BadRequest("", status=400, code="invalid_json"))
    assert not proves_new(BadRequest("", status=400))


def test_an_uncertain_error_says_so_and_stays_what_it_is() -> None:
    error = ProducerFenced("fenced", current_epoch=4, status=403)
    twin = uncertain(error)
    assert isinstance(twin, ProducerFenced)
    assert twin.current_epoch == 4
    assert "not known" in str(twin)
    assert "not known" not in str(error)
    assert vars(pickle.loads(pickle.dumps(twin)))["is_uncertain"] is True
    assert "is_uncertain" not in vars(error)


def test_an_expired_message_was_not_stored_or_may_be() -> None:
    assert "was not stored" in str(expired("http://h.test/s", 2.5, is_uncertain=False))
    assert expired("http://h.test/s", 2.5, is_uncertain=True).is_uncertain


@pytest.mark.parametrize(
    "status, newest, is_lost, expected",
    [
        (200, "0", False, False),
        (204, "0", False, True),
        (204, "0", True, False),
        (204, "3", True, True),
    ],
)
def test_a_repeat_that_cannot_be_ours_is_somebody_elses(
    status: int, newest: str, is_lost: bool, expected: bool
) -> None:
    batch = Batch(1, 0.0)
    batch.seq = 0
    batch.is_lost = is_lost
    assert is_foreign(batch, Answer(status, {"producer-seq": newest})) is expected


def test_a_close_that_left_the_stream_open_was_somebody_elses_batch() -> None:
    batch = Batch(1, 0.0)
    batch.closes = True
    assert is_foreign(batch, Answer(204, {}))
    assert not is_foreign(batch, Answer(204, {"stream-closed": "true"}))
    assert not is_foreign(batch, Answer(200, {})), "new messages were stored, so it is ours"


@pytest.mark.parametrize(
    "known, start, expected",
    [
        ("0005_0001", "0005_0001", True),
        ("0004_0001", "0005_0001", True),
        ("0005_0002", "0005_0001", False),
        (None, "0005_0001", False),
        ("0004_0001", None, False),
    ],
)
def test_what_was_stored_before_we_sent_anything_is_not_ours(
    known: str | None, start: str | None, expected: bool
) -> None:
    batch = Batch(1, 0.0)
    batch.seq = 0
    batch.is_lost = True
    headers = {"producer-seq": "0"} | ({"stream-next-offset": known} if known else {})
    assert is_foreign(batch, Answer(204, headers), start) is expected
