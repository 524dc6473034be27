from millstream.client.core.batches import MESSAGE_OVERHEAD_BYTES, Batch, Gatherer
from millstream.client.producing_options import ProducerOptions


def gatherer(
    max_batch_bytes: int = 1000, max_batch_messages: int = 1000, linger_ms: float = 5
) -> Gatherer:
    return Gatherer(
        ProducerOptions(
            max_batch_bytes=max_batch_bytes,
            max_batch_messages=max_batch_messages,
            linger_ms=linger_ms,
        )
    )


def test_messages_share_a_batch_until_it_has_lingered() -> None:
    kept = gatherer(linger_ms=5)
    first = kept.add(b"a", 10.0)
    assert kept.add(b"b", 10.004) is first
    assert kept.due_s == 10.005
    assert kept.take(10.004) is None
    assert kept.take(10.005) is first
    assert first.parts == [b"a", b"b"]
    assert kept.take(99.0) is None


def test_a_full_batch_goes_at_once() -> None:
    by_count = gatherer(max_batch_messages=2)
    batch = by_count.add(b"a", 0.0)
    by_count.add(b"b", 0.0)
    assert by_count.filling is None
    assert by_count.take(0.0) is batch

    by_bytes = gatherer(max_batch_bytes=10)
    batch = by_bytes.add(b"12345", 0.0)
    other = by_bytes.add(b"12345", 0.0)
    assert other is not batch, "the batch would have become larger than allowed"
    assert by_bytes.take(0.0) is batch
    assert by_bytes.filling is other


def test_a_message_larger_than_a_batch_goes_alone() -> None:
    kept = gatherer(max_batch_bytes=4)
    small = kept.add(b"a", 0.0)
    large = kept.add(b"123456789", 0.0)
    assert [kept.take(0.0), kept.take(0.0), kept.take(9.0)] == [small, large, None]


def test_batches_given_back_go_first_and_in_order() -> None:
    kept = gatherer(max_batch_messages=1)
    batches = [kept.add(b"x", 0.0) for _ in range(3)]
    taken = [kept.queue.popleft(), kept.queue.popleft()]
    kept.give_back(taken)
    assert list(kept.queue) == batches
    assert [batch.number for batch in batches] == [1, 2, 3]


def test_a_batch_knows_what_it_occupies() -> None:
    batch = Batch(1, 0.0)
    batch.add(b"abc")
    batch.add(b"")
    assert batch.cost_bytes == 3 + 2 * MESSAGE_OVERHEAD_BYTES


def test_the_halves_of_a_batch_hold_its_messages_in_order() -> None:
    batch = Batch(7, 3.0)
    for text in (b"a", b"b", b"c", b"d", b"e"):
        batch.add(text)
    first, second = batch.split()
    second.split()
    assert first.cost_bytes + second.cost_bytes == batch.cost_bytes
    assert (first.number, first.born_s) == (7, 3.0)
    found = []
    for index in range(5):
        holder, place = batch.holder(index)
        found.append(holder.parts[place])
    assert found == [b"a", b"b", b"c", b"d", b"e"]
