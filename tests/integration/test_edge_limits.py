"""The edge under pressure: deadlines, slow readers, budgets, stopping, random input."""

import logging
import random
import socket

import msgspec
import pytest

from millstream.server.http import Response
from millstream.server.settings import Settings
from tests.support.edge import PATIENCE_S, EdgeThread, RawClient, Toy
from tests.support.probes import CHUNKED, GET, POST, REFUSED, H


@pytest.fixture
def toy() -> Toy:
    return Toy()


def small(**changes: int) -> Settings:
    base = Settings(
        port=0, header_ms=200, body_ms=200, idle_ms=200, write_stall_ms=200, stop_ms=2000
    )
    return msgspec.structs.replace(base, **changes)


@pytest.mark.parametrize(
    "sent, answer",
    [
        (b"", b""),
        (b"G", b"HTTP/1.1 408 "),
        (b"GET /echo HTTP/1.1\r\nHost: x\r\nX-a: ", b"HTTP/1.1 408 "),
        (POST + b"Content-Length: 100\r\n\r\nab", b"HTTP/1.1 408 "),
        (CHUNKED + b"5\r\nab", b"HTTP/1.1 408 "),
        (GET, b"HTTP/1.1 200 "),
        (GET + b"GET /ec", b"HTTP/1.1 200 "),
    ],
)
def test_a_client_that_does_not_go_on_is_dropped(sent: bytes, answer: bytes, toy: Toy) -> None:
    with EdgeThread(small(), toy) as edge, edge.connect() as client:
        client.send(sent)
        assert client.rest().startswith(answer)


def test_a_body_that_comes_fast_enough_may_take_longer_than_the_deadline(toy: Toy) -> None:
    settings = small(body_bytes_per_s_min=1, idle_ms=60_000)
    with EdgeThread(settings, toy) as edge, edge.connect() as client, edge.connect() as other:
        client.send(POST + b"Content-Length: 200000\r\n\r\n" + bytes(100_000))
        other.send(b"G")
        assert other.rest().startswith(b"HTTP/1.1 408 ")  # The deadline is over by now.
        client.send(bytes(100_000))
        assert client.response()[0] == 200


def test_a_client_that_does_not_read_its_answer_is_cut(toy: Toy) -> None:
    with EdgeThread(small(idle_ms=60_000), toy) as edge:
        with RawClient(edge.port, receive_bytes=4096) as client:
            client.send(b"GET /flood HTTP/1.1\r\n" + H + b"\r\n")
            assert toy.has_left.acquire(timeout=PATIENCE_S)
        with RawClient(edge.port, receive_bytes=4096) as client:
            client.send(b"GET /big HTTP/1.1\r\n" + H + b"\r\n")
            client.until(b"\r\n\r\n")
            while edge.call(lambda: edge.edge.counters.connections):
                pass
        assert edge.edge.counters.connections_stalled == 2


def test_a_slow_reader_pauses_the_writer_so_that_memory_stays_bounded(toy: Toy) -> None:
    settings = Settings(port=0, stop_ms=100, write_buffer_bytes=64 * 1024)
    with EdgeThread(settings, toy) as edge, RawClient(edge.port, receive_bytes=4096) as client:
        client.send(b"GET /flood HTTP/1.1\r\n" + H + b"\r\n")
        for _ in range(5):
            assert toy.has_paused.acquire(timeout=PATIENCE_S)
            while not toy.has_drained.acquire(blocking=False):
                client.exactly(64 * 1024)
        assert toy.buffered_max <= 64 * 1024 + 2 * 33 * 1024


def test_pipelined_requests_wait_unhandled_while_answers_are_unread(toy: Toy) -> None:
    settings = Settings(port=0, stop_ms=100)
    with EdgeThread(settings, toy) as edge, RawClient(edge.port, receive_bytes=4096) as client:
        client.send((b"GET /big HTTP/1.1\r\n" + H + b"\r\n") * 200)
        assert toy.has_arrived.acquire(timeout=PATIENCE_S)
        client.until(b"\r\n\r\n")
        assert edge.call(lambda: len(toy.requests)) <= 3


