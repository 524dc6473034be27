import math
from typing import Any

import pytest

from millstream.client.errors import BadOption
from millstream.client.options import NO_RETRY, Retry, checked_timeout, checked_url


@pytest.mark.parametrize(
    "field,value",
    [
        ("max_retries", -1),
        ("initial_delay_s", 0),
        ("initial_delay_s", math.inf),
        ("max_delay_s", 0.01),
        ("max_delay_s", math.nan),
        ("multiplier", 0.9),
        ("multiplier", math.inf),
        ("deadline_s", 0),
    ],
)
def test_a_field_out_of_range_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(BadOption, match=field):
        Retry(**{field: value})


def test_limits_that_are_none_or_at_the_edge_are_fine() -> None:
    assert Retry(max_retries=None, deadline_s=None).max_retries is None
    assert Retry(initial_delay_s=1, max_delay_s=1, multiplier=1).multiplier == 1
    assert NO_RETRY.max_retries == 0


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
def test_a_time_out_is_a_positive_finite_number(value: float) -> None:
    with pytest.raises(BadOption, match="timeout_s"):
        checked_timeout(value)
    assert checked_timeout(0.5) == 0.5


def test_a_server_is_named_by_an_http_url() -> None:
    assert checked_url("https://h.test") == "https://h.test"
    with pytest.raises(BadOption, match="url"):
        checked_url("h.test:80")
