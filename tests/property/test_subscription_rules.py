"""Whatever happens in whatever order: one holder, growing generations, cursors that only move on.

A small model keeps what was promised to the outside; the machine may be restarted at any step.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from millstream.core.errors import Code, Refused
from millstream.core.offsets import Position
from millstream.core.subscriptions.commands import (
    Ack,
    Acked,
    AnnounceWake,
    Claimed,
    DeleteSubscription,
    Delivery,
    ExpireLease,
    LinkStreams,
    Outcome,
    ReleaseWake,
    UnlinkStream,
    WebhookOutcome,
)
from millstream.core.subscriptions.state import Phase
from tests.support.subscribing import World, ack_of, grant_of, pull, webhook

PATHS = ["events/a", "events/b", "named", "wake", "wake2"]
SUBS = {
    "pull": pull("events/*", "named"),
    "all": pull("**", wake="wake2"),
    "hook": webhook("events/*"),
    "deep": webhook("**"),
}
paths = st.sampled_from(PATHS)
sub_ids = st.sampled_from(list(SUBS))
pull_ids = st.sampled_from(["pull", "all"])
hook_ids = st.sampled_from(["hook", "deep"])


class Subscribing(RuleBasedStateMachine):
    """Every command in every order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.held: dict[str, list[Claimed]] = {sub_id: [] for sub_id in SUBS}
        self.generations: dict[int, int] = {}
        self.cursors: dict[tuple[int, str, int], int] = {}

    def exists(self, sub_id: str) -> bool:
        return sub_id in self.world.machine.subscriptions.by_id

    @rule(path=paths)
    def create(self, path: str) -> None:
        self.world.create(path, "1")

    @rule(path=paths)
    def create_empty(self, path: str) -> None:
        self.world.create(path)

    @rule(path=paths)
    def append(self, path: str) -> None:
        self.world.append(path, "1", "2")

    @rule(path=paths)
    def delete(self, path: str) -> None:
        self.world.delete(path)

    @rule(sub_id=sub_ids)
    def subscribe(self, sub_id: str) -> None:
        self.world.subscribe(sub_id, SUBS[sub_id])

    @rule(sub_id=sub_ids)
    def unsubscribe(self, sub_id: str) -> None:
        self.world.do(DeleteSubscription(sub_id))

    @rule(sub_id=sub_ids, path=paths)
    def link(self, sub_id: str, path: str) -> None:
        self.world.do(LinkStreams(sub_id, (path,)))

    @rule(sub_id=sub_ids, path=paths)
    def unlink(self, sub_id: str, path: str) -> None:
        self.world.do(UnlinkStream(sub_id, path))

    @rule(sub_id=pull_ids, worker=st.sampled_from(["w1", "w2"]))
    def claim(self, sub_id: str, worker: str) -> None:
        has_work = self.exists(sub_id) and bool(self.world.pending(sub_id))
        was_held = self.exists(sub_id) and self.is_leased(sub_id)
        answer = self.world.claim(sub_id, worker)
        if isinstance(answer, Claimed):
            assert has_work
            assert not was_held
            self.held[sub_id].append(answer)
        elif self.exists(sub_id):
            assert isinstance(answer, Refused)
            assert answer.code is (Code.ALREADY_CLAIMED if was_held else Code.NO_PENDING_WORK)

    def is_leased(self, sub_id: str) -> bool:
        sub = self.world.sub(sub_id)
        return sub.phase is Phase.HELD and self.world.now_ms < sub.lease_until_ms

    def is_current(self, held: Claimed) -> bool:
        sub = self.world.machine.subscriptions.by_id.get(held.sub_id)
        return (
            sub is not None
            and (sub.sub_no, sub.generation) == (held.sub_no, held.generation)
            and sub.phase is not Phase.IDLE
        )

    @rule(sub_id=pull_ids, data=st.data(), done=st.booleans())
    def ack(self, sub_id: str, data: st.DataObject, done: bool) -> None:
        if not self.held[sub_id]:
            return
        held = data.draw(st.sampled_from(self.held[sub_id]))
        live = [link for link in held.links if link.path in self.world.machine.streams.by_path]
        acks = []
        if live:
            link = data.draw(st.sampled_from(live))
            index = data.draw(st.integers(0, link.tail.index + 1))
            at_tail = index == link.tail.index
            acks = [Ack(link.path, link.tail if at_tail else Position(self.world.now_ms, index))]
        current = self.is_current(held)
        answer = self.world.do(ack_of(held, *acks, done=done))
        if not current:
            assert isinstance(answer, Refused)
            assert self.world.last == ()
        elif isinstance(answer, Acked) and done:
            woken = self.world.sub(sub_id).phase is Phase.WAKING
            assert answer.is_next_wake is woken

    @rule(sub_id=pull_ids, data=st.data())
    def release(self, sub_id: str, data: st.DataObject) -> None:
        if self.held[sub_id]:
            held = data.draw(st.sampled_from(self.held[sub_id]))
            current = self.is_current(held)
            answer = self.world.do(
                ReleaseWake(sub_id, grant_of(held), held.wake_id, held.generation)
            )
            assert isinstance(answer, Refused) is not current

    @rule(sub_id=hook_ids, how=st.sampled_from(list(Outcome)), jitter=st.floats(0, 0.99))
    def deliver(self, sub_id: str, how: Outcome, jitter: float) -> None:
        if not self.exists(sub_id):
            return
        delivery = self.world.delivery(sub_id)
        if isinstance(delivery, Delivery):
            self.world.do(
                WebhookOutcome(delivery.sub_no, delivery.generation, delivery.attempts, how, jitter)
            )

    @rule(sub_id=hook_ids, generation=st.integers(0, 5), how=st.sampled_from(list(Outcome)))
    def report_late(self, sub_id: str, generation: int, how: Outcome) -> None:
        if self.exists(sub_id):
            sub = self.world.sub(sub_id)
            self.world.do(WebhookOutcome(sub.sub_no, generation, 0, how))

    @rule(sub_no=st.integers(1, 8), generation=st.integers(0, 8))
    def alarm(self, sub_no: int, generation: int) -> None:
        self.world.do(ExpireLease(sub_no, generation))
        self.world.do(AnnounceWake(sub_no, generation))

    @rule(milliseconds=st.sampled_from([1, 400, 1000, 40_000]))
    def wait(self, milliseconds: int) -> None:
        self.world.now_ms += milliseconds

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule()
    def restart_from_snapshot(self) -> None:
        self.world.restart_from_snapshot()

    @invariant()
    def generations_only_grow(self) -> None:
        for sub in self.world.machine.subscriptions.by_no.values():
            assert sub.generation >= self.generations.get(sub.sub_no, 0)
            self.generations[sub.sub_no] = sub.generation

    @invariant()
    def cursors_only_move_on_and_never_past_the_end(self) -> None:
        streams = self.world.machine.streams.by_id
        for sub in self.world.machine.subscriptions.by_no.values():
            for link in sub.links.values():
                key = (sub.sub_no, link.path, link.stream_id)
                assert link.acked.index >= self.cursors.get(key, 0)
                self.cursors[key] = link.acked.index
                if link.stream_id in streams:
                    assert link.acked.index <= streams[link.stream_id].tail_index

    @invariant()
    def pending_work_has_a_wake_or_a_holder_and_nothing_else_does(self) -> None:
        for sub in self.world.machine.subscriptions.by_no.values():
            is_pending = bool(self.pending_by_looking(sub.sub_no))
            if sub.phase is Phase.IDLE:
                assert not is_pending
            if sub.phase is Phase.WAKING:
                assert is_pending
            assert (sub.holder is not None) == (sub.phase is Phase.HELD)

    @invariant()
    def what_is_noted_as_pending_is_what_is_pending(self) -> None:
        state = self.world.machine.subscriptions
        for sub_no in state.by_no:
            assert set(state.pending[sub_no]) == self.pending_by_looking(sub_no)

    def pending_by_looking(self, sub_no: int) -> set[str]:
        streams = self.world.machine.streams.by_id
        links = self.world.machine.subscriptions.by_no[sub_no].links.values()
        return {
            link.path
            for link in links
            if link.stream_id in streams and streams[link.stream_id].tail_index > link.acked.index
        }

    @invariant()
    def links_are_what_names_and_patterns_say(self) -> None:
        state, streams = self.world.machine.subscriptions, self.world.machine.streams
        for sub in state.by_no.values():
            for path, stream in streams.by_path.items():
                is_matched = sub in state.matching(path)
                link = sub.links.get(path)
                assert is_matched == (link is not None and link.is_glob)
                if link is not None:
                    assert link.stream_id == stream.stream_id
                    assert state.linked[stream.stream_id][sub.sub_no] is link


TestSubscribing = Subscribing.TestCase
TestSubscribing.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
