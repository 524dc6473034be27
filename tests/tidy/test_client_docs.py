"""The client's API page and the client's public names are the same, in both directions."""

import inspect
from pathlib import Path

import millstream.client
import millstream.client.sync
from tests.support.tree import DOCS

PAGE = DOCS / "client-api.md"
# The blocking twins: what only one side has, each with its reason.
ONLY_ASYNC = {
    "Reader.load_items": "splits waiting from taking, for drivers of other kinds",
    "Reader.loaded_items": "as load_items",
    "Stream.url": "a plain attribute there, a property here",
}
ONLY_SYNC = {
    "Delivery.result": "takes the place of awaiting",
    "Stream.url": "see above",
}


def listed(page: Path) -> list[str]:
    """Names in the first column of every table, without the header rows."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    return [line.split("`")[1] for line in lines]


def members(kind: type) -> set[str]:
    """Public names that a class defines; errors describe their fields in one row."""
    if issubclass(kind, Exception):
        return set()
    return {f"{kind.__name__}.{name}" for name in vars(kind) if not name.startswith("_")}


def offered() -> set[str]:
    names = set(millstream.client.__all__)
    for name in millstream.client.__all__:
        value = getattr(millstream.client, name)
        if inspect.isclass(value):
            names |= members(value)
    return names


def test_every_public_name_of_the_client_is_documented_and_back() -> None:
    names = set(listed(PAGE))
    assert sorted(offered() - names) == [], f"missing in {PAGE.name}"
    assert sorted(names - offered()) == [], f"in {PAGE.name}, but not in the code"


def test_no_name_is_documented_twice() -> None:
    names = listed(PAGE)
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_the_blocking_client_has_the_same_members() -> None:
    for name in millstream.client.sync.__all__:
        asynchronous = members(getattr(millstream.client, name)) - ONLY_ASYNC.keys()
        blocking = members(getattr(millstream.client.sync, name)) - ONLY_SYNC.keys()
        assert blocking == asynchronous, name
