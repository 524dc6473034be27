import json

from bench.client.load import MESSAGE_BYTES, encoded, values
from bench.client.run import CASES, Case, Sample, row_of, table


def samples(*rates: float) -> list[Sample]:
    return [Sample(rate=rate, cost=1 / rate) for rate in rates]


def test_messages_have_the_size_that_the_table_says() -> None:
    sizes = {len(json.dumps(value, separators=(",", ":"))) for value in values(3)}
    assert sizes == {MESSAGE_BYTES}


def test_bodies_hold_the_same_messages() -> None:
    bodies = [json.loads(body) for body in encoded(5, 2)]
    assert [len(body) for body in bodies] == [2, 2, 1]
    assert [item for body in bodies for item in body] == list(values(5))


def test_a_ratio_is_the_median_of_the_turns_and_not_of_the_medians() -> None:
    case = Case("json", "read", "MB/s", 3.0)
    row = row_of(case, {"ours": samples(10, 40, 60), "official": samples(10, 10, 30)})
    assert row.ours.middle == 40
    assert row.official.middle == 10
    assert (row.ratio.low, row.ratio.middle, row.ratio.high) == (1, 2, 4)
    assert row.cost_ratio.middle == 2
    assert row.verdict == "3 x: MISSED"


def test_a_bar_that_is_reached_is_said_so_and_one_that_is_not_there_is_not_judged() -> None:
    given = {"ours": samples(30), "official": samples(10)}
    assert row_of(Case("produce", "append", "messages/s", 3.0), given).verdict == "3 x: reached"
    assert row_of(Case("bytes", "read", "MB/s", None), given).verdict == ""


def test_the_table_has_a_line_for_every_case() -> None:
    rows = [row_of(case, {"ours": samples(4), "official": samples(2)}) for case in CASES]
    assert len(table(rows).splitlines()) == len(CASES) + 2
