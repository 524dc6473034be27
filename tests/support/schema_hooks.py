"""Hooks for schemathesis: let most generated requests meet streams that exist."""

import zlib
from typing import Any

import schemathesis

from millstream.wire.records import TIMEOUT_S_MAX

NAMES = ("text", "json", "bytes", "closed", "fork", "brief", "some/where/else")
"""Paths that most requests are sent to; some are created before the run."""
WAIT_S_MAX = 0.05
"""How long a generated read of records may wait: there are many of them."""


@schemathesis.hook
def map_path_parameters(
    context: schemathesis.HookContext,
    path_parameters: dict[str, Any],
) -> dict[str, Any]:
    """Put a known stream in place of three of four generated paths."""
    path = path_parameters.get("path") if path_parameters else None
    if isinstance(path, str):
        number = zlib.crc32(path.encode("utf-8", "surrogatepass"))
        if number % 4:
            path_parameters["path"] = NAMES[number // 4 % len(NAMES)]
    return path_parameters


@schemathesis.hook
def before_call(
    context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]
) -> None:
    """Let no read of records wait for long; what is no time stays as it was made up."""
    if case.method != "GET" or not case.path.startswith("/records/"):
        return
    query = case.query or {}
    try:
        wait_s = float(query.get("timeout_sec", "inf"))
    except (TypeError, ValueError):
        return
    if wait_s > WAIT_S_MAX and (wait_s <= TIMEOUT_S_MAX or "timeout_sec" not in query):
        case.query = {**query, "timeout_sec": WAIT_S_MAX}
