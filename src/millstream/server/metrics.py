"""Metrics: plain numbers on the hot path, Prometheus text at scrape time.

Names are ``millstream_<thing>_<unit>[_total]``. There is no label per stream: a server with a
million streams must stay scrapable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
"""Media type of what `Metrics.render` returns."""

Read = Callable[[], float]
"""Returns a number's present value."""


class Counters:
    """What the edge counts. Whoever counts adds to the attributes; nothing else happens then."""

    __slots__ = (
        "connections",
        "connections_accepted",
        "connections_refused",
        "connections_stalled",
        "requests_refused",
        "requests_timed_out",
        "responses",
    )

    def __init__(self) -> None:
        """Start at zero."""
        self.connections = 0
        self.connections_accepted = 0
        self.connections_refused = 0
        self.connections_stalled = 0
        self.requests_refused = 0
        self.requests_timed_out = 0
        self.responses = [0] * 6
        """By the first digit of the status."""


class Distribution:
    """A histogram as plain numbers, for durations in seconds or sizes in bytes."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Count into buckets with these upper bounds, ascending, and one above them."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Metrics(Collector):
    """The registry of one server: knows where to read each number, and reads it when scraped."""

    def __init__(self) -> None:
        """Start without metrics."""
        self._families: dict[str, Callable[[], Metric]] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    @property
    def names(self) -> Sequence[str]:
        """Every metric's name as it is scraped, in the order they were added."""
        return tuple(self._families)

    def add_counter(self, name: str, text: str, read: Read) -> None:
        """Offer a number that only grows; `name` ends in ``_total``."""
        _check(name, is_total=True)
        self._add(name, lambda: CounterMetricFamily(name, text, value=read()))

    def add_counters(
        self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]]
    ) -> None:
        """Offer growing numbers that differ in one label with few values."""
        _check(name, is_total=True)

        def family() -> Metric:
            metric = CounterMetricFamily(name, text, labels=[label])
            for value, number in read().items():
                metric.add_metric([value], number)
            return metric

        self._add(name, family)

    def add_gauge(self, name: str, text: str, read: Read) -> None:
        """Offer a number that goes up and down."""
        _check(name, is_total=False)
        self._add(name, lambda: GaugeMetricFamily(name, text, value=read()))

    def add_distribution(self, name: str, text: str, distribution: Distribution) -> None:
        """Offer a histogram."""
        _check(name, is_total=False)

        def family() -> Metric:
            running = 0
            buckets: list[tuple[str, float]] = []
            bounds = [*(repr(float(bound)) for bound in distribution.bounds), "+Inf"]
            for bound, count in zip(bounds, distribution.counts, strict=True):
                running += count
                buckets.append((bound, running))
            return HistogramMetricFamily(name, text, buckets=buckets, sum_value=distribution.total)

        self._add(name, family)

    def render(self) -> bytes:
        """Read every number and return the scrape."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Read every number (for the Prometheus registry)."""
        return [family() for family in self._families.values()]

    def _add(self, name: str, family: Callable[[], Metric]) -> None:
        if name in self._families:
            raise ValueError(f"metric {name} is offered twice")
        self._families[name] = family


def add_edge_metrics(metrics: Metrics, counters: Counters) -> None:
    """Offer what the edge counts."""
    metrics.add_gauge(
        "millstream_connections", "Open client connections.", lambda: counters.connections
    )
    metrics.add_counter(
        "millstream_connections_accepted_total",
        "Connections accepted since the start.",
        lambda: counters.connections_accepted,
    )
    metrics.add_counter(
        "millstream_connections_refused_total",
        "Connections refused because connections_max were open.",
        lambda: counters.connections_refused,
    )
    metrics.add_counter(
        "millstream_connections_stalled_total",
        "Connections cut because the client did not read its answer.",
        lambda: counters.connections_stalled,
    )
    metrics.add_counter(
        "millstream_requests_refused_total",
        "Requests the edge refused before any handler: malformed, too large, too slow.",
        lambda: counters.requests_refused,
    )
    metrics.add_counter(
        "millstream_requests_timed_out_total",
        "Requests whose header or body came too slowly.",
        lambda: counters.requests_timed_out,
    )
    metrics.add_counters(
        "millstream_responses_total",
        "Answers by class of status.",
        "status",
        lambda: {f"{digit}xx": counters.responses[digit] for digit in range(2, 6)},
    )


def _check(name: str, *, is_total: bool) -> None:
    if not name.startswith("millstream_") or name.endswith("_total") != is_total:
        raise ValueError(f"metric name {name} does not fit its kind")
