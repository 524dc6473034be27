import pytest

from tests.support.command import json_lines, ok, run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str) -> None:
    assert "_MILLSTREAM_COMPLETE" in ok("completion", shell)


def test_the_json_form_holds_the_script() -> None:
    assert "complete" in json_lines(ok("completion", "bash", "--json"))[0]["script"]


def test_an_unknown_shell_is_wrong_usage() -> None:
    assert run("completion", "csh").exit_code == 2
