"""A plot without a plotting library: one line for each case, one dot for each peer's ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from bench.figures import Row

COLOURS: Final = ("#8c564b", "#d62728", "#1f77b4", "#17becf", "#2ca02c", "#bcbd22")
SVG: Final = "http://www.w3.org/2000/svg"
FONT: Final = 'font-family="sans-serif" font-size="12"'
TITLE: Final = "Ours, times the peer (right of 1: ours is better)"
WIDTH: Final = 900
LEFT: Final = 380
RIGHT: Final = 30
TOP: Final = 70
STEP: Final = 20
LOW: Final = 0.1
HIGH: Final = 1000.0


def place(ratio: float) -> float:
    """Return where a ratio lies on the logarithmic axis; beyond its ends it sticks to them."""
    held = min(HIGH, max(LOW, ratio))
    share = math.log(held / LOW) / math.log(HIGH / LOW)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def svg(rows: Sequence[Row], peers: Sequence[str]) -> str:
    """Return the plot of the rows' ratios, low to high as a line, the median as a dot."""
    cases = list(dict.fromkeys((row.workload, row.case) for row in rows))
    height = TOP + STEP * len(cases) + 20
    colour = dict(zip(peers, COLOURS, strict=False))
    parts = [
        f'<svg xmlns="{SVG}" width="{WIDTH}" height="{height}" {FONT}>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="10" y="18" font-size="14">{TITLE}</text>',
    ]
    parts += _legend(colour)
    parts += _axis(height)
    for n, (workload, case) in enumerate(cases):
        y = TOP + STEP * n + STEP / 2
        label = escape(f"{workload} {case}")
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{label}</text>')
        for row in rows:
            if (row.workload, row.case) == (workload, case):
                parts += _dot(row, y, colour.get(row.peer, "black"))
    return "\n".join([*parts, "</svg>", ""])


def _legend(colour: dict[str, str]) -> list[str]:
    parts = []
    for n, (peer, paint) in enumerate(colour.items()):
        x = 20 + n * 140
        parts.append(f'<circle cx="{x}" cy="36" r="5" fill="{paint}"/>')
        parts.append(f'<text x="{x + 10}" y="40">{escape(peer)}</text>')
    return parts


def _axis(height: int) -> list[str]:
    parts = []
    for tick in (0.1, 1, 10, 100, 1000):
        x = place(tick)
        paint = "black" if tick == 1 else "#cccccc"
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{height - 20}" stroke="{paint}"/>'
        )
        parts.append(f'<text x="{x:.1f}" y="{TOP - 6}" text-anchor="middle">{tick:g}</text>')
    return parts


def _dot(row: Row, y: float, paint: str) -> list[str]:
    left, middle, right = (place(v) for v in (row.ratio_low, row.ratio, row.ratio_high))
    title = f"<title>{escape(row.peer)}: {row.ratio:.3g}</title>"
    return [
        f'<line x1="{left:.1f}" y1="{y}" x2="{right:.1f}" y2="{y}" stroke="{paint}"/>',
        f'<circle cx="{middle:.1f}" cy="{y}" r="5" fill="{paint}">{title}</circle>',
    ]
