"""Paging through records against a plain list, at every boundary of page and append."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import hypothesis.strategies as st
from hypothesis import example, given

from tests.support.doors import Door, open_door

VALUES = st.sampled_from(["1", "1.0", '"x,y"', '{"b":1,"a":[2,{}]}', "[]", "null", '"é"', "-0"])
APPENDS = st.lists(st.lists(VALUES, min_size=1, max_size=5), max_size=8)
LIMITS = st.lists(st.integers(1, 6), min_size=1, max_size=4)
A = "/records/a"


class Book:
    """What was written, and the offsets that the answers told."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.values: list[str] = []
        self.offsets: list[str] = []

    async def write(self, values: Sequence[str], *, is_main: bool) -> None:
        """Append by one of the doors; the main one tells only where it ended."""
        array = "[" + ",".join(values) + "]"
        if is_main:
            target, kind = "/v1/stream/a", "application/json"
            if not self.values:
                await self.door.ask("PUT", target, content_type=kind)
            await self.door.ask("POST", target, array.encode(), content_type=kind)
            time = f"{self.door.clock.value_ms:016d}"
            first = len(self.values) + 1
            self.offsets += [f"{time}{first + number:016d}" for number in range(len(values))]
        else:
            answer = await self.door.ask("POST", A, ('{"records":' + array + "}").encode())
            self.offsets += answer.json["offsets"]
        self.values += values

    async def page(self, offset: str, limit: int) -> list[tuple[str, str]]:
        answer = await self.door.ask("GET", f"{A}?offset={offset}&limit={limit}")
        assert answer.status == 200, answer.body
        return [
            (record["offset"], json.dumps(record["data"], ensure_ascii=False))
            for record in json.loads(answer.body, parse_float=str)["records"]
        ]

    def expected(self, index: int, limit: int) -> list[tuple[str, str]]:
        pairs = list(zip(self.offsets, self.values, strict=True))[index : index + limit]
        return [
            (offset, json.dumps(json.loads(value, parse_float=str), ensure_ascii=False))
            for offset, value in pairs
        ]


async def compare(
    appends: list[list[str]], mains: list[bool], limits: list[int], hot: int, page_bytes: int
) -> None:
    async with open_door(page_bytes=page_bytes) as door:
        book = Book(door)
        followed: list[tuple[str, str]] = []
        for number, values in enumerate(appends):
            await book.write(values, is_main=mains[number % len(mains)])
            door.clock.value_ms += number % 3
            # One reader follows while writing goes on, a page at a time.
            offset = followed[-1][0] if followed else "-"
            followed += await book.page(offset, limits[number % len(limits)])
        tail = door.directory.engine.find("a")
        for _ in range(hot if appends else 0):
            tail.cool()  # type: ignore[union-attr]
        assert book.offsets == sorted(set(book.offsets))
        for limit in limits:
            for index, offset in enumerate(["-", *book.offsets]):
                assert await book.page(offset, limit) == book.expected(index, limit)
        while page := await book.page(followed[-1][0] if followed else "-", limits[0]):
            followed += page
        assert followed == book.expected(0, len(book.values))


@given(
    appends=APPENDS,
    mains=st.lists(st.booleans(), min_size=1, max_size=3),
    limits=LIMITS,
    cooled=st.integers(0, 8),
    page_bytes=st.sampled_from([1024, 1 << 22]),
)
@example(
    appends=[["1"], ["1", "null"], ["[]"]], mains=[False], limits=[1], cooled=0, page_bytes=1024
)
def test_pages_are_the_list_that_was_written(
    appends: list[list[str]], mains: list[bool], limits: list[int], cooled: int, page_bytes: int
) -> None:
    asyncio.run(compare(appends, mains, limits, cooled, page_bytes))
