"""The Node reference server, file-backed and in memory."""

from __future__ import annotations

from pathlib import Path

from bench.load.http import Http
from bench.peers import install
from bench.peers.server import Server
from conformance.run import node_environment
from millstream.testing.process import HOST

SCRIPT = Path(__file__).with_name("node_server.mjs")


class NodeFile(Server):
    """The reference server with its files and LMDB."""

    name = "node-file"
    fanout_patience = 2
    audience_max = 100
    idle_max = 2_000

    def __init__(self, root: Path) -> None:
        """Use a directory under `root`."""
        self._node = install.node()
        super().__init__(root)
        self.dialect = Http(HOST, self.port)

    def command(self) -> list[str]:
        """Return the command line."""
        return [self._node.node, str(SCRIPT), str(self.port), *self._storage()]

    def environment(self) -> dict[str, str]:
        """Return an environment with the same node first on the path."""
        return node_environment(self._node)

    def _storage(self) -> list[str]:
        return [str(self.directory / "data")]


class NodeMemory(NodeFile):
    """The reference server without any storage."""

    name = "node-memory"
    fanout_patience = 1
    audience_max = 1_000_000
    idle_max = 1_000_000

    def _storage(self) -> list[str]:
        return []
