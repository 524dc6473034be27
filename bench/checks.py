"""What the project promises about speed, held against the figures of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final, Literal, NamedTuple

import msgspec

from bench.figures import OURS, Row, Sample

Verdict = Literal["met", "missed", "not measured"]


class Wanted(NamedTuple):
    """A ratio that must be reached: ours over a peer's, in one metric of one case."""

    workload: str
    case: str
    metric: str
    peer: str
    least: float


class Check(msgspec.Struct, frozen=True):
    """One promise, what was measured, and whether it holds."""

    promise: str
    limit: str
    measured: float | None
    verdict: Verdict


def _fan_out() -> list[Wanted]:
    found = []
    for in_flight in (1, 16):
        case = f"100 subscribers, {in_flight} in flight"
        least = {"node-file": 30.0, "node-memory": 3.0, "redis-always": 1.0, "nats-always": 1.0}
        for peer, rate in least.items():
            found.append(Wanted("W4", case, "deliveries/s", peer, rate))
            found.append(Wanted("W4", case, "p99 ms", peer, 1.0))
    return found


RATIOS: Final = (
    Wanted("W1", "100 B, 64 connections", "messages/s", "node-file", 30),
    Wanted("W1", "100 B, 64 connections", "messages/s", "node-memory", 2),
    Wanted("W1", "100 B, 64 connections", "messages/s", "nats-always", 5),
    Wanted("W1", "100 B, 64 connections", "messages/s", "redis-always", 0.7),
    Wanted("W2", "1000 x 100 B, 4 connections", "messages/s", "redis-always", 5),
    Wanted("W2", "1000 x 100 B, 4 connections", "messages/s", "node-memory", 2),
    Wanted("W2", "1000 x 1024 B, 4 connections", "messages/s", "redis-always", 2),
    Wanted("W3", "1 reader", "MB/s", "node-file", 10),
    Wanted("W3", "1 reader", "MB/s", "node-memory", 10),
    Wanted("W3", "1 reader", "MB/s", "redis-always", 2),
    Wanted("W3", "1 reader", "MB/s", "nats-default", 3),
    *_fan_out(),
)

LIMITS: Final = (
    ("W3", "1 reader", "RSS growth MiB", "<=", 16.0),
    ("W5", "restart", "restart s", "<=", 3.0),
    ("W5", "at rest", "bytes/stream", "<=", 2000.0),
    ("W6", "idle subscribers", "KB/connection", "<=", 30.0),
    ("W6", "idle subscribers", "W1 kept", ">=", 0.8),
)
"""Workload, end of the case, metric of ours, and what it must not pass."""

GROWTH_MAX: Final = 1.2
STREAMS_SHARE_MIN: Final = 0.5
STREAM_CASES: Final = (
    ("create and append", "two requests a stream"),
    ("create with its first message", "one request a stream"),
)


def checks(
    rows: Sequence[Row], samples: Sequence[Sample], facts: Mapping[str, float]
) -> list[Check]:
    """Hold every promise against what was measured."""
    found = [_ratio(wanted, rows) for wanted in RATIOS]
    for workload, case, metric, sign, limit in LIMITS:
        value = _middle(samples, workload, case, metric)
        found.append(_judge(f"{workload} {case}: {metric}", sign, limit, value))
    found += [_streams(samples, case, requests) for case, requests in STREAM_CASES]
    found.append(_stalled(samples))
    for title, value in facts.items():
        if "cost" in title and ":" not in title:
            found.append(_judge(f"{title}, fresh = 1", "<=", GROWTH_MAX, value))
    return found


def _judge(promise: str, sign: str, limit: float, value: float | None) -> Check:
    if value is None:
        return Check(promise, f"{sign} {limit:g}", None, "not measured")
    holds = value <= limit if sign == "<=" else value >= limit
    return Check(promise, f"{sign} {limit:g}", value, "met" if holds else "missed")


def _ratio(wanted: Wanted, rows: Sequence[Row]) -> Check:
    key = (wanted.workload, wanted.peer, wanted.metric)
    values = [
        row.ratio
        for row in rows
        if (row.workload, row.peer, row.metric) == key and row.case.endswith(wanted.case)
    ]
    promise = f"{wanted.workload} {wanted.case}: {wanted.metric}, times {wanted.peer}"
    return _judge(promise, ">=", wanted.least, values[0] if values else None)


def _middle(samples: Sequence[Sample], workload: str, case: str, metric: str) -> float | None:
    values = [
        sample.values[metric]
        for sample in samples
        if (sample.workload, sample.server) == (workload, OURS)
        and sample.case.endswith(case)
        and metric in sample.values
    ]
    return median(values) if values else None


def _streams(samples: Sequence[Sample], case: str, requests: str) -> Check:
    rate = _middle(samples, "W5", f"{case}, 64 connections", "streams/s")
    single = _middle(samples, "W1", "100 B, 64 connections", "messages/s")
    share = rate / single if rate is not None and single else None
    promise = f"W5 {case} ({requests}): streams/s, share of W1's messages/s"
    return _judge(promise, ">=", STREAMS_SHARE_MIN, share)


def _stalled(samples: Sequence[Sample]) -> Check:
    """A stalled reader is felt if the others' usual p99 with it is above the worst without it."""
    mine = [s for s in samples if s.workload == "W4" and s.server == OURS]
    beside = [s.values["p99 ms"] for s in mine if s.case.endswith("stopped reading")]
    without = [s.values["p99 ms"] for s in mine if s.case.endswith("1 KiB")]
    value = median(beside) / max(without) if beside and without else None
    promise = "W4 one reader stalls: p99 of the others, worst without it = 1"
    return _judge(promise, "<=", 1.0, value)
