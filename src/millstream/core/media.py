"""Content types: what two of them have in common, and which ones mean JSON mode."""

from __future__ import annotations

from typing import Final

OCTETS: Final = "application/octet-stream"
JSON: Final = "application/json"


def essence(content_type: str) -> str:
    """Return type/subtype in lower case, without parameters."""
    return content_type.partition(";")[0].strip().lower()


def is_same(left: str, right: str) -> bool:
    """Tell whether two content types agree; parameters and case do not count."""
    return left == right or essence(left) == essence(right)


def is_json(content_type: str) -> bool:
    """Tell whether messages of this type are single JSON values."""
    return content_type == JSON or essence(content_type) == JSON


def is_text(content_type: str) -> bool:
    """Tell whether messages of this type travel over SSE as they are."""
    kind = essence(content_type)
    return kind == JSON or kind.startswith("text/")
