"""Settings: every limit of the server, with its unit in its name.

A value comes from a TOML file, then from the environment (``MILLSTREAM_<NAME>``), then from flags;
the later wins. Everything is validated once, here, and is immutable afterwards.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

ENVIRONMENT_PREFIX: Final = "MILLSTREAM_"
"""What an environment variable that is a setting starts with."""

CLIENT_VARIABLES: Final = frozenset(("MILLSTREAM_URL",))
"""Variables with the prefix that are for the client, not for the server."""

SECRETS: Final = frozenset(("records_auth",))
"""Settings that are never printed."""

NOT_SHOWN: Final = "(not shown)"
"""What is printed in place of a secret that is set."""

_INT_MAX: Final = 2**53

Count = Annotated[int, Meta(ge=1, le=_INT_MAX)]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is started with."""

    host: Annotated[str, Meta(min_length=1, description="address to listen on")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="port to listen on; 0 takes any free one")
    ] = 4437
    data_dir: Annotated[str, Meta(min_length=1, description="folder that holds all data")] = (
        "./data"
    )
    public_url: Annotated[
        str | None,
        Meta(description="URL clients reach the server at, if not the one they ask for"),
    ] = None
    insecure_no_auth: Annotated[
        bool, Meta(description="listen on a public address although there is no authentication")
    ] = False
    cors_origins: Annotated[
        tuple[str, ...],
        Meta(description="origins whose pages may use the server; * is every origin"),
    ] = ()
    records_auth: Annotated[
        str | None, Meta(description="secret that requests to /records must have in `auth`")
    ] = None
    webhook_allow_private: Annotated[
        bool, Meta(description="let webhooks go to private and loopback addresses")
    ] = False

    body_bytes_max: Annotated[Count, Meta(le=2 * GIB, description="largest request body")] = (
        64 * MIB
    )
    bodies_bytes_max: Annotated[
        Count, Meta(description="memory for request bodies that are still arriving")
    ] = 512 * MIB
    header_bytes_max: Annotated[
        Count, Meta(ge=256, le=MIB, description="largest request header")
    ] = 32 * KIB
    header_count_max: Annotated[
        Count, Meta(le=10_000, description="most header fields in a request")
    ] = 128
    uri_bytes_max: Annotated[
        Count, Meta(ge=64, le=64 * KIB, description="longest request target")
    ] = 8 * KIB
    connections_max: Annotated[Count, Meta(description="most open connections")] = 16_000
    write_buffer_bytes: Annotated[
        Count, Meta(ge=KIB, description="unsent bytes of a connection that pause its writer")
    ] = 256 * KIB

    header_ms: Annotated[
        Count, Meta(le=3_600_000, description="time for a request header to arrive")
    ] = 10_000
    body_ms: Annotated[
        Count, Meta(le=3_600_000, description="time for a body, beyond what the least rate gives")
    ] = 30_000
    body_bytes_per_s_min: Annotated[
        Count, Meta(description="least rate at which a request body must arrive")
    ] = 16 * KIB
    idle_ms: Annotated[
        Count, Meta(le=86_400_000, description="how long a silent connection is kept")
    ] = 60_000
    write_stall_ms: Annotated[
        Count, Meta(le=3_600_000, description="time for a client to read on before it is cut")
    ] = 30_000
    stop_ms: Annotated[int, Meta(ge=0, le=600_000, description="time for a graceful stop")] = 10_000

    streams_max: Annotated[Count, Meta(description="most streams")] = 1_000_000
    producers_max: Annotated[Count, Meta(description="most producers of one stream")] = 100_000
    inbox_commands_max: Annotated[
        Count, Meta(description="commands that may wait for the log; beyond it the answer is 503")
    ] = 65_536
    inbox_bytes_max: Annotated[
        Count, Meta(description="bytes that may wait for the log; beyond it the answer is 503")
    ] = 256 * MIB
    hot_bytes_max: Annotated[
        Count, Meta(description="memory for message bytes kept ready to read")
    ] = 1 * GIB
    log_bytes_max: Annotated[
        int, Meta(ge=0, le=_INT_MAX, description="disk for log files; 0 is no limit")
    ] = 0
    log_file_bytes: Annotated[
        Count, Meta(ge=64 * KIB, le=16 * GIB, description="size of one log file")
    ] = 64 * MIB
    snapshot_frames: Annotated[
        Count, Meta(description="log frames after which a snapshot is written")
    ] = 200_000
    snapshot_bytes: Annotated[
        Count, Meta(description="log bytes after which a snapshot is written")
    ] = 256 * MIB

    page_bytes: Annotated[
        Count, Meta(ge=KIB, le=256 * MIB, description="size at which a catch-up answer ends")
    ] = 4 * MIB
    long_poll_ms: Annotated[
        int, Meta(ge=100, le=60_000, description="how long a long-poll waits for data")
    ] = 20_000
    sse_ms: Annotated[
        int, Meta(ge=100, le=3_600_000, description="after how long an SSE answer ends")
    ] = 60_000

    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="least severity logged")
    ] = "info"
    log_format: Annotated[
        Literal["auto", "text", "json"],
        Meta(description="form of log lines; auto is text on a terminal and json elsewhere"),
    ] = "auto"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False


