"""A server under test: a child process with a data directory, a port and a dialect."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

from bench.load.dialect import Dialect
from bench.procfs import rss_bytes, tree
from millstream.testing.process import HOST, free_port

READY_S: Final = 60.0
STOP_S: Final = 60.0
POLL_S: Final = 0.005


class Server(ABC):
    """One server with a directory of its own; started, paused, restarted and killed from here."""

    name: str
    dialect: Dialect
    fanout_patience = 1
    """How many times longer its fan-out is measured; more for a server of a few events a second."""
    audience_max = 1_000_000
    """Most subscribers it is measured with; beyond, a single event would take it seconds."""
    idle_max = 1_000_000
    """Most idle subscribers; beyond, appends beside them would take it seconds each."""

    def __init__(self, root: Path) -> None:
        """Use a free port, and a directory under `root`."""
        self.directory = root / self.name
        self.directory.mkdir(parents=True)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line."""

    def environment(self) -> dict[str, str]:
        """Return the environment of the process."""
        return dict(os.environ)

    @property
    def pid(self) -> int:
        """The server's first process."""
        assert self._process is not None
        return self._process.pid

    @property
    def rss_bytes(self) -> int:
        """Memory of all its processes that is in RAM now."""
        return rss_bytes(self.pid)

    def start(self) -> float:
        """Start it; return after how many seconds it answered."""
        began = time.perf_counter()
        with (self.directory / "server.out").open("ab") as out:
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.directory,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        while not self.answers():
            if self._process.poll() is not None or time.perf_counter() - began > READY_S:
                text = (self.directory / "server.out").read_text(errors="replace")
                self.kill()
                raise RuntimeError(f"{self.name} did not start:\n{text[-2000:]}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(POLL_S)
        return time.perf_counter() - began

    def answers(self) -> bool:
        """Tell whether the server takes requests; here: whether it accepts a connection."""
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=5):
            return True
        return False

    def stop(self) -> None:
        """End it in order, and kill it if it does not end."""
        if self._process is None:
            return
        self.resume()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End it at once, children first."""
        if self._process is not None:
            for pid in reversed(tree(self._process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop it from using the processor while another one is measured."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            for pid in tree(self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
