"""Indices in LLVM IR: emitted and run they are what they say, in every scope, scalar or in lanes."""

import operator

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from llvm_functions import compiled, lanes

from loopir.codegen.llvm.builder import Builder
from loopir.codegen.llvm.index import Indices, is_vector, taken_apart, value_at
from loopir.codegen.llvm.ir_text import I32, I64, Operand, listed, vector, word
from loopir.ir.grammar import Cmp, FloorDiv, Index, Int, Max, Min, Mod, Mul, Var, Xor
from loopir.ir.layout.layouts import evaluate

NAMES = ("i", "j", "n")
COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}
points = st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(-20, 20)))


def grown(inner: st.SearchStrategy[Index]) -> st.SearchStrategy[Index]:
    """Every operation on indices; what divides is positive."""
    pairs = st.tuples(inner, inner)
    divisor = st.integers(1, 9).map(Int) | inner.map(lambda x: Max(x, Int(1)))
    return st.one_of(
        pairs.map(lambda x: x[0] + x[1]),
        pairs.map(lambda x: x[0] - x[1]),
        *(pairs.map(lambda x, of=of: of(*x)) for of in (Mul, Min, Max, Xor)),
        *(st.tuples(inner, divisor).map(lambda x, of=of: of(*x)) for of in (FloorDiv, Mod)),
    )


indices = st.recursive(st.integers(-9, 9).map(Int) | st.sampled_from(NAMES).map(Var), grown, max_leaves=5)


def emitter(b: Builder, env: dict[str, Operand], width: int = 0) -> Indices:
    out = Indices(b, lambda v: v if is_vector(v) else b.spread(v, width), lambda v: pytest.fail("no value is read"))
    out.env |= env
    return out


@settings(max_examples=15)
@given(indices, st.lists(points, min_size=1, max_size=3))
def test_an_index_is_what_it_says(ix: Index, at: list[dict[str, int]]) -> None:
    """Also where its loops lie inside one another, and its parts outside of them."""

    def body(b: Builder, i: Operand, j: Operand, n: Operand) -> Operand:
        made = emitter(b, {})
        made.env["n"] = n
        with made.scope(n):
            made.env["i"] = i
            b.jump(inner := b.new_block("inner"))
            b.block = inner
            with made.scope(i):
                made.env["j"] = j
                b.jump(body := b.new_block("body"))
                b.block = body
                with made.scope(j):
                    return made.index(ix)

    f = compiled("iii", body)
    for env in at:
        assert f(*(env[x] for x in NAMES)) == evaluate(ix, env)


@settings(max_examples=15)
@given(indices, indices, st.sampled_from(sorted(COMPARED)), points)
def test_a_test_holds_where_it_says(a: Index, b: Index, op: str, at: dict[str, int]) -> None:
    def body(builder: Builder, *args: Operand) -> Operand:
        made = emitter(builder, dict(zip(NAMES, args, strict=True)))
        return builder.cast("zext", made.test(Cmp(op, a, b)), I64)

    found = compiled("iii", body)(*(at[x] for x in NAMES))
    assert bool(found) == COMPARED[op](evaluate(a, at), evaluate(b, at))


@settings(max_examples=15)
@given(indices, st.sampled_from([2, 4, 16]), points)
def test_what_differs_from_lane_to_lane_is_a_vector(ix: Index, width: int, at: dict[str, int]) -> None:
    def make(b: Builder, v: Operand) -> Operand:
        env = {x: word(at[x]) for x in NAMES} | {"j": listed(vector(I64, width), range(width))}
        made = emitter(b, env, width)
        found = made.index(ix)
        wide = found if is_vector(found) else b.spread(found, width)
        return b.cast("trunc", wide, vector(I32, width))

    found = lanes(width, make, np.zeros(1))
    wanted = [evaluate(ix, {**at, "j": n}) for n in range(width)]
    np.testing.assert_array_equal(found, np.array(wanted, np.int64).astype(np.int32))


@settings(max_examples=10)
@given(
    st.sampled_from([17, 32, 64]), st.sampled_from(sorted(COMPARED)), st.integers(-99, 99), st.booleans(), st.booleans()
)
def test_many_lanes_are_compared_in_bytes(width: int, op: str, limit: int, turned: bool, far: bool) -> None:
    """The limit may be any number, the ends of 64 bits among them."""

    def make(b: Builder, v: Operand) -> Operand:
        made = emitter(b, {"j": listed(vector(I64, width), range(width)), "n": word(limit)}, width)
        sides = (Var("n"), Var("j")) if turned else (Var("j"), Var("n"))
        return b.cast("zext", made.test(Cmp(op, *sides)), vector(I32, width))

    j = np.arange(width)
    wanted = [COMPARED[op](limit, int(x)) if turned else COMPARED[op](int(x), limit) for x in j]
    np.testing.assert_array_equal(lanes(width, make, np.zeros(1)), wanted)


@settings(max_examples=10)
@given(indices, points)
def test_an_address_is_that_of_the_element(ix: Index, at: dict[str, int]) -> None:
    def body(b: Builder, p: Operand, *args: Operand) -> Operand:
        made = emitter(b, dict(zip(NAMES, args, strict=True)))
        return b.cast("ptrtoint", made.address(p, I32, ix), I64)

    base = 1 << 40
    assert compiled("piii", body)(base, *(at[x] for x in NAMES)) == base + 4 * evaluate(ix, at)


@settings(max_examples=40)
@given(indices, points)
def test_an_index_is_the_sum_of_its_terms(ix: Index, at: dict[str, int]) -> None:
    terms, number = taken_apart(ix)
    assert all(n for _, n in terms)
    assert len({part for part, _ in terms}) == len(terms)
    assert number + sum(n * evaluate(part, at) for part, n in terms) == evaluate(ix, at)


@settings(max_examples=40)
@given(indices, st.integers(-9, 9))
def test_an_index_of_one_variable_has_a_value(ix: Index, value: int) -> None:
    found = value_at(ix, "i", value)
    assert found is None or found == evaluate(ix, {"i": value})
    assert value_at(ix + Var("j"), "i", value) is None


def hoisted(ix: Index) -> list[list[str]]:
    """The lines of `ix`, of a loop `n` around a loop `i`, by block."""
    blocks: list[list[str]] = []

    def body(b: Builder, n: Operand, i: Operand) -> Operand:
        made = emitter(b, {"n": n, "i": i})
        with made.scope(n):
            b.jump(inner := b.new_block("inner"))
            b.block = inner
            with made.scope(i):
                out = made.index(ix)
                blocks.extend([str(x) for x in block.lines] for block in b.fn.blocks)
                return out

    compiled("ii", body)
    return blocks


def test_what_an_inner_loop_does_not_change_is_computed_outside_of_it() -> None:
    outer, inner = hoisted(Var("n") * 12 + Var("i") + 5)
    assert ["mul" in x for x in outer] == [True, False]  # before the jump
    assert [x.split()[2] for x in inner] == ["add", "add"]  # the number last


def test_what_may_trap_stays_where_it_is() -> None:
    outer, inner = hoisted(FloorDiv(Var("n") * 3, Max(Var("n"), Int(1))))
    assert not any("div" in x for x in outer)
    assert any("div" in x for x in inner)
    outer, inner = hoisted(FloorDiv(Var("n") * 3, Int(7)))
    assert any("div" in x for x in outer)
    assert inner == []
