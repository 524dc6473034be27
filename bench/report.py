"""The results of a run as JSON, as a Markdown table and as a plot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from bench.checks import Check, checks
from bench.figures import METRICS, OURS, PEERS, Row, Sample, cases, figure, of, ratio
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
  publishes for NATS, which have no batch request here.
* W3: redis-everysec and nats-always are left out, since reading does not depend on the sync. Node
  builds each answer whole in memory; its 16 readers read a shorter stream.
* W4: an event is finished when it is acked and has reached every subscriber; only then the next one
  of its connection is sent. Followed by SSE, by XREAD BLOCK asked again after each reply, and by
  JetStream push consumers without acks. node-file is left out above 100 subscribers, where one
  event takes it seconds. Redis is left out of the stalled reader: it sends only what was asked for.
* W5: Redis makes a stream with its first XADD, one request instead of two. Node and NATS make fewer
  streams, because all would take minutes, and are left out of the restart.
* W6: redis-everysec and nats-default are left out, since an idle connection does not depend on the
  sync.
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


def write(
    folder: Path,
    rows: Sequence[Row],
    samples: Sequence[Sample],
    facts: Mapping[str, float],
    title: str,
    failures: Sequence[str] = (),
) -> str:
    """Write latest.json, checks.json, latest.svg and latest.md; return the Markdown.

    `failures` tells which measurements of peers are missing, and why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    held = checks(rows, samples, facts)
    text = markdown(samples, held, facts, title)
    if failures:
        text += "\n## What failed\n\n" + "".join(f"* {line}\n" for line in failures)
    (folder / "latest.json").write_bytes(_json(rows))
    (folder / "checks.json").write_bytes(_json(held))
    (folder / "latest.svg").write_text(svg(main_rows(rows), PEERS))
    (folder / "latest.md").write_text(text)
    return text


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def main_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the metric that each case is about."""
    found: list[Row] = []
    for row in rows:
        have = {r.metric for r in rows if (r.workload, r.case) == (row.workload, row.case)}
        if row.metric == next((metric for metric in MAIN if metric in have), None):
            found.append(row)
    return found


def markdown(
    samples: Sequence[Sample], held: Sequence[Check], facts: Mapping[str, float], title: str
) -> str:
    """Return the whole report."""
    parts = [f"# Measured side by side\n\n{title}\n"]
    for workload in sorted({sample.workload for sample in samples}):
        parts.append(f"## {workload}: {TITLES[workload]}\n")
        parts.append(_table([s for s in samples if s.workload == workload]))
    parts.append("## Promises\n\n" + _promises(held))
    if facts:
        lines = [f"* {name}: {number(value)}" for name, value in facts.items()]
        parts.append("## Does the cost grow?\n\n" + "\n".join(lines) + "\n")
    parts.append("## How to read it\n\n" + NOTES)
    return "\n".join(parts)


def _table(samples: Sequence[Sample]) -> str:
    metrics = [m for m in METRICS if any(m in sample.values for sample in samples)]
    head = ["case", "server", *metrics, "ours is better by", "generator"]
    lines = [_line(head), _line(["---"] * len(head))]
    for workload, case in cases(samples):
        ours = of(samples, workload, case, OURS)
        for server in (OURS, *PEERS):
            found = of(samples, workload, case, server)
            if found:
                cells = [_cell(found, metric) for metric in metrics]
                name = f"**{server}**" if server == OURS else server
                name += f" ({found[0].note})" if found[0].note else ""
                better = "" if server == OURS or not ours else _better(ours, found)
                lines.append(_line([case, name, *cells, better, _share(found)]))
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


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
    lines = [_line(["promise", "limit", "measured", ""]), _line(["---"] * 4)]
    for check in held:
        value = number(check.measured) if check.measured is not None else ""
        word = f"**{check.verdict}**" if check.verdict == "missed" else check.verdict
        lines.append(_line([check.promise, check.limit, value, word]))
    return "\n".join(lines) + "\n"
