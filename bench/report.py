"""The results of a run as JSON, as a Markdown table and as a plot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from bench.checks import Check, checks
from bench.figures import (
    METRICS,
    OURS,
    PEERS,
    Row,
    Sample,
    cases,
    figure,
    notes,
    of,
    ratio,
    rows,
)
from bench.plot import svg

SHARE_MAX: Final = 0.9
"""Above this share of a core the load generator may have been the limit."""

MAIN: Final = ("messages/s", "deliveries/s", "streams/s", "MB/s", "W1 kept", "bytes/stream",
               "restart s")  # fmt: skip
"""What a case is about: the first of these that it has."""

TITLES: Final = {
    "W1": "single appends",
    "W2": "batches",
    "W3": "catch-up from the beginning",
    "W4": "live fan-out",
    "W5": "many streams",
    "W6": "many idle subscribers",
}

NOTES: Final = """\
* Each figure is the median of the repeats, with the lowest and the highest in brackets. The last
  but one column is how many times better ours is (more than 1: ours is better), the median of the
  ratios within each repeat.
* Ours acks after `fdatasync`, always. So do node-file, redis-always and nats-always. redis-everysec
  syncs once a second, nats-default every two minutes, node-memory never: what they acked last is
  lost with the power.
* The generator column is the load generator's share of one core; `!` marks more than 0.9, where
  the generator and not the server may be the limit.
* While one server is measured the others are stopped (SIGSTOP), and dirty pages are flushed first.
* W1: node-file works off the appends to one stream one by one, under a lock; to show it at its
  best, Node is also measured on 64 streams.
* W2: one JSON array a request for ours and Node; pipelined XADD for Redis; pipelined acked
  publishes for NATS, which have no batch request here. nats-always gets a quarter of the
  connections: it syncs message by message, at the same rate, and all would take it seconds.
* W3: redis-everysec and nats-always are left out, since reading does not depend on the sync. Node
  builds each answer whole in memory; its 16 readers read a shorter stream. The other servers' 16
  readers are measured for a second or two from the start of the stream, not to its end.
* W4: an event is finished when it is acked and has reached every subscriber; only then the next one
  of its connection is sent. Followed by SSE, by XREAD BLOCK asked again after each reply, and by
  JetStream push consumers without acks. node-file is left out above 100 subscribers, where one
  event takes it seconds. Redis is left out of the stalled reader: it sends only what was asked for.
* W5: "create and append" is two requests a stream: PUT then POST for ours and Node, create then
  publish for NATS. "Create with its first message" is one: PUT with a body; NATS has none. Redis
  makes a stream with its first XADD, one request, and does the same in both cases. Each case makes
  half of the streams. Node and NATS make fewer, because all would take minutes, and are left out of
  the restart. node-file gets 2 connections: on more it answers some appends to new streams with
  404, because it closes files that it is still writing to.
* W6: redis-everysec and nats-default are left out, since an idle connection does not depend on the
  sync. NATS takes 1,000 consumers a stream by default; here it is set to take more. node-file gets
  2,000 subscribers: beside 10,000 idle ones it answers an append after 15 s.
* Cost of growth: CPU of the server's own process. Snapshots are written by a child process at low
  priority; what they took is told apart. Everywhere else child processes count.
* Redis runs without snapshots and rewrites of its file, which would only cost it time.
"""


def number(value: float) -> str:
    """Return a figure with three or four digits that matter."""
    if not math.isfinite(value):
        return "-"
    if abs(value) >= 100_000:
        return f"{value / 1000:,.0f}k"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def line(cells: Sequence[str]) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a run found: samples and single facts, what failed and why, and what it all took."""

    title: str
    samples: Sequence[Sample]
    facts: Mapping[str, float] = {}
    failures: Sequence[str] = ()
    spent: Mapping[tuple[str, str], float] = {}
    """Seconds by part of the run and server."""


