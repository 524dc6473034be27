import inspect
import threading

import pytest

from millstream.client import Client as AsyncClient
from millstream.client.errors import ClientClosed
from millstream.client.sync.client import Client


def test_it_takes_the_options_of_the_asynchronous_client() -> None:
    ours = inspect.signature(Client).parameters
    theirs = inspect.signature(AsyncClient).parameters
    assert {n: p.default for n, p in ours.items()} == {n: p.default for n, p in theirs.items()}


def test_a_closed_client_has_no_thread_refuses_and_may_be_closed_again() -> None:
    before = set(threading.enumerate())
    client = Client("http://h.test")
    stream = client.stream("a")
    client.close()
    client.close()
    assert set(threading.enumerate()) == before
    with pytest.raises(ClientClosed):
        stream.head()
