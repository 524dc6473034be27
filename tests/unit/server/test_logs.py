import io
import json
import logging
from collections.abc import Iterator

import pytest

from millstream.server.logs import configure_logs
from millstream.server.settings import Settings


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Leave the process's own logging as it was."""
    root = logging.getLogger("millstream")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.level, root.propagate = before


def logged(settings: Settings, stream: io.StringIO) -> str:
    configure_logs(settings, stream)
    log = logging.getLogger("millstream.test")
    log.debug("too quiet")
    try:
        int("a reason")
    except ValueError:
        log.exception("it failed: %s\nindeed", "x")
    return stream.getvalue()


def test_machines_get_one_json_object_a_line() -> None:
    lines = logged(Settings(), io.StringIO()).splitlines()
    assert len(lines) == 1
    record = json.loads(lines[0])
    assert (record["level"], record["logger"]) == ("error", "millstream.test")
    assert record["message"] == "it failed: x\nindeed"
    assert "ValueError: invalid literal" in record["traceback"]
    assert record["time"].endswith("Z")


def test_people_at_a_terminal_get_text() -> None:
    text = logged(Settings(), Terminal())
    assert "ERROR it failed: x" in text
    assert not text.startswith("{")


def test_form_and_severity_can_be_chosen() -> None:
    assert logged(Settings(log_format="json"), Terminal()).startswith("{")
    assert not logged(Settings(log_format="text"), io.StringIO()).startswith("{")
    assert "too quiet" in logged(Settings(log_level="debug"), io.StringIO())


def test_configuring_twice_does_not_log_twice() -> None:
    stream = io.StringIO()
    configure_logs(Settings(), stream)
    assert len(logged(Settings(), stream).splitlines()) == 1
