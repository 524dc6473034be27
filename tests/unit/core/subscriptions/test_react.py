"""Whatever makes work pending issues the wake in the same frame, once, and without end loops."""

import time

from millstream.core.events import Appended, StreamCreated
from millstream.core.offsets import ZERO
from millstream.core.streams.commands import Append, Body, CreateStream, ForkPoint, ForkRequest
from millstream.core.subscriptions.commands import LinkStreams, UnlinkStream
from millstream.core.subscriptions.events import LinksAdded, LinksRemoved, WakeEnded, WakeIssued
from millstream.core.subscriptions.facts import STREAMS_MAX
from millstream.core.subscriptions.react import react
from millstream.core.subscriptions.state import Phase
from tests.support.subscribing import World, pull, webhook


def kinds(world: World) -> list[type]:
    return [type(event) for event in world.last]


def test_a_new_stream_is_linked_before_its_first_message_and_wakes() -> None:
    world = World()
    world.subscribe("s", webhook())
    world.create("events/a", "1")
    assert kinds(world) == [StreamCreated, Appended, LinksAdded, WakeIssued]
    assert world.sub().links["events/a"].acked == ZERO
    assert world.sub().phase is Phase.WAKING
    assert [mark.position for mark in world.sub().tails] == [world.tail("events/a")]


def test_a_new_stream_without_messages_is_linked_and_does_not_wake() -> None:
    world = World()
    world.subscribe("s", webhook())
    world.create("events/a")
    assert kinds(world) == [StreamCreated, LinksAdded]
    world.append("events/a")
    assert kinds(world) == [Appended, WakeIssued]


def test_more_appends_during_a_wake_issue_no_other() -> None:
    world = World()
    world.subscribe("s", webhook())
    world.create("events/a", "1")
    world.append("events/a")
    world.create("events/b", "1")
    assert world.sub().generation == 1
    assert world.pending() == ["events/a", "events/b"]


def test_streams_that_nobody_linked_wake_nobody() -> None:
    world = World()
    world.subscribe("s", webhook())
    world.create("other/a", "1")
    assert kinds(world) == [StreamCreated, Appended]
    world.append("other/a")
    assert kinds(world) == [Appended]


def test_a_named_stream_wakes_once_it_is_made() -> None:
    world = World()
    world.subscribe("s", webhook(None, "later"))
    world.create("later", "1")
    assert kinds(world) == [StreamCreated, Appended, LinksAdded, WakeIssued]


def test_a_fork_is_linked_where_it_left_its_source() -> None:
    world = World()
    world.create("source", "1", "2")
    world.subscribe("s", webhook())
    source = world.machine.streams.by_path["source"]
    fork = ForkPoint(source.stream_id, "source", None, 0, source.tail)
    world.do(
        CreateStream(
            path="events/f",
            content_type=None,
            fork=fork,
            fork_request=ForkRequest("source", None, 0),
        )
    )
    assert world.sub().links["events/f"].acked == source.tail
    assert world.sub().phase is Phase.IDLE
    world.append("events/f")
    assert world.sub().phase is Phase.WAKING


def test_a_pull_wake_is_written_to_its_stream_in_the_same_frame() -> None:
    world = World()
    world.create("wake")
    world.subscribe("s", pull())
    world.create("events/a", "1")
    assert kinds(world) == [StreamCreated, Appended, LinksAdded, WakeIssued, Appended]
    assert world.messages("wake") == [
        {
            "type": "wake",
            "subscription_id": "s",
            "stream": "events/a",
            "generation": 1,
            "ts": world.now_ms,
        }
    ]


def test_a_wake_stream_that_cannot_take_the_wake_gets_none() -> None:
    for kind in ("missing", "closed", "text"):
        world = World()
        if kind == "text":
            world.create("wake", content_type="text/plain")
        if kind == "closed":
            world.create("wake")
            world.do(Append("wake", None, Body(b"", 0), is_closing=True))
        world.subscribe("s", pull())
        world.create("events/a", "1")
        assert kinds(world) == [StreamCreated, Appended, LinksAdded, WakeIssued]
        assert world.claimed().generation == 1


def test_a_wake_stream_that_comes_late_gets_the_wake_that_waits() -> None:
    world = World()
    world.subscribe("s", pull())
    world.create("events/a", "1")
    world.create("wake")
    assert [
        message["generation"] for message in world.messages("wake") if isinstance(message, dict)
    ] == [1]


