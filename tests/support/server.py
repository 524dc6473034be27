"""Real servers for tests; the process itself is in `millstream.testing.process`."""

from pathlib import Path
from types import TracebackType
from typing import Self

from millstream.testing.process import ServerProcess


class Servers:
    """Starts servers, each on its own directory under `root`, and kills them all at the end."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._started: list[ServerProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for server in self._started:
            server.kill()

    def prepare(self, *arguments: str, data_dir: Path | None = None) -> ServerProcess:
        """Return a server that is not started yet."""
        directory = data_dir or self._root / f"data-{len(self._started)}"
        server = ServerProcess(directory, arguments)
        self._started.append(server)
        return server

    def start(self, *arguments: str, data_dir: Path | None = None) -> ServerProcess:
        """Start a server with extra `serve` flags and return it when it is ready."""
        return self.prepare(*arguments, data_dir=data_dir).start()
