import msgspec
import pytest

from millstream.client import errors
from millstream.client.adapter_answers import code_of, failure, success


def test_a_success_leaves_out_what_is_not_known_and_keeps_what_is_false() -> None:
    assert success("head", offset=None, streamClosed=False) == {
        "type": "head",
        "success": True,
        "streamClosed": False,
    }


@pytest.mark.parametrize(
    "error, code",
    [
        (errors.NotFound("no"), "NOT_FOUND"),
        (errors.StreamGone("gone"), "NOT_FOUND"),
        (errors.StreamClosed("closed"), "STREAM_CLOSED"),
        (errors.SequenceConflict("seq"), "SEQUENCE_CONFLICT"),
        (errors.CreateConflict("there"), "CONFLICT"),
        (errors.Conflict("other"), "CONFLICT"),
        (errors.BadOffset("offset"), "INVALID_OFFSET"),
        (errors.BadOption("option"), "INVALID_ARGUMENT"),
        (errors.ParseError("cut"), "PARSE_ERROR"),
        (errors.NetworkFailed("dead"), "NETWORK_ERROR"),
        (errors.Timeout("slow"), "TIMEOUT"),
        (errors.ProducerFenced("fenced", status=403), "UNEXPECTED_STATUS"),
        (errors.Unavailable("down", status=503), "UNEXPECTED_STATUS"),
        (msgspec.ValidationError("no such command"), "NOT_SUPPORTED"),
        (RuntimeError("bug"), "INTERNAL_ERROR"),
    ],
)
def test_every_error_has_the_suites_code(error: Exception, code: str) -> None:
    assert code_of(error) == code


def test_a_failure_says_which_command_failed_and_with_which_status() -> None:
    error = errors.NotFound("there is no such stream", status=404, url="http://x/path?token=t")
    result = failure("read", error)
    assert result["commandType"] == "read"
    assert result["status"] == 404
    assert "/path" in result["message"]
    assert "token" not in result["message"]
    assert "status" not in failure("read", RuntimeError("bug"))


def test_options_are_named_as_the_suite_names_them() -> None:
    error = errors.BadOption("max_delay_s must not be less than initial_delay_s")
    assert failure("validate", error)["message"] == (
        "maxDelayMs must not be less than initialDelayMs"
    )
