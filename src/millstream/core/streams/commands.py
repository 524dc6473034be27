"""What can be asked of streams, and what comes back."""

from __future__ import annotations

import msgspec

from millstream.core.errors import Refused
from millstream.core.offsets import Position
from millstream.core.producers.judge import Claim


class Body(msgspec.Struct, frozen=True):
    """Messages as they will be stored: joined bytes, how many, and each one's length."""

    data: bytes
    count: int
    lengths: bytes = b""


EMPTY = Body(b"", 0)


class ForkPoint(msgspec.Struct, frozen=True):
    """Where to leave the source, resolved against its messages before the command is given.

    ``prefix`` is the part of a message that a byte sub-offset keeps.
    """

    source_id: int
    source_path: str
    anchor: Position | None
    sub_offset: int
    base: Position
    prefix: bytes = b""


class CreateStream(msgspec.Struct, frozen=True, kw_only=True):
    """Make a stream at a path, or confirm that just such a one is there.

    ``fork`` is a refusal when the fork point could not be resolved: it counts only if the path
    does not hold a matching stream already.
    """

    path: str
    content_type: str | None
    ttl_s: int | None = None
    expires_at_ms: int | None = None
    is_closed: bool = False
    body: Body | Refused = EMPTY
    fork: ForkPoint | Refused | None = None
    fork_request: ForkRequest | None = None


class ForkRequest(msgspec.Struct, frozen=True):
    """What the client said about the fork, to compare a repeated request with."""

    source_path: str
    anchor: Position | None
    sub_offset: int


class Append(msgspec.Struct, frozen=True):
    """Add messages, close the stream, or both."""

    path: str
    content_type: str | None
    body: Body | Refused
    is_closing: bool = False
    claim: Claim | None = None
    stream_seq: str | None = None
    if_match: Position | None = None


class GrantEpoch(msgspec.Struct, frozen=True):
    """Give a producer an epoch above every one it had; all older ones are fenced from then on."""

    path: str
    producer_id: str


class AppendRecords(msgspec.Struct, frozen=True):
    """Add JSON values to a stream, which is made if it is missing, and raise its version.

    Without values it only raises the version, or asks for it.
    """

    path: str
    body: Body
    version: int | None = None
    claim: Claim | None = None


class DeleteStream(msgspec.Struct, frozen=True):
    """Remove the stream at a path."""

    path: str


class ExpireStream(msgspec.Struct, frozen=True):
    """A deadline may have passed: remove the stream if it has."""

    stream_id: int


class TouchStream(msgspec.Struct, frozen=True):
    """A reader came by a TTL stream: slide its deadline.

    ``at_ms`` is when the reader was served, which may be before the command is decided (0: now).
    """

    stream_id: int
    at_ms: int = 0


StreamCommand = (
    CreateStream | Append | AppendRecords | GrantEpoch | DeleteStream | ExpireStream | TouchStream
)


class Created(msgspec.Struct, frozen=True):
    """The stream is there; ``is_new`` tells whether this command made it."""

    stream_id: int
    content_type: str
    tail: Position
    is_closed: bool
    is_new: bool


class Added(msgspec.Struct, frozen=True):
    """The messages are stored (or the stream is closed), and the tail is here now."""

    stream_id: int
    tail: Position
    is_closed: bool
    claim: Claim | None = None
    count: int = 0


class Duplicate(msgspec.Struct, frozen=True):
    """The producer's batch was stored before and ended at ``end_index``."""

    stream_id: int
    end_index: int
    claim: Claim
    seq_last: int
    is_closed: bool


class Granted(msgspec.Struct, frozen=True):
    """The producer's new epoch, which begins with sequence 0, and where the tail is."""

    epoch: int
    tail: Position


class VersionNow(msgspec.Struct, frozen=True):
    """The version that records need, 0 if none was ever set."""

    version: int


class Done(msgspec.Struct, frozen=True):
    """It is so; there is nothing more to tell."""


DONE = Done()