def test_unfinished_bodies_share_a_budget(toy: Toy) -> None:
    settings = Settings(port=0, bodies_bytes_max=100_000, stop_ms=100)
    head = POST + b"Content-Length: 90001\r\n\r\n"
    with EdgeThread(settings, toy) as edge, edge.connect() as first, edge.connect() as second:
        first.send(head + bytes(90_000))
        while edge.call(lambda: edge.edge.body_bytes_held) < 90_000:
            pass
        second.send(head + bytes(90_000))
        answer = second.rest()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in answer
        first.send(b"a")
        assert first.response()[0] == 200
        assert edge.call(lambda: edge.edge.body_bytes_held) == 0


def test_a_connection_too_many_is_told_to_come_back(toy: Toy) -> None:
    with EdgeThread(Settings(port=0, connections_max=2, stop_ms=100), toy) as edge:
        with edge.connect() as one, edge.connect() as two:
            for client in (one, two):
                client.send(GET)
                assert client.response()[0] == 200
            with edge.connect() as third:
                third.send(GET)
                answer = third.rest()
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1" in answer
        while edge.call(lambda: edge.edge.counters.connections):
            pass
        with edge.connect() as client:
            client.send(GET)
            assert client.response()[0] == 200


def test_a_graceful_stop_answers_what_is_in_flight_and_ends_live_readers(toy: Toy) -> None:
    with EdgeThread(Settings(port=0, stop_ms=20_000), toy) as edge:
        idle, held, live = edge.connect(), edge.connect(), edge.connect()
        with idle, held, live:
            idle.send(GET)
            assert idle.response()[0] == 200
            held.send(b"GET /hold HTTP/1.1\r\n" + H + b"\r\n")
            live.send(b"GET /stream?open HTTP/1.1\r\n" + H + b"\r\n")
            for _ in range(3):
                assert toy.has_arrived.acquire(timeout=PATIENCE_S)
            edge.call(lambda: edge.listener.on_stopping(toy.sinks[0].close))
            edge.begin_stop()
            assert idle.rest() == b""
            assert live.rest().endswith(b"0\r\n\r\n")
            edge.call(lambda: toy.held[0].send(Response(200, (), b"made it")))
            answer = held.rest()
            assert answer.endswith(b"made it")
            assert b"connection: close" in answer
    with pytest.raises(OSError, match="refused"):
        RawClient(edge.port)


def test_a_stop_cuts_what_is_not_done_in_time(toy: Toy) -> None:
    with EdgeThread(Settings(port=0, stop_ms=50), toy) as edge, edge.connect() as client:
        client.send(b"GET /hold HTTP/1.1\r\n" + H + b"\r\n")
        assert toy.has_arrived.acquire(timeout=PATIENCE_S)
        edge.begin_stop()
        assert client.rest() in (b"", b"<reset>")
        assert toy.has_left.acquire(timeout=PATIENCE_S)


def garbage(rng: random.Random) -> bytes:
    """Make input that is sometimes noise and sometimes nearly a request."""
    valid = rng.choice([sent for _, sent in REFUSED.values() if len(sent) < 2000] + [GET, CHUNKED])
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 400))
    data = bytearray(valid)
    for _ in range(rng.randrange(1, 6)):
        position = rng.randrange(len(data))
        if kind == 1:
            data[position] = rng.randrange(256)
        elif kind == 2:
            del data[position]
        else:
            data[position:position] = rng.choice([b"\r\n", b"\0", b" ", b":", b"\n", b"0", b"\xff"])
    return bytes(data)


def test_a_thousand_random_inputs_give_no_5xx_no_traceback_and_no_hang(
    toy: Toy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    seed = 20261116
    rng = random.Random(seed)
    with EdgeThread(small(stop_ms=100), toy) as edge:
        for start in range(0, 1000, 50):
            inputs = [garbage(rng) for _ in range(50)]
            clients = [edge.connect() for _ in inputs]
            for client, data in zip(clients, inputs, strict=True):
                client.send(data)
                client.socket.shutdown(socket.SHUT_WR)
            for client, data in zip(clients, inputs, strict=True):
                answer = client.rest()
                assert b"HTTP/1.1 5" not in answer, (seed, start, data)
                client.socket.close()
        with edge.connect() as client:
            client.send(GET)
            assert client.response()[0] == 200
    assert [record.getMessage() for record in caplog.records] == []
