"""The server's own log: text for people at a terminal, JSON lines for machines."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TextIO

import msgspec

from millstream.wire.fields import rfc3339

if TYPE_CHECKING:
    from millstream.server.settings import Settings


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        fields: dict[str, object] = {
            "time": rfc3339(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


def configure_logs(settings: Settings, stream: TextIO) -> None:
    """Send the log to ``stream`` in the form the settings ask for."""
    is_json = settings.log_format == "json" or (
        settings.log_format == "auto" and not stream.isatty()
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        JsonLines() if is_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    root = logging.getLogger("millstream")
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    root.propagate = False
