"""Deep schedules are taken and lowered in time: those that had no end. `loopir.testing.campaign` draws others."""

import resource
import subprocess
import sys

import pytest

SECONDS = 300
"""Of a processor. What took minutes before, or never ended, takes a few seconds, whatever else the machine does."""

QUOTIENTS = """
e = "i"
for k in range(10):
    e = f"(({e}) + {k + 1}) // {k + 2} + j"
lines = ["    for i in range(n):", "        for j in range(n):", f"            B[{e}] = A[i] + B[{e}]"]
s = func('def f(n: "size", A: "float32[n]", B: "inout float32[99 * n + 64]"):', *lines)
s.why("parallel", "i")
s.why("reorder", "j", "i")
"""
REMAINDERS = """
e = "i"
for k in range(10):
    e = f"(({e}) * 3 + {k + 1}) // {k + 2} + (({e}) + 1) % {k + 3}" if k < 4 else f"(({e}) * 5 + {k + 1}) // {k + 2}"
head = 'def f(n: "size", A: "float32[n]", B: "inout float32[99 * n + 64]"):'
s = func(head, "    for i in range(n):", f"        B[{e}] = A[i] + B[{e}]")
s.why("parallel", "i")
"""
GUARDS = """
held = " and ".join(f"({k + 1} * i < j + {3 * k} or j * {k + 2} > i + {k})" for k in range(20))
lines = ["    for i in range(n):", "        for j in range(n):"]
s = func(HEAD, *lines, f"            if {held}:", "                B[i + j] = A[i, j] + B[i + j]")
s.why("parallel", "i")
s.why("reorder", "j", "i")
lp.lower(s.split("i", 4).split("j", 4), "llvm")
"""
UNEQUAL = """
lines = ["    for i in range(n):", "        for j in range(n):"]
lines += [" " * (12 + k) + f"if i * {k + 1} != j * {k + 2} + {k}:" for k in range(40)]
s = func(HEAD, *lines, " " * 52 + "B[i + j] = A[i, j] + B[i + j]").split("i", 4).split("j", 4)
s.why("reorder", "j_o", "i_i")
lp.lower(s, "cuda")
"""
SPLITS = """
s = func('def f(n: "size", A: "float32[n]", B: "out float32[n]"):', "    for i in range(n):", "        B[i] = A[i]")
for k in range(24):
    s = s.split("i" + "_o" * k, 2 + k % 2)
lp.lower(s, "llvm")
lp.lower(s, "cuda")
"""
BEFORE = """
import loopir as lp
HEAD = 'def f(n: "size", A: "float32[n, n]", B: "inout float32[2 * n]"):'
def func(*lines):
    return lp.Schedule(lp.parse("\\n".join(lines)))
"""


@pytest.mark.parametrize(
    "program",
    [QUOTIENTS, REMAINDERS, GUARDS, UNEQUAL, SPLITS],
    ids=["10 quotients", "quotients and remainders", "20 alternatives", "40 conditions", "24 splits"],
)
def test_what_had_no_end(program: str) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    subprocess.run([sys.executable, "-c", BEFORE + program], preexec_fn=limit, check=True)
