"""Every example of the guide runs, against a real server, as it is printed."""

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator

import pytest

from millstream.testing.process import ServerProcess
from tests.support.tree import DOCS, name_of

PRINTED_URL = "http://127.0.0.1:4437"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE_S = 60.0


def examples() -> Iterator[object]:
    """Every block of Python, named by its document and line."""
    for document in (DOCS / "client.md", DOCS / "migrating.md"):
        text = document.read_text()
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield pytest.param(found[1], id=f"{document.name}:{line}")


def test_the_guide_has_examples() -> None:
    assert len(list(examples())) > 12, name_of(DOCS / "client.md")


@pytest.mark.parametrize("source", list(examples()))
def test_an_example_runs_as_it_is_printed(shared_server: ServerProcess, source: str) -> None:
    async def run() -> None:
        code = compile(
            source.replace(PRINTED_URL, shared_server.url),
            "example",
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        )
        namespace: dict[str, object] = {"__name__": "example"}
        # As in `python -m asyncio`: with an await at the top, running it gives a coroutine.
        result = eval(code, namespace)
        if inspect.isawaitable(result):
            async with asyncio.timeout(PATIENCE_S):
                await result

    asyncio.run(run())
