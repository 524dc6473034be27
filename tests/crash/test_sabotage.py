"""Each promise broken on purpose: the check that guards it must go red."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.storage.damage import StorageError
from millstream.testing.process import ServerProcess
from tests.crash import (
    test_bit_rot,
    test_crash_states,
    test_kill_loop,
    test_placed_kills,
    test_recorded_calls,
)
from tests.support import sabotage
from tests.support.faults import Faulty, FaultyServer
from tests.support.sabotage import Patch

ROOT = Path(__file__).parent.parent.parent
STATES = 400


def explore_states() -> None:
    for seed in (1, 2, 3):
        test_crash_states.explore(seed, STATES)


def fail_syncs() -> None:
    for nth in range(3, 40):
        test_crash_states.fail_one("sync", 1, nth)


def flip_bits() -> None:
    test_bit_rot.test_no_flipped_bit_is_served_or_loses_a_message(False, 0)


def flip_bits_under_a_server() -> None:
    test_bit_rot.test_no_bit_that_flips_under_a_running_server_is_served(0)


def lose_power_at_every_call(faulty: Faulty) -> None:
    test_recorded_calls.test_no_power_loss_at_any_call_of_a_real_server_takes_an_answer_back(
        faulty, STATES
    )


IN_MEMORY: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (sabotage.answer_before_sync, explore_states),
    (sabotage.publish_before_sync, explore_states),
    (sabotage.skip_dedup, explore_states),
    (sabotage.split_the_frame, explore_states),
    (sabotage.no_directory_sync, explore_states),
    (sabotage.snapshot_too_early, explore_states),
    (sabotage.snapshot_too_late, explore_states),
    (sabotage.retry_a_failed_sync, fail_syncs),
    (sabotage.no_checksum, flip_bits),
    (sabotage.no_checksum, flip_bits_under_a_server),
    (sabotage.cut_at_the_first_bad_frame, flip_bits),
]


@pytest.mark.parametrize(
    "broken, check", IN_MEMORY, ids=[f"{b.__name__}-{c.__name__}" for b, c in IN_MEMORY]
)
def test_a_broken_engine_turns_its_check_red(
    broken: Callable[[Patch], None], check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch.setattr)
    # What a start refuses is red as well: the disk lost nothing that was synced.
    with pytest.raises((AssertionError, StorageError)) as caught:
        check()
    print(f"{type(caught.value).__name__}: {str(caught.value)[:200]}")


def broken_command(command: list[str], breakage: str) -> list[str]:
    """Return the command that runs the same server with a breakage."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    start += f"from tests.support.sabotage import run; run({breakage!r})"
    return [sys.executable, "-c", start, *command[3:]]


class BrokenRestart(ServerProcess):
    """A broken server on a sound disk."""

    breakage = ""

    def command(self) -> list[str]:
        return broken_command(super().command(), self.breakage)


class BrokenServer(FaultyServer):
    """A broken server whose disk has rules."""

    breakage = ""

    def command(self) -> list[str]:
        return broken_command(super().command(), self.breakage)

    def without_rules(self) -> ServerProcess:
        server = BrokenRestart(self.data_dir, self.arguments)
        server.breakage = self.breakage
        return server


def test_a_server_without_dedup_turns_the_kill_loop_red(tmp_path: Path) -> None:
    server = BrokenRestart(tmp_path / "data", test_kill_loop.FLAGS)
    server.breakage = sabotage.skip_dedup.__name__
    try:
        with pytest.raises((AssertionError, ExceptionGroup)):
            asyncio.run(test_kill_loop.kill_and_compare(server, 1, 5))
    finally:
        server.kill()


IN_A_SERVER: list[tuple[Callable[[Patch], None], Callable[[Faulty], None]]] = [
    (
        sabotage.answer_at_once,
        test_placed_kills.test_nobody_sees_or_is_told_of_a_write_before_it_is_synced,
    ),
    (
        sabotage.publish_before_sync,
        test_placed_kills.test_nobody_sees_or_is_told_of_a_write_before_it_is_synced,
    ),
    (sabotage.no_directory_sync, lose_power_at_every_call),
    (sabotage.answer_before_sync, lose_power_at_every_call),
    (
        sabotage.skip_dedup,
        lambda faulty: test_placed_kills.test_a_kill_at_an_append_neither_loses_nor_repeats_it(
            "after the sync, before the answer", faulty
        ),
    ),
]


@pytest.mark.parametrize(
    "broken, check", IN_A_SERVER, ids=[broken.__name__ for broken, _ in IN_A_SERVER]
)
def test_a_broken_server_turns_its_check_red(
    broken: Callable[[Patch], None], check: Callable[[Faulty], None], tmp_path: Path
) -> None:
    made: list[FaultyServer] = []

    def make(rules: str, *flags: str) -> FaultyServer:
        server = BrokenServer(tmp_path, rules, *flags)
        server.breakage = broken.__name__
        made.append(server)
        return server

    try:
        with pytest.raises((AssertionError, StorageError)) as caught:
            check(make)
        print(str(caught.value)[:200])
    finally:
        for server in made:
            server.kill_all()
