"""What every test shares: markers by folder, the crash options, hypothesis profiles, a server."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from millstream.testing.process import ServerProcess
from tests.support.server import Servers

TESTS = Path(__file__).parent
FOLDER_MARKERS = ("integration", "crash", "conformance")

# A deadline would measure the machine, not the code. On a build machine the same code must give
# the same result; at a desk new examples are welcome. `--hypothesis-profile=long` searches on.
hypothesis.settings.register_profile(
    "default", deadline=None, max_examples=60, stateful_step_count=40
)
hypothesis.settings.register_profile(
    "ci", hypothesis.settings.get_profile("default"), derandomize=True, database=None
)
hypothesis.settings.register_profile(
    "long", hypothesis.settings.get_profile("default"), max_examples=3000
)
hypothesis.settings.load_profile("ci" if "CI" in os.environ else "default")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the Makefile say how long the crash tests and the simulation go on."""
    group = parser.getgroup("crash")
    group.addoption("--crash-cycles", type=int, default=20, help="kill-and-restart cycles")
    group.addoption("--crash-states", type=int, default=500, help="power-loss states to try")
    group.addoption("--world-seeds", type=int, default=100, help="seeds of the simulation")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the name of the folder it lives in, where that folder has a marker."""
    for item in items:
        if not item.path.is_relative_to(TESTS):
            continue
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in FOLDER_MARKERS:
            item.add_marker(folder)


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio; the server uses nothing else."""
    return "asyncio"


@pytest.fixture
def crash_cycles(request: pytest.FixtureRequest) -> int:
    """How often a crash test kills the server."""
    return int(request.config.getoption("--crash-cycles"))


@pytest.fixture
def crash_states(request: pytest.FixtureRequest) -> int:
    """How many power-loss states a crash test tries, at least."""
    return int(request.config.getoption("--crash-states"))


@pytest.fixture
def world_seeds(request: pytest.FixtureRequest) -> int:
    """How many seeds the simulated world runs through."""
    return int(request.config.getoption("--world-seeds"))


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Start servers with the flags a test wants; all are killed at its end."""
    with Servers(tmp_path) as started:
        yield started


@pytest.fixture
def server(servers: Servers) -> ServerProcess:
    """A running server with default settings on an empty directory."""
    return servers.start()


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One running server for all tests of a module that only use streams of their own."""
    with Servers(tmp_path_factory.mktemp("shared")) as started:
        yield started.start()
