"""Subscriptions are made, confirmed, linked and removed as the protocol says."""

import pytest

from millstream.core.errors import Code, Refused
from millstream.core.offsets import ZERO
from millstream.core.streams.commands import DONE
from millstream.core.subscriptions import decide
from millstream.core.subscriptions.commands import (
    CreateSubscription,
    DeleteSubscription,
    GetDelivery,
    GetSubscription,
    LinkStreams,
    ListWakes,
    UnlinkStream,
    Wakes,
)
from tests.support.subscribing import World, pull, webhook


def refusal(answer: object) -> Code:
    assert isinstance(answer, Refused), answer
    return answer.code


def test_existing_streams_are_linked_at_their_tails() -> None:
    world = World()
    world.create("events/a", "1", "2")
    world.create("other", "1")
    made = world.subscribe("s", webhook("events/*", "other", "missing"))
    assert made.is_new
    assert {link.path: link.acked for link in made.links} == {
        "events/a": world.tail("events/a"),
        "other": world.tail("other"),
        "missing": ZERO,
    }
    assert made.links == world.facts().links
    assert world.pending() == []
    assert world.sub().generation == 0


def test_an_explicit_link_takes_precedence_over_a_glob_link() -> None:
    world = World()
    world.create("events/a", "1")
    made = world.subscribe("s", webhook("events/*", "events/a"))
    assert [(link.path, link.is_explicit) for link in made.links] == [("events/a", True)]
    assert world.facts().links == made.links


def test_the_same_set_up_again_is_confirmed_and_writes_nothing() -> None:
    world = World()
    made = world.subscribe("s", webhook())
    again = world.subscribe("s", webhook())
    assert (again.is_new, again.sub_no) == (False, made.sub_no)
    assert world.last == ()


def test_another_set_up_is_refused_with_the_field_that_differs() -> None:
    world = World()
    world.subscribe("s", webhook())
    answer = world.do(CreateSubscription("s", webhook(url="https://b.test")))
    assert refusal(answer) is Code.SUBSCRIPTION_EXISTS
    assert isinstance(answer, Refused)
    assert answer.field == "webhook.url"


def test_the_address_of_the_creator_does_not_count_for_the_comparison() -> None:
    world = World()
    world.subscribe("s", webhook())
    world.do(CreateSubscription("s", webhook(), "http://elsewhere.test"))
    assert world.last == ()


def test_a_deleted_subscription_is_gone_and_its_number_is_never_used_again() -> None:
    world = World()
    first = world.subscribe("s", webhook())
    assert world.do(DeleteSubscription("s")) == DONE
    assert refusal(world.do(GetSubscription("s"))) is Code.SUBSCRIPTION_NOT_FOUND
    assert refusal(world.do(DeleteSubscription("s"))) is Code.SUBSCRIPTION_NOT_FOUND
    assert world.subscribe("s", webhook()).sub_no > first.sub_no


def test_new_explicit_streams_are_linked_at_their_tails_once() -> None:
    world = World()
    world.create("x", "1")
    world.subscribe("s", webhook("events/*"))
    assert world.do(LinkStreams("s", ("x", "y", "x"))) == DONE
    assert [(k.path, k.acked) for k in world.facts().links] == [("x", world.tail("x")), ("y", ZERO)]
    world.append("x")
    world.do(LinkStreams("s", ("x",)))
    assert world.last == ()
    assert world.pending() == ["x"]


def test_naming_a_stream_that_a_pattern_linked_keeps_its_cursor() -> None:
    world = World()
    world.subscribe("s", webhook("events/*"))
    world.create("events/a", "1")
    world.do(LinkStreams("s", ("events/a",)))
    (link,) = world.facts().links
    assert (link.is_explicit, link.acked, link.has_pending) == (True, ZERO, True)


def test_removing_the_explicit_link_leaves_the_glob_link() -> None:
    world = World()
    world.create("events/a", "1")
    world.create("b", "1")
    world.subscribe("s", webhook("events/*", "events/a", "b"))
    assert world.do(UnlinkStream("s", "events/a")) == DONE
    assert world.do(UnlinkStream("s", "b")) == DONE
    assert [(link.path, link.is_explicit) for link in world.facts().links] == [("events/a", False)]
    world.do(UnlinkStream("s", "events/a"))
    assert world.last == ()


def test_links_of_an_unknown_subscription_are_refused() -> None:
    world = World()
    assert refusal(world.do(LinkStreams("s", ("a",)))) is Code.SUBSCRIPTION_NOT_FOUND
    assert refusal(world.do(UnlinkStream("s", "a"))) is Code.SUBSCRIPTION_NOT_FOUND


def test_no_subscription_watches_its_own_wake_stream() -> None:
    world = World()
    world.create("wake")
    made = world.subscribe("s", pull("**"))
    assert made.links == ()
    assert refusal(world.do(LinkStreams("s", ("wake",)))) is Code.INVALID_BODY


def test_there_are_only_so_many_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "SUBSCRIPTIONS_MAX", 3)
    world = World()
    for number in range(3):
        world.subscribe(f"s{number}", webhook())
    assert refusal(world.do(CreateSubscription("more", webhook()))) is Code.TOO_MANY_SUBSCRIPTIONS


def test_queries_tell_the_wakes_and_write_nothing() -> None:
    world = World()
    world.subscribe("hook", webhook())
    world.subscribe("pull", pull())
    assert world.do(ListWakes()) == Wakes(())
    world.create("events/a", "1")
    answer = world.do(ListWakes())
    assert isinstance(answer, Wakes)
    assert [(wake.sub_no, wake.is_webhook, wake.lease_until_ms) for wake in answer.wakes] == [
        (1, True, 0),
        (2, False, 0),
    ]
    assert world.do(GetDelivery(2, 1)) is None
    assert world.do(GetDelivery(1, 9)) is None
    assert world.do(GetDelivery(9, 1)) is None
    assert world.last == ()
