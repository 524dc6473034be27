"""Server-sent events as the server writes them, read line by line."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class ServerEvent(NamedTuple):
    """One event: its name and its data lines, joined by line feeds."""

    name: str
    data: bytes


def events(lines: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Turn lines into events. An event that the end of the lines cuts off is left out."""
    name, data = "message", list[bytes]()
    for line in lines:
        if not line:
            if data:
                yield ServerEvent(name, b"\n".join(data))
            name, data = "message", []
            continue
        field, _, value = line.partition(b":")
        # One space after the colon belongs to the format, a second one to the data.
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value.decode("utf-8", "replace")
        elif field == b"data":
            data.append(value)
