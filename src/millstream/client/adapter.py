"""The adapter of the official client suite: `python -m millstream.client.adapter`.

It reads one command a line from standard input, does it with the async client, and writes one
result a line to standard output. The suite itself is not part of this project.
"""

from __future__ import annotations

import asyncio
import base64
import sys
import time
from typing import Any, Final, Self, assert_never

import msgspec

import millstream
from millstream.client import adapter_commands as commands
from millstream.client.adapter_answers import Result, failure, success
from millstream.client.adapter_benchmarks import measure
from millstream.client.adapter_reading import collect
from millstream.client.aio.client import Client
from millstream.client.aio.producer import Producer
from millstream.client.aio.stream import Stream
from millstream.client.core.bodies import is_json
from millstream.client.core.encoding import Raw
from millstream.client.errors import ClientError
from millstream.client.options import Retry
from millstream.client.producing_options import AutoClaim, ProducerOptions

FEATURES: Final = (
    "batching",
    "sse",
    "longPoll",
    "auto",
    "streaming",
    "dynamicHeaders",
    "retryOptions",
    "batchItems",
    "strictZeroValidation",
)
BYTES: Final = "application/octet-stream"
# The suite injects up to 20 faults in a row and gives a command 30 seconds.
RETRY: Final = Retry(max_retries=8, max_delay_s=1.0, deadline_s=20.0)


