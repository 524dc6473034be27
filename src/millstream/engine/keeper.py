"""Keep restarts short: have a snapshot written whenever enough log has piled up behind the last."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

from millstream.engine import snapshotter

if TYPE_CHECKING:
    from millstream.engine.engine import Engine

_log = logging.getLogger(__name__)


class Keeper:
    """Watches the log grow and starts the snapshotter, one at a time."""

    def __init__(
        self, engine: Engine, directory: str, snapshot_lsn: int, frames_max: int, bytes_max: int
    ) -> None:
        """Have a snapshot written every ``frames_max`` frames or ``bytes_max`` bytes of log."""
        self._engine = engine
        self._directory = directory
        self._frames_max = frames_max
        self._bytes_max = bytes_max
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._bytes_before = engine.writer.log_bytes
        self._is_stopping = False
        self.snapshot_lsn = snapshot_lsn
        self.written = 0
        self.failed = 0

    def look(self, _batch_size: int) -> None:
        """Start the snapshotter if it is time; called after every batch, so it must be cheap."""
        writer = self._engine.writer
        if self._task is not None:
            return
        frames = writer.durable_lsn - self.snapshot_lsn
        if frames < self._frames_max and writer.log_bytes - self._bytes_before < self._bytes_max:
            return
        self._bytes_before = writer.log_bytes
        self._task = asyncio.get_running_loop().create_task(
            self._run(writer.durable_lsn), name="millstream-snapshot"
        )

    async def stop(self) -> None:
        """End a snapshotter that is under way; what it had written is thrown away."""
        self._is_stopping = True
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
        if self._task is not None:
            await self._task

    async def _run(self, lsn: int) -> None:
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                snapshotter.__name__,
                self._directory,
                str(lsn),
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
            _, errors = await self._process.communicate()
            status = self._process.returncode
        except OSError as error:
            status, errors = -1, str(error).encode()
        if status == 0:
            self.written += 1
        elif not self._is_stopping:
            # A negative status is a signal: nobody but `stop` has reason to send one.
            self.failed += 1
            reason = errors.decode(errors="replace")[-2000:] or f"status {status}"
            _log.error("snapshot at %d failed: %s", lsn, reason)
        # A failed one is not tried again at once, but after as much log again.
        self.snapshot_lsn = lsn
        self._process = None
        self._task = None
