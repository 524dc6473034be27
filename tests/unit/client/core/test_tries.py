from millstream.client.core.batches import Batch
from millstream.client.core.tries import Sender

SENDER = Sender("http://h.test/s", "p", "application/json")


def stamped(*parts: bytes, closes: bool = False) -> Batch:
    batch = Batch(1, 0.0)
    batch.closes = closes
    batch.seq = 4
    batch.tries = 2
    for part in parts:
        batch.add(part)
    return batch


def test_every_try_of_a_batch_has_the_same_bytes_and_stamp() -> None:
    batch = stamped(b"1", b"2")
    first, again = SENDER.send(batch, 3), SENDER.send(batch, 3)
    assert first.request == again.request
    assert first.request.body == b"[1,2]"
    assert first.request.is_repeatable
    assert first.attempt == 2
    wanted = {"Producer-Id": "p", "Producer-Epoch": "3", "Producer-Seq": "4"}
    assert wanted.items() <= dict(first.request.headers).items()


def test_a_close_has_its_stamp_and_its_last_message() -> None:
    bare = SENDER.send(stamped(closes=True), 0).request
    assert bare.body == b""
    assert bare.headers["Stream-Closed"] == "true"
    assert bare.headers["Producer-Seq"] == "4"
    assert "Content-Type" not in bare.headers
    full = SENDER.send(stamped(b"9", closes=True), 0).request
    assert (full.body, full.headers["Content-Type"]) == (b"[9]", "application/json")


def test_an_epoch_is_asked_for_without_a_batch() -> None:
    asked = SENDER.ask(1)
    assert asked.batch is None
    assert asked.request.headers["Producer-Epoch"] == "next"
