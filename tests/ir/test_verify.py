"""Each rule of each stage, broken by one Func, refused by its message; and what is legal is not refused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

import loopir.intrinsics  # noqa: F401
from loopir.errors import VerifyError
from loopir.ir.dtypes import DType, float32, int8, int32
from loopir.ir.grammar import (
    TRUE,
    Add,
    Alloc,
    And,
    Arg,
    Barrier,
    Buffer,
    Cmp,
    Const,
    FloorDiv,
    Func,
    If,
    Index,
    Int,
    Kernel,
    Load,
    Loop,
    Mapped,
    Min,
    Mod,
    Mul,
    Op,
    Param,
    Reduce,
    Select,
    Size,
    Stmt,
    Store,
    Strided,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
)
from loopir.ir.layout.layouts import is_injective
from loopir.ir.ops import MONOIDS, REGISTRY
from loopir.ir.verify.verify import Stage, verify
from loopir.testing.generate.strategies import funcs

n, i, j, k = Var("n"), Var("i"), Var("j"), Var("k")
A, X, IX = (Buffer(name, (n,), t) for name, t in (("A", float32), ("X", float32), ("ix", int32)))
T = Buffer("T", (Int(4),), float32)
ONE, ONE32 = Const(1.0, float32), Const(1, int32)
SHARED, GONE = Add(i, Int(0)), Load(T, (Int(0),))
PLUS = MONOIDS["sum"]((float32,))


def func(*body: Stmt, params: tuple[Size | Arg, ...] = (), assumes: tuple[Cmp, ...] = (), name: str = "f") -> Func:
    base: tuple[Size | Arg, ...] = (Size("n"), Arg(A, "in"), Arg(IX, "in"), Arg(X, "inout"))
    return Func(name, base + params, assumes, body)


def store(value: Value = ONE, at: Index = i, buffer: Buffer = X, label: str = "X") -> Store:
    return Store(label, buffer, (at,), value)


def loop(*body: Stmt, var: str = "i", extent: Index = n, kind: str = "serial") -> Loop:
    return Loop(var, extent, kind, body)


def fold(
    value: Value = ONE, at: Index = i, over: tuple[str, ...] = ("k",), init: Value | None = ONE, **changed: object
) -> Reduce:
    inits = None if init is None else (init,)
    return replace(Reduce("X", (X,), (at,), PLUS, (value,), over, inits), **changed)


def op(name: str, *args: Value) -> Op:
    return Op(REGISTRY[name], args)


def argument(t: DType = float32, **changed: object) -> Arg:
    return Arg(replace(Buffer("B", (Int(4),), t), **changed), "in")


def refuses(broken: Func, message: str, stage: Stage = "schedule") -> None:
    with pytest.raises(VerifyError, match=message):
        verify(broken, stage)


NAMES: dict[str, tuple[Func, str]] = {
    "two loops": (func(loop(store()), loop(store(label="X_1"))), "the name 'i' is used twice"),
    "a loop as a size": (func(loop(store(at=n), var="n")), "the name 'n' is used twice"),
    "a buffer as a loop": (func(loop(Alloc(Buffer("i", (), float32), (store(),)))), "the name 'i' is used twice"),
    "labels": (func(loop(store(), store())), "two statements have the label 'X'"),
    "a label": (func(loop(store(label='a"b'))), "no usable label"),
    "a keyword": (func(loop(store(at=Var("for")), var="for")), "'for' is no usable name"),
    "no identifier": (func(loop(store(at=Var("a b")), var="a b")), "'a b' is no usable name"),
    "no ASCII": (func(loop(store(at=Var("ä")), var="ä")), "is no usable name"),
    "a number's": (func(loop(store(at=Var("inf")), var="inf")), "'inf' is no usable name"),
    "ours": (func(loop(store(at=Var("lp_i")), var="lp_i")), "does not start with lp_"),
    "the Func's": (func(name="def"), "'def' is no usable name"),
}
EXPRESSIONS: dict[str, tuple[Func, str]] = {
    "an unbound variable": (func(loop(store(at=j))), "'j' is no loop around this, and no size"),
    "a loop that has ended": (func(loop(), store()), "'i' is no loop around this"),
    "a node checked in a loop that has ended": (
        func(loop(store(at=SHARED)), store(at=SHARED, label="Y")),
        "'i' is no loop around this",
    ),
    "a node checked where its memory was": (
        func(Alloc(T, (store(GONE, at=Int(0)),)), store(GONE, at=Int(0), label="Y")),
        "T is used where it is not declared",
    ),
    "an undeclared buffer": (func(loop(store(Load(T, (Int(0),))))), "T is used where it is not declared"),
    "another declaration": (func(loop(store(Load(replace(A, dtype=int32), (i,))))), "declared otherwise"),
    "memory that is gone": (func(Alloc(T, ()), loop(store(Load(T, (Int(0),))))), "T is used where it is not declared"),
    "rank": (func(loop(Store("X", X, (i, i), ONE))), "X has 1 dimensions at this stage, and 2 indices"),
    "division by 0": (func(loop(store(at=FloorDiv(i, Int(0))))), "an index is divided by 0"),
    "remainder by -1": (func(loop(store(at=Mod(i, Int(-1))))), "an index is divided by -1"),
    "a float index": (
        func(loop(store(at=ValueToIndex(Load(A, (i,)))))),
        "an index from memory is an integer, not float32",
    ),
    "a float condition": (
        func(loop(If(ValueToCond(ONE), (store(),)))),
        "a condition from memory is a bool, not float32",
    ),
    "one term": (func(loop(If(And((TRUE,)), (store(),)))), "And of one term"),
    "mixed arguments": (func(loop(store(op("add", ONE, ONE32)))), "add has arguments of float32 and int32"),
    "a kind": (func(loop(store(op("and_", ONE, ONE)))), "and_ takes bool or int or uint, not float32"),
    "arity": (func(loop(store(op("add", ONE)))), "add takes 2 arguments, and has 1"),
    "arms": (func(loop(store(Select(TRUE, ONE, ONE32)))), "select has arms of float32 and int32"),
    "a constant": (func(loop(store(at=ValueToIndex(Const(200, int8))))), "the constant 200 does not fit int8"),
    "a component": (func(loop(store(Param("a", float32)))), "'a' is a monoid's component, used outside it"),
}
STATEMENTS: dict[str, tuple[Func, str]] = {
    "a type": (func(loop(store(ONE32))), "statement X stores int32 in X, which holds float32"),
    "an input": (func(loop(store(buffer=A))), "statement X writes A, which is an input"),
    "a kind": (func(loop(store(), kind="warp")), "loop i has kind 'warp'; there are serial, parallel"),
    "a vector": (func(loop(store(), kind="vectorize")), "its extent has to be a constant"),
    "an unrolled loop": (func(loop(store(), kind="unroll")), "its extent has to be a constant"),
    "an axis twice": (
        func(loop(loop(store(), var="j", kind="threadIdx.x"), kind="threadIdx.x")),
        "loop j is bound to threadIdx.x, and a loop around it is, too",
    ),
    "an extent": (func(loop(store(), extent=i)), "'i' is no loop around this"),
    "a kernel": (func(Kernel("k0", ())), "kernels are made by lowering"),
    "a barrier": (func(Barrier()), "a barrier stands outside a kernel"),
    "an assumption": (func(assumes=(Cmp("<", i, n),)), r"speaks of \['i'\], which are no sizes"),
}
REDUCTIONS: dict[str, tuple[Func, str]] = {
    "no loop": (func(loop(fold())), "reduces over k, which is no loop around it"),
    "twice": (func(loop(loop(fold(over=("k", "k")), var="k"))), "reduces twice over one loop"),
    "its element": (func(loop(fold(over=("i",)))), "reduces over i, and its element depends on i"),
    "a type": (func(loop(loop(fold(ONE32), var="k"))), "folds int32 into X of float32"),
    "an init of another type": (func(loop(loop(fold(init=ONE32), var="k"))), "folds int32 into X of float32"),
    "arity": (func(loop(loop(fold(values=(ONE, ONE)), var="k"))), "folds 2 values into 1 buffers by a monoid of 1"),
    "an input": (func(loop(loop(fold(buffers=(A,)), var="k"))), "writes A, which is an input"),
    "new memory": (
        func(loop(loop(Alloc(T, (fold(at=Int(0), buffers=(T,)),)), var="k"))),
        "reduces over k into memory that is new in every iteration of it",
    ),
    "a start that depends": (
        func(loop(loop(fold(init=Load(A, (k,))), var="k"))),
        "statement X starts outside loop k, and that depends on k inside",
    ),
    "a start from inner memory": (
        func(loop(loop(Alloc(T, (fold(init=Load(T, (Int(0),))),)), var="k"))),
        "starts outside loop k, and that depends on T inside",
    ),
    "a kept guard that depends": (
        func(loop(loop(Alloc(T, (If(ValueToCond(op("lt", Load(T, (Int(0),)), ONE)), (fold(),)),)), var="k"))),
        "starts outside loop k, and that depends on T inside",
    ),
    "a kept loop that depends": (
        func(loop(loop(fold(), extent=k), var="k")),
        "starts outside loop k, and that depends on k inside",
    ),
    "another monoid of that name": (
        func(
            loop(loop(fold(monoid=replace(PLUS, name="plus")), var="k")),
            loop(fold(label="Y", at=j, over=(), monoid=replace(MONOIDS["prod"]((float32,)), name="plus")), var="j"),
        ),
        "two monoids have the name plus",
    ),
    "a monoid named as an operation": (
        func(loop(loop(fold(monoid=replace(PLUS, name="exp")), var="k"))),
        "a monoid has the name 'exp', which means something else",
    ),
    "a monoid of a type": (
        func(loop(loop(fold(monoid=replace(PLUS, combine=(op("lt", *PLUS.left, *PLUS.right),))), var="k"))),
        "monoid sum combines a of float32 to bool",
    ),
    "a monoid's identity": (
        func(loop(loop(fold(monoid=replace(PLUS, identity=(ONE32,))), var="k"))),
        "an identity of another type",
    ),
    "a monoid that reads": (
        func(loop(loop(fold(monoid=replace(PLUS, combine=(Param("q", float32),))), var="k"))),
        "'q' is a monoid's component, used outside it",
    ),
}
BUFFERS: dict[str, tuple[Func, str]] = {
    "a scope": (func(params=(argument(scope="warp"),)), "buffer B has scope 'warp'"),
    "an argument's scope": (
        func(params=(argument(scope="shared"),)),
        "argument B has scope shared; arguments are global",
    ),
    "a shape of loops": (func(loop(Alloc(Buffer("B", (i,), float32), ()))), "made of sizes and integers only"),
    "a shape from memory": (
        func(Alloc(Buffer("B", (ValueToIndex(Load(IX, (Int(0),))),), float32), ())),
        "made of sizes and integers only",
    ),
    "a negative dimension": (func(params=(argument(shape=(Int(-1),)),)), "a dimension of -1"),
    "strides": (func(params=(argument(layout=Strided(())),)), "1 dimensions and a layout of 0"),
    "one place for two": (func(params=(argument(layout=Strided((Int(0),))),)), "a place of its own"),
    "below 0": (func(params=(argument(layout=Mapped(("d",), Add(Var("d"), Int(-1)))),)), "from 0 up"),
    "a layout that divides by 0": (
        func(params=(argument(layout=Mapped(("d",), FloorDiv(Var("d"), Int(0)))),)),
        "an index is divided by 0",
    ),
    "a layout of loops": (func(params=(argument(layout=Mapped(("d",), i)),)), "no size and no dimension"),
}
BROKEN = {
    f"{group}: {name}": case
    for group, cases in {
        "names": NAMES,
        "expressions": EXPRESSIONS,
        "statements": STATEMENTS,
        "reductions": REDUCTIONS,
        "buffers": BUFFERS,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_named(name: str) -> None:
    broken, message = BROKEN[name]
    refuses(broken, message)


def test_a_guard_on_the_reduced_loop_may_read_what_is_inside_it() -> None:
    guard = And((Cmp("<", k, n), ValueToCond(op("lt", Load(A, (k,)), ONE))))
    verify(func(loop(loop(If(guard, (fold(),)), var="k"))))


def test_kernels_and_barriers_from_lowered_on() -> None:
    lowered = func(Kernel("k0", (loop(store(), Barrier(), kind="threadIdx.x"),)))
    refuses(lowered, "kernels are made by lowering")
    verify(lowered, "lowered")
    refuses(func(Kernel("k0", (Kernel("k1", ()),))), "is not at the top", "lowered")
    refuses(func(Kernel("k0", ()), Kernel("k0", ())), "the name 'k0' is used twice", "lowered")
    refuses(func(Barrier()), "outside a kernel", "lowered")


def test_one_offset_when_flat() -> None:
    square = Arg(Buffer("S", (n, n), float32), "in")
    flat = func(loop(store(Load(square.buffer, (Add(Mul(i, n), i),)))), params=(square,))
    verify(flat, "flat")
    refuses(flat, "S has 2 dimensions", "lowered")
    refuses(
        func(loop(store(Load(square.buffer, (i, i)))), params=(square,)), "S has 1 dimensions at this stage", "flat"
    )


def layout(shape: tuple[Index, ...], placed: Strided | Mapped) -> bool:
    return is_injective(Buffer("B", shape, float32, layout=placed))


def test_layouts_that_give_each_element_its_place() -> None:
    r, c = Var("r"), Var("c")
    assert layout((n, n), Strided((Int(1), n)))  # column-major, at every size
    assert layout((n, Int(8)), Strided((Int(9), Int(1))))  # padded rows
    assert layout((n, Var("m"), Int(3)), Strided((Int(3), Mul(n, Int(3)), Int(1))))
    assert not layout((Int(5), Int(4)), Strided((Int(3), Int(4))))  # 3 * 4 == 4 * 3
    assert layout((Int(3), Int(3)), Strided((Int(5), Int(3))))  # neither nests, and yet no two meet
    assert not layout((n, n), Strided((Int(1), Int(8))))  # for n <= 8 only
    assert layout((Int(2048), Int(2048)), Mapped(("r", "c"), Add(Mul(r, Int(2048)), c)))  # too many to try, and seen
    assert layout((Int(8), Int(8)), Mapped(("r", "c"), Add(Mul(r, Int(8)), Mod(Add(r, c), Int(8)))))  # a swizzle
    assert not layout((Int(8),), Mapped(("r",), Min(r, Int(6))))
    assert layout((Int(8),), Mapped(("r",), Add(Min(r, Int(6)), FloorDiv(r, Int(7)))))
    assert layout((), Strided(()))


@settings(max_examples=100, deadline=None)
@given(funcs())
def test_a_statement_twice_is_refused(f: Func) -> None:
    """Whatever it is: its loops, its labels or its memory have a name of their own."""
    refuses(replace(f, body=f.body + f.body), "is used twice|two statements have the label")


def test_the_message_names_the_statement() -> None:
    refuses(func(loop(store(ONE32, label="here"))), "^statement here stores int32")


def test_a_nest_that_was_checked_before_is_checked_against_what_is_around_it_now() -> None:
    a, b = Buffer("a", (Int(4),), float32), Buffer("b", (Int(4),), float32)
    nest = Loop("i", Int(4), "serial", (Store("s", b, (i,), Load(a, (i,))),))
    first = Store("s", b, (Int(0),), ONE)
    verify(Func("f", (Arg(a, "in"), Arg(b, "out")), (), (nest,)))
    around = {
        "the name 'i' is used twice": Func("g", (Arg(a, "in"), Arg(b, "out")), (), (nest, nest)),
        "the name 'i' is used": Func("g", (Size("i"), Arg(a, "in"), Arg(b, "out")), (), (nest,)),
        "two statements have the label 's'": Func("g", (Arg(a, "in"), Arg(b, "out")), (), (first, nest)),
        "a is used where it is not declared": Func("g", (Arg(b, "out"),), (), (nest,)),
        "b is used where it is not": Func("g", (Arg(a, "in"), Arg(replace(b, dtype=int8), "out")), (), (nest,)),
        "statement s writes b, which is an input": Func("g", (Arg(a, "in"), Arg(b, "in")), (), (nest,)),
    }
    for message, g in around.items():
        with pytest.raises(VerifyError, match=message):
            verify(g)
        with pytest.raises(VerifyError, match=message):
            verify(replace(g, body=(If(Cmp("<", Int(0), Int(1)), g.body),)))
        with pytest.raises(VerifyError, match=message):
            verify(replace(g, body=(Kernel("k", g.body),)), "lowered")
    verify(Func("g", (Size("n"), Arg(b, "inout")), (), (Alloc(a, (nest,)),)))
    arms = If(Cmp("<", Int(0), Int(1)), (Alloc(a, (nest,)),), (nest,))
    with pytest.raises(VerifyError, match="the name 'i' is used twice"):
        verify(Func("g", (Arg(b, "inout"),), (), (arms,)))


def test_a_loop_beside_others_is_checked_against_the_loops_around_it_now() -> None:
    """It was legal inside of others, beside others; what it needs of these is asked again where they are not there."""
    a, b = Buffer("a", (Int(4), Int(4)), float32), Buffer("b", (Int(4),), float32)
    params = (Arg(a, "in"), Arg(b, "inout"))

    def program(*body: Stmt, params: tuple[Size | Arg, ...] = params) -> Func:
        return Func("f", params, (), body)

    def beside(var: str, *inner: Stmt, kind: str = "serial") -> Loop:
        return Loop(var, Int(4), kind, (store(at=Int(0), buffer=b, label="other"), *inner))

    element = Load(a, (i, j))
    reads = Loop("j", Int(4), "serial", (store(element, j, b, "reads"),))
    bound = Loop("j", Int(4), "threadIdx.x", (store(ONE, j, b, "bound"),))
    folds = Loop("j", Int(4), "serial", (replace(fold(ONE, j, ("i",)), buffers=(b,)),))
    own = Loop("j", Int(4), "serial", (loop(replace(fold(ONE, j, ("k",)), buffers=(b,)), var="k", extent=Int(4)),))
    for legal in (reads, bound, folds, own):
        verify(program(beside("i", legal)))
        verify(program(Loop("x", Int(4), "serial", (beside("i", legal),))))
    verify(program(beside("x", own)))
    wrong = {
        "'i' is no loop around this": program(beside("x", reads)),
        "the name 'j' is used twice": program(beside("i", reads, reads)),
        "two statements have the label": program(
            beside("i", reads, Loop("l", Int(4), "serial", (store(ONE, Int(0), b, "reads"),)))
        ),
        "a is used where it is not declared": program(beside("i", reads), params=params[1:]),
        "writes b, which is an input": program(
            Loop("i", Int(4), "serial", (reads, loop(var="l"))), params=(Arg(a, "in"), Arg(b, "in"))
        ),
        "loop j is bound to threadIdx.x, and a loop around it is": program(beside("i", bound, kind="threadIdx.x")),
        "reduces over i, which is no loop around it": program(beside("x", folds)),
    }
    for message, g in wrong.items():
        refuses(g, message)


def test_what_stands_in_a_kernel_is_asked_of_each_nest() -> None:
    """What lowering places was found where it may stand; a nest that is checked in a kernel first may not leave it."""
    a = Buffer("a", (Int(4),), float32)
    nest = Loop("i", Int(4), "serial", (Store("s", a, (i,), ONE), Barrier()))
    g = Func("g", (Arg(a, "out"),), (), (Kernel("k", (nest,)),))
    verify(g, "lowered")
    with pytest.raises(VerifyError, match="a barrier stands outside a kernel"):
        verify(replace(g, body=(nest,)), "lowered")


def test_what_a_nest_needs_is_asked_of_each_stage() -> None:
    wide = Buffer("w", (Int(4), Int(4)), float32)
    nest = Loop("i", Int(4), "serial", (Store("s", wide, (i, i), ONE),))
    g = Func("g", (Arg(wide, "out"),), (), (nest,))
    verify(g, "schedule")
    with pytest.raises(VerifyError, match="1 dimensions at this stage"):
        verify(g, "flat")
    verify(g, "lowered")
