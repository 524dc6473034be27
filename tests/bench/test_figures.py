import math

import pytest

from bench.figures import PEERS, Row, Sample, percentile, ratio, rows


def sample(server: str, turn: int, **values: float) -> Sample:
    named = {{"rate": "messages/s", "p99": "p99 ms"}[key]: value for key, value in values.items()}
    return Sample("W1", "case", server, turn, named, 0.25 * (turn + 1))


def only(found: list[Row], peer: str, metric: str) -> Row:
    (row,) = [row for row in found if (row.peer, row.metric) == (peer, metric)]
    return row


@pytest.mark.parametrize("share, value", [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_a_percentile_is_the_value_below_which_that_share_lies(share: float, value: float) -> None:
    assert percentile(list(range(100, 0, -1)), share) == value


def test_a_percentile_of_nothing_is_no_number() -> None:
    assert math.isnan(percentile([], 0.5))


def test_more_is_better_for_a_rate_and_less_for_a_latency() -> None:
    assert ratio("messages/s", 20, 10) == 2
    assert ratio("p99 ms", 5, 10) == 2


def test_a_peer_at_zero_makes_no_division_fail() -> None:
    assert ratio("messages/s", 1, 0) == math.inf
    assert ratio("messages/s", 0, 0) == 1


def test_a_row_holds_the_median_of_the_ratios_of_each_turn() -> None:
    # The ratio of the medians would be 3.
    ours = [sample("millstream", n, rate=rate) for n, rate in enumerate((100, 10, 60))]
    theirs = [sample("redis-always", n, rate=rate) for n, rate in enumerate((50, 10, 20))]
    row = only(rows([*theirs, *ours]), "redis-always", "messages/s")
    assert (row.ratio, row.ratio_low, row.ratio_high) == (2, 1, 3)
    assert (row.ours, row.ours_low, row.ours_high) == (60, 10, 100)
    assert (row.theirs, row.repeats) == (20, 3)
    assert row.generator_share_ours == 0.5


def test_only_what_both_have_measured_is_compared() -> None:
    samples = [
        sample("millstream", 0, rate=10.0, p99=3.0),
        sample("nats-always", 0, rate=5.0),
        sample("node-file", 0, p99=math.nan),
    ]
    assert {(row.peer, row.metric) for row in rows(samples)} == {("nats-always", "messages/s")}


def test_peers_come_in_one_order() -> None:
    samples = [sample(name, 0, rate=1.0) for name in (*reversed(PEERS), "millstream")]
    assert [row.peer for row in rows(samples)] == list(PEERS)
