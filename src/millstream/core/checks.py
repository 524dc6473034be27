"""Checks that stay on: a broken invariant stops the work before it reaches the disk."""

from __future__ import annotations


class InvariantBroken(AssertionError):
    """The program, not its user, is wrong. ``number`` is the entry in docs/invariants.md."""

    def __init__(self, number: str, detail: str) -> None:
        """Keep the number apart from the words, for reports."""
        super().__init__(f"{number}: {detail}")
        self.number = number
        self.detail = detail


def require(condition: bool, number: str, detail: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise InvariantBroken unless ``condition`` holds; not switched off by ``python -O``."""
    if not condition:
        raise InvariantBroken(number, detail)
