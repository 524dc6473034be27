"""Node with the locked packages of this folder, the npm client, and the reference server."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.run import Node, ensure_packages, machine_node, node_environment, wheel_node

HERE = Path(__file__).resolve().parent
NPM_S = 60.0

Npm = Callable[..., dict[str, Any]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lives here: it starts real servers."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("integration")


@pytest.fixture(scope="session")
def node() -> Node:
    """Node of the machine, else of the pinned wheel, with the packages installed."""
    found = machine_node() or wheel_node()
    ensure_packages(found, HERE)
    return found


@pytest.fixture
def npm(node: Node) -> Npm:
    """Call a verb of `client.mjs`; return what the npm client reported."""

    def call(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [node.node, str(HERE / "client.mjs"), *words],
            cwd=HERE,
            env=node_environment(node),
            capture_output=True,
            text=True,
            timeout=NPM_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    return call


@pytest.fixture(scope="module")
def reference_url(node: Node) -> Iterator[str]:
    """The URL of a Node reference server that runs for one module."""
    server = subprocess.Popen(
        [node.node, str(HERE / "server.mjs")],
        cwd=HERE,
        env=node_environment(node),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()
        assert server.stdout is not None
        server.stdout.close()
