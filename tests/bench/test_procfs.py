import os
import subprocess
import sys
import time

from bench.load.window import Instant, span
from bench.procfs import children, cpu_us, process_us, rss_bytes, ticks_of, tree


def test_ticks_are_read_behind_a_name_that_holds_spaces_and_brackets() -> None:
    line = "7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 12 30 5 6 20 0 1 0 100 0 0"
    assert ticks_of(line) == 42
    assert ticks_of(line, with_ended=True) == 53


BUSY_CHILD = (
    "import subprocess,sys\n"
    "work = 'import time\\nwhile time.process_time() < 0.2: pass\\nprint(flush=True)\\ninput()'\n"
    "child = subprocess.Popen([sys.executable, '-c', work], stdin=subprocess.PIPE,\n"
    "                         stdout=subprocess.PIPE)\n"
    "child.stdout.readline()\n"
    "print('busy', flush=True)\n"
    "input()\n"
    "child.communicate(b'\\n')\n"
    "print('ended', flush=True)\n"
    "input()\n"
)


def test_what_a_child_used_still_counts_when_it_has_ended() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUSY_CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdout.readline()
        during, own_during = cpu_us(parent.pid), process_us(parent.pid)
        assert len(children(parent.pid)) == 1
        parent.stdin.write("\n")
        parent.stdin.flush()
        parent.stdout.readline()
        after, own_after = cpu_us(parent.pid), process_us(parent.pid)
        assert children(parent.pid) == []
        parent.kill()
    assert during - own_during >= 150_000
    assert after >= during
    assert after - own_after >= 150_000


def test_no_span_has_used_less_than_nothing() -> None:
    start, end = Instant(1.0, 500, 400, 0.0), Instant(2.0, 450, 390, 0.5)
    found = span(start, end)
    assert (found.server_us, found.process_us, found.generator_share) == (0, 0, 0.5)


def test_a_span_tells_the_process_from_its_children() -> None:
    found = span(Instant(1.0, 500, 400, 0.0), Instant(2.0, 900, 600, 0.5))
    assert (found.server_us, found.process_us) == (400, 200)


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
