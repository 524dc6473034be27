"""The commands of the official client suite as values, one per line of JSON.

Fields have the suite's names in camel case; fields that are not named here are ignored.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Command(msgspec.Struct, kw_only=True, tag_field="type", rename="camel"):
    """What all commands share."""


class Init(Command, tag="init"):
    """Which server to talk to."""

    server_url: str


class Create(Command, tag="create"):
    """Create a stream."""

    path: str
    content_type: str = "application/octet-stream"
    ttl_seconds: int | None = None
    expires_at: str | None = None
    closed: bool = False
    data: str | None = None
    headers: dict[str, str] = {}


class Connect(Command, tag="connect"):
    """Look a stream up without creating it."""

    path: str
    headers: dict[str, str] = {}


class Append(Command, tag="append"):
    """Append one message; ``data`` is base64 if ``binary``."""

    path: str
    data: str
    binary: bool = False
    seq: int | None = None
    headers: dict[str, str] = {}


class Read(Command, tag="read"):
    """Read until one of the limits is reached."""

    path: str
    offset: str = "-1"
    live: bool | Literal["long-poll", "sse"] = False
    timeout_ms: int = 5000
    max_chunks: int = 100
    wait_for_up_to_date: bool = False
    headers: dict[str, str] = {}


class Head(Command, tag="head"):
    """Tell what a stream is."""

    path: str
    headers: dict[str, str] = {}


class Delete(Command, tag="delete"):
    """Delete a stream."""

    path: str
    headers: dict[str, str] = {}


class Close(Command, tag="close"):
    """Close a stream, with a last message or without."""

    path: str
    data: str | None = None
    content_type: str | None = None


class Produce(Command, tag="idempotent-append"):
    """Append one message through a producer that lives on."""

    path: str
    data: str
    producer_id: str
    epoch: int = 0
    auto_claim: bool = False
    headers: dict[str, str] = {}


class ProduceBatch(Command, tag="idempotent-append-batch"):
    """Append messages through a producer of their own."""

    path: str
    items: list[str]
    producer_id: str
    epoch: int = 0
    auto_claim: bool = False
    max_in_flight: int = 1
    headers: dict[str, str] = {}


class ProducerClose(Command, tag="idempotent-close"):
    """Close a stream through a producer."""

    path: str
    producer_id: str
    epoch: int = 0
    data: str | None = None
    auto_claim: bool = False
    headers: dict[str, str] = {}


class ProducerDetach(Command, tag="idempotent-detach"):
    """End a producer and leave its stream open."""

    path: str
    producer_id: str
    epoch: int = 0
    headers: dict[str, str] = {}


class SetDynamicHeader(Command, tag="set-dynamic-header"):
    """Send a header whose value is asked for anew with every command."""

    name: str
    value_type: Literal["counter", "timestamp", "token"]
    initial_value: str = ""


class SetDynamicParam(Command, tag="set-dynamic-param"):
    """Send a query parameter whose value is asked for anew with every command."""

    name: str
    value_type: Literal["counter", "timestamp"]


class ClearDynamic(Command, tag="clear-dynamic"):
    """Send no dynamic headers and parameters any more."""


class RetryOptions(
    msgspec.Struct, frozen=True, rename="camel", tag_field="target", tag="retry-options"
):
    """How to retry."""

    max_retries: int | None = None
    initial_delay_ms: float | None = None
    max_delay_ms: float | None = None
    multiplier: float | None = None


class ProducerSettings(
    msgspec.Struct, frozen=True, rename="camel", tag_field="target", tag="idempotent-producer"
):
    """How a producer is to be made."""

    producer_id: str = "test-producer"
    epoch: int | None = None
    max_batch_bytes: int | None = None
    max_batch_items: int | None = None


class Validate(Command, tag="validate"):
    """Make options, and say what is wrong with them."""

    target: RetryOptions | ProducerSettings


class Operation(msgspec.Struct, kw_only=True, tag_field="op", rename="camel"):
    """What all measured operations share."""

    path: str


class MeasureAppend(Operation, tag="append"):
    """Append one message of this size."""

    size: int


class MeasureRead(Operation, tag="read"):
    """Read everything from an offset."""

    offset: str = "-1"


class MeasureCreate(Operation, tag="create"):
    """Create a stream."""

    content_type: str = "application/octet-stream"


class MeasureRoundtrip(Operation, tag="roundtrip"):
    """Append one message and wait until a live reader has it."""

    size: int
    live: Literal["long-poll", "sse"] = "long-poll"
    content_type: str = "application/octet-stream"


class MeasureAppends(Operation, tag="throughput_append"):
    """Append many messages."""

    count: int
    size: int


class MeasureItems(Operation, tag="throughput_read"):
    """Read and parse many JSON messages."""


class Benchmark(Command, tag="benchmark"):
    """Do something and say how long it took."""

    iteration_id: str
    operation: (
        MeasureAppend
        | MeasureRead
        | MeasureCreate
        | MeasureRoundtrip
        | MeasureAppends
        | MeasureItems
    )


class Shutdown(Command, tag="shutdown"):
    """End."""


OnStream = Create | Connect | Append | Read | Head | Delete | Close
OnProducer = Produce | ProduceBatch | ProducerClose | ProducerDetach
OnAdapter = Init | SetDynamicHeader | SetDynamicParam | ClearDynamic | Validate | Shutdown
AnyCommand = OnStream | OnProducer | OnAdapter | Benchmark

decode = msgspec.json.Decoder(AnyCommand).decode
"""Read one line; raises msgspec.DecodeError."""
