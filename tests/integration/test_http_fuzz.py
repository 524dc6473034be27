"""Valid requests, mutated, against a real server: no answer above 499, no hang, no traceback."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millstream.testing.process import ServerProcess
from tests.support.client import Client, shout
from tests.support.mutations import Mutator, seeds
from tests.support.server import Servers

REQUESTS = 6000
WORKERS = 4
FLAGS = (
    *("--long-poll-ms", "100", "--sse-ms", "100", "--header-ms", "1000", "--body-ms", "1000"),
    *("--body-bytes-max", "100000", "--webhook-allow-private"),
)


def memory_bytes(server: ServerProcess) -> int:
    return int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("at_once", [1, 4], ids=["one by one", "four in a row"])
def test_mutated_requests_are_served_or_refused(servers: Servers, at_once: int) -> None:
    server = servers.start(*FLAGS)
    client = Client(server.port)
    corpus = seeds("requests")
    mutators = [Mutator(100 * at_once + number, corpus) for number in range(WORKERS)]
    counts: dict[int, int] = {}
    lock = threading.Lock()

    def work(mutator: Mutator) -> None:
        for _ in range(REQUESTS // (2 * at_once * WORKERS)):
            data = b"".join(mutator.next() for _ in range(at_once))
            heard = shout(server.port, data, 10.0)
            assert heard.is_ended, f"no end of {data[:3000]!r}"
            assert all(status < 500 for status in heard.statuses), (data[:3000], heard.data[:500])
            with lock:
                for status in heard.statuses:
                    counts[status] = counts.get(status, 0) + 1

    before = memory_bytes(server)
    with ThreadPoolExecutor(WORKERS) as pool:
        for _ in pool.map(work, mutators):
            pass
    # The fuzzer must get through the parser, or it tests nothing.
    assert {200, 201, 204, 400, 404} <= counts.keys()
    assert counts[200] + counts.get(204, 0) > 50
    assert client.ask("GET", "/readyz").status == 200
    assert "Traceback" not in server.output()
    assert memory_bytes(server) - before < 100_000_000
    # What it stored on the way is whole: it starts again on it.
    assert server.restart().is_running
    assert "Traceback" not in server.output()


def test_the_corpus_itself_is_served(servers: Servers) -> None:
    server = servers.start(*FLAGS)
    for data in seeds("requests"):
        heard = shout(server.port, data, 10.0)
        assert heard.is_ended, data
        assert heard.statuses, data
        assert all(status < 500 for status in heard.statuses), (data, heard.data)
    assert "Traceback" not in server.output()
