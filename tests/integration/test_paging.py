"""Pages of any size: no message is left out, none comes twice, in every way of reading."""

import json
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.support.client import JSON, ROOT, TEXT, Client
from tests.support.server import Servers

APPEND_BYTES_MAX = 3000
SETTINGS = {
    "the least pages, in memory": ("--page-bytes", "1024"),
    "the least pages, on disk": ("--page-bytes", "1024", "--hot-bytes-max", "1"),
    "odd pages, partly on disk": ("--page-bytes", "4099", "--hot-bytes-max", "20000"),
    "one page": ("--page-bytes", "1048576"),
}


class Shelf(NamedTuple):
    """A server with streams in it, and what a reader must find in each."""

    client: Client
    page_bytes: int
    texts: dict[str, bytes]
    values: dict[str, list[object]]


@pytest.fixture(scope="module", params=SETTINGS.values(), ids=list(SETTINGS))
def shelf(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shelf]:
    with Servers(tmp_path_factory.mktemp("paging")) as started:
        server = started.start(*request.param, "--long-poll-ms", "200")
        client = Client(server.port)
        yield Shelf(client, int(request.param[1]), write_texts(client), write_values(client))


def fork(client: Client, source: str, name: str, anchor: str, sub: int) -> None:
    headers = {
        "Stream-Forked-From": ROOT + source,
        "Stream-Fork-Offset": anchor,
        "Stream-Fork-Sub-Offset": str(sub),
    }
    assert client.put(name, headers=headers).status == 201


def write_texts(client: Client) -> dict[str, bytes]:
    """A stream, a fork from inside one of its messages, and a fork of that."""
    rng = random.Random(5)
    contents = {"text": b""}
    client.put("text", headers=TEXT)
    anchors = []
    for number in range(40):
        data = b"<%d:" % number + b"x" * rng.choice((0, 1, 20, 300, 1000, APPEND_BYTES_MAX)) + b">"
        offset = client.post("text", data, TEXT).offset
        contents["text"] += data
        anchors.append((offset, len(contents["text"])))
    for source, name, at in (("text", "text-fork", 25), ("text-fork", "text-fork-fork", 12)):
        offset, length = anchors[at]
        fork(client, source, name, offset, 2)
        contents[name] = contents["text"][: length + 2]
        for _ in range(5):
            own = name.encode() + b"!" * rng.randrange(600)
            client.post(name, own, TEXT)
            contents[name] += own
    return contents


def write_values(client: Client) -> dict[str, list[object]]:
    """The same in JSON; the forks leave in the middle of an append of many values."""
    rng = random.Random(6)
    contents: dict[str, list[object]] = {"json": []}
    client.put("json", headers=JSON)
    anchors = []
    for number in range(40):
        anchors.append((client.head("json").offset, len(contents["json"])))
        batch = [f"{number}.{k}" + "x" * rng.choice((0, 7, 150)) for k in range(rng.randint(4, 9))]
        client.post("json", json.dumps(batch).encode(), JSON)
        contents["json"] += batch
    for source, name, at in (("json", "json-fork", 25), ("json-fork", "json-fork-fork", 12)):
        offset, count = anchors[at]
        fork(client, source, name, offset, 3)
        contents[name] = contents["json"][: count + 3]
        for number in range(5):
            client.post(name, json.dumps([name, number]).encode(), JSON)
            contents[name] += [name, number]
    return contents


def pages(shelf: Shelf, name: str, extra: str) -> Iterator[bytes]:
    """Read page by page, from each page's end to the next; the last one says so."""
    offset = "-1"
    while True:
        page = shelf.client.get(name, f"offset={offset}{extra}")
        assert page.status == 200
        assert len(page.body) <= shelf.page_bytes + APPEND_BYTES_MAX
        assert page.offset > offset
        offset = page.offset
        yield page.body
        if "stream-up-to-date" in page.headers:
            assert offset == shelf.client.head(name).offset
            return


READ = pytest.mark.parametrize("extra", ["", "&live=long-poll", "&limit=1", "&limit=4"])
TEXTS = pytest.mark.parametrize("name", ["text", "text-fork", "text-fork-fork"])
VALUES = pytest.mark.parametrize("name", ["json", "json-fork", "json-fork-fork"])


@READ
@TEXTS
def test_pages_of_text_add_up(shelf: Shelf, name: str, extra: str) -> None:
    assert b"".join(pages(shelf, name, extra)) == shelf.texts[name]


@READ
@VALUES
def test_pages_of_json_add_up(shelf: Shelf, name: str, extra: str) -> None:
    found = [value for page in pages(shelf, name, extra) for value in json.loads(page)]
    assert found == shelf.values[name]


def followed(shelf: Shelf, name: str, offset: str) -> tuple[list[str], list[str]]:
    """Follow a stream to its present end; return the data events and the offsets behind them."""
    texts, offsets = [], []
    with shelf.client.follow(name, f"offset={offset}") as live:
        while True:
            event = live.next()
            assert event is not None
            if event.kind == "data":
                texts.append(event.text)
                assert len(event.text) <= shelf.page_bytes + APPEND_BYTES_MAX
                event = live.expect("control")
            offsets.append(event.json["streamNextOffset"])
            if event.json.get("upToDate"):
                return texts, offsets


def joined_text(texts: list[str]) -> bytes:
    return "".join(texts).encode()


def joined_values(texts: list[str]) -> list[object]:
    return [value for text in texts for value in json.loads(text)]


@pytest.mark.parametrize(
    "name, join",
    [(name, joined_text) for name in ("text", "text-fork", "text-fork-fork")]
    + [(name, joined_values) for name in ("json", "json-fork", "json-fork-fork")],
)
def test_a_live_reader_may_leave_anywhere_and_come_back(
    shelf: Shelf, name: str, join: Callable[[list[str]], bytes | list[object]]
) -> None:
    expected = {**shelf.texts, **shelf.values}[name]
    texts, offsets = followed(shelf, name, "-1")
    assert join(texts) == expected
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == shelf.client.head(name).offset
    for k in range(0, len(offsets), 7):
        assert join(texts[: k + 1]) + join(followed(shelf, name, offsets[k])[0]) == expected  # type: ignore[operator]


def test_a_page_is_the_same_on_every_read(shelf: Shelf) -> None:
    first = [shelf.client.get("text", f"limit={count}") for count in (1, 5, 1000)]
    again = [shelf.client.get("text", f"limit={count}") for count in (1, 5, 1000)]
    assert [page.body for page in first] == [page.body for page in again]
    assert [page.headers["etag"] for page in first] == [page.headers["etag"] for page in again]
    for page in first:
        held = {"If-None-Match": page.headers["etag"]}
        count = page.body.count(b"<")
        assert shelf.client.get("text", f"limit={count}", held).status == 304
