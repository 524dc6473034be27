import pytest

from millstream.server.gauges import add_engine_metrics
from millstream.server.metrics import Metrics
from tests.support.doors import Door, open_door

pytestmark = pytest.mark.anyio


def samples(door: Door) -> dict[str, float]:
    metrics = Metrics()
    add_engine_metrics(metrics, door.directory, door.context)
    lines = metrics.render().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


async def test_the_engines_numbers_are_read_when_asked_for() -> None:
    async with open_door() as door:
        assert samples(door)["millstream_streams"] == 0
        await door.stream("a", b"[1,22,333]", content_type="application/json")
        found = samples(door)
        assert found["millstream_streams"] == 1
        assert found["millstream_messages_total"] == 3
        assert found["millstream_stored_bytes"] == found["millstream_hot_bytes"] > 0
        assert found["millstream_frames_total"] >= 1
        assert found["millstream_log_failed"] == 0


async def test_live_readers_are_counted() -> None:
    async with open_door() as door:
        await door.stream("a")
        reply = door.begin("GET", "/v1/stream/a?live=sse&offset=now")
        assert samples(door)["millstream_live_readers"] == 1
        reply.tape.gone()
        assert samples(door)["millstream_live_readers"] == 0
