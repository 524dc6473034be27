from collections.abc import Callable, Coroutine

import msgspec

from millstream.server.handlers.operations import healthz, make_metrics, make_openapi, make_readyz
from millstream.server.http import Handler, Headers, Request, Response, Sink
from millstream.server.metrics import Counters, Metrics, add_edge_metrics


class Answered:
    """A reply that keeps the answer."""

    is_disconnected = False

    def __init__(self) -> None:
        self.responses: list[Response] = []

    def send(self, response: Response) -> None:
        self.responses.append(response)

    def start(self, status: int, headers: Headers) -> Sink:
        raise NotImplementedError

    def spawn(self, coro: Coroutine[object, object, None]) -> None:
        raise NotImplementedError

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        raise NotImplementedError


def ask(handler: Handler) -> tuple[int, bytes]:
    reply = Answered()
    handler(Request("GET", b"/", {}), reply)
    (response,) = reply.responses
    assert isinstance(response.body, bytes)
    return response.status, response.body


def test_a_living_process_says_so() -> None:
    assert ask(healthz)[0] == 200


def test_readiness_is_asked_each_time_and_reasons_are_given() -> None:
    answers = [(True, ()), (False, ("the log cannot be written", "stopping"))]
    handler = make_readyz(lambda: answers.pop(0))
    assert ask(handler)[0] == 200
    status, body = ask(handler)
    assert status == 503
    assert msgspec.json.decode(body)["reasons"] == ["the log cannot be written", "stopping"]


def test_metrics_are_prometheus_text() -> None:
    metrics = Metrics()
    add_edge_metrics(metrics, Counters())
    status, body = ask(make_metrics(metrics))
    assert status == 200
    assert b"# TYPE millstream_connections gauge" in body


def test_the_api_document_is_json() -> None:
    status, body = ask(make_openapi({"openapi": "3.1.0"}))
    assert (status, msgspec.json.decode(body)) == (200, {"openapi": "3.1.0"})
