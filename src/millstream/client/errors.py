"""Everything the client raises, grouped by what the caller has to do about it.

    ClientError
    ├── FixError          the call is wrong; the same call fails again
    │   ├── BadOption, BadMessage, BadRequest (MessageTooLarge), BadOffset
    │   └── CreateConflict, ContentTypeMismatch, ProducerClosed, ClientClosed
    ├── RetryError        it may work later
    │   ├── NetworkFailed, Timeout, Unavailable, RateLimited (retried by the client)
    │   └── ParseError, BufferFull, DeliveryExpired
    ├── RefreshError      what the caller knows is out of date: look again, then decide
    │   └── Unauthorized, Forbidden, Conflict (SequenceConflict), OffsetConflict, OffsetGone
    ├── FencedError       another writer took over: stop
    │   └── ProducerFenced, Gap
    └── GoneError         there is nothing to talk to any more
        └── NotFound, StreamGone, StreamClosed

Errors can be pickled and copied. They hold no payload, no header value and no query value: a URL
is kept without its query and without credentials.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar
from urllib.parse import urlsplit, urlunsplit


class Remedy(enum.Enum):
    """What the caller has to do about an error."""

    FIX = "fix"
    RETRY = "retry"
    REFRESH = "refresh"
    FENCED = "fenced"
    GONE = "gone"


def public_url(url: str) -> str:
    """Return the URL as it may be shown: without credentials, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class ClientError(Exception):
    """The root. ``remedy`` says what to do; ``code`` and ``detail`` are the server's own words."""

    remedy: ClassVar[Remedy]
    is_uncertain: bool = False
    """Whether what was asked may have happened nevertheless."""

    def __init__(
        self,
        message: str,
        *,
        url: str | None = None,
        status: int | None = None,
        code: str | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.url = None if url is None else public_url(url)
        self.status = status
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        """Say what happened, what the server said, and where."""
        said = ", ".join(
            text for text in (self.status and f"HTTP {self.status}", self.code) if text
        )
        text = self.message
        if self.detail:
            text += f": {self.detail}"
        if said:
            text += f" ({said})"
        return f"{text} [{self.url}]" if self.url else text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with the message alone, which subclasses with required
        # fields refuse; and a copy must not clean or build anything a second time.
        return _restored, (type(self), self.args, self.__dict__.copy())


def _restored(
    kind: type[ClientError], arguments: tuple[Any, ...], state: dict[str, Any]
) -> ClientError:
    error = kind.__new__(kind, *arguments)
    # A TimeoutError is an OSError, which leaves this to its __init__.
    error.args = arguments
    error.__dict__.update(state)
    return error


class FixError(ClientError):
    """The call is wrong, and stays wrong however often it is repeated."""

    remedy = Remedy.FIX


class BadOption(FixError, ValueError):
    """An option or argument is out of its range. Nothing was sent."""


class BadMessage(FixError):
    """The message cannot be sent: not JSON, or not the type that the stream holds."""


class BadRequest(FixError):
    """The server refused the request as wrong (any 4xx that has no class of its own)."""


class MessageTooLarge(BadRequest):
    """The message, or the request that carries it, is larger than allowed."""


class BadOffset(FixError):
    """The server does not understand the offset."""


class CreateConflict(FixError):
    """A stream with another set-up is there already."""


class ContentTypeMismatch(FixError):
    """The messages are of another content type than the stream."""


class ProducerClosed(FixError):
    """The producer was used after it had been closed or detached."""


class ClientClosed(FixError):
    """The client or reader was used after it had been closed."""


class RetryError(ClientError):
    """It may work later.

    ``is_uncertain`` tells that the request may have had its effect although there is no answer.
    ``retry_after_s`` is what the server asked for.
    """

    remedy = Remedy.RETRY

    def __init__(
        self,
        message: str,
        *,
        is_uncertain: bool = False,
        retry_after_s: float | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(message, **facts)
        self.is_uncertain = is_uncertain
        self.retry_after_s = retry_after_s


class NetworkFailed(RetryError):
    """The connection could not be made, or broke. Sent or not: see ``is_uncertain``."""


class Timeout(RetryError, TimeoutError):
    """No answer came in time."""


class Unavailable(RetryError):
    """The server failed or cannot serve now (5xx)."""


class RateLimited(RetryError):
    """The server takes no more for now (429); the request had no effect."""


class ParseError(RetryError):
    """The answer is damaged or is not what the protocol says. A new read starts clean."""


class BufferFull(RetryError):
    """The producer holds as many unsent bytes as it may; nothing was added."""


class DeliveryExpired(RetryError):
    """The delivery deadline has passed. The message may be stored if ``is_uncertain``."""


class RefreshError(ClientError):
    """What the caller knows is out of date: look again, then decide.

    ``next_offset`` is the stream's tail, if the server told it.
    """

    remedy = Remedy.REFRESH

    def __init__(self, message: str, *, next_offset: str | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.next_offset = next_offset


class Unauthorized(RefreshError):
    """The server wants (other) credentials (401)."""


class Forbidden(RefreshError):
    """The credentials do not allow this (403)."""


class Conflict(RefreshError):
    """The request does not fit the stream as it is now (409)."""


class SequenceConflict(Conflict):
    """The ``Stream-Seq`` is not greater than the last one."""


class OffsetConflict(RefreshError):
    """The stream has moved on from the offset that the append expected (412)."""


class OffsetGone(RefreshError):
    """The offset is not, or no longer, part of this stream: choose another one."""


class FencedError(ClientError):
    """Another writer took over. Going on would be wrong; stop."""

    remedy = Remedy.FENCED


class ProducerFenced(FencedError):
    """A newer epoch of this producer is in charge; ``current_epoch`` is the server's."""

    def __init__(self, message: str, *, current_epoch: int | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.current_epoch = current_epoch


class Gap(FencedError):
    """The server misses sequences before this one (409 with ``Producer-Expected-Seq``).

    A caller sees it only if they are sequences that the producer no longer has.
    """

    def __init__(
        self,
        message: str,
        *,
        expected_seq: int | None = None,
        received_seq: int | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(message, **facts)
        self.expected_seq = expected_seq
        self.received_seq = received_seq


class GoneError(ClientError):
    """There is nothing to talk to any more. ``next_offset`` is where the stream ended, if known."""

    remedy = Remedy.GONE

    def __init__(self, message: str, *, next_offset: str | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.next_offset = next_offset


class NotFound(GoneError):
    """There is no such stream (404)."""


class StreamGone(GoneError):
    """The stream was deleted (410)."""


class StreamClosed(GoneError):
    """The stream is closed and takes no more messages."""
