"""A whole server inside an ASGI host: start-up, requests, shutdown, and the data stays."""

from pathlib import Path

import pytest

from millstream.server.hosted import HostedServer, create_app
from millstream.server.settings import Settings
from tests.support.asgi import Call, http

pytestmark = pytest.mark.anyio
TEXT = ((b"content-type", b"text/plain"),)
A = "/v1/stream/a"


async def started(server: HostedServer) -> Call:
    life = Call(server, {"type": "lifespan"}, {"type": "lifespan.startup"})
    await life.next_sent(1)
    assert life.sent[0]["type"] == "lifespan.startup.complete"
    return life


async def stopped(life: Call) -> None:
    life._incoming.put_nowait({"type": "lifespan.shutdown"})
    await life.end()
    assert life.sent[-1]["type"] == "lifespan.shutdown.complete"


async def test_what_was_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path / "data"), log_file_bytes=1 << 20)
    server = HostedServer(settings)
    life = await started(server)
    assert (await http(server, "PUT", A, b"hello", TEXT).end()).status == 201
    live = http(server, "GET", A + "?offset=now&live=sse")
    await live.next_sent(2)
    await stopped(life)
    await live.end()
    again = HostedServer(settings)
    life = await started(again)
    assert (await http(again, "GET", A).end()).body == b"hello"
    await stopped(life)


async def test_a_directory_that_cannot_be_opened_fails_the_start(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    server = HostedServer(Settings(data_dir=str(tmp_path / "data")))
    life = Call(server, {"type": "lifespan"}, {"type": "lifespan.startup"})
    with pytest.raises(OSError, match="data"):
        await life.end()
    assert life.sent[0]["type"] == "lifespan.startup.failed"


async def test_a_request_before_the_start_is_a_fault_of_the_host(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="start-up"):
        await http(HostedServer(Settings(data_dir=str(tmp_path))), "GET", A).end()


def test_settings_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MILLSTREAM_DATA_DIR", str(tmp_path))
    assert create_app()._settings.data_dir == str(tmp_path)
