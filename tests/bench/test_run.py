import pytest

from bench.run import README, parse
from bench.table import put_into


@pytest.mark.parametrize(
    "more", [["--quick"], ["--tiny"], ["--only", "W1"], ["--peers", "node-file"]]
)
def test_the_table_of_a_part_of_a_run_does_not_go_into_the_readme(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["--readme", *more])
    assert "whole run" in capsys.readouterr().err


def test_a_whole_run_may_write_the_readme() -> None:
    assert parse(["--readme"]).readme
    assert parse(["--readme", "--repeats", "7"]).repeats == 7
    assert not parse(["--quick"]).readme


def test_the_readme_has_a_place_for_the_table() -> None:
    assert "| a table |" in put_into(README.read_text(), "| a table |")
