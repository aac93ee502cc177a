"""What is built is LLVM's language, and does what its name says: it is verified, compiled and run."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from llvm_functions import compiled, lanes

from loopir.codegen.llvm.builder import Builder
from loopir.codegen.llvm.ir_text import (
    DOUBLE,
    I1,
    I8,
    I16,
    I32,
    I64,
    POINTER,
    Function,
    Module,
    Operand,
    constant,
    vector,
    word,
)

vectors = st.sampled_from([1, 2, 3, 4, 8])


def numbers(count: int, first: int = 1) -> np.ndarray:
    return np.arange(first, first + count)


@settings(max_examples=8)
@given(st.data())
def test_lanes_are_picked(data: st.DataObject) -> None:
    x = numbers(data.draw(vectors))
    picked = data.draw(st.lists(st.none() | st.integers(0, len(x) - 1), min_size=1, max_size=8))
    found = lanes(len(picked), lambda b, v: b.shuffled_with_zeros(v, picked), x)
    np.testing.assert_array_equal(found, [0 if n is None else x[n] for n in picked])
    some = [n for n in picked if n is not None] or [0]
    np.testing.assert_array_equal(lanes(len(some), lambda b, v: b.shuffled(v, some), x), x[some])


@settings(max_examples=8)
@given(vectors, vectors)
def test_vectors_are_woven_and_joined(count: int, other: int) -> None:
    x, y = numbers(count), numbers(other, 100)

    def halves(b: Builder, v: Operand) -> tuple[Operand, Operand]:
        return b.shuffled(v, range(count)), b.shuffled(v, range(count, count + other))

    both = np.concatenate([x, y])
    np.testing.assert_array_equal(lanes(count + other, lambda b, v: b.joined(*halves(b, v)), both), both)
    if count == other:
        woven = lanes(2 * count, lambda b, v: b.woven(*halves(b, v)), both)
        np.testing.assert_array_equal(woven, np.stack([x, y], 1).ravel())


@settings(max_examples=5)
@given(vectors, st.data())
def test_one_lane_is_taken_put_and_spread(count: int, data: st.DataObject) -> None:
    x, one, other = numbers(count), *(data.draw(st.integers(0, count - 1)) for _ in range(2))
    np.testing.assert_array_equal(
        lanes(count, lambda b, v: b.insert_element(v, b.extract_element(v, one), other), x),
        [x[one] if n == other else x[n] for n in range(count)],
    )
    spread = lanes(5, lambda b, v: b.spread(b.extract_element(v, one), 5), x)
    np.testing.assert_array_equal(spread, [x[one]] * 5)


@settings(max_examples=6)
@given(st.integers(-99, 99), st.integers(-99, 99))
def test_arithmetic_is_that_of_64_bits(x: int, y: int) -> None:
    def body(b: Builder, x: Operand, y: Operand) -> Operand:
        less = b.icmp("slt", x, y)
        least = b.select(less, x, y)
        both = b.op("mul", b.op("add", least, 7), b.neg(b.not_(y)))
        return b.op("add", both, b.select(b.icmp("eq", x, 3), 1000, y))

    assert compiled("ii", body)(x, y) == (min(x, y) + 7) * (y + 1) + (1000 if x == 3 else y)


def test_numbers_beside_floats_are_of_their_type() -> None:
    def body(b: Builder, x: Operand) -> Operand:
        half = b.op("fmul", b.cast("sitofp", x, DOUBLE), 0.5)
        return b.cast("zext", b.fcmp("ogt", half, 1.0), I64)

    f = compiled("i", body)
    assert [f(n) for n in (2, 3)] == [0, 1]


def test_a_branch_is_taken_by_its_test() -> None:
    def body(b: Builder, x: Operand, to: Operand) -> Operand:
        with b.if_then(b.icmp("sgt", x, 10), likely=False):
            b.store(word(1), to, 8)
        with b.if_else(b.icmp("slt", x, 0), likely=True) as (below, other):
            with below:
                b.store(word(-1), b.gep("i64", to, word(1)), 8)
            with other, b.if_then(b.icmp("eq", x, 5)):  # one in another
                b.store(word(5), b.gep("i64", to, word(1)), 8)
        return x

    f = compiled("ip", body)
    for x, wanted in ((-3, [0, -1]), (5, [0, 5]), (7, [0, 0]), (11, [1, 0])):
        out = np.zeros(2, np.int64)
        f(x, out.ctypes.data)
        assert out.tolist() == wanted


def test_a_loop_is_a_phi_and_a_jump_back() -> None:
    def body(b: Builder, n: Operand) -> Operand:
        before = b.block
        head, after = b.new_block("head"), b.new_block("after")
        b.jump(head)
        b.block = head
        i = b.phi(I64, (word(0), before), label="i")
        total = b.phi(I64, (word(0), before))
        more, sum_ = b.op("add", i, 1), b.op("add", total, i)
        i.incoming.append((more, b.block))
        total.incoming.append((sum_, b.block))
        b.jump_if(b.icmp("slt", more, n), head, after, loop=b.module.own_note('!{!"llvm.loop.unroll.disable"}'))
        b.block = after
        return sum_

    assert [compiled("i", body)(n) for n in (1, 5, 100)] == [sum(range(n)) for n in (1, 5, 100)]


def test_what_is_put_into_an_earlier_block_is_before_its_end() -> None:
    def body(b: Builder, x: Operand) -> Operand:
        first, rest = b.block, b.new_block("rest")
        b.jump(rest)
        b.block = rest
        with b.at(first):
            twice = b.op("mul", x, 2)
        assert b.block is rest
        return b.op("add", twice, 1)

    assert compiled("i", body)(20) == 41


@settings(max_examples=5)
@given(st.integers(0, 5), st.integers(0, 2))
def test_links_of_an_address_are_elements_away(one: int, other: int) -> None:
    memory = np.arange(32, dtype=np.int32)

    def body(b: Builder, p: Operand, i: Operand) -> Operand:
        at = b.gep(I32, b.link(I32, b.link(I32, p, i), word(3 * other)), word(1))
        return b.cast("sext", b.load(I32, at, 4), I64)

    assert compiled("pi", body)(memory.ctypes.data, one) == one + 3 * other + 1


@pytest.mark.parametrize(("kind", "size"), [(I8, 1), (I16, 2), (I64, 8)])
def test_memory_of_a_function_of_its_own_holds_what_is_stored(kind: object, size: int) -> None:
    def body(b: Builder, x: Operand) -> Operand:
        at = b.alloca(kind, size)
        b.store(x if kind is I64 else b.cast("trunc", x, kind), at, size)
        back = b.load(kind, at, size)
        return back if kind is I64 else b.cast("sext", back, I64)

    assert [compiled("i", body)(n) for n in (-3, 100)] == [-3, 100]


def test_what_is_of_a_type_already_is_not_converted_and_divisions_are_counted() -> None:
    module, fn = Module(), Function("f", I64, [(I64, "x", ""), (POINTER, "p", "")])
    b = Builder(module, fn)
    x, _ = fn.args
    assert b.bitcast(x, I64) is x
    b.division("sdiv", x, constant(I64, 3))
    assert b.divided == 0
    b.division("sdiv", x, b.freeze(x))
    assert b.divided == 1
    assert b.icmp("eq", b.spread(x, 4), 1).type is vector(I1, 4)
    with b.marked("i"):
        b.do("call void @g()")
    assert [loop for loop in b.block.loops if loop] == ["i"]
