"""The way from threads into the client's event loop: one background thread that runs the loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from millstream.client.errors import ClientClosed

T = TypeVar("T")
_END: Final = object()


class Portal:
    """Runs coroutines for threads that wait. The loop's thread starts with the first of them.

    It is a daemon: a client that nobody closed does not keep the process alive.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result, or raise its error.

        A wait that is interrupted (Ctrl-C) cancels the coroutine. Raises ClientClosed after
        `close`.
        """
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine on the loop. Raises ClientClosed after `close`."""
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._running())
        except BaseException:
            coroutine.close()
            raise

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a plain function on the loop's thread and return its result."""

        async def called() -> T:
            return function(*arguments)

        return self.run(called())

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """Give what an asynchronous iterator gives, each when it is asked for."""

        async def following() -> T | object:
            return await anext(source, _END)

        while (item := self.run(following())) is not _END:
            yield item  # type: ignore[misc]

    def close(self) -> None:
        """Cancel what still runs, end the thread and wait for it. Safe to repeat."""
        with self._lock:
            self._is_closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_closed:
                raise ClientClosed("the client is closed")
            if self._thread is threading.current_thread():
                # It would wait for itself; hooks and callables run here.
                raise RuntimeError("a blocking call cannot be made on the client's own loop")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="millstream-client", daemon=True
                )
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
