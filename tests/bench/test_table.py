import pytest

from bench.checks import Check
from bench.figures import Sample
from bench.report import Outcome
from bench.table import BEGIN, END, compact, put_into, summary


def case(workload: str, name: str, metric: str, ours: float, theirs: float) -> list[Sample]:
    return [
        Sample(workload, name, "millstream", 0, {metric: ours}, 0.5),
        Sample(workload, name, "redis-always", 0, {metric: theirs}, 0.95),
    ]


def table_of(*samples: Sample) -> list[str]:
    text = compact(Outcome(title="one machine", samples=samples))
    return [line for line in text.splitlines() if line.startswith("| W")]


def test_a_row_has_our_figure_and_each_peers_with_the_ratio() -> None:
    found = table_of(*case("W1", "100 B, 64 connections", "messages/s", 2000, 1000))
    assert found == [
        "| W1 | 100 B, 64 connections | messages/s | **2,000** | 1,000 (2.00 x) ! |",
    ]


def test_cases_that_are_not_main_ones_have_no_row() -> None:
    assert table_of(*case("W1", "100 B, 64 connections, 64 streams", "messages/s", 2, 1)) == []
    assert table_of(*case("W1", "100 B, 64 connections", "p50 ms", 2, 1)) == []


def test_one_subscriber_is_not_a_hundred_and_one() -> None:
    assert table_of(*case("W4", "101 subscribers, 1 in flight", "deliveries/s", 2, 1)) == []


def test_a_case_with_its_size_in_front_is_found_by_its_end() -> None:
    (row,) = table_of(*case("W5", "100,000 streams, restart", "restart s", 1, 4))
    assert "100,000 streams, restart | restart s | **1.00** | 4.00 (4.00 x)" in row


def test_a_peer_that_was_not_measured_in_a_case_leaves_an_empty_cell() -> None:
    extra = Sample("W3", "256 MiB, 1 reader", "nats-default", 0, {"MB/s": 1.0})
    samples = (*case("W3", "256 MiB, 1 reader", "MB/s", 3, 1), extra)
    also = case("W1", "100 B, 64 connections", "messages/s", 2, 1)
    (single, read) = table_of(*samples, *also)
    assert single.endswith("1.00 (2.00 x) ! |  |")
    assert read.endswith("1.00 (3.00 x) ! | 1.00 (3.00 x) |")


def test_the_summary_counts_the_met_and_names_the_others() -> None:
    held = [
        Check("a", ">= 1", 2.0, "met"),
        Check("b", ">= 3", 2.5, "missed"),
        Check("c", "<= 1", None, "not measured"),
    ]
    assert summary(held).splitlines() == [
        "Promises met: 1 of 3.",
        "",
        "* missed: b: 2.50, promised >= 3",
        "* not measured: c",
    ]


def test_the_summary_of_a_run_is_in_its_table() -> None:
    assert "Promises met: 0 of " in compact(Outcome(title="", samples=()))


def test_only_what_is_between_the_marks_is_replaced() -> None:
    document = f"before\n{BEGIN}\nold\n{END}\nbehind\n"
    once = put_into(document, "new\n")
    assert once == f"before\n{BEGIN}\n\nnew\n\n{END}\nbehind\n"
    assert put_into(once, "new\n") == once


@pytest.mark.parametrize(
    "document",
    ["no marks", f"{BEGIN} only", f"{END} then {BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"],
)
def test_a_document_without_its_two_marks_is_refused(document: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        put_into(document, "new")
