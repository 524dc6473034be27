"""uv.lock is the pinned truth; what `make setup` installs from must agree with it."""

import json
import re
import tomllib
from typing import Any

import millstream
from tests.support.tree import ROOT

REQUIREMENT = re.compile(r"^([\w.-]+)==(\S+)")
HASH = re.compile(r"--hash=(\S+)")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked() -> dict[str, dict[str, Any]]:
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    return {package["name"]: package for package in lock["package"]}


def exported(name: str) -> dict[str, tuple[str, set[str]]]:
    """Version and hashes of every package in an exported file."""
    found: dict[str, tuple[str, set[str]]] = {}
    package = ""
    for line in (ROOT / "requirements" / name).read_text().splitlines():
        if match := REQUIREMENT.match(line):
            package = match[1]
            found[package] = (match[2], set())
        found[package][1].update(HASH.findall(line))
    return found


def needed(names: list[str]) -> set[str]:
    """Everything the lock pulls in behind these packages, markers ignored."""
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += [item["name"] for item in locked()[name].get("dependencies", ())]
    return seen


def group(name: str) -> list[str]:
    groups = locked()["millstream"]["dev-dependencies"]
    return [item["name"] for item in groups[name]]


def test_the_exported_files_have_the_versions_and_hashes_of_the_lock() -> None:
    packages = locked()
    for name in ("dev.txt", "node.txt"):
        for package, (version, hashes) in exported(name).items():
            pin = packages[package]
            files = [*pin.get("wheels", ()), *([pin["sdist"]] if "sdist" in pin else ())]
            assert version == pin["version"], package
            assert hashes == {file["hash"] for file in files}, package


def test_the_exported_files_leave_nothing_out() -> None:
    base = [item["name"] for item in locked()["millstream"]["dependencies"]]
    server = locked()["millstream"]["optional-dependencies"]["server"]
    everything = needed([*base, *(item["name"] for item in server), *group("dev")])
    assert exported("dev.txt").keys() == everything
    assert exported("node.txt").keys() == needed(group("node"))


def test_the_lock_was_made_from_this_project_file() -> None:
    def plain(requirement: str) -> str:
        return re.sub(r"\s", "", requirement)

    wanted = {plain(item) for item in project()["project"]["dependencies"]}
    for items in project()["project"]["optional-dependencies"].values():
        wanted |= {plain(item) for item in items}
    for items in project()["dependency-groups"].values():
        wanted |= {plain(item) for item in items}
    metadata = locked()["millstream"]["metadata"]
    entries = list(metadata["requires-dist"])
    for items in metadata["requires-dev"].values():
        entries += items
    assert {item["name"] + item.get("specifier", "") for item in entries} == wanted


def test_the_lock_files_name_only_the_public_registries() -> None:
    lock = (ROOT / "uv.lock").read_text()
    hosts = set(re.findall(r"https?://([^/\"]+)", lock))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}
    for folder in ("conformance", "bench", "tests/interop"):
        packages = json.loads((ROOT / folder / "package-lock.json").read_text())["packages"]
        assert [name for name, item in packages.items() if "resolved" in item] == []
        unpinned = [name for name, item in packages.items() if name and "integrity" not in item]
        assert unpinned == [], folder


def test_the_package_and_the_project_file_agree_on_the_version() -> None:
    assert project()["project"]["version"] == millstream.__version__