class SettingsError(ValueError):
    """A setting is wrong. The message names the key, where it came from, the rule, an example."""

    def __init__(self, key: str, source: str, rule: str, example: str) -> None:
        """Say which key of which source breaks which rule, and what would be right."""
        super().__init__(f"{key} ({source}): {rule}; for example: {example}")
        self.key = key
        self.source = source
        self.rule = rule
        self.example = example


class Field(msgspec.Struct, frozen=True):
    """One setting as the command line and the documentation see it."""

    name: str
    help: str
    default: Any
    kind: Literal["text", "number", "switch", "list", "choice"]
    choices: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None

    @property
    def variable(self) -> str:
        """The environment variable."""
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """The command-line flag; one per value for a list."""
        return "--" + self.name.removesuffix("s" if self.kind == "list" else "").replace("_", "-")

    @property
    def rule(self) -> str:
        """What a right value is."""
        if self.kind == "number":
            return f"must be a whole number from {self.low} to {self.high}"
        if self.kind == "switch":
            return "must be true or false"
        if self.kind == "choice":
            return f"must be one of {', '.join(self.choices)}"
        if self.kind == "list":
            return "must be a list of texts (in the environment: separated by commas)"
        return "must be a text that is not empty"


class Loaded(msgspec.Struct, frozen=True):
    """Valid settings, and where each value came from."""

    settings: Settings
    sources: dict[str, str]

    def render(self) -> str:
        """Return the settings as a TOML file, with each value's source as a comment."""
        lines = []
        for field in fields():
            value = getattr(self.settings, field.name)
            source = self.sources[field.name]
            if value is None:
                lines.append(f"# {field.name} is not set  # {source}")
            elif field.name in SECRETS:
                lines.append(f"# {field.name} is set and not shown  # {source}")
            else:
                lines.append(f"{field.name} = {_toml(value)}  # {source}")
        return "\n".join(lines) + "\n"