def write(folder: Path, found: Outcome) -> str:
    """Write latest.json, checks.json, latest.svg and latest.md; return the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    compared, held = rows(found.samples), promises(found)
    text = markdown(found, held)
    (folder / "latest.json").write_bytes(_json(compared))
    (folder / "checks.json").write_bytes(_json(held))
    (folder / "latest.svg").write_text(svg(main_rows(compared), PEERS))
    (folder / "latest.md").write_text(text)
    return text


def promises(found: Outcome) -> list[Check]:
    """Hold every promise against what the run found."""
    return checks(rows(found.samples), found.samples, found.facts)


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def main_rows(compared: Sequence[Row]) -> list[Row]:
    """Return the rows of the metric that each case is about."""
    found: list[Row] = []
    for row in compared:
        have = {r.metric for r in compared if (r.workload, r.case) == (row.workload, row.case)}
        if row.metric == next((metric for metric in MAIN if metric in have), None):
            found.append(row)
    return found


def markdown(found: Outcome, held: Sequence[Check]) -> str:
    """Return the whole report."""
    parts = [f"# Measured side by side\n\n{found.title}\n"]
    for workload in sorted({sample.workload for sample in found.samples}):
        parts.append(f"## {workload}: {TITLES[workload]}\n")
        parts.append(_table([s for s in found.samples if s.workload == workload]))
    parts.append("## Promises\n\n" + _promises(held))
    if found.facts:
        lines = [f"* {name}: {number(value)}" for name, value in found.facts.items()]
        parts.append("## Does the cost grow?\n\n" + "\n".join(lines) + "\n")
    parts.append("## How to read it\n\n" + NOTES)
    if found.spent:
        parts.append("## What the run took, in seconds\n\n" + _spent(found.spent))
    if found.failures:
        lines = [f"* {failure}" for failure in found.failures]
        parts.append("## What failed\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _spent(spent: Mapping[tuple[str, str], float]) -> str:
    servers = [name for name in (OURS, *PEERS) if any(server == name for _, server in spent)]
    head = ["part", *servers, "all"]
    lines = [line(head), line(["---"] * len(head))]
    for part in dict.fromkeys(part for part, _ in spent):
        each = [spent.get((part, name), 0.0) for name in servers]
        lines.append(line([part, *(f"{value:.1f}" for value in (*each, sum(each)))]))
    return "\n".join(lines) + "\n"


def _table(samples: Sequence[Sample]) -> str:
    metrics = [m for m in METRICS if any(m in sample.values for sample in samples)]
    head = ["case", "server", *metrics, "ours is better by", "generator"]
    lines = [line(head), line(["---"] * len(head))]
    for workload, case in cases(samples):
        ours = of(samples, workload, case, OURS)
        for server in (OURS, *PEERS):
            found = of(samples, workload, case, server)
            if found:
                cells = [_cell(found, metric) for metric in metrics]
                name = f"**{server}**" if server == OURS else server
                name += f" ({notes(found)})" if notes(found) else ""
                better = "" if server == OURS or not ours else _better(ours, found)
                lines.append(line([case, name, *cells, better, _share(found)]))
    return "\n".join(lines) + "\n"


def _cell(samples: Sequence[Sample], metric: str) -> str:
    values = [sample.values[metric] for sample in samples if metric in sample.values]
    if not values:
        return ""
    found = figure(values)
    if len(values) == 1:
        return number(found.middle)
    return f"{number(found.middle)} ({number(found.low)}..{number(found.high)})"


def _better(ours: Sequence[Sample], theirs: Sequence[Sample]) -> str:
    for metric in MAIN:
        left = {s.turn: s.values[metric] for s in ours if metric in s.values}
        right = {s.turn: s.values[metric] for s in theirs if metric in s.values}
        turns = left.keys() & right.keys()
        if turns:
            return f"{number(median(ratio(metric, left[t], right[t]) for t in turns))} x"
    return ""


def _share(samples: Sequence[Sample]) -> str:
    share = median(sample.generator_share for sample in samples)
    return f"{share:.2f}{' !' if share > SHARE_MAX else ''}" if share else ""


def _promises(held: Sequence[Check]) -> str:
    lines = [line(["promise", "limit", "measured", ""]), line(["---"] * 4)]
    for check in held:
        value = number(check.measured) if check.measured is not None else ""
        word = f"**{check.verdict}**" if check.verdict == "missed" else check.verdict
        lines.append(line([check.promise, check.limit, value, word]))
    return "\n".join(lines) + "\n"
