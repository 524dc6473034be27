"""Globs over stream paths: ``*`` is one segment, ``**`` any number of them, also none."""

from __future__ import annotations

ONE = "*"
ANY = "**"
SEGMENTS_MAX = 64
"""More segments than this in a pattern are refused: nobody needs them, and matching stays cheap."""


def fault(pattern: str) -> str | None:
    """Return what is wrong with ``pattern``, or None when it is a glob."""
    segments = pattern.split("/")
    if len(segments) > SEGMENTS_MAX:
        return f"it has more than {SEGMENTS_MAX} segments"
    for segment in segments:
        if not segment:
            return "it has an empty segment"
        if "*" in segment and segment not in (ONE, ANY):
            return f"* and ** stand for whole segments, unlike in {segment!r}"
    return None


def matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Tell whether the segments of a path match the segments of a pattern.

    Takes time in proportion to the product of both lengths, however many ``**`` there are.
    """
    here = 0
    at = 0
    retry_pattern = -1
    retry_path = 0
    while at < len(path):
        if here < len(pattern) and pattern[here] == ANY:
            # Let it stand for nothing first; the place is kept to let it take one more later.
            retry_pattern, retry_path = here, at
            here += 1
        elif here < len(pattern) and (pattern[here] == ONE or pattern[here] == path[at]):
            here += 1
            at += 1
        elif retry_pattern >= 0:
            retry_path += 1
            here, at = retry_pattern + 1, retry_path
        else:
            return False
    return all(segment == ANY for segment in pattern[here:])


def split(text: str) -> tuple[str, ...]:
    """Return the segments of a path or a pattern."""
    return tuple(text.split("/"))