def test_two_subscriptions_share_a_wake_stream() -> None:
    world = World()
    world.create("wake")
    world.subscribe("s", pull())
    world.subscribe("t", pull())
    world.create("events/a", "1")
    assert [m["subscription_id"] for m in world.messages("wake") if isinstance(m, dict)] == [
        "s",
        "t",
    ]
    assert world.tail("wake").index == 2


def test_wakes_that_wake_each_other_come_to_an_end() -> None:
    world = World()
    world.create("wake/a")
    world.create("wake/b")
    world.subscribe("a", pull("**", wake="wake/a"))
    world.subscribe("b", pull("**", wake="wake/b"))
    world.subscribe("c", webhook("wake/*"))
    world.create("events/x", "1")
    for sub_id in ("a", "b", "c"):
        assert world.sub(sub_id).generation == 1
        assert world.sub(sub_id).phase is Phase.WAKING
    assert world.pending("a") == ["events/x", "wake/b"]
    assert world.pending("b") == ["events/x", "wake/a"]
    state = {sub_id: world.sub(sub_id) for sub_id in "abc"}
    pending = {sub_id: set(world.pending(sub_id)) for sub_id in "abc"}
    world.restart()
    assert {sub_id: world.sub(sub_id) for sub_id in "abc"} == state
    assert {sub_id: set(world.pending(sub_id)) for sub_id in "abc"} == pending


def test_a_wake_that_lost_its_work_ends() -> None:
    world = World()
    world.subscribe("s", pull())
    world.create("events/a", "1")
    world.delete("events/a")
    assert WakeEnded in kinds(world)
    assert LinksRemoved in kinds(world)
    assert world.sub().phase is Phase.IDLE
    world.create("events/b", "1")
    assert world.sub().generation == 2


def test_unlinking_the_only_pending_stream_ends_the_wake() -> None:
    world = World()
    world.create("a")
    world.subscribe("s", webhook(None, "a"))
    world.append("a")
    world.do(UnlinkStream("s", "a"))
    assert world.sub().phase is Phase.IDLE


def test_a_stream_made_again_starts_with_a_new_cursor() -> None:
    world = World()
    world.create("events/a", "1", "2", "3")
    world.subscribe("s", pull("events/*", "events/a"))
    assert world.sub().links["events/a"].acked.index == 3
    world.delete("events/a")
    world.create("events/a", "1")
    link = world.sub().links["events/a"]
    assert (link.acked, link.is_explicit, link.is_glob) == (ZERO, True, True)
    assert world.sub().phase is Phase.WAKING


def test_an_expired_stream_replaced_by_a_put_is_linked_anew() -> None:
    world = World()
    world.subscribe("s", pull())
    world.do(CreateStream(path="events/a", content_type="application/json", ttl_s=1))
    world.append("events/a")
    world.now_ms += 5000
    world.create("events/a", "1", "2")
    assert world.sub().links["events/a"].acked == ZERO
    assert world.pending() == ["events/a"]
    held = world.claimed()
    assert [link.tail for link in held.links] == [world.tail("events/a")]


def test_a_wake_stream_made_again_is_pending_for_those_who_watch_it() -> None:
    world = World()
    world.do(CreateStream(path="wake", content_type="application/json", ttl_s=1))
    world.subscribe("s", pull())
    world.subscribe("watcher", pull("wake", wake="elsewhere"))
    world.create("events/a", "1")
    held = world.claimed("watcher")
    world.now_ms += 5000
    world.create("wake")
    assert world.pending("watcher") == ["wake"]
    assert world.tail("wake").index == 1
    world.ack(held, done=True)
    assert world.sub("watcher").phase is Phase.WAKING


def test_one_wake_tells_of_so_many_streams_and_the_next_of_the_rest() -> None:
    world = World()
    world.subscribe("s", webhook("events/*"))
    world.create("events/first", "1")
    for number in range(STREAMS_MAX + 5):
        world.create(f"events/{number}", "1")
    world.do(LinkStreams("s", ("x",)))
    assert len(world.pending()) == STREAMS_MAX + 6
    held = world.sub()
    assert len(held.tails) == 1


def test_appends_that_concern_nobody_cost_next_to_nothing() -> None:
    world = World()
    world.create("events/a")
    events = (Appended(1, 0, 1, 1),)
    subscriptions, streams = world.machine.subscriptions, world.machine.streams

    def cost() -> float:
        start = time.process_time()
        for _ in range(10_000):
            assert react(subscriptions, streams, events, 1) is None
        return (time.process_time() - start) / 10_000

    assert min(cost() for _ in range(3)) < 5e-6
    world.subscribe("s", webhook("other/*"))
    assert min(cost() for _ in range(3)) < 5e-6
