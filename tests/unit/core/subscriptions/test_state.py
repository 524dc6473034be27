"""The indexes find what they should and forget what is gone."""

import msgspec

from millstream.core.offsets import ZERO
from millstream.core.subscriptions.state import Link, Phase, Subscription, Subscriptions
from tests.support.subscribing import pull, webhook


def subscription(sub_no: int, pattern: str | None = None, *streams: str) -> Subscription:
    links = {path: Link(path, sub_no * 10, ZERO, is_explicit=True) for path in streams}
    return Subscription(sub_no, f"s{sub_no}", pull(pattern, *streams), 0, "", links)


def test_patterns_are_found_by_their_first_segment_or_as_wildcards() -> None:
    state = Subscriptions.empty()
    for number, pattern in enumerate(["events/*", "*/a", "**", "other/*", None, "wake"], 1):
        state.insert(subscription(number, pattern))
    assert [each.sub_no for each in state.matching("events/a")] == [1, 2, 3]
    assert [each.sub_no for each in state.matching("other/b")] == [3, 4]
    assert Subscriptions.empty().matching("a") == []


def test_a_pattern_never_takes_in_its_own_wake_stream() -> None:
    state = Subscriptions.empty()
    state.insert(subscription(1, "**"))
    assert state.matching("wake") == []


def test_what_is_taken_out_leaves_nothing_behind() -> None:
    state = Subscriptions.empty()
    for number in (1, 2):
        state.insert(subscription(number, "events/*", "a", "b"))
    for number in (1, 2):
        state.discard(state.by_no[number])
    indexes = (state.by_no, state.by_id, state.linked, state.named, state.globs, state.pending)
    assert all(not index for index in (*indexes, state.waking))


def test_records_are_all_a_snapshot_needs() -> None:
    state = Subscriptions.empty()
    state.insert(subscription(3, "events/*", "a"))
    state.next_no = 7
    raw = [msgspec.msgpack.encode(record) for record in state.records()]
    again = Subscriptions.restore(
        [msgspec.msgpack.decode(each, type=Subscription) for each in raw], 7
    )
    assert again.by_no == state.by_no
    assert (again.linked, again.named, again.globs) == (state.linked, state.named, state.globs)
    assert again.next_no == 7


def test_a_wake_is_named_after_numbers_that_are_never_used_again() -> None:
    one = subscription(12)
    one.generation = 34
    assert one.wake_id == "w_12_34"


def test_only_a_webhook_that_waits_for_a_retry_is_failing() -> None:
    for kind, attempts, expected in (
        (webhook(), 1, True),
        (webhook(), 0, False),
        (pull(), 1, False),
    ):
        one = Subscription(1, "s", kind, 0, "", {}, phase=Phase.WAKING, attempts=attempts)
        assert one.is_failing is expected
