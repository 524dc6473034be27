"""The simulated world keeps its promises for every seed, and one seed is one world."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from millstream.testing.world import World

STEPS = 300
SEEDS_PER_TEST = 8


@pytest.mark.parametrize("first", range(1, 33, SEEDS_PER_TEST))
def test_no_seed_breaks_a_promise(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        print(World(seed).run(STEPS).text())


def test_a_run_of_some_length_sees_much_of_the_world() -> None:
    reports = [World(seed).run(STEPS) for seed in range(60, 66)]
    assert sum(report.lives for report in reports) > 30
    assert sum(report.answers for report in reports) > 600
    assert sum(report.checks for report in reports) > 10_000


def test_one_seed_gives_one_trace_in_any_process() -> None:
    def digest(hash_seed: str) -> str:
        run = subprocess.run(
            [sys.executable, "-m", "millstream.testing.world", "--seed", "11", "--steps", "400"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout

    first = digest("1")
    assert "digest" in first
    assert first == digest("2") == World(11).run(400).text() + "\n"


def test_another_seed_gives_another_trace() -> None:
    assert World(11).run(50).digest != World(12).run(50).digest
