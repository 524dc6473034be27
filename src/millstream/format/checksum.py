"""CRC-32C (Castagnoli), the one checksum of every layout.

The ``crc32c`` package is used rather than ``google-crc32c``: both run at the speed of the
processor's instruction, but only this one takes any buffer, so that a part of a file is checked
in place instead of being copied first.
"""

from __future__ import annotations

from crc32c import crc32c

__all__ = ["crc32c"]
