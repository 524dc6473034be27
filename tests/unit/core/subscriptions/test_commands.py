"""Facts about a link say whether there is something to do."""

from millstream.core.offsets import ZERO, Position
from millstream.core.subscriptions.commands import LinkFacts


def test_messages_behind_the_cursor_are_pending() -> None:
    assert LinkFacts("a", True, ZERO, Position(5, 1)).has_pending


def test_a_cursor_at_the_end_has_nothing_pending() -> None:
    assert not LinkFacts("a", True, Position(5, 1), Position(5, 1)).has_pending
