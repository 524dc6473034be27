"""One producer on one stream of a server that fails: what it was told, and what must be so."""

from __future__ import annotations

import http.client
import json

from tests.support.client import JSON, Answer, Client

NAME = "placed"


class Producer:
    """Appends batch after batch and compares the stream with the answers."""

    def __init__(self, port: int, size: int = 20) -> None:
        self.client = Client(port)
        self.size = size
        self.offsets: list[str] = []
        assert self.client.put(NAME, headers=JSON).status == 201

    def values(self, seq: int) -> list[str]:
        return [f"{seq}.{number}.{'z' * self.size}" for number in range(2)]

    def send(self, seq: int) -> Answer:
        """Send batch ``seq``, for the first time or again."""
        headers = {
            **JSON,
            "Producer-Id": "p",
            "Producer-Epoch": "0",
            "Producer-Seq": str(seq),
        }
        return self.client.post(NAME, json.dumps(self.values(seq)).encode(), headers)

    def append(self, count: int = 1) -> None:
        """Append so many new batches, each answered."""
        for _ in range(count):
            answer = self.send(len(self.offsets))
            assert answer.status == 200, answer
            self.offsets.append(answer.offset)

    def append_until_death(self, count: int = 40) -> None:
        """Append until the server is gone; the last batch is not answered for."""
        try:
            self.append(count)
        except (OSError, http.client.HTTPException):
            return
        raise AssertionError("the server lives on")

    def check(self, port: int, *, retried: tuple[int, ...]) -> None:
        """On a new server: all that was answered is there, a retry of the rest adds it once."""
        self.client = Client(port)
        known = self.read()
        answered = [value for seq in range(len(self.offsets)) for value in self.values(seq)]
        assert known[: len(answered)] == answered
        rest = known[len(answered) :]
        missing = self.values(len(self.offsets))
        assert rest in ([], missing), "a batch is torn"
        retry = self.send(len(self.offsets))
        assert retry.status == (204 if rest else 200)
        assert retry.status in retried, f"{retry.status} was not expected at this point"
        assert self.read() == answered + missing
        for seq, offset in enumerate(self.offsets):
            again = self.send(seq)
            assert (again.status, again.offset) == (204, offset)
        assert self.read() == answered + missing

    def read(self) -> list[str]:
        """Return the whole stream, page by page."""
        values: list[str] = []
        offset = "-1"
        while True:
            answer = self.client.get(NAME, f"offset={offset}")
            assert answer.status == 200, answer
            values += answer.json
            offset = answer.offset
            if answer.headers.get("stream-up-to-date") == "true":
                return values
