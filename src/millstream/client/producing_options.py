"""Options of a producer as frozen values, checked when they are made; BadOption names the field."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from millstream.client.errors import BadOption
from millstream.client.options import Retry

MIB: Final = 1024 * 1024
# Only the delays are used: how long to go on is what delivery_timeout_s says.
PATIENT: Final = Retry(max_retries=None, initial_delay_s=0.05, max_delay_s=5.0, deadline_s=None)


class Granted(msgspec.Struct, frozen=True):
    """The server grants the epoch: one higher than any before. Whoever asks last is in charge.

    Needs a server with this extension; any other refuses, and the producer says so.
    """


class AutoClaim(msgspec.Struct, frozen=True):
    """Start with this epoch; when the server knows a higher one, take the one above that.

    For servers that do not grant epochs. Of two producers with one id that claim against each
    other, the one that loses its claim twice stops with ProducerFenced.
    """

    start: int = 0

    def __post_init__(self) -> None:
        """Check the field; raises BadOption."""
        if self.start < 0:
            raise BadOption("epoch must not be negative")


GRANTED: Final = Granted()
AUTO_CLAIM: Final = AutoClaim()
Epoch = int | Granted | AutoClaim


class ProducerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a producer batches, how far it runs ahead, and how long it tries.

    A batch is sent when it is ``linger_ms`` old, or full by bytes or messages; while
    ``max_in_flight`` batches are under way it goes on filling. A single message may be larger than
    ``max_batch_bytes``, up to ``max_message_bytes``. ``max_buffered_bytes`` bounds what waits or is
    under way, each message counting some bytes beside its own, so that tiny ones are bounded too.
    ``delivery_timeout_s`` counts from ``append``; of ``retry`` only the delays are used.
    """

    epoch: Epoch = 0
    max_batch_bytes: int = MIB
    max_batch_messages: int = 10_000
    linger_ms: float = 5.0
    max_in_flight: int = 5
    max_buffered_bytes: int = 64 * MIB
    max_message_bytes: int | None = None
    delivery_timeout_s: float = 120.0
    retry: Retry = PATIENT

    def __post_init__(self) -> None:
        """Check every field; raises BadOption."""
        if isinstance(self.epoch, int) and self.epoch < 0:
            raise BadOption("epoch must not be negative")
        for field in ("max_batch_bytes", "max_batch_messages", "max_in_flight"):
            if getattr(self, field) < 1:
                raise BadOption(f"{field} must be at least 1")
        if self.max_buffered_bytes < 1:
            raise BadOption("max_buffered_bytes must be at least 1")
        if self.max_message_bytes is not None and self.max_message_bytes < 1:
            raise BadOption("max_message_bytes must be at least 1")
        if not (self.linger_ms >= 0 and math.isfinite(self.linger_ms)):
            raise BadOption("linger_ms must not be negative")
        if not (self.delivery_timeout_s > 0 and math.isfinite(self.delivery_timeout_s)):
            raise BadOption("delivery_timeout_s must be greater than 0")

    @property
    def message_bytes_max(self) -> int:
        """The largest message: one that could never fit into the buffer would wait for ever."""
        if self.max_message_bytes is None:
            return self.max_buffered_bytes
        return min(self.max_message_bytes, self.max_buffered_bytes)
