"""Checks that stay on say which invariant broke."""

import subprocess
import sys

import pytest

from millstream.core.checks import InvariantBroken, require


def test_a_condition_that_holds_costs_nothing() -> None:
    require(True, "I-05", "never seen")


def test_a_broken_one_names_its_number() -> None:
    with pytest.raises(InvariantBroken, match=r"^I-05: messages follow") as caught:
        require(False, "I-05", "messages follow")
    assert (caught.value.number, caught.value.detail) == ("I-05", "messages follow")


def test_an_optimised_python_does_not_switch_it_off() -> None:
    code = "from millstream.core.checks import require; require(False, 'I-01', 'x')"
    ended = subprocess.run(
        [sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "InvariantBroken: I-01: x" in ended.stderr
