"""Every parser of requests under mutated input: a value or a typed refusal, soon, and small."""

import base64
import json
import re
import time
from array import array
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from millstream.core import media
from millstream.core.errors import Refused
from millstream.core.offsets import parse_offset
from millstream.core.streams.commands import Append, AppendRecords, Body
from millstream.core.subscriptions import glob
from millstream.core.subscriptions.commands import Grant
from millstream.server.keys import Keys
from millstream.server.ssrf import Guard
from millstream.wire import append, create, fields, names, read, records, sse, subscriptions, wakes
from millstream.wire.bodies import json_body
from millstream.wire.problem import render
from tests.support.mutations import Mutator, seeds

ROUNDS = 2500
SECONDS_MAX = 1.0
JSON_DEPTH_MAX = 500
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
KEYS = Keys(bytes(32), bytes(32))
TAG = b'"1:0:5"'


def check_refusal(value: object) -> None:
    """Whatever a refusal quotes, it must be possible to send it."""
    if isinstance(value, Refused):
        rendered = render(value)
        assert 400 <= rendered.status < 500
        assert value.detail
        assert len(rendered.body) < 100_000
        for name, text in rendered.headers:
            assert not set(name + text) & set(b"\r\n\0")


def fuzz_path(data: bytes) -> None:
    name = names.stream_name(data)
    check_refusal(name)
    check_refusal(names.source_name(data))
    if isinstance(name, str):
        assert not {"", ".", ".."} & set(name.split("/"))
        assert "\0" not in name
        assert "\n" not in name
        # A name has one URL, which leads back to it.
        assert names.stream_name(names.url_path(name).encode()[len(names.STREAM_ROOT) :]) == name
        assert names.stream_name(quote(name).encode()) == name


def fuzz_query(data: bytes) -> None:
    wanted = read.parse(data)
    check_refusal(wanted)
    check_refusal(fields.query_values(data))
    if not isinstance(wanted, Refused):
        assert 1 <= wanted.limit <= read.LIMIT_MAX
        assert wanted.start is None or 0 <= wanted.start.time_ms < 10**16
        assert wanted.cursor is None or 0 <= wanted.cursor < 10**15


def fuzz_number(data: bytes) -> None:
    for number in (fields.plain_integer(data, "X"), fields.counter(data, "X")):
        check_refusal(number)
        if isinstance(number, int):
            assert 0 <= number <= fields.SAFE_INTEGER_MAX
            assert data.lstrip(b"0") in (b"%d" % number, b"")
    fields.is_true(data)


def fuzz_header(data: bytes) -> None:
    check_refusal(fields.text(data, "X"))
    kind = fields.media_type(data)
    if kind is not None:
        assert kind.encode("latin-1") == data
        assert media.is_same(kind, kind.upper())
    moment = fields.rfc3339_ms(data.decode("latin-1"))
    if moment is not None:
        assert fields.rfc3339_ms(fields.rfc3339(moment)) == moment
    check_refusal(append.parse_if_match(data))
    check_refusal(subscriptions.bearer({b"authorization": data}))
    assert KEYS.grant(data, "callback", "s") is None
    offset = parse_offset(data.decode("latin-1"))
    assert offset is None or offset.text().encode() == data


HEADER_NAMES = (
    *(b"content-type", b"stream-ttl", b"stream-expires-at", b"stream-closed", b"stream-seq"),
    *(b"stream-forked-from", b"stream-fork-offset", b"stream-fork-sub-offset", b"if-match"),
    *(b"producer-id", b"producer-epoch", b"producer-seq"),
)


def fuzz_headers_together(data: bytes) -> None:
    headers = {
        name: data[k * 7 % (len(data) + 1) :][: 1 + k * 5] for k, name in enumerate(HEADER_NAMES)
    }
    for drop in range(len(HEADER_NAMES)):
        some = {name: headers[name] for name in HEADER_NAMES[drop:]}
        check_refusal(create.parse(some))
        command = append.parse("a", some, data)
        check_refusal(command)
        if isinstance(command, Append):
            check_refusal(command.body)


def fuzz_etag(data: bytes) -> None:
    is_cached = read.is_cached(data, TAG)
    assert not is_cached or TAG in data or data.strip() == b"*"
    assert read.is_cached(data + b"," + TAG, TAG)


def strict_json(data: bytes) -> tuple[bool, Any]:
    def refuse(text: str) -> Any:
        raise ValueError(text)

    try:
        text = data.decode("utf-8")
        value = json.loads(
            text, parse_constant=refuse, parse_float=str, parse_int=lambda digits: digits
        )
    except (ValueError, RecursionError):
        return False, None
    return not text.startswith("\ufeff"), value


def fuzz_json(data: bytes) -> None:
    body = json_body(data, may_be_empty=True)
    check_refusal(body)
    is_json, value = strict_json(data)
    if isinstance(body, Body):
        values = body.data.split(b",") if body.count == 1 else None
        again, found = strict_json(b"[" + body.data + b"]")
        assert again, "what was taken is not JSON"
        assert len(found) == body.count
        assert values is None or body.data in data
        if is_json:
            assert found == (value if isinstance(value, list) else [value])
    elif is_json:
        # The only JSON that is not taken is nested very deeply, or escapes half a character.
        is_deep = max(data.count(b"["), data.count(b"{")) > JSON_DEPTH_MAX
        assert is_deep or SURROGATE.search(data)


def fuzz_records(data: bytes) -> None:
    for whole in (data, b'{"records":' + data + b"}"):
        command = records.parse_append("a", b"", {}, whole)
        check_refusal(command)
        if isinstance(command, AppendRecords):
            again, found = strict_json(b"[" + command.body.data + b"]")
            assert again, "what was taken is not JSON"
            assert len(found) == command.body.count
            assert sum(array("I", command.body.lengths)) <= len(whole)


