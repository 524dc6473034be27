"""All servers of a run: started together, and only one of them awake while it is measured."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.peers.install import NotInstalled
from bench.peers.nats import NatsAlways, NatsDefault
from bench.peers.node import NodeFile, NodeMemory
from bench.peers.ours import Ours
from bench.peers.redis import RedisAlways, RedisEverySecond
from bench.peers.server import Server

OURS: Final = Ours.name
PEERS: Final[dict[str, type[Server]]] = {
    kind.name: kind
    for kind in (NodeFile, NodeMemory, RedisAlways, RedisEverySecond, NatsAlways, NatsDefault)
}
KINDS: Final[dict[str, type[Server]]] = {OURS: Ours, **PEERS}


class Fleet:
    """Running servers by name; a `with` block ends them all."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        """Prepare servers with data under `root`; what cannot be had is told and left out."""
        self.servers: dict[str, Server] = {}
        for name in names:
            try:
                self.servers[name] = KINDS[name](root)
            except NotInstalled as error:
                print(f"left out {name}: {error}", file=sys.stderr)

    def __enter__(self) -> Self:
        """Start all."""
        try:
            for server in self.servers.values():
                server.start()
                server.pause()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kill all."""
        self._kill()

    def _kill(self) -> None:
        for server in self.servers.values():
            server.kill()

    def order(self, turn: int) -> list[str]:
        """Return all names, starting elsewhere in every turn, so that drift hits all alike."""
        names = list(self.servers)
        at = turn % len(names) if names else 0
        return names[at:] + names[:at]

    @contextlib.contextmanager
    def awake(self, name: str) -> Iterator[Server]:
        """Let one server run, with nobody's unwritten data left to be synced with its own."""
        os.sync()
        server = self.servers[name]
        server.resume()
        try:
            yield server
        finally:
            server.pause()
