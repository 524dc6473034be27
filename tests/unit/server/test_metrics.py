import pytest

from millstream.server.metrics import Counters, Distribution, Metrics, add_edge_metrics


def test_numbers_are_read_when_they_are_scraped() -> None:
    metrics, counters = Metrics(), Counters()
    add_edge_metrics(metrics, counters)
    counters.responses[2] += 3
    counters.connections = 7
    text = metrics.render().decode()
    assert 'millstream_responses_total{status="2xx"} 3.0' in text
    assert "millstream_connections 7.0" in text
    counters.connections = 8
    assert "millstream_connections 8.0" in metrics.render().decode()


def test_every_offered_name_is_scraped() -> None:
    metrics = Metrics()
    add_edge_metrics(metrics, Counters())
    text = metrics.render().decode()
    assert all(f"\n{name}" in text for name in metrics.names)


def test_a_distribution_is_scraped_as_a_histogram() -> None:
    metrics, sync = Metrics(), Distribution((0.001, 0.01))
    metrics.add_distribution("millstream_sync_seconds", "Time of a sync.", sync)
    for value in (0.0005, 0.001, 0.005, 5.0):
        sync.observe(value)
    text = metrics.render().decode()
    assert 'millstream_sync_seconds_bucket{le="0.001"} 2.0' in text
    assert 'millstream_sync_seconds_bucket{le="0.01"} 3.0' in text
    assert 'millstream_sync_seconds_bucket{le="+Inf"} 4.0' in text
    assert "millstream_sync_seconds_sum 5.0065" in text


@pytest.mark.parametrize("name", ["appends_total", "millstream_appends"])
def test_a_counter_is_named_as_one(name: str) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Metrics().add_counter(name, "Appends.", lambda: 0)


def test_a_name_is_offered_once() -> None:
    metrics = Metrics()
    metrics.add_gauge("millstream_streams", "Streams.", lambda: 0)
    with pytest.raises(ValueError, match="twice"):
        metrics.add_gauge("millstream_streams", "Streams.", lambda: 0)
