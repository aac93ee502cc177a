"""The text form: what is printed reads back as the same Func, and reads well."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.ir.dtypes import bool_, float32, int8, int32
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Add,
    And,
    Buffer,
    Cast,
    Cmp,
    Cond,
    Const,
    FloorDiv,
    Func,
    If,
    Index,
    IndexToValue,
    Int,
    Load,
    Loop,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    Op,
    Or,
    Select,
    Stmt,
    Store,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
    Xor,
)
from loopir.ir.ops import REGISTRY
from loopir.ir.parser.parse import parse
from loopir.ir.printer import lines, text
from loopir.ir.traverse.walk import statements
from loopir.testing.generate.strategies import funcs
from loopir.testing.generate.trees import anything

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=250, deadline=None, suppress_health_check=SLOW)
@given(anything())
def test_every_tree_reads_back(func: Func) -> None:
    assert parse(text(func)) == func


@settings(max_examples=120, deadline=None, suppress_health_check=SLOW)
@given(anything(lowered=True))
def test_lowered_forms_read_back(func: Func) -> None:
    assert parse(text(func)) == func


@settings(max_examples=120, deadline=None)
@given(funcs(dtypes=("float32", "int32", "bool", "float16"), functions=("exp", "tanh")))
def test_programs_read_back(func: Func) -> None:
    assert parse(text(func)) == func


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(st.one_of(funcs(), anything()))
def test_lines_are_the_text_and_know_their_nodes(func: Func) -> None:
    printed = lines(func)
    assert "".join(f"{line}\n" for line in printed) == text(func)
    for line in printed:
        if isinstance(line.node, Loop):
            assert line.text.startswith(f"for {line.node.var} in ")
        if isinstance(line.node, Store):
            assert line.text.startswith(line.node.buffer.name)


A, IX, P = Buffer("A", (Int(8),), float32), Buffer("ix", (Int(8),), int32), Buffer("P", (Int(8),), bool_)
i, j, n = Var("i"), Var("j"), Var("n")
one, two = Const(1.0, float32), Const(2.0, float32)
a = Load(A, (i,))


def op(name: str, *args: Value) -> Op:
    return Op(REGISTRY[name], args)


INDICES: list[tuple[Index, str]] = [
    (Add(i, Add(j, n)), "i + (j + n)"),
    (Add(Add(i, j), n), "i + j + n"),
    (Add(i, Mul(Int(-1), j)), "i - j"),
    (Add(i, Mul(Int(-1), Add(j, n))), "i - (j + n)"),
    (Add(i, Int(-3)), "i - 3"),
    (Add(i, Mul(Int(-1), Int(3))), "i + -1 * 3"),
    (Add(i, Mul(j, Int(-1))), "i + j * -1"),
    (Mul(Int(-1), Mul(i, j)), "-(i * j)"),
    (Mul(Mul(Int(-1), i), j), "-i * j"),
    (Mul(i, Mul(j, n)), "i * (j * n)"),
    (FloorDiv(Add(i, n), Mul(Int(2), n)), "(i + n) // (2 * n)"),
    (Mod(FloorDiv(i, Int(4)), Int(2)), "i // 4 % 2"),
    (Min(i, Int(-1)), "min(i, -1)"),
    (ValueToIndex(Load(IX, (i,))), "ix[i]"),
    (ValueToIndex(Cast(a, int32)), "opaque(int32(A[i]))"),
]
CONDITIONS: list[tuple[Cond, str]] = [
    (TRUE, "True"),
    (FALSE, "False"),
    (And((Cmp("<", i, n), Or((Cmp("==", i, j), Not(Cmp("<=", j, n)))))), "i < n and (i == j or not j <= n)"),
    (And((And((TRUE, FALSE)), TRUE)), "(True and False) and True"),
    (Not(And((TRUE, TRUE))), "not (True and True)"),
    (ValueToCond(Load(P, (i,))), "P[i]"),
    (ValueToCond(op("lt", a, one)), "A[i] < 1.0"),
    (ValueToCond(Const(True, bool_)), "truth(True)"),
    (Cmp("<", ValueToIndex(Load(IX, (i,))), n), "index(ix[i]) < n"),
    (Cmp("<", Xor(i, ValueToIndex(Load(IX, (i,)))), Int(-3)), "index(i ^ ix[i]) < -3"),
    (ValueToCond(op("lt", Load(IX, (i,)), IndexToValue(n, int32))), "ix[i] < int32(n)"),
]
VALUES: list[tuple[Value, str]] = [
    (op("add", a, op("add", a, one)), "A[i] + (A[i] + 1.0)"),
    (op("sub", op("sub", a, one), two), "A[i] - 1.0 - 2.0"),
    (op("neg", op("mul", a, two)), "-(A[i] * 2.0)"),
    (op("mul", op("neg", a), two), "-A[i] * 2.0"),
    (op("neg", one), "neg(float32(1.0))"),
    (Const(-1.0, float32), "float32(-1.0)"),
    (op("maximum", a, Const(-float("inf"), float32)), "maximum(A[i], -inf)"),
    (op("maximum", Const(float("nan"), float32), a), "maximum(nan, A[i])"),
    (op("add", a, Const(-0.0, float32)), "A[i] + -0.0"),
    (op("add", one, two), "float32(1.0) + 2.0"),
    (Cast(Const(3, int8), float32), "float32(int8(3))"),
    (Cast(Cast(a, int8), float32), "float32(int8(A[i]))"),
    (IndexToValue(i, float32), "float32(i)"),
    (IndexToValue(Int(3), float32), "float32(index(3))"),
    (IndexToValue(ValueToIndex(Load(IX, (i,))), float32), "float32(index(ix[i]))"),
    (IndexToValue(Cmp("<", i, n), bool_), "bool(cond(i < n))"),
    (Select(Cmp("<", i, n), a, one), "select(i < n, A[i], 1.0)"),
    (op("invert", Const(True, bool_)), "invert(bool(True))"),
    (op("exp", a), "exp(A[i])"),
]


@pytest.mark.parametrize(
    ("node", "source"), INDICES + CONDITIONS + VALUES, ids=[s for _, s in INDICES + CONDITIONS + VALUES]
)
def test_parentheses_only_where_needed(node: Node, source: str) -> None:
    assert text(node) == source


def _within(source: str, out: str = "float32") -> Stmt:
    """A statement as it is read in loops that bind the names above."""
    found = parse(
        f'def f(n: "size", A: "float32[8]", ix: "int32[8]", P: "bool[8]", Y: "out {out}"):\n'
        f"    for i in range(n):\n        for j in range(n):\n            {source}"
    )
    return [*statements(found.body)][2]


@pytest.mark.parametrize("cond", [c for c, _ in CONDITIONS], ids=[s for _, s in CONDITIONS])
def test_conditions_read_back(cond: Cond) -> None:
    store = Store("Y", Buffer("Y", (), float32), (), a)
    assert _within(f"if {text(cond)}: Y[()] = A[i]") == If(cond, (store,), ())


@pytest.mark.parametrize("value", [v for v, _ in VALUES], ids=[s for _, s in VALUES])
def test_values_read_back(value: Value) -> None:
    """Stored into memory of their type, between loops that bind their names."""
    store = Store("Y", Buffer("Y", (), value.dtype), (), value)
    assert _within(text(store), str(value.dtype)) == store


CANONICAL = """\
@monoid(identity=(0.0, 0))
def sum_and_max(a: "float32", b: "int32", c: "float32", d: "int32"):
    return a + c, maximum(b, d)

