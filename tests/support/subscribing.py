"""A machine with subscriptions, driven by hand: commands in, time moved, restarts at any point."""

import asyncio
from collections.abc import Callable

import msgspec

from millstream.core.events import Appended, Event
from millstream.core.machine import Bounds, Command, Machine
from millstream.core.offsets import Position
from millstream.core.streams.commands import Append, Body, CreateStream, DeleteStream
from millstream.core.subscriptions.commands import (
    Ack,
    AckWake,
    Claimed,
    ClaimWake,
    CreateSubscription,
    GetDelivery,
    GetSubscription,
    Grant,
    SubscriptionFacts,
)
from millstream.core.subscriptions.events import SubscriptionConfig
from millstream.core.subscriptions.state import Subscription, Subscriptions
from millstream.engine.timers import Timers
from millstream.format.events import decode_event, encode_event

JSON = "application/json"


def webhook(
    pattern: str | None = "events/*", *streams: str, ttl_ms: int = 1000, url: str = "https://a.test"
) -> SubscriptionConfig:
    """Set-up of a webhook subscription."""
    return SubscriptionConfig("webhook", pattern, streams, url, None, ttl_ms, None)


def pull(
    pattern: str | None = "events/*", *streams: str, ttl_ms: int = 1000, wake: str = "wake"
) -> SubscriptionConfig:
    """Set-up of a pull-wake subscription."""
    return SubscriptionConfig("pull-wake", pattern, streams, None, wake, ttl_ms, None)


class World:
    """One machine, its clock, and the log of all that happened."""

    def __init__(self) -> None:
        self.machine = Machine(Bounds())
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes]] = []
        self.last: tuple[Event, ...] = ()

    def do(self, command: Command) -> object:
        """Handle a command and return its answer; `last` has the events."""
        draft = self.machine.handle(command, self.now_ms)
        self.log += [(encode_event(e), d) for e, d in zip(draft.events, draft.data, strict=True)]
        self.last = draft.events
        return draft.answer

    def restart(self) -> None:
        """Forget everything but the log, and replay it."""
        self.machine = Machine(Bounds())
        for meta, data in self.log:
            self.machine.apply(decode_event(meta), len(data))
        self.machine.settle(self.now_ms)

    def restart_from_snapshot(self) -> None:
        """Keep the streams; send the subscriptions through their snapshot records."""
        old = self.machine.subscriptions
        raw = [msgspec.msgpack.encode(record) for record in old.records()]
        records = [msgspec.msgpack.decode(each, type=Subscription) for each in raw]
        subscriptions = Subscriptions.restore(records, old.next_no)
        self.machine = Machine(Bounds(), self.machine.streams, subscriptions)
        self.machine.settle(self.now_ms)

    def create(self, path: str, *values: str, content_type: str = JSON) -> object:
        """Make a stream with messages."""
        body = Body(",".join(values).encode(), len(values), lengths(values))
        return self.do(CreateStream(path=path, content_type=content_type, body=body))

    def append(self, path: str, *values: str) -> object:
        """Append messages, one by default."""
        values = values or ("1",)
        return self.do(
            Append(path, JSON, Body(",".join(values).encode(), len(values), lengths(values)))
        )

    def delete(self, path: str) -> object:
        """Delete a stream."""
        return self.do(DeleteStream(path))

    def subscribe(self, sub_id: str, config: SubscriptionConfig) -> SubscriptionFacts:
        """Make a subscription."""
        answer = self.do(CreateSubscription(sub_id, config, "http://127.0.0.1"))
        assert isinstance(answer, SubscriptionFacts)
        return answer

    def sub(self, sub_id: str = "s") -> Subscription:
        """The state of a subscription."""
        return self.machine.subscriptions.by_id[sub_id]

    def pending(self, sub_id: str = "s") -> list[str]:
        """Paths with pending messages."""
        return list(self.machine.subscriptions.pending[self.sub(sub_id).sub_no])

    def facts(self, sub_id: str = "s") -> SubscriptionFacts:
        """What GET tells."""
        answer = self.do(GetSubscription(sub_id))
        assert isinstance(answer, SubscriptionFacts)
        return answer

    def claim(self, sub_id: str = "s", worker: str = "w1") -> object:
        """Claim the wake."""
        return self.do(ClaimWake(sub_id, worker))

    def claimed(self, sub_id: str = "s", worker: str = "w1") -> Claimed:
        """Claim the wake, which must succeed."""
        answer = self.claim(sub_id, worker)
        assert isinstance(answer, Claimed), answer
        return answer

    def tail(self, path: str) -> Position:
        """The end of a stream."""
        return self.machine.streams.by_path[path].tail

    def ack(self, held: Claimed, *paths: str, done: bool = False, kind: str = "claim") -> object:
        """Ack streams to their ends."""
        acks = tuple(Ack(path, self.tail(path)) for path in paths)
        return self.do(ack_of(held, *acks, done=done, kind=kind))

    def delivery(self, sub_id: str = "s") -> object:
        """What the courier would be told."""
        sub = self.sub(sub_id)
        return self.do(GetDelivery(sub.sub_no, sub.generation))

    def messages(self, path: str) -> list[object]:
        """Messages that subscriptions wrote, or tests appended, to the stream at a path."""
        stream_id = self.machine.streams.by_path[path].stream_id
        found: list[object] = []
        for meta, data in self.log:
            event = decode_event(meta)
            if isinstance(event, Appended) and event.stream_id == stream_id:
                found += msgspec.json.decode(b"[" + data + b"]")
        return found


