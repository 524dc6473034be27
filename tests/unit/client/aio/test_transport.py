import ssl
from unittest.mock import Mock

import aiohttp
import pytest

from millstream.client.aio.transport import Transport, failure
from millstream.client.core import requests
from millstream.client.core.requests import Creation
from millstream.client.errors import BadOption, ClientClosed, NetworkFailed, Timeout
from millstream.testing.process import free_port
from tests.support.scripted import Reply, replies, scripted

pytestmark = pytest.mark.anyio
SECRET = "s3cret"
URL = f"http://h.test/a?token={SECRET}"
READ = requests.read(URL, "-1")
APPEND = requests.append(URL, "text/plain", b"x")


async def test_an_answer_comes_whole_with_lowered_names_whatever_its_status() -> None:
    with scripted(replies(Reply(503, {"X-One": "1"}, b"body"))) as server:
        transport = Transport()
        answer = await transport.send(requests.read(server.url + "/a", "-1"))
        await transport.close()
    assert (answer.status, answer.body, answer.headers["x-one"]) == (503, b"body", "1")


async def test_a_body_is_sent_with_the_headers_given_and_no_type_is_made_up() -> None:
    with scripted(replies(Reply(204))) as server:
        transport = Transport()
        await transport.send(requests.append(server.url + "/a", "text/x", b"abc"))
        await transport.send(requests.close(server.url + "/a"))
        await transport.close()
    assert (server.asked[0].body, server.asked[0].headers["content-type"]) == (b"abc", "text/x")
    assert "content-type" not in server.asked[1].headers


async def test_a_server_that_is_not_there_is_certainly_not_reached() -> None:
    transport = Transport()
    url = f"http://127.0.0.1:{free_port()}/a?token={SECRET}"
    with pytest.raises(NetworkFailed) as caught:
        await transport.send(requests.append(url, "text/plain", b"x"))
    await transport.close()
    assert not caught.value.is_uncertain
    assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r}"


@pytest.mark.parametrize("is_write", [True, False])
async def test_a_write_whose_answer_is_lost_is_uncertain_and_a_read_is_not(is_write: bool) -> None:
    with scripted(replies(Reply(cut=True))) as server:
        url = server.url + "/a"
        request = requests.append(url, "t/x", b"x") if is_write else requests.read(url, "-1")
        transport = Transport()
        with pytest.raises(NetworkFailed) as caught:
            await transport.send(request)
        await transport.close()
    assert caught.value.is_uncertain is is_write
    # The library's own repeat of requests on kept connections is off.
    assert len(server.asked) == 1


async def test_the_library_does_not_repeat_a_put_or_delete_by_itself() -> None:
    with scripted(replies(Reply(204), Reply(cut=True), Reply(204), Reply(cut=True))) as server:
        transport = Transport()
        url = server.url + "/a"
        for request in (requests.delete(url), requests.create(url, Creation())):
            await transport.send(requests.head(url))
            with pytest.raises(NetworkFailed):
                await transport.send(request)
        await transport.close()
    assert [asked.method for asked in server.asked] == ["HEAD", "DELETE", "HEAD", "PUT"]


async def test_a_redirect_is_not_followed() -> None:
    with scripted(replies(Reply(307, {"location": "http://o.test/"}))) as server:
        transport = Transport()
        answer = await transport.send(requests.read(server.url + "/a", "-1"))
        await transport.close()
    assert answer.status == 307


async def test_a_streaming_answer_is_read_chunk_by_chunk_to_its_end() -> None:
    with scripted(replies(Reply(200, {"content-type": "text/event-stream"}, b"abc"))) as server:
        transport = Transport()
        streaming = await transport.open(requests.read(server.url + "/a", "-1"))
        found = b""
        while chunk := await streaming.chunk():
            found += chunk
        streaming.close()
        streaming.close()
        await transport.close()
    assert found == b"abc"


async def test_a_closed_transport_refuses_and_may_be_closed_again() -> None:
    transport = Transport()
    await transport.close()
    await transport.close()
    with pytest.raises(ClientClosed):
        await transport.send(READ)


@pytest.mark.parametrize(
    "error,kind,is_uncertain",
    [
        (aiohttp.ConnectionTimeoutError(), Timeout, False),
        (TimeoutError(), Timeout, True),
        (aiohttp.ServerDisconnectedError(), NetworkFailed, True),
        (aiohttp.ClientPayloadError(URL), NetworkFailed, True),
        (ConnectionResetError(URL), NetworkFailed, True),
    ],
)
async def test_a_failure_tells_whether_the_write_may_have_happened_and_no_secret(
    error: BaseException, kind: type[Timeout | NetworkFailed], is_uncertain: bool
) -> None:
    found = failure(APPEND, error)
    assert type(found) is kind
    assert isinstance(found, Timeout | NetworkFailed)
    assert found.is_uncertain is is_uncertain
    assert SECRET not in f"{found!r} {found.__dict__}"
    read = failure(READ, error)
    assert isinstance(read, Timeout | NetworkFailed)
    assert not read.is_uncertain


def test_a_certificate_that_does_not_check_out_is_not_tried_again() -> None:
    trouble = ssl.CertificateError("hostname mismatch")
    error = aiohttp.ClientConnectorCertificateError(Mock(), trouble)
    assert isinstance(failure(APPEND, error), BadOption)
