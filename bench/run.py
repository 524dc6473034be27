"""Measure Millstream beside its peers: `python -m bench.run [--quick] [--only W1,W4] ...`.

Writes bench/results/latest.json, .md and .svg and table.md, and prints the report.
"""

from __future__ import annotations

import argparse
import platform
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from bench.figures import PEERS
from bench.plan import QUICK, TINY, Plan
from bench.report import Outcome, write
from bench.table import compact, put_into
from bench.workloads.appends import w1, w2
from bench.workloads.catchup import w3
from bench.workloads.fanout import w4
from bench.workloads.growth import growth
from bench.workloads.idle import w6
from bench.workloads.run import Run
from bench.workloads.streams import w5

HERE: Final = Path(__file__).resolve().parent
README: Final = HERE.parent / "README.md"
WORKLOADS: Final[dict[str, Callable[[Run], Awaitable[None]]]] = {
    "W1": w1,
    "W2": w2,
    "W3": w3,
    "W4": w4,
    "W5": w5,
    "W6": w6,
    "growth": growth,
}


def chosen(text: str, known: Sequence[str]) -> list[str]:
    """Return the names in a comma-separated list; raises ArgumentTypeError for an unknown one."""
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(known)}")
    return [name for name in known if name in names]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="about 2 minutes, rougher figures")
    size.add_argument("--tiny", action="store_true", help="only see that everything runs")
    parser.add_argument(
        "--only", type=lambda text: chosen(text, list(WORKLOADS)), default=list(WORKLOADS),
        metavar="W1,W4", help="these workloads only",
    )  # fmt: skip
    parser.add_argument(
        "--peers", type=lambda text: chosen(text, PEERS), default=list(PEERS),
        metavar="NAMES", help=f"these peers only, of {','.join(PEERS)}",
    )  # fmt: skip
    parser.add_argument(
        "--readme", action="store_true", help="put the short table into README.md (whole run only)"
    )
    parser.add_argument("--repeats", type=int, help="how often each case is measured")
    parser.add_argument("--root", type=Path, default=HERE / "data", help="where data goes")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="where results go")
    options = parser.parse_args(arguments)
    is_whole = options.only == list(WORKLOADS) and options.peers == list(PEERS)
    if options.readme and (options.quick or options.tiny or not is_whole):
        parser.error("--readme goes with a whole run: no --quick, --tiny, --only or --peers")
    return options


def plan_of(options: argparse.Namespace) -> Plan:
    """Return the sizes that the command line asks for."""
    plan = QUICK if options.quick else TINY if options.tiny else Plan()
    return msgspec.structs.replace(plan, repeats=options.repeats) if options.repeats else plan


async def measure(run: Run, names: Sequence[str]) -> None:
    """Run the workloads in order."""
    for name in names:
        began = time.perf_counter()
        print(f"== {name}", file=sys.stderr)
        await WORKLOADS[name](run)
        print(f"== {name} took {time.perf_counter() - began:.0f} s", file=sys.stderr)


def main(arguments: Sequence[str]) -> int:
    """Measure, write the results, print the table."""
    options = parse(arguments)
    # Being ended must end the servers and remove their data, as leaving does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    plan = plan_of(options)
    options.root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="millstream-bench-", dir=options.root) as scratch:
        run = Run(plan, Path(scratch), options.peers)
        uvloop.run(measure(run, options.only))
    found = Outcome(
        title=f"{platform.machine()}, Python {platform.python_version()}, {plan.repeats} repeats",
        samples=run.samples,
        facts=run.facts,
        failures=run.failures,
        spent=run.spent,
    )
    print(write(options.results, found))
    table = compact(found)
    (options.results / "table.md").write_text(table)
    if options.readme:
        README.write_text(put_into(README.read_text(), table))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
