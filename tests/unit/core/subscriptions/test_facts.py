"""Answers tell of pending streams first, of so many at most, and only what the wake is for."""

from millstream.core.subscriptions import facts
from millstream.core.subscriptions.commands import Delivery, Outcome, WebhookOutcome
from tests.support.subscribing import World, pull, webhook


def test_a_delivery_shows_the_snapshot_and_hides_what_came_since() -> None:
    world = World()
    world.create("events/quiet", "1")
    world.subscribe("s", webhook())
    world.create("events/a", "1")
    sent = world.tail("events/a")
    world.append("events/a")
    world.create("events/new", "1")
    delivery = world.delivery()
    assert isinstance(delivery, Delivery)
    assert [(link.path, link.tail, link.has_pending) for link in delivery.links] == [
        ("events/a", sent, True),
        ("events/quiet", world.tail("events/quiet"), False),
    ]
    assert (delivery.url, delivery.base_url) == ("https://a.test", "http://127.0.0.1")


def test_a_delivery_leaves_out_a_stream_that_is_gone() -> None:
    world = World()
    world.subscribe("s", webhook())
    world.create("events/a", "1")
    world.create("events/b", "1")
    world.delete("events/a")
    delivery = world.delivery()
    assert isinstance(delivery, Delivery)
    assert delivery.links == ()


def test_a_wake_tells_of_a_bounded_number_of_streams_pending_ones_first() -> None:
    world = World()
    for number in range(facts.STREAMS_MAX):
        world.create(f"events/quiet-{number}", "1")
    world.subscribe("s", pull())
    for number in range(5):
        world.create(f"events/{number}", "1")
    held = world.claimed()
    assert len(held.links) == facts.STREAMS_MAX
    assert [link.has_pending for link in held.links[:6]] == [True] * 5 + [False]


def test_work_beyond_one_wake_comes_with_the_next() -> None:
    world = World()
    world.subscribe("s", webhook())
    world.create("events/first", "1")
    for number in range(facts.STREAMS_MAX + 3):
        world.create(f"events/{number}", "1")
    for generation in (1, 2, 3):
        world.do(WebhookOutcome(1, generation, 0, Outcome.DONE))
    assert world.pending() == []
    assert world.sub().generation == 3


def test_a_link_without_a_stream_is_shown_at_its_cursor() -> None:
    world = World()
    world.subscribe("s", webhook(None, "later"))
    (link,) = world.facts().links
    assert (link.tail, link.has_pending) == (link.acked, False)


def test_only_webhooks_have_deliveries() -> None:
    world = World()
    world.subscribe("s", pull())
    subscriptions, streams = world.machine.subscriptions, world.machine.streams
    assert facts.of_delivery(subscriptions, world.sub(), streams) is None
