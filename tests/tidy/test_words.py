"""Words that must not be in the tree: reminders, machine paths, hosts that are not public."""

import re
from pathlib import Path

from tests.support.tree import ROOT, files, name_of

# Put together from parts, so that this file does not contain what it looks for.
REMINDERS = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]) + r")\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|root|home|Users)/\w")
HOST = re.compile(r"https?://(?:[^/@\s\"'`<>]*@)?(\[[0-9a-fA-F:.%]+\]|[\w.-]*\w)")
PUBLIC_HOSTS = {
    "docs.astral.sh",
    "files.pythonhosted.org",
    "github.com",
    "json-schema.org",
    "keepachangelog.com",
    "localhost",
    "opencollective.com",
    "pypi.org",
    "semver.org",
    "tidelift.com",
    "www.npmjs.com",
    "www.rfc-editor.org",
    "www.w3.org",
}
LITERAL_ADDRESS = re.compile(r"\[.*\]|\d+(?:\.\d+){3}")
RESERVED = (".example", ".test", ".invalid", "example.com", "example.org", "example.net")


def hits(pattern: re.Pattern[str], path: Path) -> list[str]:
    lines = path.read_text(errors="replace").splitlines()
    return [f"{name_of(path)}:{n}" for n, line in enumerate(lines, 1) if pattern.search(line)]


def is_public(host: str) -> bool:
    return (
        host in PUBLIC_HOSTS
        or LITERAL_ADDRESS.fullmatch(host) is not None
        or host.endswith(RESERVED)
    )


def test_nothing_is_left_as_a_reminder() -> None:
    assert [hit for path in files() for hit in hits(REMINDERS, path)] == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert [hit for path in files() for hit in hits(MACHINE_PATHS, path)] == []


def test_urls_name_only_public_or_reserved_hosts() -> None:
    found = []
    for path in files():
        # Tests attack address parsing with hosts of every shape.
        if path.is_relative_to(ROOT / "tests"):
            continue
        hosts = set(HOST.findall(path.read_text(errors="replace")))
        found += [f"{name_of(path)}: {host}" for host in sorted(hosts) if not is_public(host)]
    assert found == []
