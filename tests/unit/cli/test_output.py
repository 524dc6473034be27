import pytest

from millstream.cli.output import emit, remark, report, write


def test_data_goes_to_standard_output_and_remarks_to_standard_error(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    write(b"\x00\xff")
    remark("look")
    assert capsysbinary.readouterr() == (b"\x00\xff", b"millstream: look\n")


def test_a_json_value_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"a": [1, "ü\n"]})
    assert capsys.readouterr().out == '{"a":[1,"ü\\n"]}\n'


@pytest.mark.parametrize("as_json,text", [(True, '{"a":1}\n'), (False, "one\n")])
def test_a_report_is_facts_or_a_sentence(
    as_json: bool, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report({"a": 1, "b": None}, "one", as_json=as_json)
    assert capsys.readouterr().out == text
