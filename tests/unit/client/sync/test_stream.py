import inspect

import pytest

from millstream.client import Reader as AsyncReader
from millstream.client import Stream as AsyncStream
from millstream.client.errors import NotFound
from millstream.client.sync import Client, Reader, Stream
from tests.support.scripted import Reply, replies, scripted

DONE = Reply(200, {"stream-next-offset": "0_1", "content-type": "text/plain"})


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_the_blocking_handles_offer_what_the_asynchronous_ones_do() -> None:
    # `calls` is how a producer is built, and items are loaded by the reader itself.
    assert public(Stream) - {"url"} == public(AsyncStream)
    assert public(Reader) == public(AsyncReader) - {"load_items", "loaded_items"}


@pytest.mark.parametrize("name", sorted(public(Stream) - {"url", "content_type"}))
def test_the_blocking_calls_take_the_same_arguments(name: str) -> None:
    ours = inspect.signature(getattr(Stream, name)).parameters
    assert list(ours) == list(inspect.signature(getattr(AsyncStream, name)).parameters)


def test_every_call_reaches_the_server_and_errors_are_the_same_classes() -> None:
    with scripted(replies(DONE)) as server, Client(server.url) as client:
        stream = client.stream("a")
        stream.create("text/plain", body="x")
        assert stream.head() == stream.connect()
        assert (stream.append("a").offset, stream.append_many("bc").offset) == ("0_1", "0_1")
        assert stream.fork("b").url.endswith("/b")
        assert stream.close("z").offset == "0_1"
        stream.delete()
        server.script = replies(Reply(404))
        with pytest.raises(NotFound):
            stream.head()
    methods = [asked.method for asked in server.asked]
    assert methods == ["PUT", "HEAD", "HEAD", "POST", "POST", "PUT", "POST", "DELETE", "HEAD"]
