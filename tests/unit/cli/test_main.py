import subprocess
import sys

import click
import pytest

from millstream import __version__
from millstream.cli.main import VERBS, cli
from tests.support.command import ok, run


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_verb(flag: str) -> None:
    text = ok(flag)
    assert all(verb in text for verb in VERBS)


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_explains_itself_and_takes_json(verb: str) -> None:
    text = ok(verb, "-h")
    assert "Usage: millstream" in text
    assert "--json" in text


def test_the_table_of_verbs_is_what_the_group_has() -> None:
    context = click.Context(cli)
    assert cli.list_commands(context) == list(VERBS)
    assert {cli.get_command(context, verb) is not None for verb in VERBS} == {True}


def test_an_unknown_verb_is_wrong_usage() -> None:
    assert run("frobnicate").exit_code == 2


def test_the_version_is_the_package_version() -> None:
    assert ok("--version") == f"millstream {__version__}\n"


def test_help_imports_neither_the_server_nor_a_verb() -> None:
    code = (
        "import sys, contextlib\n"
        "from millstream.cli.main import main\n"
        "sys.argv = ['millstream', '--help']\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "loaded = [m for m in sys.modules if m.startswith('millstream.')]\n"
        "print(sorted(loaded), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == str(
        ["millstream.cli", "millstream.cli.failures", "millstream.cli.main"]
    )


def test_a_wrong_flag_exits_with_2_and_keeps_standard_output_empty() -> None:
    command = [sys.executable, "-m", "millstream", "ls", "--no-such-flag"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "--no-such-flag" in ran.stderr


def test_nobody_listening_exits_with_6() -> None:
    command = [sys.executable, "-m", "millstream", "ls", "--url", "http://127.0.0.1:1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 6
    assert ran.stdout == ""
