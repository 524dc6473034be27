"""What both clients are given: the same messages, the same way to be called and to answer."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

MESSAGE_BYTES: Final = 100
TEXT: Final = "a" * 76
SHORT_MESSAGES: Final = 100
"""How many messages a short stream has."""

Verb = Callable[[str, int], Awaitable[float]]


def values(count: int) -> Iterator[dict[str, Any]]:
    """Yield messages that are `MESSAGE_BYTES` long as JSON."""
    for number in range(count):
        yield {"id": 1_000_000 + number, "text": TEXT}


def encoded(count: int, batch: int) -> Iterator[bytes]:
    """Yield the same messages as request bodies of `batch` messages each."""
    pending = values(count)
    while chunk := list(itertools.islice(pending, batch)):
        yield json.dumps(chunk, separators=(",", ":")).encode()


def report(arguments: Sequence[str], verbs: Mapping[str, Verb]) -> None:
    """Run the verb that the command line names; print how long it took, and its processor time."""
    name, url, count = arguments[1:]
    print(json.dumps(asyncio.run(_run(verbs[name], url, int(count)))))


async def _run(verb: Verb, url: str, count: int) -> dict[str, float]:
    began = time.process_time()
    seconds = await verb(url, count)
    return {"seconds": seconds, "cpu_seconds": time.process_time() - began}
