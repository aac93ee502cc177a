"""Stores to registers that nothing reads: the part of a box that is wanted, by constants of unrolled loops."""

import pytest

import loopir as lp
import schedules
from loopir.analysis.cost.dead_stores import live_stores
from loopir.ir.grammar import Alloc, InstrCall
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import statements

NEST = """
def f(A: "float32[9, 4]", B: "out float32[8]"):
    for t in bind("threadIdx.x", 1):
        with alloc("float32[9, 4]", scope="local") as a:
            for x in {kind}(9):
                for y in vectorize(4):
                    a[x, y] = A[x, y]
            for i in unroll({rows}):
                for j in unroll({columns}):
                    B[i * 4 + j] = {value}
"""


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "value", "live"),
    [
        ("unroll", 2, 4, "a[i * 8, j]", {"a": 8 / 36}),
        ("unroll", 2, 2, "a[i * 8, j] + a[4, j * 2]", {"a": 6 / 36}),
        ("range", 2, 4, "a[i * 8, j]", {}),  # which element a serial loop writes is no constant
        ("unroll", 2, 4, "a[i * 8, j] * a[t, j]", {}),
        ("unroll", 1, 1, "1.0", {"a": 0.0}),
    ],
)
def test_the_part_of_a_copy_that_is_read(
    kind: str, rows: int, columns: int, value: str, live: dict[str, float]
) -> None:
    f = parse(NEST.format(kind=kind, rows=rows, columns=columns, value=value))
    (alloc,) = (s for s in statements(f.body) if isinstance(s, Alloc))
    found = live_stores("a", alloc.body, {})
    assert {k: round(v, 6) for k, v in found.items()} == {k: round(v, 6) for k, v in live.items()}


def test_what_is_read_for_nothing_is_not_read() -> None:
    f = parse(NEST.format(kind="unroll", rows=2, columns=4, value="a[i * 8, j]"))
    (alloc,) = (s for s in statements(f.body) if isinstance(s, Alloc))
    assert live_stores("a", alloc.body, {"B": 0.25}) == {"a": 0.25 * 8 / 36}


def test_a_fold_keeps_what_it_folds_into() -> None:
    f = parse(
        'def f(A: "float32[4]", B: "out float32[1]"):\n    for t in bind("threadIdx.x", 1):\n'
        '        with alloc("float32[4]", scope="local") as a:\n            for i in unroll(4):\n'
        "                a[i] = 0.0\n                for k in range(2):\n"
        "                    a[i] += A[i]\n            B[t] = a[1]"
    )
    (alloc,) = (s for s in statements(f.body) if isinstance(s, Alloc))
    assert live_stores("a", alloc.body, {}) == {}


def test_an_instruction_reads_all_that_its_operand_holds() -> None:
    """Weights that are made of bytes and scales in registers, where products take them."""
    a, w = lp.placeholder((16, 512), "bfloat16", name="a"), lp.placeholder((256, 512), "int8", name="w")
    s = schedules.auto(
        lp.Schedule(a @ (w.astype("bfloat16") * lp.placeholder((256, 1), "bfloat16", name="c")).T), "cuda"
    )
    (func,) = lp.lower(s, "cuda")
    taken = {x.buffer.name for t in statements(func.body) if isinstance(t, InstrCall) for x in t.operands}
    local = [t for t in statements(func.body) if isinstance(t, Alloc) and t.buffer.scope == "local"]
    assert any(t.buffer.name in taken for t in local)
    assert not any(live_stores(t.buffer.name, t.body, {}) for t in local if t.buffer.name in taken)
