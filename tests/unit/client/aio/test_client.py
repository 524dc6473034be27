import pytest

from millstream.client.aio.client import Client
from millstream.client.errors import BadOption, ClientClosed
from tests.support.scripted import Reply, replies, scripted

pytestmark = pytest.mark.anyio


async def test_streams_are_found_by_name_or_by_url() -> None:
    client = Client("http://h.test/")
    assert client.stream("a b").url == "http://h.test/v1/stream/a%20b"
    assert client.stream("https://o.test/x").url == "https://o.test/x"
    assert Client("http://h.test", root="").stream("a").url == "http://h.test/a"


async def test_headers_of_client_and_stream_go_with_every_request() -> None:
    with scripted(replies(Reply(200, {"stream-next-offset": "0_1"}))) as server:
        async with Client(server.url, headers={"X-A": "1"}, params={"p": "1"}) as client:
            await client.stream("a", headers={"X-B": "2"}).head()
    assert (server.asked[0].headers["x-a"], server.asked[0].headers["x-b"]) == ("1", "2")
    assert server.asked[0].query == {"p": "1"}


async def test_a_closed_client_refuses_and_may_be_closed_again() -> None:
    client = Client("http://h.test")
    await client.close()
    await client.close()
    with pytest.raises(ClientClosed):
        await client.stream("a").head()


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadOption, match="url"):
        Client("h.test")
    with pytest.raises(BadOption, match="timeout_s"):
        Client(timeout_s=0)
