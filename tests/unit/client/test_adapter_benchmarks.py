import msgspec
import pytest

from millstream.client import Client
from millstream.client import adapter_commands as commands
from millstream.client.adapter_benchmarks import measure
from tests.support.scripted import Asked, Reply, Scripted, scripted

pytestmark = pytest.mark.anyio

TAIL = {"stream-next-offset": "2", "stream-up-to-date": "true"}


def answer(asked: Asked) -> Reply:
    if asked.method == "GET":
        return Reply(200, {**TAIL, "content-type": "application/json"}, b"[1,22]")
    if asked.method == "PUT":
        return Reply(201, {**TAIL, "content-type": asked.headers["content-type"]})
    if "producer-seq" in asked.headers:
        sequence = {name: asked.headers[name] for name in ("producer-epoch", "producer-seq")}
        return Reply(200, {**TAIL, **sequence})
    return Reply(204, TAIL)


async def metrics(
    operation: commands.Operation, content_type: str = "application/octet-stream"
) -> tuple[dict[str, float], Scripted]:
    line = {"type": "benchmark", "iterationId": "i", "operation": operation}
    command = commands.decode(msgspec.json.encode(line))
    assert isinstance(command, commands.Benchmark)
    with scripted(answer) as server:
        async with Client(server.url, root="/") as client:
            stream = client.stream(command.operation.path, content_type=content_type)
            result = await measure(command, stream)
    assert int(result["durationNs"]) > 0
    return result["metrics"], server


async def test_an_append_is_of_the_given_size() -> None:
    found, server = await metrics(commands.MeasureAppend(path="/s", size=7))
    assert found["bytesTransferred"] == 7
    assert len(server.asked[0].body) == 7


async def test_a_read_counts_the_bytes_it_got() -> None:
    found, _ = await metrics(commands.MeasureRead(path="/s"), "text/plain")
    assert found["bytesTransferred"] == len(b"[1,22]")


async def test_items_are_counted_and_measured() -> None:
    found, _ = await metrics(commands.MeasureItems(path="/s"), "application/json")
    assert found["messagesProcessed"] == 2
    assert found["bytesPerSecond"] > 0


async def test_a_stream_is_created_with_its_content_type() -> None:
    _, server = await metrics(commands.MeasureCreate(path="/s", content_type="text/plain"))
    assert server.asked[0].headers["content-type"] == "text/plain"


async def test_a_round_trip_appends_and_reads() -> None:
    found, server = await metrics(commands.MeasureRoundtrip(path="/s", size=3))
    assert {asked.method for asked in server.asked} >= {"PUT", "GET"}
    assert found["bytesTransferred"] == 3 + len(b"[1,22]")


@pytest.mark.parametrize(
    "content_type, stars", [("application/octet-stream", 200), ("application/json", 100)]
)
async def test_many_appends_go_through_a_producer(content_type: str, stars: int) -> None:
    operation = commands.MeasureAppends(path="/s", count=50, size=4)
    found, server = await metrics(operation, content_type)
    assert found["messagesProcessed"] == 50
    assert found["bytesTransferred"] == 200
    posts = [asked for asked in server.asked if "producer-seq" in asked.headers]
    assert b"".join(post.body for post in posts).count(b"*") == (
        200 if "octet" in content_type else 100
    )
