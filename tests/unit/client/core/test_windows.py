from millstream.client.core.batches import Batch
from millstream.client.core.windows import Window
from millstream.client.errors import BadRequest


def window(count: int, *, flying: bool = False) -> Window:
    made = Window()
    for number in range(count):
        batch = Batch(number, 0.0)
        made.stamp(batch)
        if flying:
            made.launch(batch)
    return made


def seqs(batches: list[Batch]) -> list[int]:
    return [batch.number for batch in batches]


def test_stamps_count_up_and_a_try_knows_what_was_stored_before_it() -> None:
    kept = window(3)
    assert [batch.seq for batch in kept.batches] == [0, 1, 2]
    kept.store(1)
    kept.store(0)
    kept.launch(kept.batches[2])
    assert kept.stored_seq == 1
    assert kept.batches[2].floor_seq == 2
    assert (kept.batches[2].tries, kept.flying_count) == (1, 1)
    kept.land(kept.batches[2])
    assert kept.flying_count == 0


def test_a_batch_that_waits_for_an_earlier_one_is_not_sent_before_it_is_stored() -> None:
    kept = window(2)
    kept.launch(kept.batches[0])
    kept.batches[1].waits_for_seq = 0
    assert kept.sendable() is None
    kept.store(0)
    assert kept.sendable() is kept.batches[1]


def test_only_stamps_at_the_end_that_were_never_used_are_taken_back() -> None:
    kept = window(4)
    kept.batches[1].is_lost = True
    assert seqs(kept.take_unsent_tail()) == [2, 3]
    assert kept.next_seq == 2
    assert kept.take_unsent_tail() == []
    kept.batches[1].is_lost = False
    kept.batches[1].is_flying = True
    assert kept.take_unsent_tail() == []


def test_stamps_behind_a_refused_batch_are_taken_back_unless_a_lost_try_may_arrive() -> None:
    kept = window(4)
    kept.batches[0].is_lost = True
    kept.batches[1].refused = BadRequest("no")
    kept.batches[3].is_lost = True
    assert kept.take_from_refused() is None
    kept.batches[3].is_lost = False
    assert seqs(kept.take_from_refused() or []) == [1, 2, 3]
    assert (kept.next_seq, seqs(kept.batches)) == (1, [0])


def test_the_end_of_an_epoch_tells_stored_from_uncertain_from_unsent() -> None:
    kept = window(6)
    kept.batches[0].is_lost = True
    kept.batches[2].is_lost = True
    kept.batches[3].is_lost = True
    kept.batches[5].is_lost = True
    kept.store(1)
    judged = kept.leave()
    # Sequence 4 was refused and never got through, so 5 cannot be stored either.
    assert seqs(judged.stored) == [0, 1]
    assert seqs(judged.uncertain) == [2, 3]
    assert seqs(judged.unsent) == [4, 5]
    assert not any(batch.is_lost for batch in judged.unsent)
    assert (kept.batches, kept.next_seq, kept.stored_seq) == ([], 0, -1)
