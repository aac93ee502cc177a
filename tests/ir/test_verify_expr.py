"""Each kind of ill-typed node is named, wherever it stands; what is well-typed tells its type."""

import pytest
from hypothesis import given, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.errors import VerifyError
from loopir.ir.dtypes import ALL_DTYPES, DType, bool_, float32, int8, int32
from loopir.ir.grammar import (
    TRUE,
    Add,
    And,
    Buffer,
    Cast,
    Cmp,
    Const,
    FloorDiv,
    IndexToValue,
    Int,
    Load,
    Mod,
    Node,
    Not,
    Op,
    Or,
    Param,
    Select,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
)
from loopir.ir.ops import REGISTRY
from loopir.ir.verify.scope import VerifyContext
from loopir.ir.verify.verify_expr import RULES, access, expr, value

A, IX, B = (Buffer(n, (Var("n"),), t) for n, t in (("A", float32), ("ix", int32), ("b", bool_)))
i = Var("i")
X, AT, IS = (Load(b, (i,)) for b in (A, IX, B))
ONE, WHOLE = Const(1.0, float32), Const(1, int32)


def op(name: str, *args: Value) -> Op:
    return Op(REGISTRY[name], args)


def here() -> VerifyContext:
    return VerifyContext("schedule", bound={"n", "i"}, buffers={b.name: b for b in (A, IX, B)})


ILL: dict[str, tuple[Node, str]] = {
    "a variable": (Var("j"), "'j' is no loop around this, and no size"),
    "a divisor of 0": (FloorDiv(i, Int(0)), "an index is divided by 0; the divisor has to be positive"),
    "a divisor below 0": (Mod(i, Int(-2)), "an index is divided by -2"),
    "one term of and": (And((TRUE,)), "And of one term; write the term"),
    "one term of or": (Or((TRUE,)), "Or of one term"),
    "an index of floats": (ValueToIndex(X), "an index from memory is an integer, not float32"),
    "a condition of integers": (ValueToCond(AT), "a condition from memory is a bool, not int32"),
    "an integer that is too large": (Const(128, int8), "the constant 128 does not fit int8"),
    "arms": (Select(TRUE, X, AT), "select has arms of float32 and int32"),
    "a kind": (op("and_", X, X), "and_ takes bool or int or uint, not float32"),
    "two types": (op("add", X, WHOLE), "add has arguments of float32 and int32"),
    "two types of loads": (op("mul", X, AT), "mul has arguments of float32 and int32"),
    "too many arguments": (op("exp", X, X), "exp takes 1 arguments, and has 2"),
    "a component": (Param("a", float32), "'a' is a monoid's component, used outside it or with another type"),
    "a buffer": (Load(Buffer("C", (Int(1),), float32), (Int(0),)), "C is used where it is not declared"),
    "a buffer of another type": (Load(Buffer("A", (Var("n"),), int32), (i,)), "A is used where .* declared otherwise"),
    "indices": (Load(A, (i, i)), "A has 1 dimensions at this stage, and 2 indices are given"),
    "another node": (A, "Buffer is no expression of the language"),
}
ROUND = {
    "a sum of values": lambda n: op("add", n, ONE) if isinstance(n, Value) else None,
    "the value of a cast": lambda n: Cast(n, int8) if isinstance(n, Value) else None,
    "the index of a load": lambda n: Load(A, (n,)) if isinstance(n, Var | FloorDiv | Mod | ValueToIndex) else None,
    "a comparison": lambda n: Cmp("<", i, n) if isinstance(n, Var | FloorDiv | Mod | ValueToIndex) else None,
    "a denied condition": lambda n: Not(n) if isinstance(n, And | Or | ValueToCond) else None,
    "the condition of a select": lambda n: Select(n, X, X) if isinstance(n, And | Or | ValueToCond) else None,
    "a number of an index": lambda n: IndexToValue(n, int32) if isinstance(n, Var | FloorDiv | Mod) else None,
}


@pytest.mark.parametrize("name", ILL)
def test_an_ill_typed_node_is_named(name: str) -> None:
    node, message = ILL[name]
    with pytest.raises(VerifyError, match=message):
        expr(node, here())
    for around in ROUND.values():
        if (whole := around(node)) is not None and isinstance(getattr(node, "dtype", float32), DType):
            with pytest.raises(VerifyError):
                expr(whole, here())


def test_a_float_without_infinities_has_no_constant_of_one() -> None:
    for t in ALL_DTYPES:
        if t.is_float and not t.has_infinity:
            with pytest.raises(VerifyError, match="which has no infinities: it ends at"):
                expr(Const(float("inf"), t), here())
            expr(Const(t.greatest, t), here())


def test_a_shuffle_stands_alone() -> None:
    shuffles = [fn for fn in REGISTRY.values() if fn.lane is not None]
    assert shuffles
    with pytest.raises(VerifyError, match="between the lanes of a warp, stands alone in a store, in a kernel"):
        expr(Op(shuffles[0], (X,)), here())


def test_a_component_is_known_in_its_monoid_alone() -> None:
    expr(op("add", Param("a", float32), ONE), here(), {"a": float32})
    with pytest.raises(VerifyError, match="'a' is a monoid's component"):
        expr(Param("a", float32), here(), {"a": int32})


@pytest.mark.parametrize(
    ("v", "t"),
    [
        (X, float32),
        (op("add", X, X), float32),
        (op("lt", X, op("mul", X, ONE)), bool_),
        (Cast(X, int32), int32),
        (Select(ValueToCond(IS), AT, WHOLE), int32),
        (Load(A, (ValueToIndex(AT),)), float32),
        (IndexToValue(Add(i, Int(1)), int8), int8),
    ],
)
def test_a_value_tells_its_type_and_what_it_uses(v: Value, t: DType) -> None:
    context = here()
    assert value(v, context) == t == v.dtype
    assert value(v, context) == t  # it is known by now
    assert set(context.used) <= {"A", "ix", "b"}
    fresh = VerifyContext("schedule", bound={"n", "i"}, buffers={})
    if context.used:  # what was found elsewhere is asked again of another scope
        with pytest.raises(VerifyError, match="used where it is not declared"):
            value(v, fresh)


@given(st.data())
def test_what_was_checked_in_a_scope_is_checked_in_another(data: st.DataObject) -> None:
    """A node that was legal with a loop around it is refused without."""
    index = data.draw(st.sampled_from([i, Add(i, Int(2)), FloorDiv(i, Int(3)), Add(FloorDiv(i, Int(2)), i)]))
    node = data.draw(st.sampled_from([Load(A, (index,)), op("add", Load(A, (index,)), ONE), Cmp("<", index, Int(3))]))
    expr(node, here())
    outside = here()
    outside.bound.discard("i")
    with pytest.raises(VerifyError, match="'i' is no loop around this"):
        expr(node, outside)


def test_where_memory_is_flat_it_has_one_index() -> None:
    two = Buffer("T", (Int(4), Int(4)), float32)
    context = VerifyContext("flat", bound={"i"}, buffers={"T": two})
    access(two, (i,), context)
    with pytest.raises(VerifyError, match="T has 1 dimensions at this stage, and 2 indices are given"):
        access(two, (i, i), context)
    assert {Op, Const, Select, Cast, Load} <= RULES.keys()