class Dynamic:
    """Headers or parameters whose values are asked for anew with every command."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[str, str]] = {}
        self._counters: dict[str, int] = {}

    def set(self, name: str, kind: str, value: str = "") -> None:
        """Add one."""
        self._kinds[name] = (kind, value)
        self._counters[name] = 0

    def clear(self) -> None:
        """Forget all."""
        self._kinds.clear()

    def values(self) -> dict[str, str]:
        """Return the values for the next command."""
        return {name: self._value(name) for name in self._kinds}

    def _value(self, name: str) -> str:
        kind, value = self._kinds[name]
        if kind == "counter":
            self._counters[name] += 1
            return str(self._counters[name])
        if kind == "timestamp":
            return str(time.time_ns() // 1_000_000)  # noqa: TID251 - the suite asks for the time
        return value


class Adapter:
    """Does commands one after the other; what one leaves behind the next ones find."""

    def __init__(self) -> None:
        self._url = ""
        self._client: Client | None = None
        self._types: dict[str, str] = {}
        self._producers: dict[tuple[str, str, int], Producer] = {}
        self._headers = Dynamic()
        self._params = Dynamic()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def answer(self, line: bytes) -> Result:
        """Do what one line asks for and return its result; nothing is raised."""
        name = "init"
        try:
            command = commands.decode(line)
            name = str(command.__struct_config__.tag)
            return success(name, **await self._do(command))
        except Exception as error:  # noqa: BLE001 - whatever it is, the runner waits for a line
            return failure(name, error)

    async def close(self) -> None:
        """Let go of everything, so that the next `init` starts anew."""
        self._types.clear()
        self._producers.clear()
        self._headers.clear()
        self._params.clear()
        if self._client is not None:
            await self._client.close()

    async def _do(self, command: commands.AnyCommand) -> dict[str, Any]:
        match command:
            case commands.Benchmark():
                timed = await measure(command, self._stream(command.operation.path))
                return {"iterationId": command.iteration_id, **timed}
            case (
                commands.Produce()
                | commands.ProduceBatch()
                | commands.ProducerClose()
                | commands.ProducerDetach()
            ):
                return await self._with_producer(command)
            case (
                commands.Init()
                | commands.SetDynamicHeader()
                | commands.SetDynamicParam()
                | commands.ClearDynamic()
                | commands.Validate()
                | commands.Shutdown()
            ):
                return await self._with_adapter(command)
            case _:
                return await self._with_stream(command)

    async def _with_adapter(self, command: commands.OnAdapter) -> dict[str, Any]:
        match command:
            case commands.Init():
                await self.close()
                self._url = command.server_url.rstrip("/")
                self._client = Client(self._url, retry=RETRY)
                return {
                    "clientName": "millstream",
                    "clientVersion": millstream.__version__,
                    "features": dict.fromkeys(FEATURES, True),
                }
            case commands.SetDynamicHeader():
                self._headers.set(command.name, command.value_type, command.initial_value)
            case commands.SetDynamicParam():
                self._params.set(command.name, command.value_type)
            case commands.ClearDynamic():
                self._headers.clear()
                self._params.clear()
            case commands.Validate():
                validate(command.target)
            case commands.Shutdown():
                await self.close()
            case unknown:
                assert_never(unknown)
        return {}

    async def _with_stream(self, command: commands.OnStream) -> dict[str, Any]:
        match command:
            case commands.Create():
                return await self._create(command)
            case commands.Connect():
                stream = self._stream(command.path, command.headers)
                head = await stream.connect()
                self._types[command.path] = head.content_type or BYTES
                return {"status": 200, "offset": head.offset}
            case commands.Append():
                return await self._append(command)
            case commands.Read():
                return await self._read(command)
            case commands.Head():
                head = await self._stream(command.path, command.headers).head()
                return {
                    "status": 200,
                    "offset": head.offset,
                    "contentType": head.content_type,
                    "streamClosed": head.is_closed,
                }
            case commands.Delete():
                await self._stream(command.path, command.headers).delete()
                self._types.pop(command.path, None)
                return {"status": 200}
            case commands.Close():
                content_type = command.content_type or self._types.get(command.path, BYTES)
                stream = self._stream(command.path, content_type=content_type)
                closed = await stream.close(optional_message(command.data, content_type))
                return {"finalOffset": closed.offset}
            case unknown:
                assert_never(unknown)

    async def _create(self, command: commands.Create) -> dict[str, Any]:
        stream = self._stream(command.path, command.headers)
        created = await stream.create(
            command.content_type,
            ttl_s=command.ttl_seconds,
            expires_at=command.expires_at,
            closed=command.closed,
            body=optional_message(command.data, command.content_type),
        )
        self._types[command.path] = command.content_type
        return {"status": 200 if created.existed else 201, "offset": created.offset}

    async def _append(self, command: commands.Append) -> dict[str, Any]:
        headers, params = self._headers.values(), self._params.values()
        stream = self._stream(command.path, {**headers, **command.headers}, params)
        data = base64.b64decode(command.data) if command.binary else command.data
        appended = await stream.append(
            message_of(data, self._types.get(command.path, BYTES)),
            seq=None if command.seq is None else str(command.seq),
            # The suite wants it, although a plain append may then be stored twice.
            retry_unsafe=True,
        )
        sent = {"headersSent": headers or None, "paramsSent": params or None}
        return {"status": 200, "offset": appended.offset, **sent}

    async def _read(self, command: commands.Read) -> dict[str, Any]:
        headers, params = self._headers.values(), self._params.values()
        stream = self._stream(command.path, {**headers, **command.headers}, params)
        reader = stream.read(command.offset, live=command.live, with_empty=True)
        found = await collect(reader, command, self._types.get(command.path))
        sent = {"headersSent": headers or None, "paramsSent": params or None}
        return {**found.fields(), **sent}

    async def _with_producer(self, command: commands.OnProducer) -> dict[str, Any]:
        content_type = self._types.get(command.path, BYTES)
        match command:
            case commands.Produce():
                producer = self._producer(command, auto_claim=command.auto_claim)
                delivery = producer.append(message_of(command.data, content_type))
                await producer.flush()
                delivered = await delivery
                return {
                    "status": 200,
                    "offset": delivered.offset,
                    "duplicate": delivered.is_duplicate,
                    "producerSeq": delivered.seq,
                }
            case commands.ProduceBatch():
                await self._produce_batch(command, content_type)
                return {"status": 200}
            case commands.ProducerClose():
                producer = self._producer(command, auto_claim=command.auto_claim)
                closed = await producer.close(optional_message(command.data, content_type))
                return {"status": 200, "finalOffset": closed.offset}
            case commands.ProducerDetach():
                await self._producer(command).detach()
                del self._producers[command.path, command.producer_id, command.epoch]
                return {"status": 200}
            case unknown:
                assert_never(unknown)

    async def _produce_batch(self, command: commands.ProduceBatch, content_type: str) -> None:
        # To have requests that overlap, each message becomes a batch of its own.
        is_concurrent = command.max_in_flight > 1
        producer = self._stream(command.path, command.headers).producer(
            command.producer_id,
            epoch=AutoClaim(command.epoch) if command.auto_claim else command.epoch,
            max_in_flight=command.max_in_flight,
            linger_ms=0 if is_concurrent else 1000,
            max_batch_messages=1 if is_concurrent else 10_000,
        )
        async with producer:
            for item in command.items:
                producer.append(message_of(item, content_type))
            await producer.flush()

    def _producer(
        self,
        command: commands.Produce | commands.ProducerClose | commands.ProducerDetach,
        *,
        auto_claim: bool = False,
    ) -> Producer:
        """Return the producer of earlier commands: its sequence goes on where they left it."""
        key = (command.path, command.producer_id, command.epoch)
        producer = self._producers.get(key)
        if producer is None:
            producer = self._stream(command.path, command.headers).producer(
                command.producer_id,
                epoch=AutoClaim(command.epoch) if auto_claim else command.epoch,
                max_in_flight=1,
                linger_ms=0,
            )
            self._producers[key] = producer
        return producer

    def _stream(
        self,
        path: str,
        headers: dict[str, str] | None = None,
        params: dict[str, str] | None = None,
        *,
        content_type: str | None = None,
    ) -> Stream:
        if self._client is None:
            raise ClientError("init comes first")
        content_type = content_type or self._types.get(path, BYTES)
        url = self._url + path
        return self._client.stream(url, headers=headers, params=params, content_type=content_type)


def message_of(data: str | bytes, content_type: str) -> Raw | str | bytes:
    """Return a message as the client takes it: the suite's JSON is ready-made text."""
    return Raw(data) if is_json(content_type) else data


def optional_message(data: str | None, content_type: str) -> Raw | str | bytes | None:
    """Return a message that may be missing."""
    return None if data is None else message_of(data, content_type)


def validate(target: commands.RetryOptions | commands.ProducerSettings) -> None:
    """Make options of the given values; raises BadOption."""
    match target:
        case commands.RetryOptions():
            given: dict[str, Any] = {
                "max_retries": target.max_retries,
                "initial_delay_s": _seconds(target.initial_delay_ms),
                "max_delay_s": _seconds(target.max_delay_ms),
                "multiplier": target.multiplier,
            }
            Retry(**_given(given))
        case commands.ProducerSettings():
            numbers: dict[str, Any] = {
                "epoch": target.epoch,
                "max_batch_bytes": target.max_batch_bytes,
                "max_batch_messages": target.max_batch_items,
            }
            ProducerOptions(**_given(numbers))


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


async def serve() -> None:
    """Answer commands until the input ends or says so."""
    async with Adapter() as adapter:
        # Lines end at LF only: other characters that end lines for Python may be inside of data.
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            result = await adapter.answer(line)
            sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
            sys.stdout.buffer.flush()
            if result["type"] == "shutdown":
                return


if __name__ == "__main__":
    asyncio.run(serve())
