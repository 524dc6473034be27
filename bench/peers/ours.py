"""Millstream as users start it: default settings, every append acked after `fdatasync`."""

from __future__ import annotations

import http.client
import sys
from pathlib import Path

from bench.load.http import Http
from bench.peers.server import Server
from millstream.testing.process import HOST


class Ours(Server):
    """One `millstream serve`."""

    name = "millstream"

    def __init__(self, root: Path) -> None:
        """Use a directory under `root`."""
        super().__init__(root)
        self.dialect = Http(HOST, self.port)

    def command(self) -> list[str]:
        """Return the command line."""
        place = ["--host", HOST, "--port", str(self.port), "--data-dir", "data"]
        return [self.python(), "-m", "millstream", "serve", *place, "--log-level", "warning"]

    @staticmethod
    def python() -> str:
        """Return the interpreter that has Millstream."""
        return sys.executable

    def answers(self) -> bool:
        """Tell whether `/readyz` says yes."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
