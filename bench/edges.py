"""The same handlers behind our own edge and behind ASGI servers: what the edge alone costs.

    python -m bench.edges [--repeats N]

Single appends of 100 B on 64 connections, acked after `fdatasync`, interleaved. The table is the
one in docs/adr/0005-our-own-edge.md.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.load import appends
from bench.load.http import Http
from bench.load.payload import message
from bench.load.window import Pace
from bench.peers import install
from bench.peers.ours import Ours
from bench.peers.server import Server
from millstream.testing.process import HOST

CONNECTIONS = 64
BODY_BYTES = 100
PACE = Pace(0.5, 3.0)
APP = "millstream.server.hosted:create_app"


class Turn(NamedTuple):
    """One measurement of one edge."""

    per_second: float
    cpu_us: float
    p50_ms: float


class Hosted(Server):
    """Our handlers under an ASGI server."""

    def __init__(self, root: Path) -> None:
        """Use a directory under `root`."""
        self._wheels = install.wheels()
        super().__init__(root)
        self.dialect = Http(HOST, self.port)

    def environment(self) -> dict[str, str]:
        """Let the server find the wheels and its data directory."""
        data = str(self.directory / "data")
        return super().environment() | {
            "PYTHONPATH": str(self._wheels),
            "MILLSTREAM_DATA_DIR": data,
        }

    def python(self, module: str, *words: str) -> list[str]:
        """Return the command line that runs a module of the wheels."""
        return [Ours.python(), "-m", module, "--host", HOST, "--port", str(self.port), *words]


class Uvicorn(Hosted):
    """uvicorn with its fastest parser and loop."""

    name = "uvicorn"

    def command(self) -> list[str]:
        """Return the command line."""
        fast = ("--http", "httptools", "--loop", "uvloop", "--no-access-log")
        return self.python("uvicorn", "--factory", *fast, "--log-level", "warning", APP)


class Granian(Hosted):
    """granian's ASGI interface, one worker."""

    name = "granian"

    def command(self) -> list[str]:
        """Return the command line."""
        fast = ("--interface", "asgi", "--workers", "1", "--loop", "uvloop")
        return self.python("granian", "--factory", *fast, "--log-level", "warning", APP)


async def measure(server: Server, stream: str) -> Turn:
    """Append for a while and say what it cost."""
    server.dialect.create(stream)
    request = server.dialect.append(stream, (message(BODY_BYTES),))
    done = await appends.run(server.dialect, [request] * CONNECTIONS, PACE, server.pid)
    per_message_us = done.span.server_us / done.messages
    p50_ms = statistics.median(done.latencies) * 1000
    return Turn(done.messages / done.span.seconds, per_message_us, p50_ms)


async def compare(root: Path, repeats: int) -> dict[str, list[Turn]]:
    """Measure every edge `repeats` times, in turn, while the others are paused."""
    servers: list[Server] = [kind(root) for kind in (Ours, Uvicorn, Granian)]
    turns: dict[str, list[Turn]] = {server.name: [] for server in servers}
    try:
        for server in servers:
            server.start()
            server.pause()
        for repeat in range(repeats):
            for server in servers:
                server.resume()
                turns[server.name].append(await measure(server, f"edge-{repeat}"))
                server.pause()
    finally:
        for server in servers:
            server.resume()
            server.kill()
    return turns


def table(turns: dict[str, list[Turn]]) -> str:
    """Return the medians as a Markdown table, ours first."""
    own = turns[Ours.name]
    lines = [
        "| edge | acked/s | server CPU us each | p50 ms | ours is faster by |",
        "|---|---|---|---|---|",
    ]
    for name, measured in turns.items():
        rate, cpu, p50 = (statistics.median(column) for column in zip(*measured, strict=True))
        ratio = statistics.median(
            mine.per_second / theirs.per_second for mine, theirs in zip(own, measured, strict=True)
        )
        lines.append(f"| {name} | {rate:,.0f} | {cpu:.0f} | {p50:.1f} | {ratio:.2f} x |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    data = install.HERE / "data"
    data.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=data) as folder:
        print(table(asyncio.run(compare(Path(folder), repeats))))


if __name__ == "__main__":
    main()
