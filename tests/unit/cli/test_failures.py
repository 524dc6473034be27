import io
import json

import pytest

from millstream.cli import failures
from millstream.cli.failures import Failure, exit_code_of, server_extra


@pytest.mark.parametrize(
    "status,code,expected",
    [
        (400, "invalid_offset", 1),
        (500, None, 1),
        (404, "stream_not_found", 3),
        (410, "stream_gone", 3),
        (409, "stream_closed", 4),
        (412, "offset_mismatch", 4),
        (403, "producer_fenced", 4),
        (401, None, 5),
        (403, None, 5),
        (408, None, 6),
        (429, None, 6),
        (503, "overloaded", 6),
    ],
)
def test_every_kind_of_refusal_has_its_exit_status(
    status: int, code: str | None, expected: int
) -> None:
    assert exit_code_of(status, code) == expected


def test_a_failure_is_one_sentence_for_people() -> None:
    text = io.StringIO()
    Failure("it broke").show(text)
    assert text.getvalue() == "millstream: it broke\n"


def test_a_failure_is_one_object_for_programs() -> None:
    failure = Failure("it broke", failures.CONFLICT, code="fenced", status=None)
    failure.as_json = True
    text = io.StringIO()
    failure.show(text)
    error = {"message": "it broke", "exit_code": 4, "code": "fenced"}
    assert json.loads(text.getvalue()) == {"error": error}


def test_a_missing_server_package_says_how_to_install_it() -> None:
    with pytest.raises(Failure, match=r"uvloop is missing; .*millstream\[server\]"), server_extra():
        raise ModuleNotFoundError(name="uvloop")


def test_a_missing_module_of_our_own_is_a_bug_and_stays_one() -> None:
    with pytest.raises(ModuleNotFoundError), server_extra():
        raise ModuleNotFoundError(name="millstream.server.lifespan")
