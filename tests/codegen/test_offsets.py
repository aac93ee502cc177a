"""Bases hoisted out of unrolled loops: base and rest are the offset there was, and the base does not change."""

from itertools import count

from hypothesis import given, settings, strategies as st

from loopir.codegen.cuda.offsets import hoist_offset_bases, unrolled_copies
from loopir.interp.python_expr import PythonExpr
from loopir.ir.dtypes import float32
from loopir.ir.grammar import Buffer, Const, Index, Int, Loop, Store, Var
from loopir.ir.traverse.walk import free_vars

SHARED = Buffer("S", (Int(4096),), float32, "shared")
TERMS = st.lists(
    st.sampled_from((Var("t"), Var("t") * 8, Var("u") * 2, Var("v") * 16, Var("u") // 2, Int(3))),
    min_size=1,
    max_size=5,
)


def nest(at: Index) -> Loop:
    store = Store("S", SHARED, (at,), Const(1.0, float32))
    return Loop("u", Int(4), "unroll", (Loop("v", Int(8), "unroll", (store,)),))


def value(ix: Index) -> int:
    return eval(PythonExpr().index(ix), {}, {"t": 5, "u": 3, "v": 7})


@settings(max_examples=80)
@given(TERMS)
def test_base_and_rest_are_the_offset(terms: list[Index]) -> None:
    at = terms[0]
    for x in terms[1:]:
        at = at + x
    new, found = hoist_offset_bases(nest(at), (f"b{n}" for n in count()))
    (inner,) = new.body
    assert isinstance(inner, Loop)
    (store,) = inner.body
    assert isinstance(store, Store)
    base = found.get(store.buffer.name)
    assert value(at) == value(store.at[0]) + (value(base[1]) if base is not None else 0)
    assert base is None or not free_vars(base[1]) & {"u", "v"}


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=4))
def test_copies_are_the_product_of_unrolled_extents(loops: list[tuple[int, bool]]) -> None:
    body, product = (Store("S", SHARED, (Int(0),), Const(1.0, float32)),), 1
    for n, (extent, unrolled) in enumerate(loops):
        body = (Loop(f"i{n}", Int(extent), "unroll" if unrolled else "serial", body),)
        product *= extent if unrolled else 1
    assert unrolled_copies(body) == product
