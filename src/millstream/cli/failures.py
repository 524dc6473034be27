"""What can go wrong for a verb, and the exit status that each kind has."""

import contextlib
import json
from collections.abc import Iterator
from typing import IO, Any, Final

import click

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
NOT_ALLOWED: Final = 5
UNAVAILABLE: Final = 6
INTERRUPTED: Final = 130

_BY_STATUS: Final = {
    401: NOT_ALLOWED,
    403: NOT_ALLOWED,
    404: NOT_FOUND,
    408: UNAVAILABLE,
    409: CONFLICT,
    410: NOT_FOUND,
    412: CONFLICT,
    429: UNAVAILABLE,
    502: UNAVAILABLE,
    503: UNAVAILABLE,
    504: UNAVAILABLE,
}


class Failure(click.ClickException):
    """A verb failed. The message goes to standard error; with `--json`, as one JSON object."""

    exit_code: int  # type: ignore[misc]  # click declares one per class, we have one per failure

    def __init__(self, message: str, exit_code: int = FAILED, **facts: Any) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.facts = {name: value for name, value in facts.items() if value is not None}
        context = click.get_current_context(silent=True)
        self.as_json = context is not None and bool(context.params.get("as_json"))

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the failure to `file`, or to standard error."""
        if self.as_json:
            error = {"message": self.message, "exit_code": self.exit_code, **self.facts}
            click.echo(json.dumps({"error": error}), file=file, err=file is None)
        else:
            click.echo(f"millstream: {self.message}", file=file, err=file is None)


@contextlib.contextmanager
def server_extra() -> Iterator[None]:
    """Turn a missing package of the `server` extra into a failure that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "millstream":
            raise
        hint = "install the server too: pip install 'millstream[server]'"
        raise Failure(f"{error.name} is missing; {hint}") from error


def exit_code_of(status: int, code: str | None) -> int:
    """Return the exit status for an HTTP status and the problem's stable code."""
    # The protocol answers a fenced producer with 403, which is no question of permission.
    if code == "producer_fenced":
        return CONFLICT
    return _BY_STATUS.get(status, FAILED)
