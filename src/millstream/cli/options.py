"""Flags that several verbs share, and the kinds of value they take."""

import datetime as dt
import re
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

DEFAULT_URL: Final = "http://127.0.0.1:4437"
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"(?:\d+[smhdw])+", re.ASCII)

Command = TypeVar("Command", bound=Callable[..., Any])


def duration_s(text: str) -> int | None:
    """Return the seconds that `90`, `30d` or `1h30m` mean, or None when it is no duration."""
    if text.isascii() and text.isdigit():
        return int(text)
    if not _DURATION.fullmatch(text):
        return None
    return sum(int(n) * _UNITS_S[unit] for n, unit in re.findall(r"(\d+)([smhdw])", text))


class Duration(click.ParamType[int]):
    """A length of time as whole seconds: `90`, `45s`, `12h`, `30d`, `1h30m`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Turn the text into seconds."""
        seconds = value if isinstance(value, int) else duration_s(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a duration; write 90, 45s, 12h, 30d or 1h30m", param, ctx)
        return seconds


class Since(click.ParamType[int]):
    """A moment as Unix milliseconds: `30d` (that long ago) or an RFC 3339 time."""

    name = "duration|time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Turn the text into Unix milliseconds."""
        if isinstance(value, int):
            return value
        seconds = duration_s(str(value))
        if seconds is not None:
            return max(0, time.time_ns() // 1_000_000 - seconds * 1000)
        try:
            moment = dt.datetime.fromisoformat(str(value))
        except ValueError:
            rule = "write 30d, 12h or 2026-01-31T12:00:00Z"
            self.fail(f"{value!r} is neither a duration nor a time; {rule}", param, ctx)
        if moment.tzinfo is None:
            self.fail(f"{value!r} has no time zone; end it with Z or +01:00", param, ctx)
        return int(moment.timestamp() * 1000)


def as_json(command: Command) -> Command:
    """Give a verb `--json`: one JSON value per line on standard output."""
    text = "Print JSON, one value per line."
    return click.option("--json", "as_json", is_flag=True, help=text)(command)


def client(command: Command) -> Command:
    """Give a verb `--url`, `--timeout` and `--json`."""
    command = as_json(command)
    command = click.option(
        "--timeout",
        type=Duration(),
        default=30,
        show_default="30s",
        help="Give up when the server is silent for so long.",
    )(command)
    return click.option(
        "--url",
        envvar=["MILLSTREAM_URL", "STREAM_URL"],
        default=DEFAULT_URL,
        show_default=True,
        help="Server to talk to; also MILLSTREAM_URL or STREAM_URL.",
    )(command)


def lifetime(command: Command) -> Command:
    """Give a verb `--ttl` and `--expires-at`."""
    command = click.option(
        "--expires-at", metavar="TIME", help="Delete the stream at this RFC 3339 time."
    )(command)
    return click.option(
        "--ttl", type=Duration(), help="Delete the stream when it was idle for so long."
    )(command)
