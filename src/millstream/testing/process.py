"""A real server as a child process: start it, kill it, start it again on the same data."""

import contextlib
import http.client
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

HOST = "127.0.0.1"
READY_S = 30.0
STOP_S = 30.0
POLL_S = 0.02


class ServerDidNotStart(RuntimeError):
    """The process ended, or was not ready in time; the message holds what it printed."""


def free_port() -> int:
    """Return a port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class ServerProcess:
    """One `millstream serve` process on one data directory.

    The port is chosen once, so a restarted server is found at the same URL. Everything the
    process prints goes to `log`, appended across restarts.
    """

    def __init__(self, data_dir: Path, arguments: Sequence[str] = (), *, port: int = 0) -> None:
        self.data_dir = data_dir
        self.arguments = tuple(arguments)
        self.port = port or free_port()
        self.log = data_dir.with_name(data_dir.name + ".server.log")
        self.environment: dict[str, str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Base URL, without a path."""
        return f"http://{HOST}:{self.port}"

    @property
    def stream_url(self) -> str:
        """URL under which streams live; append `/name`."""
        return f"{self.url}/v1/stream"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def command(self) -> list[str]:
        """Return the command line that `start` runs."""
        options = ["--host", HOST, "--port", str(self.port), "--data-dir", str(self.data_dir)]
        return [sys.executable, "-m", "millstream", "serve", *options, *self.arguments]

    def start(self, ready_s: float = READY_S) -> Self:
        """Start the process and return when `/readyz` answers 200.

        Raises ServerDidNotStart, with the process gone, if it ends or takes longer than `ready_s`.
        """
        self._process = self.launch()
        deadline = time.monotonic() + ready_s
        while not self._answers_ready():
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._process.wait(POLL_S)
                raise ServerDidNotStart(f"exit status {status}:\n{self.output()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerDidNotStart(f"not ready after {ready_s} s:\n{self.output()}")
        return self

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process and return at once, ready or not; `start` is what tests want mostly."""
        if self.is_running:
            raise RuntimeError("the server is already running")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
            )
        return self._process

    def kill(self) -> None:
        """SIGKILL the process and wait until it is gone. Nothing happens if it is gone already."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self, stop_s: float = STOP_S) -> int:
        """SIGTERM the process and return its exit status; raises TimeoutExpired if it hangs."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        status = process.wait(stop_s)
        self._process = None
        return status

    def restart(self, *, kill: bool = False) -> Self:
        """End the process (with SIGKILL if `kill`) and start it on the same data and port."""
        if kill:
            self.kill()
        elif self.is_running:
            self.stop()
        return self.start()

    def output(self) -> str:
        """Everything that the process has printed so far, over all restarts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process

    def _answers_ready(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@contextlib.contextmanager
def running_server(data_dir: Path, arguments: Sequence[str] = ()) -> Iterator[ServerProcess]:
    """Run a server on `data_dir` for the length of the block; it is killed at the end."""
    server = ServerProcess(data_dir, arguments)
    try:
        yield server.start()
    finally:
        server.kill()
