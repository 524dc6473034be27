"""The simulated world, many seeds in a row; ``--world-seeds`` says how many."""

from __future__ import annotations

from millstream.testing.world import World

FIRST = 1000
STEPS = 300


def test_no_seed_breaks_a_promise(world_seeds: int) -> None:
    for seed in range(FIRST, FIRST + world_seeds):
        print(World(seed).run(STEPS).text())


def test_no_long_life_breaks_a_promise(world_seeds: int) -> None:
    for seed in range(FIRST, FIRST + world_seeds // 50):
        print(World(seed).run(10 * STEPS).text())
