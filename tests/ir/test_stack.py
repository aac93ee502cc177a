"""Programs that nest deeply, on threads of little stack: each gives its answer or an error, and no process ends."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

DEEP = """
import sys, threading
import loopir as lp

def program(terms):
    text = " + ".join(["A[i]"] * terms)
    return f'def f(A: "float32[8]", B: "out float32[8]"):\\n    for i in range(8):\\n        B[i] = {text}\\n'

def work():
    for terms in (100, 900, 3000):
        try:
            print(terms, len(lp.lower(lp.Schedule(lp.parse(program(terms))), "cuda")))
        except lp.LoopirError as error:
            print(terms, str(error)[:40])

threading.stack_size(int(sys.argv[1]) << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
work()
"""


def ran(thread: int, main: int) -> list[str]:
    """What DEEP prints where threads have `thread` KB of stack, and the main thread `main` KB."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_STACK, (main << 10, main << 10))  # noqa: E731
    done = subprocess.run(
        [sys.executable, "-c", DEEP, str(thread)], capture_output=True, text=True, preexec_fn=limit, timeout=900
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.splitlines()


class Around:
    """Something whose hash is that of what is in it."""

    def __init__(self, inner: object) -> None:
        self.inner = inner

    def __hash__(self) -> int:
        return hash(self.inner)


def nests(levels: int) -> bool:
    """Whether Python calls so deep through C: before 3.12.3 no limit that is set lets it go on past some hundreds."""
    x: object = 0
    for _ in range(levels):
        x = Around(x)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 4 * levels)
    try:
        return isinstance(hash(x), int)
    except RecursionError:
        return False
    finally:
        sys.setrecursionlimit(before)


FREED_DEEP = sys.version_info >= (3, 13)
"""Python 3.13 frees a nested object by calls in C as deep as it is nested, where 3.11 goes 50 deep: a stack that small
overflows when a program of 900 terms is freed on it, as for any object of 900 levels."""


@pytest.mark.parametrize("thread", [512] if FREED_DEEP else [128, 512])
def test_a_thread_of_little_stack_builds_what_the_main_thread_does(thread: int) -> None:
    lines, refused = ran(thread, 8192), "the program is nested deeper than Python"
    assert lines[:3] == lines[3:] == ["100 1", "900 1" if nests(1000) else f"900 {refused}", f"3000 {refused}"]


@pytest.mark.parametrize("main", [4096] if FREED_DEEP else [512, 4096])
def test_a_small_stack_of_the_main_thread_refuses_earlier(main: int) -> None:
    lines = ran(0, main)
    assert lines[:3] == lines[3:]
    assert lines[0] == "100 1"
    assert lines[2] == "3000 the program is nested deeper than Python"
