import threading

import pytest

from millstream.client.errors import ClientClosed
from millstream.client.sync.client import Client
from tests.support.scripted import Asked, Reply, replies, scripted

PAGE = {"content-type": "application/json", "stream-next-offset": "0_2"}
TAIL = {**PAGE, "stream-up-to-date": "true"}


def test_batches_items_texts_and_collections_are_the_same_without_await() -> None:
    with scripted(replies(Reply(200, TAIL, b"[1,2]"))) as server, Client(server.url) as client:
        stream = client.stream("a")
        assert [batch.items() for batch in stream.read()] == [[1, 2]]
        assert list(stream.read().items()) == [1, 2]
        assert list(stream.read().texts()) == ["[1,2]"]
        with stream.read() as reader:
            assert reader.json() == [1, 2]
            assert (reader.offset, reader.is_up_to_date, reader.is_closed) == ("0_2", True, False)
            assert (reader.status, reader.content_type) == (200, "application/json")
        assert (stream.read().bytes(), stream.read().text()) == (b"[1,2]", "[1,2]")


def test_another_thread_can_close_a_reader_that_waits() -> None:
    asked, release = threading.Event(), threading.Event()

    def script(request: Asked) -> Reply:
        asked.set()
        release.wait(20)
        return Reply(200, TAIL, b"[1]")

    with scripted(script) as server, Client(server.url) as client:
        reader = client.stream("a").read()
        found: list[BaseException] = []

        def wait() -> None:
            try:
                reader.next_batch()
            except ClientClosed as error:
                found.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        assert asked.wait(20)
        reader.close()
        thread.join(20)
        release.set()
    assert [type(error) for error in found] == [ClientClosed]


def test_a_reader_may_be_closed_after_its_client() -> None:
    with scripted(replies(Reply(200, TAIL, b"[1]"))) as server:
        client = Client(server.url)
        reader = client.stream("a").read()
        client.close()
        reader.close()
        with pytest.raises(ClientClosed):
            reader.next_batch()
