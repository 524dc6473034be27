import os
import subprocess
import sys
import time

from bench.procfs import cpu_us, rss_bytes, ticks_of, tree


def test_ticks_are_read_behind_a_name_that_holds_spaces_and_brackets() -> None:
    line = "7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 12 30 5 6 20 0 1 0 100 0 0"
    assert ticks_of(line) == 42


def test_a_tree_holds_the_children_of_children() -> None:
    script = (
        "import subprocess,sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())
        assert {parent.pid, grandchild} <= set(tree(os.getpid()))
        parent.kill()


def test_processor_time_grows_with_work_and_memory_is_there() -> None:
    before = cpu_us(os.getpid())
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    assert cpu_us(os.getpid()) - before >= 50_000
    assert rss_bytes(os.getpid()) > 1 << 20


def test_a_process_that_is_gone_costs_nothing() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert cpu_us(gone.pid) == rss_bytes(gone.pid) == 0
