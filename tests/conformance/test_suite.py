"""The official protocol suite as one test; `make conformance` shows each case."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_official_suite_passes_completely() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "conformance" / "run.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    last = (run.stdout.strip().splitlines() or [""])[-1]
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    assert last == "338 passed, 0 failed"
