"""Redis Streams with the append-only file synced on every write, or once a second."""

from __future__ import annotations

import contextlib
from pathlib import Path

from bench.load.dialect import BadReply
from bench.load.redis import Redis, command
from bench.peers import install
from bench.peers.server import Server
from millstream.testing.process import HOST


class RedisAlways(Server):
    """Acked when it is on disk."""

    name = "redis-always"
    sync = "always"

    def __init__(self, root: Path) -> None:
        """Use a directory under `root`."""
        self._binary = install.redis_server()
        super().__init__(root)
        self._redis = Redis(HOST, self.port)
        self.dialect = self._redis

    def command(self) -> list[str]:
        """Return the command line: no snapshots and no rewrites, which would only cost it time."""
        options = {
            "bind": HOST,
            "port": str(self.port),
            "dir": str(self.directory),
            "appendonly": "yes",
            "appendfsync": self.sync,
            "save": "",
            "auto-aof-rewrite-percentage": "0",
            "maxclients": "19000",
            # It listens on loopback only; some of our connections come from other 127.0.x.1.
            "protected-mode": "no",
        }
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        return [self._binary, *words]

    def answers(self) -> bool:
        """Tell whether it has loaded its file and answers a ping."""
        with contextlib.suppress(OSError, BadReply):
            return self._redis.ask(command(b"PING")) == b"+PONG\r\n"
        return False


class RedisEverySecond(RedisAlways):
    """Acked at once; up to a second of acked data is lost with the power."""

    name = "redis-everysec"
    sync = "everysec"
