"""The official TypeScript client, from npm, against our server."""

import base64
import json
import secrets

import pytest

from millstream.testing.process import ServerProcess
from tests.interop.conftest import Npm
from tests.support.client import JSON, Client

COUNT = 300
LIVE_MODES = ("long-poll", "sse", "true")


@pytest.fixture
def name() -> str:
    return "npm-" + secrets.token_hex(4)


def expected(producer_id: str) -> list[dict[str, object]]:
    numbered = [{"id": producer_id, "n": n} for n in range(COUNT)]
    return [*numbered, {"id": producer_id, "last": True}]


def test_its_pipelining_producer_writes_everything_once_and_closes(
    npm: Npm, shared_server: ServerProcess, name: str
) -> None:
    report = npm("produce", f"{shared_server.stream_url}/{name}", "npm", str(COUNT))
    assert report["errors"] == []
    answer = Client(shared_server.port).get(name)
    assert answer.json == expected("npm")
    assert answer.headers["stream-closed"] == "true"
    assert answer.offset == report["finalOffset"]
    assert report["nextSeq"] > 1, "it sent one batch: nothing was pipelined"


@pytest.mark.parametrize("live", ["false", *LIVE_MODES])
def test_its_reader_gets_every_item_and_the_end(
    npm: Npm, shared_server: ServerProcess, name: str, live: str
) -> None:
    url = f"{shared_server.stream_url}/{name}"
    written = npm("produce", url, "npm", str(COUNT))
    report = npm("items", url, live)
    assert report["items"] == expected("npm")
    assert report["offset"] == written["finalOffset"]
    assert report["streamClosed"] is True


@pytest.mark.parametrize("live", ["false", "long-poll", "sse"])
def test_its_reader_gets_bytes_as_they_were_written(
    npm: Npm, shared_server: ServerProcess, name: str, live: str
) -> None:
    payload = bytes(range(256)) * 40
    client = Client(shared_server.port)
    octets = {"Content-Type": "application/octet-stream"}
    client.put(name, payload[:100], octets)
    tail = client.post(name, payload[100:], {**octets, "Stream-Closed": "true"})
    report = npm("bytes", f"{shared_server.stream_url}/{name}", live)
    assert base64.b64decode(report["base64"]) == payload
    assert report["offset"] == tail.offset


def test_its_producer_is_fenced_and_can_claim_the_next_epoch(
    npm: Npm, shared_server: ServerProcess, name: str
) -> None:
    url = f"{shared_server.stream_url}/{name}"
    client = Client(shared_server.port)
    client.put(name, b"", JSON)
    stamp = {"Producer-Id": "p", "Producer-Epoch": "4", "Producer-Seq": "0"}
    client.post(name, b'"first"', {**JSON, **stamp})
    assert npm("fenced", url, "p")["errors"] == [{"name": "StaleEpochError", "currentEpoch": 4}]
    assert npm("claim", url, "p") == {"errors": [], "epoch": 5}
    assert client.get(name).json == ["first", {"id": "p", "claimed": True}]


def test_its_handle_creates_appends_in_sequence_and_deletes(
    npm: Npm, shared_server: ServerProcess, name: str
) -> None:
    report = npm("handle", f"{shared_server.stream_url}/{name}")
    assert report["text"] == "onetwo"
    assert report["conflict"] == 409
    assert report["contentType"] == "text/plain"
    assert report["exists"] is False
    assert Client(shared_server.port).get(name).status == 404


def test_it_reads_what_our_json_mode_keeps_byte_for_byte(
    npm: Npm, shared_server: ServerProcess, name: str
) -> None:
    line_separator = "\u2028"
    values = [{"text": f"a{line_separator}b\nc"}, [1, [2]], None, 1.5, "é"]
    client = Client(shared_server.port)
    client.put(name, b"", JSON)
    body = json.dumps(values, ensure_ascii=False).encode()
    client.post(name, body, {**JSON, "Stream-Closed": "true"})
    assert npm("items", f"{shared_server.stream_url}/{name}", "sse")["items"] == values
