"""The command against a real server: what a user types, and what comes out."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.testing.process import ServerProcess
from tests.support.command import json_lines, ok, run
from tests.support.server import Servers

MILLSTREAM = [sys.executable, "-m", "millstream"]


def environment(server: ServerProcess) -> dict[str, str]:
    return {**os.environ, "MILLSTREAM_URL": server.url, "PYTHONUNBUFFERED": "1"}


def test_a_stream_from_its_creation_to_its_end(shared_server: ServerProcess) -> None:
    url = shared_server.url
    assert json_lines(ok("create", "life", "--json", url=url))[0]["created"] is True
    assert json_lines(ok("create", "life", "--json", url=url))[0]["created"] is False
    ok("append", "life", url=url, stdin=b'[{"n":1.0},12345678901234567890]')
    ok("append", "life", "--ndjson", "--close", url=url, stdin=b'3\n{"b":1,"a":2}\n')
    expected = '{"n":1.0}\n12345678901234567890\n3\n{"b":1,"a":2}\n'
    assert ok("read", "life", url=url) == expected
    assert ok("tail", "life", "--offset", "-1", url=url) == expected
    assert json_lines(ok("head", "life", "--json", url=url))[0]["closed"] is True
    assert run("append", "life", "-d", "5", url=url).exit_code == 4
    ok("rm", "life", url=url)
    assert run("read", "life", url=url).exit_code == 3
    assert run("rm", "life", url=url).exit_code == 3


def test_bytes_survive_all_the_way(shared_server: ServerProcess) -> None:
    url, data = shared_server.url, bytes(range(256)) * 40
    ok("create", "bytes", "-t", "application/octet-stream", url=url)
    ok("append", "bytes", "--batch-bytes", "1000", "--close", url=url, stdin=data)
    assert run("read", "bytes", url=url).stdout_bytes == data
    assert run("tail", "bytes", "--offset", "-1", url=url).stdout_bytes == data


def test_a_text_that_starts_with_a_space_survives_tail(shared_server: ServerProcess) -> None:
    url = shared_server.url
    ok("create", "text", "-t", "text/plain", url=url)
    ok("append", "text", "-d", "  two\n\nlines", "--close", url=url)
    assert ok("tail", "text", "--offset", "-1", url=url) == "  two\n\nlines"


def test_a_repeated_load_adds_only_what_is_missing(shared_server: ServerProcess) -> None:
    url = shared_server.url
    ok("create", "load", url=url)
    lines = b"".join(b"%d\n" % number for number in range(10))
    load = ("append", "load", "--ndjson", "--producer", "job:0", "--batch-messages", "3", "--json")
    first = json_lines(ok(*load, url=url, stdin=lines[:12]))[0]
    again = json_lines(ok(*load, url=url, stdin=lines))[0]
    assert (first["appended"], first["duplicates"]) == (6, 0)
    assert (again["appended"], again["duplicates"]) == (4, 6)
    assert ok("read", "load", url=url).encode() == lines


def test_a_producer_without_epoch_is_new_in_every_run(shared_server: ServerProcess) -> None:
    url = shared_server.url
    ok("create", "fresh", url=url)
    for number in (b"1", b"2"):
        ok("append", "fresh", "--producer", "p", url=url, stdin=number)
    assert ok("read", "fresh", url=url) == "1\n2\n"


def test_conditions_limits_and_times(shared_server: ServerProcess) -> None:
    url = shared_server.url
    start = json_lines(ok("create", "cond", "--json", url=url))[0]["next_offset"]
    after = json_lines(
        ok("append", "cond", "-d", "[1,2,3]", "--if-match", start, "--json", url=url)
    )[0]["next_offset"]
    assert run("append", "cond", "-d", "4", "--if-match", start, url=url).exit_code == 4
    assert ok("read", "cond", "--limit", "2", url=url) == "1\n2\n"
    assert ok("read", "cond", "--offset", after, url=url) == ""
    assert ok("read", "cond", "--since", "1h", url=url) == "1\n2\n3\n"


def test_a_fork_has_the_past_and_a_future_of_its_own(shared_server: ServerProcess) -> None:
    url = shared_server.url
    ok("create", "source", url=url)
    ok("append", "source", "-d", "[1,2]", url=url)
    ok("fork", "source", "branch", url=url)
    ok("append", "branch", "-d", "3", url=url)
    ok("append", "source", "-d", "4", url=url)
    assert ok("read", "branch", url=url) == "1\n2\n3\n"


def test_streams_are_listed_by_prefix_over_pages(shared_server: ServerProcess) -> None:
    url = shared_server.url
    names = [f"list/{number:02d}" for number in range(5)]
    for name in names:
        ok("create", name, url=url)
    assert ok("ls", "list/", url=url).split() == names
    found = json_lines(ok("ls", "list/", "-n", "2", "--after", names[1], "--json", url=url))
    assert [stream["path"] for stream in found] == names[2:4]
    assert len(ok("ls", "list/", "--long", url=url).splitlines()) == 5


def test_tail_goes_on_after_the_server_was_killed(server: ServerProcess) -> None:
    ok("create", "t", url=server.url)
    command = [*MILLSTREAM, "tail", "t", "--offset", "-1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(server)
    ) as tail:
        assert tail.stdout is not None
        ok("append", "t", "-d", "1", url=server.url)
        assert tail.stdout.readline() == b"1\n"
        server.restart(kill=True)
        ok("append", "t", "-d", "2", "--close", url=server.url)
        assert tail.stdout.read() == b"2\n"
        assert tail.wait(30) == 0


def test_an_interrupted_tail_exits_with_130(server: ServerProcess) -> None:
    ok("create", "t", url=server.url)
    ok("append", "t", "-d", "1", url=server.url)
    command = [*MILLSTREAM, "tail", "t", "--offset", "-1"]
    # Whoever runs the tests in the background ignores SIGINT, and that is handed down.
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        env=environment(server),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no other thread runs
    ) as tail:
        assert tail.stdout is not None
        assert tail.stdout.readline() == b"1\n"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(30) == 130


def test_output_into_a_closed_pipe_is_quiet(server: ServerProcess) -> None:
    ok("create", "p", "-t", "text/plain", url=server.url)
    ok("append", "p", url=server.url, stdin=b"line\n" * 200_000)
    command = f"{' '.join(MILLSTREAM)} read p | head -n 1"
    ran = subprocess.run(
        ["bash", "-c", command], capture_output=True, env=environment(server), check=True
    )
    assert (ran.stdout, ran.stderr) == (b"line\n", b"")


def test_serve_says_where_it_is_and_stops_cleanly(tmp_path: Path) -> None:
    command = [*MILLSTREAM, "serve", "--port", "0", "--data-dir", str(tmp_path / "d"), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        ok("create", "s", url=facts["url"])
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_second_server_on_one_directory_is_refused(server: ServerProcess) -> None:
    command = [*MILLSTREAM, "serve", "--port", "0", "--data-dir", str(server.data_dir)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 1
    assert str(server.pid) in ran.stderr


def test_verify_passes_a_whole_directory_and_finds_a_flipped_byte(servers: Servers) -> None:
    server = servers.start()
    ok("create", "v", url=server.url)
    for number in range(5):
        ok("append", "v", "-d", str(number), url=server.url)
    assert server.stop() == 0
    assert json_lines(ok("verify", str(server.data_dir), "--json"))[-1]["damaged"] == 0
    log = next((server.data_dir / "log").glob("*.log"))
    with log.open("r+b") as file:
        file.seek(64 + 40)
        byte = file.read(1)[0]
        file.seek(64 + 40)
        file.write(bytes([byte ^ 1]))
    result = run("verify", str(server.data_dir))
    assert result.exit_code == 1
    assert log.name in result.stdout


@pytest.mark.parametrize("verb", ["create", "append", "read", "tail", "head", "close", "rm"])
def test_a_server_that_is_away_is_status_6(verb: str) -> None:
    assert run(verb, "x", url="http://127.0.0.1:1", stdin=b"1").exit_code == 6
