"""Commands and answers are values: they cannot change once made, and stand for themselves."""

import msgspec
import pytest

from millstream.core.offsets import ZERO
from millstream.core.producers.judge import Claim
from millstream.core.streams import commands
from millstream.core.streams.commands import DONE, EMPTY, Added, Append, Done, Duplicate

STRUCTS = [
    value
    for value in vars(commands).values()
    if isinstance(value, type)
    and issubclass(value, msgspec.Struct)
    and value.__module__ == commands.__name__
]


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_nothing_can_be_changed_on_its_way(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.frozen


def test_an_empty_body_is_no_message() -> None:
    assert (EMPTY.data, EMPTY.count, EMPTY.lengths) == (b"", 0, b"")


def test_an_append_is_plain_unless_more_is_said() -> None:
    plain = Append("a", "text/plain", EMPTY)
    assert (plain.is_closing, plain.claim, plain.stream_seq, plain.if_match) == (
        False,
        None,
        None,
        None,
    )


def test_answers_are_told_apart_by_what_they_are() -> None:
    claim = Claim("p", 0, 0)
    assert Done() == DONE
    added: object = Added(1, ZERO, is_closed=False, claim=claim, count=1)
    assert added != Duplicate(1, 0, claim, 0, is_closed=False)
