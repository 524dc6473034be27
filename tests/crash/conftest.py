"""What the crash tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faults import Faulty, FaultyServer


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[Faulty]:
    """Make servers with rules for their disk calls; all are killed at the end of the test."""
    made: list[FaultyServer] = []

    def make(rules: str, *flags: str) -> FaultyServer:
        made.append(FaultyServer(tmp_path, rules, *flags))
        return made[-1]

    yield make
    for server in made:
        server.kill_all()