def f(n: "size", A: "float32[n, 4]", Y: "out float32[n]", Z: "inout int32[n]", L: "float32[4, 4] strided(1, 4)"):
    assume(1 <= n)
    assume(n % 4 == 0)
    with alloc("float32[8, 8]", scope="shared", layout=mapped(lambda r, c: r * 9 + c)) as T, alloc("float32[]") as s:
        for i in parallel(n // 4):
            for i_i in vectorize(4):
                for k in unroll(4):
                    Y[i * 4 + i_i], Z[i * 4 + i_i] = sum_and_max(A[i * 4 + i_i, k], int32(k), over=k, init=(0.0, 0))
                Y[i * 4 + i_i]: "twice" = Y[i * 4 + i_i] * 2.0
                Z[i * 4 + i_i] += 1
        for j in bind("blockIdx.x", 8):
            if T[j, 0] < 1.0 and not j < 2:
                s[()] = L[j % 4, 0]
            else:
                s[()] = max(T[j, j], over=j, label="peak")
"""


def test_the_text_form_is_its_own_fixed_point() -> None:
    assert text(parse(CANONICAL)) == CANONICAL


LOWERED = """\
def f(A: "float32[64]", Y: "out float32[64]"):
    with kernel("k0"):
        for b in bind("blockIdx.x", 2):
            with alloc("float32[32]", scope="shared") as T:
                for t in bind("threadIdx.x", 32):
                    T[t] = A[b * 32 + t]
                    barrier()
                    Y[b * 32 + t] = T[31 - t]
"""


def test_kernels_and_barriers_read_back() -> None:
    assert text(parse(LOWERED)) == LOWERED
