"""What is known of subscriptions, as the writer knows it (ahead of the disk by one batch)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, TypeVar

import msgspec

from millstream.core.offsets import Position
from millstream.core.subscriptions import glob
from millstream.core.subscriptions.events import Mark, SubscriptionConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WEBHOOK = "webhook"
PULL_WAKE = "pull-wake"
RECEIVER = "webhook"
"""Who holds a wake that a webhook's receiver took."""


class Phase(enum.IntEnum):
    """What a subscription's newest generation is at."""

    IDLE = 0
    WAKING = 1
    """A wake is issued; it is being delivered, or waits to be claimed."""
    HELD = 2
    """Somebody works on it under a lease."""


class Link(msgspec.Struct, array_like=True):
    """One stream path of a subscription: by name, by pattern, or both; and its cursor.

    ``stream_id`` is the incarnation that ``acked`` is a position of; 0 before there is one.
    """

    path: str
    stream_id: int
    acked: Position
    is_explicit: bool = False
    is_glob: bool = False


class Subscription(msgspec.Struct, array_like=True):
    """One subscription's whole durable state."""

    sub_no: int
    sub_id: str
    config: SubscriptionConfig
    created_ms: int
    base_url: str
    links: dict[str, Link]
    generation: int = 0
    phase: Phase = Phase.IDLE
    tails: tuple[Mark, ...] = ()
    """What the present wake was issued for, or what its holder was shown."""
    holder: str | None = None
    lease_until_ms: int = 0
    attempts: int = 0
    next_attempt_ms: int = 0

    @property
    def wake_id(self) -> str:
        """The name of the newest wake: unique, because neither number is ever used again."""
        return f"w_{self.sub_no}_{self.generation}"

    @property
    def is_webhook(self) -> bool:
        """True for one that posts its wakes, False for one whose wakes are claimed."""
        return self.config.kind == WEBHOOK

    @property
    def is_failing(self) -> bool:
        """True while a webhook waits to be tried again after a failure."""
        return self.is_webhook and self.phase is Phase.WAKING and self.attempts > 0


class Subscriptions:
    """All subscriptions, and what is derived from them to find them fast.

    ``linked`` maps a stream's id to the subscriptions that have it, ``named`` a path to the
    subscriptions with an explicit link there, ``waking`` a path to those that announce their
    wakes in that stream. ``pending`` holds, for each subscription, the linked paths with messages
    behind the cursor; dicts serve as sets that keep their order.
    """

    __slots__ = ("by_id", "by_no", "globs", "linked", "named", "next_no", "pending", "waking")

    def __init__(self) -> None:
        """Start with nothing; the same as ``empty``."""
        self.by_no: dict[int, Subscription] = {}
        self.by_id: dict[str, Subscription] = {}
        self.next_no = 1
        self.linked: dict[int, dict[int, Link]] = {}
        self.named: dict[str, dict[int, Link]] = {}
        self.waking: dict[str, dict[int, Subscription]] = {}
        self.globs: dict[str, dict[int, tuple[str, ...]]] = {}
        self.pending: dict[int, dict[str, None]] = {}

    @classmethod
    def empty(cls) -> Subscriptions:
        """Return the state of a new data directory."""
        return cls()

    @classmethod
    def restore(cls, records: Iterable[Subscription], next_no: int) -> Subscriptions:
        """Rebuild everything from the records of a snapshot; ``settle`` must follow."""
        state = cls()
        state.next_no = next_no
        for subscription in records:
            state.insert(subscription)
        return state

    def records(self) -> Iterator[Subscription]:
        """Yield what a snapshot has to keep (and ``next_no`` beside it)."""
        yield from self.by_no.values()

    def insert(self, subscription: Subscription) -> None:
        """Add a subscription with the links it has."""
        self.by_no[subscription.sub_no] = subscription
        self.by_id[subscription.sub_id] = subscription
        self.pending[subscription.sub_no] = {}
        config = subscription.config
        if config.wake_stream is not None:
            self.waking.setdefault(config.wake_stream, {})[subscription.sub_no] = subscription
        if config.pattern is not None:
            segments = glob.split(config.pattern)
            self.globs.setdefault(_first(segments), {})[subscription.sub_no] = segments
        for link in subscription.links.values():
            self.index(subscription, link)

    def discard(self, subscription: Subscription) -> None:
        """Take a subscription out, with all its links."""
        for link in subscription.links.values():
            self.unindex(subscription, link)
        del self.by_no[subscription.sub_no]
        del self.by_id[subscription.sub_id]
        del self.pending[subscription.sub_no]
        config = subscription.config
        if config.wake_stream is not None:
            _drop(self.waking, config.wake_stream, subscription.sub_no)
        if config.pattern is not None:
            _drop(self.globs, _first(glob.split(config.pattern)), subscription.sub_no)

    def index(self, subscription: Subscription, link: Link) -> None:
        """Make a link findable by its stream and, if it is explicit, by its path."""
        if link.stream_id:
            self.linked.setdefault(link.stream_id, {})[subscription.sub_no] = link
        if link.is_explicit:
            self.named.setdefault(link.path, {})[subscription.sub_no] = link

    def unindex(self, subscription: Subscription, link: Link) -> None:
        """Undo ``index``."""
        _drop(self.linked, link.stream_id, subscription.sub_no)
        _drop(self.named, link.path, subscription.sub_no)

    def matching(self, path: str) -> list[Subscription]:
        """Return the subscriptions whose pattern takes in ``path``, oldest first.

        No pattern takes in its own subscription's wake stream: it would wake itself for ever.
        """
        if not self.globs:
            return []
        segments = glob.split(path)
        found = [
            self.by_no[sub_no]
            for first in (segments[0], _WILD)
            for sub_no, pattern in self.globs.get(first, _NO_GLOBS).items()
            if glob.matches(pattern, segments)
        ]
        found = [each for each in found if each.config.wake_stream != path]
        return sorted(found, key=_by_no)


_K = TypeVar("_K")
_V = TypeVar("_V")
_WILD = ""
_NO_GLOBS: dict[int, tuple[str, ...]] = {}


def _first(pattern: tuple[str, ...]) -> str:
    """Return the segment a pattern is filed under: its first, if that is no wildcard."""
    return _WILD if pattern[0] in (glob.ONE, glob.ANY) else pattern[0]


def _by_no(subscription: Subscription) -> int:
    return subscription.sub_no


def _drop(index: dict[_K, dict[int, _V]], key: _K, sub_no: int) -> None:
    entries = index.get(key)
    if entries is not None:
        entries.pop(sub_no, None)
        if not entries:
            del index[key]
