"""W5 makes a stream in one request or in two, and goes on with less when a peer refuses."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.figures import Sample
from bench.load.dialect import BadReply, Dialect
from bench.load.http import Http
from bench.load.nats import Nats
from bench.load.redis import Redis
from bench.peers.server import Server
from bench.plan import TINY, Plan
from bench.workloads import streams
from bench.workloads.run import Run, childless
from bench.workloads.streams import ONE_REQUEST, TWO_REQUESTS, requests


class Fake(Server):
    """A server that is never started."""

    def __init__(self, root: Path, dialect: Dialect, name: str = "node-file") -> None:
        self.name = name
        super().__init__(root)
        self.dialect = dialect

    @property
    def pid(self) -> int:
        return 0

    def command(self) -> list[str]:
        raise NotImplementedError


def verbs(server: Server, case: str) -> list[bytes]:
    return [request.data.split(b" ", 1)[0] for request in requests(server, case, "s", 0)]


def test_over_http_a_stream_takes_two_requests_or_one_that_holds_the_message(
    tmp_path: Path,
) -> None:
    server = Fake(tmp_path, Http("127.0.0.1", 1))
    assert verbs(server, TWO_REQUESTS) == [b"PUT", b"POST"]
    (put,) = requests(server, ONE_REQUEST, "s", 0)
    head, _, body = put.data.partition(b"\r\n\r\n")
    assert head.startswith(b"PUT /v1/stream/s HTTP/1.1")
    assert b"Content-Length: 100" in head
    assert len(body) == 100
    assert (put.acks, put.messages) == (1, 1)


def test_redis_sends_the_same_in_both_cases(tmp_path: Path) -> None:
    server = Fake(tmp_path, Redis("127.0.0.1", 1))
    assert list(requests(server, TWO_REQUESTS, "s", 0)) == list(
        requests(server, ONE_REQUEST, "s", 0)
    )
    assert b"XADD" in requests(server, ONE_REQUEST, "s", 0)[0].data


def test_nats_has_no_request_that_makes_a_stream_with_its_first_message(tmp_path: Path) -> None:
    server = Fake(tmp_path, Nats("127.0.0.1", 1))
    assert len(requests(server, TWO_REQUESTS, "s", 0)) == 2
    assert not requests(server, ONE_REQUEST, "s", 0)


def test_the_cases_share_the_streams_and_no_name_comes_twice(tmp_path: Path) -> None:
    run = Run(Plan(), tmp_path, ())
    names = {
        f"{lot.prefix}-{number}"
        for turn in range(run.plan.repeats)
        for case in (TWO_REQUESTS, ONE_REQUEST)
        for lot in [streams._lot(run, turn, case, 64)]
        for number in lot.numbers
    }
    assert len(names) == 100_000
    assert streams._total(run) == "100,000 streams"


class Crowded:
    """Answers 404 on every connection beyond the second that is open."""

    def __init__(self) -> None:
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        word = b"404 Not Found" if self._open > 2 else b"201 Created"
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(100)
                writer.write(b"HTTP/1.1 " + word + b"\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._open -= 1
            writer.close()


async def opened_by(name: str, tmp_path: Path) -> tuple[Run, streams.Opened]:
    async with await asyncio.start_server(Crowded().serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        run = Run(TINY, tmp_path, ())
        server = Fake(tmp_path / "fake", Http("127.0.0.1", port), name)
        return run, await streams._open(run, server, streams._lot(run, 0, ONE_REQUEST, 8))


@pytest.mark.anyio
async def test_a_peer_that_refuses_is_measured_on_fewer_connections_and_that_is_told(
    tmp_path: Path,
) -> None:
    run, opened = await opened_by("node-file", tmp_path)
    assert opened.width == 2
    assert [failure[:39] for failure in run.failures] == [
        "W5: node-file failed on 8 connections: ",
        "W5: node-file failed on 4 connections: ",
    ]
    sample: Sample = streams._sample(run, Fake(tmp_path, Http("", 1)), 0, ONE_REQUEST, opened)
    assert sample.note == "2 connections, for 0.1 s a turn"


@pytest.mark.anyio
async def test_ours_must_not_refuse(tmp_path: Path) -> None:
    with pytest.raises(BadReply):
        await opened_by("millstream", tmp_path)


def test_waiting_for_the_end_of_children_has_an_end() -> None:
    script = (
        "import subprocess,sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "print(flush=True)\n"
        "input()\n"
        "child.communicate(b'\\n')\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdout.readline()
        assert not asyncio.run(childless(parent.pid, time.monotonic()))
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert asyncio.run(childless(parent.pid, time.monotonic() + 30))
        parent.kill()
