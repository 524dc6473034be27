import pytest

from millstream.testing import world
from millstream.testing.ledger import Ledger
from millstream.testing.world import Broken, World, main


def test_one_seed_gives_one_trace() -> None:
    one, two = World(5), World(5)
    assert one.run(120) == two.run(120)
    assert one.lines == two.lines
    assert one.lines != World(6).lines


def test_the_command_prints_seed_and_digest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5", "--seeds", "2", "--steps", "30"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed] == ["seed 5", "seed 6"]
    assert all("digest" in line for line in printed)


def test_a_broken_promise_names_seed_and_step_and_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(self: Ledger, holds: bool, rule: str, detail: str) -> None:
        self.broken.append(f"{rule}: {detail}")

    monkeypatch.setattr(Ledger, "check", check)
    with pytest.raises(Broken, match="seed 5, step"):
        World(5).run(100)
    assert main(["--seed", "5", "--steps", "100", "--trace"]) == 1
    assert "seed 5, step" in capsys.readouterr().out


def test_the_world_starts_at_a_believable_time() -> None:
    assert world.START_MS > 1_600_000_000_000
