import msgspec
import pytest

from millstream.client import adapter_commands as commands


def test_a_command_is_read_by_its_type_and_camel_case_names() -> None:
    line = b'{"type":"read","path":"/s","live":"sse","timeoutMs":9,"waitForUpToDate":true}'
    assert commands.decode(line) == commands.Read(
        path="/s", live="sse", timeout_ms=9, wait_for_up_to_date=True
    )


def test_fields_that_are_not_known_are_ignored() -> None:
    line = b'{"type":"init","serverUrl":"http://x","timeoutMs":1,"new":{}}'
    assert commands.decode(line) == commands.Init(server_url="http://x")


@pytest.mark.parametrize(
    "line", [b'{"type":"dance"}', b"{}", b"nonsense", b'{"type":"append","path":"/s"}']
)
def test_what_is_no_command_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        commands.decode(line)


def test_the_targets_of_validate_and_the_operations_of_benchmark_are_told_apart() -> None:
    retry = commands.decode(b'{"type":"validate","target":{"target":"retry-options"}}')
    assert retry == commands.Validate(target=commands.RetryOptions())
    timed = commands.decode(
        b'{"type":"benchmark","iterationId":"i","operation":'
        b'{"op":"throughput_append","path":"/s","count":2,"size":3,"concurrency":4}}'
    )
    appends = commands.MeasureAppends(path="/s", count=2, size=3)
    assert timed == commands.Benchmark(iteration_id="i", operation=appends)
