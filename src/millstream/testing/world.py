"""A whole world in one thread: server, disk, clock, clients, faults, all by one seed.

``python -m millstream.testing.world --seed 7 --steps 400`` runs one and prints its digest; the
same seed gives the same digest in any process. Exit status 1 means that a promise was broken.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import logging
import random
import sys
from typing import NamedTuple

from millstream.storage.damage import StorageError
from millstream.testing.crowd import Crowd
from millstream.testing.files_memory import MemoryDisk, Operation
from millstream.testing.seeded_loop import SeededLoop
from millstream.testing.server_life import Life, PowerLoss

START_MS = 1_700_000_000_000


class Broken(AssertionError):
    """A promise did not hold; the message has the seed, the step and what was broken."""


class Report(NamedTuple):
    """What a run came to."""

    seed: int
    steps: int
    digest: str
    lives: int
    answers: int
    checks: int

    def text(self) -> str:
        """Return one line for people."""
        return (
            f"seed {self.seed}: {self.steps} steps, {self.lives} lives, {self.answers} answers,"
            f" {self.checks} checks, digest {self.digest[:16]}"
        )


class World:
    """One run. ``lines`` is its trace; the digest is over all of them."""

    def __init__(self, seed: int) -> None:
        """Set up an empty disk and nobody on it."""
        self.seed = seed
        self.lines: list[str] = []
        self._rng = random.Random(seed)
        self._trace = hashlib.sha256()
        self._crowd = Crowd(self._rng, self._say)
        self._disk = MemoryDisk()
        self._crashed = self._disk
        self._fresh_id = self._rng.randbytes(16)
        self._now_ms = START_MS
        self._life: Life | None = None
        self._step = 0
        self._lives = 0

    def run(self, steps: int) -> Report:
        """Go through ``steps`` steps, a last power loss and a last look. Raises Broken."""
        for self._step in range(steps):
            self._crowd.step = self._step
            self._one_step()
            self._judge()
        self._end_life(self._disk.crash(self._rng))
        self._crowd.audit(self._start(is_safe=True))
        self._judge()
        crowd, digest = self._crowd, self._trace.hexdigest()
        return Report(self.seed, steps, digest, self._lives, crowd.answers, crowd.ledger.checks)

    def _one_step(self) -> None:
        try:
            if self._life is None:
                self._crowd.audit(self._start())
            else:
                self._act(self._life)
        except PowerLoss:
            self._say("the power went within an operation")
            self._end_life(self._crashed)
        except OSError as error:
            # Preparing a file or writing a snapshot met an injected fault: the server goes on.
            self._say(f"{error}")

    def _act(self, life: Life) -> None:
        rng, crowd = self._rng, self._crowd
        choice = rng.random()
        if choice < 0.62:
            crowd.write(life)
        elif choice < 0.80:
            crowd.read(life)
        elif choice < 0.88:
            crowd.administer(life)
        elif choice < 0.90:
            crowd.audit(life)
        elif choice < 0.92:
            self._say("snapshot")
            life.snapshot()
        elif choice < 0.94:
            life.log.prepare_next()
        elif choice < 0.985:
            self._harm(life)
        else:
            life.loop.run_for(rng.choice((1_000_000, 9_000_000)))
        if self._life is life:
            failure = life.engine.writer.failure
            is_sound = failure is None or life.slow_disk.is_poisoned
            crowd.ledger.check(is_sound, "P5", f"the machine broke: {failure}")
            life.loop.run_for(rng.choice((10, 1000, 10_000, 60_000)))

    def _say(self, line: str) -> None:
        self.lines.append(f"{self._step} {line}")
        self._trace.update(self.lines[-1].encode() + b"\n")

    def _judge(self) -> None:
        broken = self._crowd.ledger.broken
        if broken:
            raise Broken(f"seed {self.seed}, step {self._step}: {'; '.join(broken[:5])}")

    def _start(self, *, is_safe: bool = False) -> Life:
        rng = self._rng
        self._disk.watch = None
        if rng.random() < 0.2 and not is_safe:
            self._arm_power_loss(rng.randrange(1, 8))
        loop = SeededLoop(rng, self._now_ms)
        try:
            life = Life(self._disk, loop, rng, self._fresh_id)
        except StorageError as error:
            raise Broken(f"seed {self.seed}, step {self._step}: D5: no start: {error}") from error
        self._life = life
        self._lives += 1
        self._say(f"started at frame {life.engine.writer.durable_lsn}")
        return life

    def _end_life(self, disk: MemoryDisk) -> None:
        rng = self._rng
        if self._life is not None:
            self._now_ms = self._life.loop.now_ms()
            self._life.forget()
        self._crowd.latest_ms = max(self._crowd.latest_ms, self._now_ms)
        self._crowd.cut_off()
        self._life = None
        self._disk = disk
        away_ms = rng.choice((0, 1, 50, 3000))
        if rng.random() < 0.15:
            self._say("the clock was set back")
            away_ms = -rng.randrange(4000)
        self._now_ms += away_ms

    def _harm(self, life: Life) -> None:
        rng = self._rng
        kind = rng.choice(("power", "power soon", "power soon", "kill", "sync", "write", "stop"))
        self._say(kind)
        if kind == "power":
            self._end_life(self._disk.crash(rng))
        elif kind == "power soon":
            self._arm_power_loss(rng.randrange(1, 6))
        elif kind == "kill":
            self._end_life(self._disk.kill())
        elif kind == "sync":
            self._disk.fail("sync", rng.randrange(1, 4))
        elif kind == "write":
            self._disk.fail("write", rng.randrange(1, 4), rng.choice((errno.EIO, errno.ENOSPC)))
        else:
            life.stop()
            self._end_life(self._disk.kill())

    def _arm_power_loss(self, after: int) -> None:
        """Let the power go within the operation that is ``after`` operations away."""
        disk, last = self._disk, len(self._disk.operations) + after

        def watch(operation: Operation) -> None:
            if operation.number >= last:
                disk.watch = None
                self._crashed = disk.crash(self._rng)
                raise PowerLoss

        disk.watch = watch


def main(arguments: list[str] | None = None) -> int:
    """Run one seed, or several; print each; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m millstream.testing.world")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from --seed on")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--trace", action="store_true", help="print every line")
    options = parser.parse_args(arguments)
    logging.getLogger("millstream").addHandler(logging.NullHandler())
    status = 0
    for seed in range(options.seed, options.seed + options.seeds):
        world = World(seed)
        try:
            line = world.run(options.steps).text()
        except Broken as broken:
            status, line = 1, str(broken)
        trace = world.lines if options.trace else []
        sys.stdout.write("\n".join([*trace, line]) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
