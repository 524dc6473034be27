"""The source tree as data, for the tests that look at the project itself."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "millstream"
UNIT = ROOT / "tests" / "unit"
DOCS = ROOT / "docs"

# What tools leave behind, and what is not ours: never looked at.
MADE = {
    ".git",
    ".venv",
    ".node",
    ".peers",
    "node_modules",
    "__pycache__",
    "data",
    "dist",
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".import_linter_cache",
    ".schemathesis",
}
TEXT = {".py", ".md", ".toml", ".txt", ".json", ".lock", ".mjs", ".ini", ".yaml", ".yml", ""}


def files(under: Path = ROOT) -> Iterator[Path]:
    """Every text file of the project below `under`, in order."""
    for path in sorted(under.iterdir()) if under.is_dir() else ():
        if path.name in MADE:
            continue
        if path.is_dir():
            yield from files(path)
        elif path.suffix in TEXT:
            yield path


def python_files() -> list[Path]:
    """Every Python file of the project."""
    return [path for path in files() if path.suffix == ".py"]


def documents() -> list[Path]:
    """Every Markdown file of the project."""
    return [path for path in files() if path.suffix == ".md"]


def name_of(path: Path) -> str:
    """Path from the project's root, for messages and test names."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(), filename=str(path))


@functools.cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found: dict[str, Path] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("millstream", *path.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, at any depth of the code."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            # `from a.b import c` takes a module c, or a name out of a.b.
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & modules().keys() or {node.module}
            if inner - modules().keys():
                found.add(node.module)
    return found & modules().keys()


def documented(heading: str) -> set[str]:
    """First-column code names of every table under a heading of this title, in all of docs/."""
    names: set[str] = set()
    for path in sorted(DOCS.rglob("*.md")):
        inside = False
        for line in path.read_text().splitlines():
            if line.startswith("#"):
                inside = line.lstrip("#").strip().casefold() == heading.casefold()
            elif inside and line.startswith("| `"):
                names.add(line.split("`")[1])
    return names
