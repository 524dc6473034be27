import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.checks import Check, checks
from bench.figures import Sample, rows
from bench.plot import HIGH, LOW, place, svg
from bench.report import Outcome, main_rows, number, write

CASE = "100 B, 64 connections"


def run_of(rate: float, *, p99: float = 1.0, share: float = 0.5) -> list[Sample]:
    """Ours at `rate` beside a redis-always at 1,000."""
    ours = {"messages/s": rate, "p99 ms": p99}
    theirs = {"messages/s": 1000.0, "p99 ms": 1.0}
    return [
        Sample("W1", CASE, "millstream", 0, ours, share),
        Sample("W1", CASE, "redis-always", 0, theirs, 0.4),
    ]


def verdict(samples: list[Sample], promise: str, facts: dict[str, float] | None = None) -> Check:
    found = checks(rows(samples), samples, facts or {})
    (check,) = [check for check in found if promise in check.promise]
    return check


def test_the_json_is_an_array_of_comparisons(tmp_path: Path) -> None:
    samples = run_of(2000)
    write(tmp_path, Outcome(title="title", samples=samples))
    found = json.loads((tmp_path / "latest.json").read_text())
    first = found[0]
    assert first["workload"] == "W1"
    assert first["case"] == CASE
    assert first["peer"] == "redis-always"
    assert first["metric"] == "messages/s"
    assert (first["ours"], first["theirs"], first["ratio"]) == (2000, 1000, 2)


def test_the_table_has_both_servers_and_the_ratio(tmp_path: Path) -> None:
    samples = run_of(2000)
    outcome = Outcome(title="title", samples=samples, facts={"append cost at 9": 1.1})
    text = write(tmp_path, outcome)
    assert f"| {CASE} | **millstream** | 2,000 | 1.00 |  | 0.50 |" in text
    assert f"| {CASE} | redis-always | 1,000 | 1.00 | 2.00 x | 0.40 |" in text
    assert "append cost at 9: 1.10" in text
    assert (tmp_path / "latest.md").read_text() == text


def test_a_generator_that_may_be_the_limit_is_marked(tmp_path: Path) -> None:
    samples = run_of(2000, share=0.95)
    assert "0.95 !" in write(tmp_path, Outcome(title="title", samples=samples))


def test_the_report_tells_what_failed_and_what_each_part_took(tmp_path: Path) -> None:
    spent = {("W1", "millstream"): 1.5, ("W1", "redis-always"): 2.0, ("W3", "redis-always"): 4.0}
    outcome = Outcome(title="", samples=run_of(1), failures=["W5: it fell over"], spent=spent)
    text = write(tmp_path, outcome)
    assert "* W5: it fell over\n" in text
    assert "| part | millstream | redis-always | all |" in text
    assert "| W1 | 1.5 | 2.0 | 3.5 |" in text
    assert "| W3 | 0.0 | 4.0 | 4.0 |" in text


def test_every_note_of_a_row_is_shown_once(tmp_path: Path) -> None:
    samples = [
        Sample("W1", CASE, "millstream", 0, {"messages/s": 1.0}),
        *(
            Sample("W1", CASE, "node-file", turn, {"messages/s": 1.0}, note=note)
            for turn, note in enumerate(("4 connections", "2 connections", "2 connections"))
        ),
    ]
    text = write(tmp_path, Outcome(title="", samples=samples))
    assert "| node-file (4 connections; 2 connections) |" in text


@pytest.mark.parametrize(
    "case, promise",
    [
        ("create and append", "W5 create and append (two requests a stream)"),
        (
            "create with its first message",
            "W5 create with its first message (one request a stream)",
        ),
    ],
)
def test_both_ways_to_make_a_stream_are_held_against_w1(case: str, promise: str) -> None:
    name = f"{case}, 64 connections"
    samples = [*run_of(1000), Sample("W5", name, "millstream", 0, {"streams/s": 600.0})]
    assert verdict(samples, promise).measured == 0.6


def test_the_plot_is_well_formed_and_has_a_dot_for_each_main_row() -> None:
    found = main_rows(rows(run_of(2000)))
    assert [row.metric for row in found] == ["messages/s"]
    tree = ET.fromstring(svg(found, ("redis-always",)))
    titles = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["redis-always: 2"]


def test_the_axis_is_logarithmic_and_has_ends() -> None:
    assert place(10) - place(1) == pytest.approx(place(100) - place(10))
    assert place(LOW / 5) == place(LOW)
    assert place(float("inf")) == place(HIGH)


@pytest.mark.parametrize("rate, word", [(700, "met"), (699, "missed")])
def test_a_ratio_is_met_from_its_limit_on(rate: float, word: str) -> None:
    assert verdict(run_of(rate), f"{CASE}: messages/s, times redis-always").verdict == word


def test_what_was_not_measured_is_not_called_met() -> None:
    found = verdict(run_of(1000), f"{CASE}: messages/s, times node-file")
    assert (found.verdict, found.measured) == ("not measured", None)


def test_the_64_streams_case_is_not_taken_for_the_one_stream_case() -> None:
    best = f"{CASE}, 64 streams"
    samples = [
        Sample("W1", best, "millstream", 0, {"messages/s": 5000.0}),
        Sample("W1", best, "redis-always", 0, {"messages/s": 1.0}),
        *run_of(1000),
    ]
    found = verdict(samples, f"{CASE}: messages/s, times redis-always")
    assert found.measured == 1


def test_a_stalled_reader_is_felt_when_the_usual_p99_is_above_the_worst_without_it() -> None:
    def stall(p99s: tuple[float, ...], case: str) -> list[Sample]:
        return [Sample("W4", case, "millstream", n, {"p99 ms": p}) for n, p in enumerate(p99s)]

    without = stall((1.0, 3.0, 2.0), "100 subscribers, 16 in flight, 1 KiB")
    name = "100 subscribers, 16 in flight, 1 KiB, and 1 that stopped reading"
    assert verdict([*without, *stall((2.0, 2.5, 9.0), name)], "stalls").verdict == "met"
    assert verdict([*without, *stall((2.0, 3.5, 9.0), name)], "stalls").verdict == "missed"


@pytest.mark.parametrize("cost, word", [(1.19, "met"), (1.21, "missed")])
def test_growth_is_judged_by_the_ratio_and_not_by_the_figures_behind_it(
    cost: float, word: str
) -> None:
    facts = {
        "append cost at 9: us, grown, turn 1": 44.0,
        "append cost at 9": cost,
        "append cost at 9: CPU s of its snapshots so far": 12.0,
    }
    assert verdict(run_of(1), "append cost at 9", facts).verdict == word


@pytest.mark.parametrize(
    "value, text",
    [(1_234_567, "1,235k"), (12_345, "12,345"), (12.345, "12.3"), (0.7, "0.70")],
)
def test_numbers_show_the_digits_that_matter(value: float, text: str) -> None:
    assert number(value) == text


def test_what_is_no_number_is_shown_as_a_dash() -> None:
    assert (number(float("nan")), number(float("inf"))) == ("-", "-")
