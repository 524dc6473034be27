"""Globs take whole segments, and any number of them for two stars."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.subscriptions import glob

CASES = [
    ("events/*", "events/a", True),
    ("events/*", "events", False),
    ("events/*", "events/a/b", False),
    ("events/*", "other/a", False),
    ("events/**", "events", True),
    ("events/**", "events/a", True),
    ("events/**", "events/a/b/c", True),
    ("events/**", "eventsx/a", False),
    ("**", "a", True),
    ("**", "a/b/c", True),
    ("*", "a", True),
    ("*", "a/b", False),
    ("**/log", "log", True),
    ("**/log", "a/b/log", True),
    ("**/log", "a/b/logs", False),
    ("a/**/z", "a/z", True),
    ("a/**/z", "a/b/c/z", True),
    ("a/**/z", "a/b/c", False),
    ("a/*/**/z", "a/z", False),
    ("a/*/**/z", "a/b/z", True),
    ("**/a/**/a", "a/b/a/c/a", True),
    ("a/b", "a/b", True),
    ("a/b", "a/b/c", False),
    ("a.b/c+", "a.b/c+", True),
    ("a.b", "axb", False),
]


@pytest.mark.parametrize("pattern,path,expected", CASES)
def test_a_pattern_takes_in_what_it_should(pattern: str, path: str, expected: bool) -> None:
    assert glob.matches(glob.split(pattern), glob.split(path)) is expected


SEGMENTS = st.sampled_from(["a", "b", "*", "**"])
PLAIN = st.sampled_from(["a", "b", "c"])


@given(st.lists(SEGMENTS, min_size=1, max_size=6), st.lists(PLAIN, min_size=1, max_size=6))
def test_matching_agrees_with_a_regular_expression(pattern: list[str], path: list[str]) -> None:
    parts = {"*": r"[^/]+/", "**": r"(?:[^/]+/)*"}
    expression = "".join(parts.get(each, re.escape(each) + "/") for each in pattern)
    expected = re.fullmatch(expression, "/".join(path) + "/") is not None
    assert glob.matches(tuple(pattern), tuple(path)) is expected


def test_many_double_stars_cost_no_explosion() -> None:
    pattern = ("**", "a") * 32
    start = time.process_time()
    assert not glob.matches(pattern, ("a",) * 400 + ("b",))
    assert time.process_time() - start < 1


@pytest.mark.parametrize("pattern", ["a/b*", "*x/a", "***", "a//b", "/a", "a/", ""])
def test_stars_inside_a_segment_and_empty_segments_are_faults(pattern: str) -> None:
    assert glob.fault(pattern) is not None


@pytest.mark.parametrize("pattern", ["a", "*", "**", "a/*/b", "a/**", "**/b"])
def test_globs_have_no_fault(pattern: str) -> None:
    assert glob.fault(pattern) is None


def test_a_pattern_of_too_many_segments_is_a_fault() -> None:
    assert glob.fault("/".join(["a"] * 65)) is not None
