"""NATS JetStream with a sync for every message, or its default of every two minutes."""

from __future__ import annotations

import json
from pathlib import Path

from bench.load.nats import Nats
from bench.peers import install
from bench.peers.server import Server
from millstream.testing.process import HOST


class NatsAlways(Server):
    """Acked when it is on disk."""

    name = "nats-always"
    sync: str | None = "always"

    def __init__(self, root: Path) -> None:
        """Use a directory under `root`."""
        self._binary = install.nats_server()
        super().__init__(root)
        self.dialect = Nats(HOST, self.port)

    def command(self) -> list[str]:
        """Write the configuration and return the command line."""
        store: dict[str, object] = {
            "store_dir": str(self.directory / "data"),
            "max_file_store": 64 << 30,
            "max_memory_store": 4 << 30,
        }
        if self.sync is not None:
            store["sync_interval"] = self.sync
        place = {"host": HOST, "port": self.port, "jetstream": store}
        path = self.directory / "nats.conf"
        path.write_text(json.dumps(place))
        return [self._binary, "--config", str(path)]


class NatsDefault(NatsAlways):
    """Acked at once; up to two minutes of acked data are lost with the power."""

    name = "nats-default"
    sync = None
