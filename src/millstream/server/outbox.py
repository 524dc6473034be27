"""The way out of one connection: what is answered within one read leaves together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

_JOIN_BYTES_MAX: Final = 16 * 1024
_HELD_MAX: Final = 16


class Outbox:
    """Hands bytes to the transport, at once or together with those that follow soon."""

    __slots__ = ("_is_held", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        """Send through ``transport``."""
        self._transport = transport
        self._parts: list[bytes] = []
        self._is_held = False

    def write(self, head: bytes, body: bytes | Sequence[bytes] = b"") -> None:
        """Send a head and its body; small ones as one piece."""
        if not body:
            data = head
        elif isinstance(body, bytes) and len(body) <= _JOIN_BYTES_MAX:
            data = head + body
        else:
            parts = (body,) if isinstance(body, bytes) else body
            self._transport.writelines((*self._parts, head, *parts))
            self._parts.clear()
            return
        if self._is_held:
            self._parts.append(data)
            if len(self._parts) >= _HELD_MAX:
                self.flush()
        else:
            self._transport.write(data)

    def hold(self) -> bool:
        """Keep small pieces until `release`; tells whether they were kept already."""
        was_held, self._is_held = self._is_held, True
        return was_held

    def release(self) -> None:
        """Send what was kept, and go on at once from now on."""
        self._is_held = False
        if self._parts:
            self.flush()

    def flush(self) -> None:
        """Send what was kept."""
        parts, self._parts = self._parts, []
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif parts:
            self._transport.writelines(parts)

    def clear(self) -> None:
        """Forget what was kept: nobody will read it."""
        self._parts.clear()
