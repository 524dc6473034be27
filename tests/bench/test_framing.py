"""What each protocol's counter makes of bytes that arrive whole, cut anywhere, or in lumps."""

from collections.abc import Callable

import pytest

from bench.load import http, nats, redis
from bench.load.dialect import BadReply, Feed
from bench.load.payload import MARKS, array, marks_in, message

NO_CONTENT = b"HTTP/1.1 204 No Content\r\nStream-Next-Offset: 1_2\r\n\r\n"
WITH_BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\r\n\r\n"
CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
ID = b"$15\r\n1700000000000-0\r\n"
ACK = b'MSG inbox.1 1 22\r\n{"stream":"s","seq":1}\r\n'


def counted(feed: Feed, data: bytes, step: int) -> int:
    return sum(feed(data[at : at + step]) for at in range(0, len(data), step))


@pytest.mark.parametrize("step", [1, 2, 3, 7, 50, 10_000])
@pytest.mark.parametrize(
    "make, data, count",
    [
        (lambda: http.Responses().feed, NO_CONTENT * 3, 3),
        (lambda: http.Responses().feed, NO_CONTENT + WITH_BODY + CHUNKED + NO_CONTENT, 4),
        (lambda: redis.Replies().feed, ID * 5, 5),
        (lambda: nats.Acks().feed, ACK * 5, 5),
        (lambda: nats.Acks().feed, ACK + b"PING\r\n" + ACK, 2),
        (lambda: nats.Answers().feed, b"PING\r\n" + ACK * 4, 4),
    ],
)
def test_every_answer_counts_once_however_it_is_cut(
    make: Callable[[], Feed], data: bytes, count: int, step: int
) -> None:
    assert counted(make(), data, step) == count


@pytest.mark.parametrize(
    "feed, data",
    [
        (http.Responses().feed, b"HTTP/1.1 503 Service Unavailable\r\n\r\n"),
        (http.Responses().feed, NO_CONTENT + b"HTTP/1.1 404 Not Found\r\n\r\n"),
        (redis.Replies().feed, b"-OOM command not allowed\r\n"),
        (redis.Replies().feed, ID + b"-ERR no\r\n"),
        (nats.Acks().feed, b'MSG i 1 30\r\n{"error":{"code":503},"seq":0}\r\n'),
        (nats.Answers().feed, b"-ERR 'Authorization Violation'\r\n"),
    ],
)
def test_an_error_is_never_counted_as_an_ack(feed: Feed, data: bytes) -> None:
    with pytest.raises(BadReply):
        feed(data)


@pytest.mark.parametrize("size", [40, 100, 1024])
def test_a_message_has_its_size_and_one_mark_at_its_end(size: int) -> None:
    for mark in MARKS:
        made = message(size, bytes((mark,)))
        assert len(made) == size
        assert marks_in(made) == bytes((mark,))
        assert made.endswith(bytes((mark,)) + b'"}')


def test_a_message_cannot_be_smaller_than_its_frame() -> None:
    with pytest.raises(ValueError, match="at least"):
        message(10)


def test_marks_are_found_in_order_and_nowhere_in_the_framing_of_a_protocol() -> None:
    first, second = message(100, MARKS[3:4]), message(100, MARKS[9:10])
    sse = b"event: data\ndata:[" + first + b"," + second + b"]\n\nevent: control\n"
    sse += b'data:{"streamNextOffset":"1_2","streamCursor":"9","upToDate":true}\n\n'
    push = b"MSG deliver.7 1 $JS.ACK.s.push7.1.1.1.1700.0 100\r\n" + first + b"\r\nPING\r\n"
    entry = redis.command(b"XADD", b"s", b"*", b"m", second)
    assert marks_in(b"1f\r\n" + sse + b"\r\n") == MARKS[3:4] + MARKS[9:10]
    assert marks_in(push) == MARKS[3:4]
    assert len(entry) > 100
    assert marks_in(entry.replace(b"*\r\n", b"")) == MARKS[9:10]


def test_a_batch_over_http_is_one_array_and_one_ack() -> None:
    request = http.Http("127.0.0.1", 1).append("s", [b"{}", b"[]"])
    assert (request.acks, request.messages) == (1, 2)
    assert request.data.endswith(b"Content-Length: 7\r\n\r\n" + array([b"{}", b"[]"]))


def test_a_batch_elsewhere_is_pipelined_with_an_ack_for_each_message() -> None:
    for dialect in (redis.Redis("127.0.0.1", 1), nats.Nats("127.0.0.1", 1)):
        request = dialect.append("s", [b"{}", b"{}"])
        assert (request.acks, request.messages) == (2, 2)


def test_no_two_nats_requests_share_an_inbox() -> None:
    dialect = nats.Nats("127.0.0.1", 1)
    hellos = {dialect.append("s", [b"{}"]).hello for _ in range(3)}
    assert len(hellos) == 3


@pytest.mark.parametrize("size", [100, 1024])
def test_the_last_id_of_a_redis_reply_is_found_from_its_end(size: int) -> None:
    def entry(name: bytes) -> bytes:
        return b"*2\r\n$%d\r\n%s\r\n*2\r\n$1\r\nm\r\n" % (len(name), name) + b"$%d\r\n%s\r\n" % (
            size,
            message(size),
        )

    reply = b"*2\r\n" + entry(b"1700000000000-9") + entry(b"1700000000001-12")
    assert redis.last_id(reply, len(reply), size) == b"1700000000001-12"


def test_a_header_field_is_found_whatever_its_case() -> None:
    head = b"HTTP/1.1 200 OK\r\nStream-Next-Offset: 1_2\r\nX: y"
    assert http.field(head, b"stream-next-offset") == b"1_2"
    assert http.field(head, b"x") == b"y"
    assert http.field(head, b"next-offset") is None
