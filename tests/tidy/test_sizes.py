"""Limits that keep every piece readable: 400 lines a file, 60 a function, 12 methods a class."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.tree import name_of, parsed, python_files

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
PUBLIC_METHODS_MAX = 12

Function = ast.FunctionDef | ast.AsyncFunctionDef


def code_lines(function: Function) -> int:
    """Lines from `def` to the end; the docstring does not count."""
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and ast.get_docstring(function) is not None:
        length -= (first.end_lineno or first.lineno) - first.lineno + 1
    return length


def long_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, Function) and code_lines(node) > FUNCTION_LINES_MAX:
            yield f"{name_of(path)}: {node.name} has {code_lines(node)} lines"


def wide_classes(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.ClassDef):
            continue
        public = [
            item.name
            for item in node.body
            if isinstance(item, Function) and not item.name.startswith("_") and not is_value(item)
        ]
        # A test class is a list of sentences, and a rule-based machine a list of rules.
        if len(public) > PUBLIC_METHODS_MAX and "tests" not in path.parts:
            yield f"{name_of(path)}: {node.name} has {len(public)} public methods"


def is_value(function: Function) -> bool:
    """Tell whether it is a property: a name for a value, not something the class does."""
    names = {ast.unparse(decorator) for decorator in function.decorator_list}
    return any(name in {"property", "functools.cached_property"} for name in names)


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in python_files()}
    assert {name: n for name, n in lengths.items() if n > FILE_LINES_MAX} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    assert [line for path in python_files() for line in long_functions(path)] == []


def test_no_class_has_more_than_12_public_methods() -> None:
    assert [line for path in python_files() for line in wide_classes(path)] == []