def lengths(values: tuple[str, ...]) -> bytes:
    """Pack the lengths of messages as appends do."""
    if len(values) < 2:
        return b""
    return b"".join(len(value).to_bytes(4, "little") for value in values)


def grant_of(held: Claimed, kind: str = "claim") -> Grant:
    """What the token of a claim proves."""
    return Grant(kind, held.sub_id, held.sub_no, held.generation, held.wake_id)


def ack_of(held: Claimed, *acks: Ack, done: bool = False, kind: str = "claim") -> AckWake:
    """Acks by the holder of a claim."""
    return AckWake(held.sub_id, grant_of(held, kind), held.wake_id, held.generation, acks, done)


class ManualClock:
    """A clock that stands until it is moved."""

    def __init__(self, now_ms: int) -> None:
        self.value_ms = now_ms

    def now_ms(self) -> int:
        """The time it was set to."""
        return self.value_ms


class FakeDesk:
    """An engine without a disk: everything is durable at once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = ManualClock(world.now_ms)
        self.timers = Timers(self.clock, self.submit, lambda _seconds, _callback: None)
        self.observers: list[Callable[[Event], None]] = []
        self.asked: list[Command] = []
        self.refusals: list[object] = []
        self.event = asyncio.Event()

    def observe(self, observer: Callable[[Event], None]) -> None:
        self.observers.append(observer)

    def submit(
        self, command: Command, callback: Callable[[object], None] | None = None, size: int = 0
    ) -> None:
        self.asked.append(command)
        answer = self.refusals.pop(0) if self.refusals else self._handle(command)
        if callback is not None:
            callback(answer)

    def ask(self, command: Command, size: int = 0) -> asyncio.Future[object]:
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.submit(command, future.set_result)
        return future

    def advance(self, milliseconds: int) -> None:
        """Let time pass, and fire what falls due."""
        self.clock.value_ms += milliseconds
        self.timers.fire()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds after some command."""
        while not condition():
            self.event.clear()
            await self.event.wait()

    def _handle(self, command: Command) -> object:
        self.world.now_ms = self.clock.value_ms
        answer = self.world.do(command)
        for event in self.world.last:
            for observer in self.observers:
                observer(event)
        self.event.set()
        return answer
