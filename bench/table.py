"""The short table of a run: its main cases and which promises hold; and its place in a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bench.checks import Check
from bench.figures import OURS, PEERS, Row, rows
from bench.report import SHARE_MAX, Outcome, line, number, promises

BEGIN: Final = "<!-- begin: written by make bench -->"
END: Final = "<!-- end: written by make bench -->"

ABOUT: Final = f"""\
Medians of one run; in brackets how many times better ours is (more than 1: ours is better). Ours
acks after `fdatasync`, as do node-file, redis-always and nats-always; the others lose what they
acked last with the power. `!` marks a row in which the load generator used more than {SHARE_MAX:g}
of its core, and may have been the limit. [docs/performance.md](docs/performance.md) says how it is
measured.
"""


class Shown(NamedTuple):
    """A case that the table has a row for, by the end of its name, and the metric it shows."""

    workload: str
    case: str
    metric: str


SHOWN: Final = (
    Shown("W1", "100 B, 1 connections", "messages/s"),
    Shown("W1", "100 B, 64 connections", "messages/s"),
    Shown("W1", "100 B, 256 connections", "messages/s"),
    Shown("W1", "1024 B, 64 connections", "messages/s"),
    Shown("W2", "1000 x 100 B, 4 connections", "messages/s"),
    Shown("W2", "1000 x 1024 B, 4 connections", "messages/s"),
    Shown("W3", "1 reader", "MB/s"),
    Shown("W3", "16 readers", "MB/s"),
    Shown("W4", "1 subscribers, 1 in flight", "deliveries/s"),
    Shown("W4", "100 subscribers, 1 in flight", "deliveries/s"),
    Shown("W4", "100 subscribers, 16 in flight", "deliveries/s"),
    Shown("W4", "100 subscribers, 16 in flight", "p99 ms"),
    Shown("W4", "1000 subscribers, 16 in flight", "deliveries/s"),
    Shown("W5", "create and append, 64 connections", "streams/s"),
    Shown("W5", "create with its first message, 64 connections", "streams/s"),
    Shown("W5", "at rest", "bytes/stream"),
    Shown("W5", "restart", "restart s"),
    Shown("W6", "idle subscribers", "W1 kept"),
    Shown("W6", "idle subscribers", "KB/connection"),
)


def compact(found: Outcome) -> str:
    """Return the main cases as one table, and a summary of the promises below it."""
    compared = rows(found.samples)
    peers = [peer for peer in PEERS if any(row.peer == peer for row in compared)]
    head = ["", "case", "", f"**{OURS}**", *peers]
    lines = [line(head), line(["---"] * 3 + ["---:"] * (len(head) - 3))]
    for shown in SHOWN:
        beside = {row.peer: row for row in compared if _is_shown(row, shown)}
        if beside:
            first = next(iter(beside.values()))
            mark = " !" if first.generator_share_ours > SHARE_MAX else ""
            own = f"**{number(first.ours)}**{mark}"
            cells = [_theirs(beside[peer]) if peer in beside else "" for peer in peers]
            lines.append(line([shown.workload, first.case, shown.metric, own, *cells]))
    parts = [found.title + ".", ABOUT + "\n" + "\n".join(lines), summary(promises(found))]
    return "\n\n".join(parts) + "\n"


def _is_shown(row: Row, shown: Shown) -> bool:
    if (row.workload, row.metric) != (shown.workload, shown.metric):
        return False
    # "1 reader" is the end of "256 MiB, 1 reader", but "1 subscribers" none of "101 subscribers".
    return row.case == shown.case or row.case.endswith((f", {shown.case}", f" {shown.case}"))


def _theirs(row: Row) -> str:
    mark = " !" if row.generator_share_theirs > SHARE_MAX else ""
    return f"{number(row.theirs)} ({number(row.ratio)} x){mark}"


def summary(held: Sequence[Check]) -> str:
    """Say how many promises were met, and name those that were missed or not measured."""
    missed = [check for check in held if check.verdict == "missed"]
    unknown = [check for check in held if check.verdict == "not measured"]
    met = len(held) - len(missed) - len(unknown)
    lines = [f"Promises met: {met} of {len(held)}."]
    lines += [
        f"* missed: {check.promise}: {number(check.measured)}, promised {check.limit}"
        for check in missed
        if check.measured is not None
    ]
    lines += [f"* not measured: {check.promise}" for check in unknown]
    return "\n".join([lines[0], "", *lines[1:]] if lines[1:] else lines)


def put_into(document: str, table: str) -> str:
    """Return the document with the table between its two marks, and nothing else changed.

    Raises ValueError unless both marks are there once, the first one first.
    """
    if (document.count(BEGIN), document.count(END)) != (1, 1):
        raise ValueError(f"the document must hold {BEGIN} and {END} once each")
    before, _, rest = document.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not end:
        raise ValueError(f"{END} stands before {BEGIN}")
    return f"{before}{BEGIN}\n\n{table.strip()}\n\n{END}{behind}"
