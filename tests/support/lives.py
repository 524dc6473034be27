"""One life of a simulated server, for the tests of the simulation itself."""

from __future__ import annotations

import random

from millstream.testing.files_memory import MemoryDisk
from millstream.testing.seeded_loop import SeededLoop
from millstream.testing.server_life import Life


def start_life(disk: MemoryDisk) -> Life:
    """Start on ``disk``, always with the same delays."""
    rng = random.Random(3)
    return Life(disk, SeededLoop(rng, 1_000_000), rng, bytes(16))
