"""From samples to figures: medians, spreads and ratios, where more than 1 means ours is better."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final, Literal

import msgspec

OURS: Final = "millstream"
PEERS: Final = (
    "node-file",
    "node-memory",
    "redis-always",
    "redis-everysec",
    "nats-always",
    "nats-default",
)

Better = Literal["higher", "lower"]

METRICS: Final[dict[str, Better]] = {
    "messages/s": "higher",
    "deliveries/s": "higher",
    "streams/s": "higher",
    "MB/s": "higher",
    "W1 kept": "higher",
    "p50 ms": "lower",
    "p99 ms": "lower",
    "CPU us/message": "lower",
    "CPU us/delivery": "lower",
    "CPU us/stream": "lower",
    "CPU ms/MB": "lower",
    "RSS MiB": "lower",
    "RSS growth MiB": "lower",
    "bytes/stream": "lower",
    "KB/connection": "lower",
    "restart s": "lower",
}
"""Every metric, and which way is better; the order is that of the table."""


class Sample(msgspec.Struct, frozen=True):
    """What one server did in one repeat of one case."""

    workload: str
    case: str
    server: str
    turn: int
    values: dict[str, float]
    generator_share: float = 0.0
    note: str = ""


class Figure(msgspec.Struct, frozen=True):
    """A median with the lowest and the highest value beside it."""

    middle: float
    low: float
    high: float


class Row(msgspec.Struct, frozen=True):
    """One comparison: a metric of ours beside the same of a peer."""

    workload: str
    case: str
    peer: str
    metric: str
    better: Better
    ours: float
    theirs: float
    ratio: float
    ours_low: float
    ours_high: float
    theirs_low: float
    theirs_high: float
    ratio_low: float
    ratio_high: float
    repeats: int
    generator_share_ours: float
    generator_share_theirs: float
    note: str


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the sorted or unsorted values lie."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def figure(values: Sequence[float]) -> Figure:
    """Return median, least and greatest."""
    return Figure(median(values), min(values), max(values))


def ratio(metric: str, ours: float, theirs: float) -> float:
    """Return how many times better ours is: more for a rate, less for a time or a cost."""
    above, below = (ours, theirs) if METRICS[metric] == "higher" else (theirs, ours)
    if below == 0:
        return math.inf if above > 0 else 1.0
    return above / below


def cases(samples: Iterable[Sample]) -> list[tuple[str, str]]:
    """Return workload and case of the samples, each once, workloads in order."""
    found = dict.fromkeys((sample.workload, sample.case) for sample in samples)
    return sorted(found, key=lambda pair: pair[0])


def of(samples: Iterable[Sample], workload: str, case: str, server: str) -> list[Sample]:
    """Return the samples of one server in one case, by turn."""
    wanted = (workload, case, server)
    found = [s for s in samples if (s.workload, s.case, s.server) == wanted]
    return sorted(found, key=lambda sample: sample.turn)


def notes(samples: Iterable[Sample]) -> str:
    """Return what the samples have to say, each thing once."""
    return "; ".join(dict.fromkeys(sample.note for sample in samples if sample.note))


def rows(samples: Sequence[Sample]) -> list[Row]:
    """Compare ours with every peer, in every case and metric that both have."""
    found: list[Row] = []
    for workload, case in cases(samples):
        ours = of(samples, workload, case, OURS)
        for peer in PEERS:
            theirs = of(samples, workload, case, peer)
            if ours and theirs:
                found += _compare(ours, theirs)
    return found


def _compare(ours: Sequence[Sample], theirs: Sequence[Sample]) -> list[Row]:
    found: list[Row] = []
    for metric, better in METRICS.items():
        left = {s.turn: s.values[metric] for s in ours if _has(s, metric)}
        right = {s.turn: s.values[metric] for s in theirs if _has(s, metric)}
        if not left or not right:
            continue
        a, b = figure(list(left.values())), figure(list(right.values()))
        turns = sorted(left.keys() & right.keys())
        # Both sides of a ratio come from the same turn; the machine is not the same in the next.
        each = [ratio(metric, left[turn], right[turn]) for turn in turns]
        spread = figure(each or [ratio(metric, a.middle, b.middle)])
        found.append(
            Row(
                workload=ours[0].workload,
                case=ours[0].case,
                peer=theirs[0].server,
                metric=metric,
                better=better,
                ours=a.middle,
                theirs=b.middle,
                ratio=spread.middle,
                ours_low=a.low,
                ours_high=a.high,
                theirs_low=b.low,
                theirs_high=b.high,
                ratio_low=spread.low,
                ratio_high=spread.high,
                repeats=len(turns),
                generator_share_ours=median(s.generator_share for s in ours),
                generator_share_theirs=median(s.generator_share for s in theirs),
                note=notes(theirs),
            )
        )
    return found


def _has(sample: Sample, metric: str) -> bool:
    return metric in sample.values and math.isfinite(sample.values[metric])