def fuzz_records_query(data: bytes) -> None:
    wanted = records.parse_read(data)
    check_refusal(wanted)
    if not isinstance(wanted, Refused):
        assert 1 <= wanted.limit <= records.LIMIT_MAX
        assert 0 <= wanted.timeout_s <= records.TIMEOUT_S_MAX
    for query in (data, b"version=" + data):
        command = records.parse_append("a", query, {}, b"")
        check_refusal(command)
        if isinstance(command, AppendRecords) and command.version is not None:
            assert 0 <= command.version <= fields.SAFE_INTEGER_MAX


def read_events(raw: bytes) -> list[tuple[str, str]]:
    """An SSE client by the letter of the standard."""
    found, kind, lines = [], "", list[str]()
    text = raw.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
    for line in text.split("\n"):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if lines:
                found.append((kind, "\n".join(lines)))
            kind, lines = "", []
        elif field == "event":
            kind = value
        elif field == "data":
            lines.append(value)
    return found


def fuzz_sse(data: bytes) -> None:
    control = sse.control_event("0_0", 1, is_current=True, is_closed=False)
    plain = data.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
    half = len(data) // 2
    raw = sse.text_event((data[:half], data[half:]))
    assert len(raw) <= 8 * len(data) + 100
    assert [text for _, text in read_events(raw + control)][:-1] == [plain]
    [(kind, text), _] = read_events(sse.base64_event((data,)) + control)
    assert (kind, base64.b64decode(text)) == ("data", data)
    if isinstance(body := json_body(data, may_be_empty=False), Body):
        [(kind, text), _] = read_events(sse.json_event((body.data,)) + control)
        assert strict_json(text.encode()) == strict_json(b"[" + body.data + b"]")


BODIES = (
    *(subscriptions.CreateBody, subscriptions.StreamsBody, subscriptions.ClaimBody),
    *(subscriptions.AckBody, subscriptions.ReleaseBody),
)
GRANT = Grant("callback", "s", 1, 1, "w")


def fuzz_subscription(data: bytes) -> None:
    for kind in BODIES:
        body = subscriptions.parse_body(kind, {b"content-type": b"application/json"}, data)
        check_refusal(body)
        check_rendered(body)
        if isinstance(body, subscriptions.CreateBody):
            check_refusal(subscriptions.config_of(body))
        elif isinstance(body, subscriptions.StreamsBody):
            check_refusal(subscriptions.names_of(body))
        elif isinstance(body, subscriptions.AckBody):
            check_refusal(subscriptions.ack_of("s", GRANT, body))
    assert isinstance(wakes.is_done(data), bool)


def check_rendered(value: object) -> None:
    if isinstance(value, Refused):
        json.loads(wakes.render_refusal(value).body)


def fuzz_target(data: bytes) -> None:
    target = subscriptions.parse_target(data)
    check_refusal(target)
    check_rendered(target)


def fuzz_url(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for guard in (Guard(may_be_local=True), Guard(may_be_local=False), Guard(True, True)):
        target = guard.check_url(text)
        check_refusal(target)
        if not isinstance(target, Refused):
            assert not set(target.authority + target.resource) & set("\r\n\0 ")
            assert 0 < target.port < 65536


def fuzz_glob(data: bytes) -> None:
    pattern, _, path = data.decode("utf-8", "replace").partition("|")
    fault = glob.fault(pattern)
    if fault is None and len(pattern) <= 1024:
        is_match = glob.matches(glob.split(pattern), glob.split(path[:1024]))
        assert is_match or pattern not in ("**", path[:1024])


TARGETS: dict[Callable[[bytes], None], str] = {
    fuzz_path: "paths",
    fuzz_query: "queries",
    fuzz_number: "numbers",
    fuzz_header: "headers",
    fuzz_headers_together: "headers",
    fuzz_etag: "etags",
    fuzz_json: "json",
    fuzz_records: "json",
    fuzz_records_query: "queries",
    fuzz_sse: "texts",
    fuzz_subscription: "subscriptions",
    fuzz_target: "targets",
    fuzz_url: "urls",
    fuzz_glob: "globs",
}


def run(target: Callable[[bytes], None], data: bytes) -> None:
    began = time.perf_counter()
    try:
        target(data)
    except Exception as error:
        # The input that broke it belongs into the corpus.
        raise AssertionError(f"{target.__name__} on {data[:3000]!r}") from error
    assert time.perf_counter() - began < SECONDS_MAX, data[:3000]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_the_corpus_is_taken_or_refused(target: Callable[[bytes], None]) -> None:
    for data in seeds(TARGETS[target]):
        run(target, data)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_mutated_input_is_taken_or_refused(target: Callable[[bytes], None]) -> None:
    mutator = Mutator(42, seeds(TARGETS[target]))
    for _ in range(ROUNDS):
        run(target, mutator.next())


def test_the_fuzzer_would_find_a_parser_that_lets_an_error_out() -> None:
    def careless(data: bytes) -> None:
        assert int(data) >= 0

    def fuzz() -> None:
        mutator = Mutator(42, seeds("numbers"))
        for _ in range(ROUNDS):
            run(careless, mutator.next())

    with pytest.raises(AssertionError, match="careless on"):
        fuzz()


def test_one_seed_makes_one_sequence_of_inputs() -> None:
    first, second = (Mutator(7, seeds("json")) for _ in range(2))
    assert [first.next() for _ in range(200)] == [second.next() for _ in range(200)]
