from pathlib import Path

from tests.support.command import run


def test_a_directory_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    assert run("verify", str(tmp_path / "none")).exit_code == 3


def test_a_log_that_is_no_log_is_damage(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "0000000000000001.log").write_bytes(b"x" * 100)
    result = run("verify", str(tmp_path))
    assert result.exit_code == 1
    assert "0000000000000001.log" in result.stdout