def load(
    toml_path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Loaded:
    """Gather, check and freeze the settings. A flag whose value is None was not given.

    Raises SettingsError for an unknown key or a bad value.
    """
    known = {field.name: field for field in fields()}
    values: dict[str, Any] = {}
    sources = dict.fromkeys(known, "default")
    for source, given in (
        *_from_toml(toml_path),
        *_from_environment(environ or {}, known),
        *((f"flag {name}", {name: value}) for name, value in (flags or {}).items()),
    ):
        for name, value in given.items():
            if value is None:
                continue
            if name not in known:
                raise SettingsError(name, source, "there is no such setting", _nearest(name, known))
            field = known[name]
            values[name] = _checked(field, value, source)
            sources[name] = source if not source.startswith("flag ") else f"flag {field.flag}"
    settings = Settings(**values)
    _check_together(settings, sources)
    return Loaded(settings, sources)


def fields() -> tuple[Field, ...]:
    """Return every setting, in the order of the documentation."""
    hints = get_type_hints(Settings, include_extras=True)
    return tuple(
        _field(info.name, hints[info.name], info.default)
        for info in msgspec.structs.fields(Settings)
    )


def _field(name: str, hint: Any, default: Any) -> Field:
    inner, *extras = get_args(hint)
    text = "".join(meta.description or "" for meta in extras)
    if get_origin(inner) is Literal:
        return Field(name, text, default, "choice", choices=get_args(inner))
    if inner is bool:
        return Field(name, text, default, "switch")
    if inner is int:
        lows = [meta.ge for meta in extras if meta.ge is not None]
        highs = [meta.le for meta in extras if meta.le is not None]
        return Field(name, text, default, "number", (), int(max(lows)), int(min(highs)))
    return Field(name, text, default, "list" if get_origin(inner) is tuple else "text")


def _from_toml(path: Path | None) -> list[tuple[str, Mapping[str, Any]]]:
    if path is None:
        return []
    example = "port = 4437"
    try:
        return [(str(path), tomllib.loads(path.read_text()))]
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise SettingsError("settings file", str(path), reason, example) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError("settings file", str(path), f"is not TOML ({error})", example) from None


def _from_environment(
    environ: Mapping[str, str], known: Mapping[str, Field]
) -> list[tuple[str, Mapping[str, Any]]]:
    found: list[tuple[str, Mapping[str, Any]]] = []
    for variable in sorted(environ):
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in CLIENT_VARIABLES:
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            text = environ[variable]
            is_list = name in known and known[name].kind == "list"
            parts = [part.strip() for part in text.split(",") if part.strip()]
            found.append((variable, {name: parts if is_list else text}))
    return found


def _checked(field: Field, value: Any, source: str) -> Any:
    result: Any = None
    match field.kind:
        case "number":
            if isinstance(value, str) and re.fullmatch(r"[0-9]+(_[0-9]+)*", value.strip()):
                value = int(value)
            if isinstance(value, int) and not isinstance(value, bool):
                assert field.low is not None
                assert field.high is not None
                result = value if field.low <= value <= field.high else None
        case "switch":
            switches = {"true": True, "1": True, "yes": True, "false": False, "0": False}
            switches["no"] = False
            result = value if isinstance(value, bool) else switches.get(str(value).lower())
        case "choice":
            result = value if value in field.choices else None
        case "list":
            is_list = isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
            result = tuple(value) if is_list else None
        case "text":
            result = str(value) if isinstance(value, str | Path) and str(value) else None
    if result is None:
        raise SettingsError(field.name, source, field.rule, _example(field, source))
    return result


def _check_together(settings: Settings, sources: Mapping[str, str]) -> None:
    if not settings.is_loopback and not settings.insecure_no_auth:
        raise SettingsError(
            "host",
            sources["host"],
            "there is no authentication yet, so a server that others can reach must be asked for",
            f"--host 127.0.0.1, or --host {settings.host} --insecure-no-auth",
        )
    for origin in settings.cors_origins:
        if origin != "*" and not re.fullmatch(r"https?://[a-z0-9.\[\]:_-]+", origin):
            raise SettingsError(
                "cors_origins",
                sources["cors_origins"],
                f"{origin!r} is not an origin (scheme, host in lower case, port; no path)",
                "https://app.example.com",
            )
    url = settings.public_url
    if url is not None and not re.fullmatch(r"https?://[^\s?#/][^\s?#]*", url):
        raise SettingsError(
            "public_url",
            sources["public_url"],
            "must be an http or https URL without query",
            "https://streams.example.com",
        )


def _example(field: Field, source: str) -> str:
    value = field.default if field.default not in (None, ()) else ["https://app.example.com"]
    value = "a-long-random-text" if field.name in SECRETS else value
    if source.startswith("flag "):
        return field.flag if field.kind == "switch" else f"{field.flag} {_plain(value)}"
    if source.startswith(ENVIRONMENT_PREFIX):
        return f"{field.variable}={_plain(value)}"
    return f"{field.name} = {_toml(value)}"


def _nearest(name: str, known: Mapping[str, Field]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
    return _example(known[nearest], "")


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, list | tuple) else str(value)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    return msgspec.json.encode(value).decode()
