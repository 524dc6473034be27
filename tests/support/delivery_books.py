"""What producers were told, held against what the stream holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from millstream.client import Delivered
from tests.support.fault_proxy import Stamp


class Failed(NamedTuple):
    """A delivery that was reported as failed; an uncertain one may be in the stream or not."""

    kind: str
    is_uncertain: bool


Report = Delivered | Failed
# Reports of each producer, in the order of its appends.
Books = Mapping[str, Sequence[Report]]


def message(producer_id: str, number: int) -> dict[str, Any]:
    """Return the message that stands for one append."""
    return {"p": producer_id, "n": number, "pad": "x" * 60}


def index_of(offset: str) -> int:
    """Return how many messages are before an offset of our server."""
    return int(offset.rpartition("_")[2])


def complaints(
    stored: Sequence[dict[str, Any]], books: Books, forwarded: Mapping[Stamp, int]
) -> list[str]:
    """Return everything that is not as it was promised; of each kind of fault only some."""
    found: list[str] = []
    places: dict[str, dict[int, int]] = {name: {} for name in books}
    last: dict[str, int] = {}
    for place, item in enumerate(stored):
        name, number = item["p"], item["n"]
        if number in places[name]:
            found.append(f"{name}/{number} is stored twice: at {places[name][number]} and {place}")
        elif number < last.get(name, -1):
            found.append(f"{name}/{number} is stored behind {last[name]}")
        places[name].setdefault(number, place)
        last[name] = max(number, last.get(name, -1))
    for name, reports in books.items():
        found += _untrue(name, reports, places[name])
        found += _misplaced(name, reports, places[name])
        found += _implausible(name, reports, forwarded)
    return found


def _untrue(name: str, reports: Sequence[Report], places: Mapping[int, int]) -> Iterator[str]:
    for number, report in enumerate(reports):
        if isinstance(report, Delivered):
            if number not in places:
                yield f"{name}/{number} is reported as delivered and is not stored"
        elif number in places and not report.is_uncertain:
            yield f"{name}/{number} is reported as failed ({report.kind}) and is stored"


def _misplaced(name: str, reports: Sequence[Report], places: Mapping[int, int]) -> Iterator[str]:
    """A batch is in one piece, and its offset is right behind its last message."""
    batches: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    offsets: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for number, report in enumerate(reports):
        if isinstance(report, Delivered) and number in places:
            batches[report.epoch, report.seq].append(places[number])
            # A server that stored a batch may not have told where, when its deadline was close.
            if report.offset is not None:
                offsets[report.epoch, report.seq].add(report.offset)
    for stamp, held in batches.items():
        if held != list(range(held[0], held[0] + len(held))):
            yield f"{name}: batch {stamp} is not in one piece: {held[:9]}"
        if not {index_of(offset) for offset in offsets[stamp]} <= {held[-1] + 1}:
            yield f"{name}: batch {stamp} ends at {held[-1] + 1}, not at {offsets[stamp]}"


def _implausible(
    name: str, reports: Sequence[Report], forwarded: Mapping[Stamp, int]
) -> Iterator[str]:
    """Only what the server was sent twice can be a duplicate."""
    flags = Counter(
        Stamp(name, str(report.epoch), str(report.seq))
        for report in reports
        if isinstance(report, Delivered) and report.is_duplicate
    )
    for stamp in flags:
        if forwarded[stamp] < 2:
            yield f"{stamp} is reported as a duplicate and was sent {forwarded[stamp]} times"
