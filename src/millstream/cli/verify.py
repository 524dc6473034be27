"""`millstream verify`: check a data directory offline, without changing it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.cli.failures import FAILED, NOT_FOUND, Failure, server_extra
from millstream.cli.options import as_json as json_option
from millstream.cli.output import emit, report

if TYPE_CHECKING:
    from millstream.storage.verify import Finding


@click.command("verify")
@click.argument("data_dir", type=click.Path(path_type=Path))
@json_option
def command(data_dir: Path, as_json: bool) -> None:
    """Check every frame, snapshot and invariant of DATA_DIR. Nothing is changed.

    Prints one line per finding. The exit status is 0 when a server would start on it, and 1 when
    something is damaged. A server may be running on it; then the newest writes may look unfinished.
    """
    if not data_dir.is_dir():
        raise Failure(f"{data_dir} is not a directory", NOT_FOUND)
    damaged = noted = 0
    for finding in findings(data_dir):
        is_damage = finding.severity.value == "damage"
        damaged += is_damage
        noted += not is_damage
        facts = {
            "severity": finding.severity.value,
            "file": finding.file,
            "position": finding.position,
            "what": finding.what,
        }
        if as_json:
            emit(facts)
        else:
            click.echo("{severity}: {file}, byte {position}: {what}".format(**facts))
    if damaged:
        raise Failure(f"{data_dir} is damaged in {damaged} places", FAILED, damaged=damaged)
    result = {"data_dir": str(data_dir), "damaged": 0, "notes": noted}
    report(result, f"{data_dir} is whole; {noted} notes", as_json=as_json)


def findings(data_dir: Path) -> Iterator["Finding"]:
    """Give everything found: first in the bytes, then, if those are whole, in what they mean."""
    with server_extra():
        from millstream.engine.audit import audit_directory
        from millstream.server.keys import FILE_NAME, KeysError, read_keys
        from millstream.storage.verify import Finding, Severity

    yield from audit_directory(data_dir)
    try:
        read_keys(data_dir / FILE_NAME)
    except KeysError as error:
        yield Finding(Severity.DAMAGE, str(data_dir / FILE_NAME), 0, str(error))
