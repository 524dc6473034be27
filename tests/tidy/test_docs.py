"""What the code offers is in docs/, and what docs/ offers is in the code."""

import ast
import re
from pathlib import Path

import msgspec

import millstream
from millstream.cli.main import VERBS
from millstream.core.errors import Code
from millstream.server.settings import Settings
from millstream.server.stream_routes import ALL_ROUTES
from tests.support.tree import (
    PACKAGE,
    ROOT,
    documented,
    documents,
    name_of,
    parsed,
)

CODE_SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FILE_NAME = re.compile(r"[\w.*-]+(?:/[\w.*-]+)+\.(?:py|md|toml|txt|json|mjs|lock|yaml)")
METRIC = re.compile(r"millstream_[a-z0-9_]*[a-z0-9]")


def agree(heading: str, offered: set[str]) -> None:
    """Compare what the code offers with the tables under `heading`, in both directions."""
    listed = documented(heading)
    assert sorted(offered - listed) == [], f"missing in docs, under {heading!r}"
    assert sorted(listed - offered) == [], f"in docs under {heading!r}, but not in the code"


def test_every_setting_is_documented_and_back() -> None:
    agree("Settings", {field.name for field in msgspec.structs.fields(Settings)})


def test_every_route_is_documented_and_back() -> None:
    agree("Routes", {f"{route.method} {route.path}" for route in ALL_ROUTES})


def test_every_error_code_is_documented_and_back() -> None:
    codes = {member.code for member in Code}
    agree("Error codes", codes)


def test_every_metric_is_documented_and_back() -> None:
    trees = [parsed(path) for path in sorted((PACKAGE / "server").rglob("*.py"))]
    texts = [node.value for t in trees for node in ast.walk(t) if isinstance(node, ast.Constant)]
    agree("Metrics", {text for text in texts if isinstance(text, str) and METRIC.fullmatch(text)})


def test_every_verb_of_the_command_is_documented_and_back() -> None:

    agree("Verbs", set(VERBS))


def candidates(document: Path, name: str) -> list[Path]:
    """Where a file named in a document may be: beside it, in the project, or in the package."""
    bases = [document.parent, ROOT, PACKAGE, ROOT / "tests"]
    return [path for base in bases for path in base.glob(name)]


def test_files_named_in_documents_exist() -> None:
    missing = []
    for document in documents():
        text = document.read_text()
        named = {span for span in CODE_SPAN.findall(text) if FILE_NAME.fullmatch(span)}
        linked = {link for link in LINK.findall(text) if "://" not in link}
        missing += [
            f"{name_of(document)}: {name}"
            for name in sorted(named | linked)
            if not candidates(document, name.removeprefix("./"))
        ]
    assert missing == []


def test_make_verbs_named_in_documents_exist() -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    missing = [
        f"{name_of(document)}: make {verb}"
        for document in documents()
        for span in CODE_SPAN.findall(document.read_text())
        for verb in re.findall(r"\bmake ([a-z-]+)", span)
        if verb not in verbs
    ]
    assert missing == []


def test_the_changelog_tells_of_this_version() -> None:
    assert f"## {millstream.__version__}" in (ROOT / "CHANGELOG.md").read_text()
