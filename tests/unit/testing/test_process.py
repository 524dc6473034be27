import socket
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.testing.process import ServerDidNotStart, ServerProcess, free_port


def test_a_free_port_can_be_bound() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))


def test_the_command_names_port_directory_and_extra_flags(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", ["--cors-origin", "*"], port=5000)
    command = server.command()
    assert command[:4] == [sys.executable, "-m", "millstream", "serve"]
    assert command[6:8] == ["--port", "5000"]
    assert command[-2:] == ["--cors-origin", "*"]
    assert server.url == "http://127.0.0.1:5000"
    assert server.stream_url == "http://127.0.0.1:5000/v1/stream"


def test_a_server_that_was_not_started_has_no_pid_and_killing_it_is_fine(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    server.kill()
    assert not server.is_running
    assert server.output() == ""
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.pid


class _Dies(ServerProcess):
    def command(self) -> list[str]:
        return [sys.executable, "-c", "print('no such setting'); raise SystemExit(2)"]


class _Sleeps(ServerProcess):
    def command(self) -> list[str]:
        return [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]


def test_a_server_that_ends_at_once_is_reported_with_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(ServerDidNotStart, match="exit status 2:\nno such setting"):
        _Dies(tmp_path / "data").start()


def test_a_server_that_never_gets_ready_is_killed_and_reported(tmp_path: Path) -> None:
    server = _Sleeps(tmp_path / "data")
    with pytest.raises(ServerDidNotStart, match="not ready after"):
        server.start(ready_s=0.05)
    assert not server.is_running


def test_stop_reports_how_the_process_ended(tmp_path: Path) -> None:
    server = _Sleeps(tmp_path / "data")
    server._process = subprocess.Popen(server.command(), stdout=subprocess.DEVNULL)
    assert server.is_running
    assert server.stop() == -15
    assert not server.is_running
