"""The adapter as the official suite runs it: a process, one line in, one line out."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from millstream.testing.process import ServerProcess


class Adapter:
    """The running process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "millstream.client.adapter"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def do(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"type": kind, **fields}).encode() + b"\n")
        self.process.stdin.flush()
        result: dict[str, Any] = json.loads(self.process.stdout.readline())
        return result


@pytest.fixture
def adapter(shared_server: ServerProcess) -> Iterator[Adapter]:
    started = Adapter()
    with started.process:
        started.do("init", serverUrl=shared_server.url)
        try:
            yield started
        finally:
            started.process.kill()


def test_the_commands_work_on_a_real_server_and_shutdown_ends_the_process(
    adapter: Adapter,
) -> None:
    path = "/v1/stream/adapter-handle"
    assert adapter.do("create", path=path, contentType="application/json")["status"] == 201
    # U+2028 ends a line for some, but not in this protocol.
    tail = adapter.do("append", path=path, data='{"a":"\u2028"}')
    assert adapter.do("head", path=path)["offset"] == tail["offset"]
    for live in (False, True, "long-poll", "sse"):
        found = adapter.do("read", path=path, live=live, maxChunks=1)
        assert [chunk["data"] for chunk in found["chunks"]] == ['[{"a":"\u2028"}]']
        assert found["offset"] == tail["offset"]
    assert adapter.do("read", path=path, offset="nonsense")["errorCode"] == "INVALID_OFFSET"
    assert adapter.do("delete", path=path)["status"] == 200
    assert adapter.do("connect", path=path)["errorCode"] == "NOT_FOUND"
    assert adapter.do("shutdown")["success"]
    assert adapter.process.wait(20) == 0


def test_producers_live_on_between_commands_and_are_fenced(adapter: Adapter) -> None:
    path = "/v1/stream/adapter-producer"
    adapter.do("create", path=path, contentType="application/json")
    facts = {"path": path, "producerId": "p", "autoClaim": False}
    assert adapter.do("idempotent-append", data="1", epoch=1, **facts)["producerSeq"] == 0
    assert adapter.do("idempotent-append", data="2", epoch=1, **facts)["producerSeq"] == 1
    assert adapter.do("idempotent-append", data="3", epoch=0, **facts)["status"] == 403
    claim = {"path": path, "producerId": "p", "autoClaim": True}
    items = ["4", "5", "6"]
    batch = adapter.do("idempotent-append-batch", items=items, epoch=0, maxInFlight=3, **claim)
    assert batch["status"] == 200
    closed = adapter.do("idempotent-close", data="7", epoch=3, **facts)
    found = adapter.do("read", path=path)
    assert found["chunks"][0]["data"] == "[1,2,4,5,6,7]"
    assert found["streamClosed"] is True
    assert found["offset"] == closed["finalOffset"]
    late = adapter.do("append", path=path, data="8")
    assert (late["errorCode"], late["status"]) == ("STREAM_CLOSED", 409)
