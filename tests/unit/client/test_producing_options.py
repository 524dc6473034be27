from typing import Any

import pytest

from millstream.client.errors import BadOption
from millstream.client.producing_options import AutoClaim, ProducerOptions


@pytest.mark.parametrize(
    "field, value",
    [
        ("epoch", -1),
        ("max_batch_bytes", 0),
        ("max_batch_messages", 0),
        ("linger_ms", -0.1),
        ("linger_ms", float("nan")),
        ("max_in_flight", 0),
        ("max_buffered_bytes", 0),
        ("max_message_bytes", 0),
        ("delivery_timeout_s", 0),
        ("delivery_timeout_s", float("inf")),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(BadOption, match=field):
        ProducerOptions(**{field: value})


def test_a_claim_cannot_start_below_zero() -> None:
    with pytest.raises(BadOption, match="epoch"):
        AutoClaim(-1)


def test_a_message_that_could_never_fit_into_the_buffer_is_too_large() -> None:
    assert ProducerOptions(max_buffered_bytes=10).message_bytes_max == 10
    assert ProducerOptions(max_buffered_bytes=10, max_message_bytes=99).message_bytes_max == 10
    assert ProducerOptions(max_buffered_bytes=10, max_message_bytes=5).message_bytes_max == 5
