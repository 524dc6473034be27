"""Measure our client beside the official Python client: `python -m bench.client.run [--quick]`.

Both talk to the same server, ours, in turns, each time in a fresh process. Prints a table and
writes bench/results/client.json.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.client.load import MESSAGE_BYTES, SHORT_MESSAGES, encoded
from bench.figures import Figure, figure
from bench.peers.install import wheels
from bench.peers.ours import Ours
from bench.report import number
from millstream.testing.process import HOST

HERE: Final = Path(__file__).resolve().parents[1]
CLIENTS: Final = ("ours", "official")
BARE: Final = ("json", "bytes")
"""Cases that a bare socket is measured in too: what it reaches, no client can exceed."""
PIECE_BYTES: Final = 1_000_000
SHORT_READS: Final = 50
OCTETS: Final = "application/octet-stream"
JSON: Final = "application/json"


class Case(msgspec.Struct, frozen=True):
    """One comparison: a verb of both clients, its unit, and how many times faster ours must be."""

    verb: str
    title: str
    unit: str
    bar: float | None


CASES: Final = (
    Case("produce", f"append JSON messages of {MESSAGE_BYTES} bytes", "messages/s", 3.0),
    Case("json", "read JSON items, catch-up", "MB/s", 10.0),
    Case("follow", "read JSON items, SSE", "MB/s", None),
    Case("bytes", "read bytes, catch-up", "MB/s", 10.0),
    Case("short", f"open and read a stream of {SHORT_MESSAGES} messages", "reads/s", None),
    Case("short-shared", "the same, the official one on a shared HTTP client", "reads/s", None),
)


class Sample(msgspec.Struct, frozen=True):
    """What one client did in one turn: its rate, and its processor time per unit of work."""

    rate: float
    cost: float


class Row(msgspec.Struct, frozen=True):
    """What a case came to; ratios are of figures from the same turn.

    ``cost_ratio`` compares processor time, which other load on the machine hardly touches.
    """

    case: Case
    ours: Figure
    official: Figure
    ratio: Figure
    cost_ratio: Figure
    bare: Figure | None
    samples: dict[str, list[Sample]]

    @property
    def verdict(self) -> str:
        """Tell whether the bar was reached."""
        if self.case.bar is None:
            return ""
        word = "reached" if self.ratio.middle >= self.case.bar else "MISSED"
        return f"{self.case.bar:g} x: {word}"


class Bench:
    """One server with streams to read, and the clients in turns."""

    def __init__(self, server: Ours, messages: int, megabytes: int) -> None:
        self._server = server
        self._messages = messages
        self._bytes = megabytes * PIECE_BYTES
        self._made = 0

    def fill(self) -> None:
        """Write the streams that will be read."""
        self._ask("PUT", "octets", b"", OCTETS)
        for _ in range(0, self._bytes, PIECE_BYTES):
            self._ask("POST", "octets", bytes(PIECE_BYTES), OCTETS)
        self._ask("PUT", "items", b"", JSON)
        for body in encoded(self._messages, PIECE_BYTES // MESSAGE_BYTES):
            self._ask("POST", "items", body, JSON)
        self._ask("PUT", "short", b"", JSON)
        for body in encoded(SHORT_MESSAGES, SHORT_MESSAGES):
            self._ask("POST", "short", body, JSON)

    def measure(self, case: Case, client: str) -> Sample:
        """Return what one client achieves, in the unit of the case."""
        name, count = "items", self._messages
        if case.verb == "produce":
            self._made += 1
            name = f"made-{self._made}"
            self._ask("PUT", name, b"", JSON)
        elif case.verb == "bytes":
            name, count = "octets", self._bytes
        elif case.unit == "reads/s":
            name, count = "short", SHORT_READS
        url = f"http://{HOST}:{self._server.port}{_path(name)}"
        took = self._run(client, case.verb, url, count)
        work = float(count)
        if case.unit == "MB/s":
            work *= 1e-6 * (1 if case.verb == "bytes" else MESSAGE_BYTES)
        return Sample(work / took["seconds"], took["cpu_seconds"] / work)

    @staticmethod
    def _run(client: str, verb: str, url: str, count: int) -> dict[str, float]:
        environment = dict(os.environ)
        if client == "official":
            environment["PYTHONPATH"] = str(wheels())
        command = [sys.executable, "-m", f"bench.client.{client}", verb, url, str(count)]
        done = subprocess.run(
            command, cwd=HERE.parent, env=environment, stdout=subprocess.PIPE, check=True
        )
        took: dict[str, float] = json.loads(done.stdout)
        return took

    def _ask(self, method: str, name: str, body: bytes, content_type: str) -> None:
        connection = http.client.HTTPConnection(HOST, self._server.port, timeout=60)
        try:
            connection.request(method, _path(name), body, {"Content-Type": content_type})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {name}: {answer.status} {text[:200]!r}")


def _path(name: str) -> str:
    return f"/v1/stream/{name}"


def run(bench: Bench, repeats: int) -> list[Row]:
    """Measure every case, the clients in turns, each of them first as often as second."""
    samples: dict[str, dict[str, list[Sample]]] = {
        case.verb: {client: [] for client in (*CLIENTS, "bare")} for case in CASES
    }
    for turn in range(repeats):
        for case in CASES:
            for client in CLIENTS if turn % 2 == 0 else reversed(CLIENTS):
                samples[case.verb][client].append(bench.measure(case, client))
            if case.verb in BARE:
                samples[case.verb]["bare"].append(bench.measure(case, "bare"))
        print(f"turn {turn + 1} of {repeats}", file=sys.stderr)
    return [row_of(case, samples[case.verb]) for case in CASES]


def row_of(case: Case, samples: dict[str, list[Sample]]) -> Row:
    """Reduce the samples of a case."""
    ours, official = samples["ours"], samples["official"]
    bare = [sample.rate for sample in samples.get("bare", ())]
    return Row(
        case=case,
        ours=figure([sample.rate for sample in ours]),
        official=figure([sample.rate for sample in official]),
        ratio=figure([a.rate / b.rate for a, b in zip(ours, official, strict=True)]),
        cost_ratio=figure([b.cost / a.cost for a, b in zip(ours, official, strict=True)]),
        bare=figure(bare) if bare else None,
        samples=samples,
    )


def table(rows: Sequence[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| case | unit | ours | official | ratio | processor time | bare socket | bar |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.case.title} | {row.case.unit} | {spread(row.ours)} | {spread(row.official)} "
        f"| {spread(row.ratio)} | {spread(row.cost_ratio)} "
        f"| {spread(row.bare) if row.bare else ''} | {row.verdict} |"
        for row in rows
    ]
    return "\n".join(lines)


def spread(value: Figure) -> str:
    """Return a median with its lowest and highest."""
    return f"{number(value.middle)} ({number(value.low)} to {number(value.high)})"


def facts() -> dict[str, str]:
    """Return what the figures depend on."""
    [official] = importlib.metadata.distributions(name="durable-streams", path=[str(wheels())])
    return {
        "machine": platform.machine(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "aiohttp": importlib.metadata.version("aiohttp"),
        "durable-streams": official.version,
    }


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small, only to see that it runs")
    parser.add_argument("--repeats", type=int, default=7, help="how often each case is measured")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="where results go")
    options = parser.parse_args(arguments)
    wheels()
    messages, megabytes = (10_000, 10) if options.quick else (200_000, 200)
    (HERE / "data").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="millstream-client-", dir=HERE / "data") as scratch:
        server = Ours(Path(scratch))
        server.start()
        try:
            bench = Bench(server, messages, megabytes)
            bench.fill()
            rows = run(bench, options.repeats)
        finally:
            server.stop()
    print(table(rows))
    options.results.mkdir(parents=True, exist_ok=True)
    document = {"facts": facts(), "repeats": options.repeats, "rows": rows}
    (options.results / "client.json").write_bytes(
        msgspec.json.format(msgspec.json.encode(document), indent=1)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
