import time

import click
import pytest

from millstream.cli.options import Duration, Since, duration_s


@pytest.mark.parametrize(
    "text,seconds",
    [("90", 90), ("45s", 45), ("2m", 120), ("12h", 43_200), ("30d", 2_592_000), ("1h30m", 5400)],
)
def test_durations_are_numbers_with_units(text: str, seconds: int) -> None:
    assert duration_s(text) == seconds
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "d", "-1d", "1.5h", "1y", "30 d", "٣d"])
def test_other_texts_are_no_durations(text: str) -> None:
    assert duration_s(text) is None
    with pytest.raises(click.BadParameter, match="not a duration"):
        Duration().convert(text, None, None)


def test_since_a_time_is_that_time() -> None:
    assert Since().convert("1970-01-01T00:00:01Z", None, None) == 1000
    assert Since().convert("1970-01-01T01:00:01+01:00", None, None) == 1000


def test_since_a_duration_is_that_long_ago() -> None:
    before = time.time_ns() // 1_000_000
    assert 0 <= Since().convert("1h", None, None) - (before - 3_600_000) < 60_000


@pytest.mark.parametrize("text", ["yesterday", "2026-01-31T12:00:00"])
def test_since_needs_a_duration_or_a_time_with_its_zone(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Since().convert(text, None, None)
