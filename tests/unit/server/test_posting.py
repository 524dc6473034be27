"""One post, one answer: bounded, without redirects, to a checked address only."""

import ipaddress
import socket

import pytest

from millstream.server import posting
from millstream.server.posting import Answer, Parcel, PostFailed
from millstream.server.ssrf import Guard, WebhookTarget
from tests.support.receiver import scripted

LOCAL = Guard(may_be_local=True)
PARCEL = Parcel((("Content-Type", "application/json"),), b'{"a":1}')

pytestmark = pytest.mark.anyio


def target_of(url: str, guard: Guard = LOCAL) -> WebhookTarget:
    target = guard.check_url(url)
    assert isinstance(target, WebhookTarget), target
    return target


async def posted(*answers: bytes, seconds: float = 10) -> Answer:
    async with scripted(*answers) as receiver:
        return await posting.within(seconds, target_of(receiver.url), LOCAL, PARCEL)


async def test_the_request_is_plain_and_the_answer_comes_back() -> None:
    async with scripted(b"HTTP/1.1 201 Made\r\nContent-Length: 3\r\n\r\nabc") as receiver:
        answer = await posting.within(10, target_of(receiver.url), LOCAL, PARCEL)
        assert answer == Answer(201, b"abc")
        assert receiver.requests == [
            b"POST /hook?a=b HTTP/1.1\r\n"
            + f"Host: 127.0.0.1:{receiver.port}\r\n".encode()
            + b"Content-Type: application/json\r\nContent-Length: 7\r\nConnection: close\r\n\r\n"
            b'{"a":1}'
        ]


@pytest.mark.parametrize(
    "raw,expected",
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", Answer(204, b"")),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", Answer(200, b"until the end")),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            Answer(200, b"abc"),
        ),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx",
            Answer(200, b"x"),
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxgarbage behind it", Answer(200, b"x")),
        (b"HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n", Answer(302, b"")),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ncut", Answer(200, b"")),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n" + b"x" * 99_999, Answer(200, b"")),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 99_999, Answer(200, b"")),
    ],
)
async def test_answers_are_read_as_far_as_they_go(raw: bytes, expected: Answer) -> None:
    assert await posted(raw) == expected


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 2",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000,
    ],
)
async def test_what_is_no_answer_fails(raw: bytes) -> None:
    with pytest.raises(PostFailed):
        await posted(raw)


async def test_a_receiver_that_says_nothing_is_given_up() -> None:
    with pytest.raises(PostFailed, match="within"):
        await posted(b"hang", seconds=0.05)


async def test_nobody_listening_fails() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(PostFailed, match="no connection"):
        await posting.within(10, target_of(f"http://127.0.0.1:{port}/"), LOCAL, PARCEL)


async def test_every_address_of_a_name_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(*addresses: str) -> None:
        async def found(*_: object, **__: object) -> list[tuple[object, ...]]:
            return [(2, 1, 6, "", (address, 443)) for address in addresses]

        monkeypatch.setattr("asyncio.BaseEventLoop.getaddrinfo", found)

    target = target_of("https://worker.example/")
    answers("93.184.216.34", "8.8.8.8")
    checked = [ipaddress.ip_address("93.184.216.34"), ipaddress.ip_address("8.8.8.8")]
    assert await posting.resolve(target, LOCAL) == checked
    for bad in ("127.0.0.1", "10.0.0.1", "::1", "64:ff9b::a9fe:a9fe"):
        answers("93.184.216.34", bad)
        with pytest.raises(PostFailed, match="not allowed"):
            await posting.resolve(target, LOCAL)
    answers("strange")
    with pytest.raises(PostFailed, match="cannot be read"):
        await posting.resolve(target, LOCAL)
    answers()
    with pytest.raises(PostFailed, match="no address"):
        await posting.resolve(target, LOCAL)


async def test_a_name_that_does_not_resolve_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(*_: object, **__: object) -> list[tuple[object, ...]]:
        raise socket.gaierror(-2, "unknown")

    monkeypatch.setattr("asyncio.BaseEventLoop.getaddrinfo", found)
    with pytest.raises(PostFailed, match="resolved"):
        await posting.resolve(target_of("https://worker.example/"), LOCAL)
