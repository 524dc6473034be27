"""A server whose disk calls fail, wait or kill it where a test says: a preloaded C library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.format.frame import KIND_MARK
from millstream.storage.files_os import OsFiles
from millstream.storage.recovery import FileScan, list_log_files, read_whole
from millstream.testing.process import ServerProcess

SOURCE = Path(__file__).parent.parent / "crash" / "faultshim.c"
WAIT_S = 15.0


def build_shim(directory: Path) -> Path:
    """Compile the shim; a machine without a C compiler skips the test."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("placing faults takes Linux and a C compiler")
    library = directory / "faultshim.so"
    if not library.exists():
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)]
        subprocess.run([*command, "-ldl", "-lpthread"], check=True)
    return library


class FaultyServer(ServerProcess):
    """A server with rules for its disk calls. They count only while it is armed."""

    def __init__(self, directory: Path, rules: str, *flags: str) -> None:
        super().__init__(directory / "data", ("--log-file-bytes", "65536", *flags))
        self._library = build_shim(directory)
        self._armed = directory / "armed"
        self._hit = directory / "hit"
        self._go = directory / "go"
        self.record = directory / "record"
        self.is_recorded = False
        self.rules = rules
        self._whole: list[ServerProcess] = []

    def launch(self) -> subprocess.Popen[bytes]:
        self.environment = {
            **os.environ,
            "LD_PRELOAD": str(self._library),
            "FAULT_RULES": self.rules,
            "FAULT_ARMED": str(self._armed),
            "FAULT_HIT": str(self._hit),
            "FAULT_GO": str(self._go),
            "FAULT_RECORD": str(self.record),
            "FAULT_UNDER": str(self.data_dir.parent) if self.is_recorded else "",
        }
        if not self.is_recorded:
            del self.environment["FAULT_RECORD"]
        return super().launch()

    def arm(self) -> None:
        """Let calls count from now on."""
        self._armed.touch()

    def disarm(self) -> None:
        """Let no call count any more, and no hold last."""
        self._armed.unlink(missing_ok=True)
        self._go.touch()

    @property
    def is_hit(self) -> bool:
        """Whether a rule has struck."""
        return self._hit.exists()

    def await_hit(self) -> None:
        """Wait until a rule has struck."""
        wait_for(lambda: self.is_hit, "no rule struck")

    def await_mark(self) -> None:
        """Wait until the idle mark is written, so that the next call on the log is a new one."""
        wait_for(self._is_marked, "the log was never marked idle")

    def _is_marked(self) -> bool:
        files = OsFiles()
        last = list_log_files(files, str(self.data_dir / "log"))[-1]
        kinds = [frame.kind for _, frame in FileScan(read_whole(files, last), last.header)]
        return kinds[-1:] == [KIND_MARK]

    def await_death(self) -> None:
        """Wait until the process is gone."""
        wait_for(lambda: not self.is_running, "the server lives on")
        self.kill()

    def start_whole(self) -> ServerProcess:
        """Start an ordinary server on the same data."""
        self.kill()
        server = self.without_rules()
        self._whole.append(server)
        return server.start()

    def without_rules(self) -> ServerProcess:
        """Return a server on the same data whose disk is sound."""
        return ServerProcess(self.data_dir, self.arguments)

    def kill_all(self) -> None:
        """End every process of this test."""
        self.disarm()
        for server in (self, *self._whole):
            server.kill()


def wait_for(condition: Callable[[], bool], otherwise: str) -> None:
    """Poll until it holds; what is waited for happens in another process."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.005)


Faulty = Callable[..., FaultyServer]
"""The fixture that makes them: rules, then flags of the server."""
