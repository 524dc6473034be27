"""`millstream serve`: run a server until it is told to stop."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from millstream.cli.failures import USAGE, Failure, server_extra
from millstream.cli.output import emit
from millstream.server.settings import (
    NOT_SHOWN,
    SECRETS,
    Field,
    Loaded,
    SettingsError,
    fields,
    load,
)

# Variables of the client that look like settings of the server.
CLIENT_VARIABLES: Final = frozenset({"MILLSTREAM_URL"})


def setting_flag(field: Field) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the click option for one setting. Values are checked by the settings, not by click."""
    shown = f"{field.help}. [{_default(field)}]"
    text = shown[0].upper() + shown[1:]
    if field.kind == "switch":
        return click.option(
            f"{field.flag}/--no-{field.flag[2:]}", field.name, default=None, help=text
        )
    if field.kind == "list":
        return click.option(field.flag, field.name, multiple=True, help=f"{text} Repeatable.")
    if field.kind == "choice":
        kind = click.Choice(field.choices)
        return click.option(field.flag, field.name, type=kind, default=None, help=text)
    metavar = "N" if field.kind == "number" else "TEXT"
    return click.option(field.flag, field.name, default=None, metavar=metavar, help=text)


def _default(field: Field) -> str:
    if field.default in (None, (), False):
        return field.variable
    return f"{field.variable}; default {field.default}"


def every_setting(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the verb one flag per setting, in the order of the documentation."""
    for field in reversed(fields()):
        command = setting_flag(field)(command)
    return command


@click.command("serve")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="TOML file with settings; environment and flags go before it.",
)
@click.option("--print-config", is_flag=True, help="Print every setting and its source, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the address or the settings as JSON.")
@every_setting
def command(config: Path | None, print_config: bool, as_json: bool, **flags: Any) -> None:
    """Run a server; it stops cleanly on Ctrl-C or SIGTERM.

    A setting comes from --config, then from the environment (MILLSTREAM_<NAME>), then from its
    flag; the later wins.
    """
    loaded = gather(config, os.environ, flags)
    if print_config:
        show(loaded, as_json=as_json)
        return
    with server_extra():
        from millstream.server import lifespan
        from millstream.storage.damage import StorageError

    try:
        lifespan.run(loaded.settings, lambda url: announce(url, as_json=as_json))
    except StorageError as error:
        raise Failure(f"{loaded.settings.data_dir}: {error}", code=error.code) from error
    except OSError as error:
        raise Failure(f"the server cannot run: {error}") from error


def gather(config: Path | None, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Loaded:
    """Put the settings together; a wrong one is wrong usage."""
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    environment = {name: text for name, text in environ.items() if name not in CLIENT_VARIABLES}
    try:
        return load(config, environment, given)
    except SettingsError as error:
        raise Failure(str(error), USAGE, setting=error.key, source=error.source) from error


def show(loaded: Loaded, *, as_json: bool) -> None:
    """Print every setting with its value and where that came from."""
    if not as_json:
        click.echo(loaded.render(), nl=False)
        return
    for field in fields():
        value = getattr(loaded.settings, field.name)
        if field.name in SECRETS and value is not None:
            value = NOT_SHOWN
        emit({"setting": field.name, "value": value, "source": loaded.sources[field.name]})


def announce(url: str, *, as_json: bool) -> None:
    """Print where the server is, and a line to try."""
    if as_json:
        emit({"url": url, "stream_url": f"{url}/v1/stream"})
        return
    click.echo(f"millstream is at {url} (Ctrl-C stops it). Try:")
    click.echo(
        f"  curl -X PUT {url}/v1/stream/hello -H 'content-type: application/json' "
        """-d '[{"hello":"world"}]'"""
    )
    click.echo(f"  curl '{url}/v1/stream/hello'")
