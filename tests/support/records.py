"""A client of the records dialect over one connection that is kept."""

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from tests.support.client import HOST, TIMEOUT_S, Answer

ROOT = "/records/"
FIRST = "-"

Record = tuple[str, Any]
"""A record's offset and its value."""


class Records:
    """One stream by its dialect. Not for two threads at once."""

    def __init__(self, port: int, name: str) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
        self.path = ROOT + name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def ask(
        self,
        method: str,
        query: str = "",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request and return the whole answer."""
        self._connection.request(method, self.path + query, body, dict(headers or {}))
        response = self._connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, response.read())

    def post(
        self,
        values: Sequence[object],
        version: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Append values."""
        query = "" if version is None else f"?version={version}"
        return self.ask("POST", query, json.dumps({"records": values}).encode(), headers)

    def add(self, *values: object) -> list[str]:
        """Append values and return their offsets."""
        answer = self.post(values)
        assert answer.status == 200, answer
        offsets: list[str] = answer.json["offsets"]
        assert len(offsets) == len(values)
        return offsets

    def read(
        self, offset: str = FIRST, limit: int | None = None, wait_s: float = 0
    ) -> list[Record]:
        """Return the records behind an offset, waiting for one if there is none."""
        query = f"?offset={offset}&timeout_sec={wait_s}"
        answer = self.ask("GET", query + (f"&limit={limit}" if limit is not None else ""))
        assert answer.status == 200, answer
        return [(record["offset"], record["data"]) for record in answer.json["records"]]

    def pages(self, limit: int, wait_s: float = 0) -> Iterator[list[Record]]:
        """Yield page after page from the first record on, until one is empty."""
        offset = FIRST
        while page := self.read(offset, limit, wait_s):
            assert len(page) <= limit
            yield page
            offset = page[-1][0]

    def version(self) -> int:
        """Ask for the version."""
        answer = self.ask("POST")
        assert answer.status == 200, answer
        return int(answer.json["version"])
