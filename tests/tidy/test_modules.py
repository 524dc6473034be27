"""No dead modules, no untested modules, no vague names, and a core without a clock."""

import ast

from tests.support.tree import PACKAGE, ROOT, UNIT, imports, modules, name_of, parsed, python_files

VAGUE = {"utils", "util", "helpers", "helper", "manager", "common", "base", "impl", "misc"}
# Where a process starts; the command loads its verbs by name, so they are entries too.
ENTRIES = {
    "millstream",
    "millstream.__main__",
    "millstream.cli.main",
    "millstream.client",
    "millstream.client.adapter",
    "millstream.client.sync",
    "millstream.server.hosted",
}
# Modules whose only test is a running server, each with its reason.
UNIT_TEST_ELSEWHERE = {
    "__main__.py": "two lines; every integration test starts through it",
    "server/lifespan.py": "assembly only; every integration test runs it",
}
IMPURE_MODULES = {
    "asyncio",
    "concurrent",
    "io",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "uuid",
}
IMPURE_CALLS = {"open", "print", "input", "datetime.now", "datetime.utcnow", "date.today"}


def verbs() -> set[str]:
    """Modules that the command line loads by name, read from its table."""
    names = {
        node.value
        for node in ast.walk(parsed(PACKAGE / "cli" / "main.py"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {f"millstream.cli.{name}" for name in names} & modules().keys()


def reachable(entries: set[str]) -> set[str]:
    seen: set[str] = set()
    waiting = list(entries & modules().keys())
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(imports(modules()[name]))
            # Importing a module runs the packages around it.
            if "." in name:
                waiting.append(name.rpartition(".")[0])
    return seen


def test_every_module_is_reachable_from_the_command_or_by_the_tests_kit() -> None:
    kit = {name for name in modules() if name.startswith("millstream.testing")}
    outside = [path for path in python_files() if not path.is_relative_to(PACKAGE)]
    used_by_tests = set().union(*(imports(path) for path in outside)) & kit
    alive = reachable(ENTRIES | verbs() | used_by_tests)
    assert sorted(modules().keys() - alive - {"millstream.testing"}) == []


def test_every_module_has_a_unit_test_at_the_same_path() -> None:
    missing = []
    for path in modules().values():
        inner = path.relative_to(PACKAGE)
        if path.name == "__init__.py" or inner.as_posix() in UNIT_TEST_ELSEWHERE:
            continue
        if not (UNIT / inner.with_name(f"test_{inner.name}")).exists():
            missing.append(inner.as_posix())
    assert missing == []


def test_every_unit_test_has_a_module_at_the_same_path() -> None:
    stray = []
    for path in sorted(UNIT.rglob("test_*.py")):
        inner = path.relative_to(UNIT)
        if not (PACKAGE / inner.with_name(inner.name.removeprefix("test_"))).exists():
            stray.append(name_of(path))
    assert stray == []


def test_no_module_has_a_vague_name() -> None:
    assert [
        name_of(p) for p in modules().values() if p.stem in VAGUE or p.parent.name in VAGUE
    ] == []


def test_package_files_only_re_export() -> None:
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr)
    full = [
        name_of(path)
        for path in modules().values()
        if path.name == "__init__.py"
        and not all(isinstance(node, allowed) for node in parsed(path).body)
    ]
    assert full == []


def test_core_has_no_clock_randomness_or_input_and_output() -> None:
    found = []
    for path in sorted((PACKAGE / "core").rglob("*.py")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names} & IMPURE_MODULES
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").split(".")[0]} & IMPURE_MODULES
            elif isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                names = {
                    call for call in IMPURE_CALLS if called == call or called.endswith("." + call)
                }
            else:
                continue
            found += [f"{name_of(path)}: {name}" for name in names]
    assert found == []


def test_every_public_name_has_a_docstring() -> None:
    silent = []
    for path in modules().values():
        if not path.read_text().strip():
            continue
        if ast.get_docstring(parsed(path)) is None:
            silent.append(name_of(path))
        silent += [
            f"{name_of(path)}: {node.name}"
            for node in parsed(path).body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and ast.get_docstring(node) is None
        ]
    assert silent == []


def test_tests_live_only_in_known_folders() -> None:
    known = {
        "unit",
        "property",
        "tidy",
        "integration",
        "interop",
        "crash",
        "conformance",
        "support",
        "sim",
        "bench",
    }
    folders = {p.name for p in (ROOT / "tests").iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert sorted(folders - known) == []
