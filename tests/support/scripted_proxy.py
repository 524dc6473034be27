"""A fault proxy whose faults are written down in place of being drawn."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.fault_proxy import Fault, FaultProxy


class ScriptedProxy(FaultProxy):
    """The first request meets the first fault of the script, and so on; then there are none."""

    def __init__(self, port: int, script: Iterable[Fault | None] = ()) -> None:
        super().__init__(port, shares={})
        self._script = list(script)
        self.requests = 0

    def draw(self) -> Fault | None:
        """Return the next fault of the script."""
        super().draw()
        self.requests += 1
        return self._script.pop(0) if self._script else None

    def cut_point(self) -> int:
        """Cut every answer inside its head."""
        return 20
