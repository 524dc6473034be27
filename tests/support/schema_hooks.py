"""Hooks for schemathesis: let most generated requests meet streams that exist."""

import zlib
from typing import Any

import schemathesis

NAMES = ("text", "json", "bytes", "closed", "fork", "brief", "some/where/else")
"""Paths that most requests are sent to; some are created before the run."""


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
