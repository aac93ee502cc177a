"""einsum as NumPy's; refusals by message."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import assert_close, inputs, run, sample

import loopir as lp

SIZES = {"i": 2, "j": 3, "k": 4, "l": 2}


@st.composite
def sums(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    """Subscripts with repeated labels, sizes of 1, and perhaps an Ellipsis, and the shapes of operands."""
    terms, shapes = [], []
    dots = draw(st.booleans())
    for _ in range(draw(st.integers(1, 3))):
        labels = draw(st.lists(st.sampled_from("ijkl"), min_size=0 if dots else 1, max_size=3))
        front = draw(st.sampled_from([(), (2,), (3, 2), (3, 1)])) if dots else ()
        terms.append(("..." if dots else "") + "".join(labels))
        shapes.append((*front, *(1 if len(set(labels)) == len(labels) and draw(st.integers(0, 9)) == 0 else SIZES[c]
                                 for c in labels)))  # fmt: skip
    used = sorted(set("".join(terms)) - {"."})
    kept = draw(st.permutations(used)) if used else []
    kept = kept[: draw(st.integers(0, len(used)))]
    arrow = f"->{'...' if dots else ''}{''.join(kept)}" if draw(st.booleans()) else ""
    return ",".join(terms) + arrow, shapes


@settings(max_examples=80, deadline=None)
@given(sums(), st.sampled_from(["int32", "float32"]))
def test_einsum(case: tuple[str, list[tuple[int, ...]]], dtype: str) -> None:
    subscripts, shapes = case
    arrays = [sample(dtype, s, seed=n) for n, s in enumerate(shapes)]
    expected = np.einsum(subscripts, *arrays)
    t = lp.einsum(subscripts, *inputs(*arrays))
    assert t.shape == expected.shape
    assert_close(run(t + 0, *arrays), np.asarray(expected, dtype))


def test_what_is_made_of_a_narrow_operand_is_stored_narrow() -> None:
    """As `@` has it: so that tensor cores multiply it."""
    a = lp.placeholder((8, 64, 32), "bfloat16", name="a")
    b = lp.placeholder((8, 32, 48), "bfloat16", name="b")
    one, two = (str(lp.Schedule(t)) for t in (lp.einsum("etf,efd->etd", lp.silu(a), b), lp.silu(a) @ b))
    assert 'alloc("bfloat16[8, 64, 32]") as t' in one
    assert 'alloc("bfloat16[8, 64, 32]") as t' in two


def test_a_product_of_matrices_is_the_nest_of_one() -> None:
    a, b = lp.placeholder((3, 4), name="A"), lp.placeholder((4, 5), name="B")
    one, two = (str(lp.Schedule(t)).splitlines()[1:] for t in (lp.einsum("ij,jk->ik", a, b), a @ b))
    renamed = [x.translate(str.maketrans("jk", "kj")) for x in two]  # a product reduces its middle loop, j
    assert [x.replace("einsum", "C") for x in one] == [x.replace("matmul", "C") for x in renamed]


def test_narrow_floats_accumulate_in_float32() -> None:
    x = np.full((1, 4096), 1.0, np.float16)
    assert run(lp.einsum("ij->i", *inputs(x)), x).tolist() == [4096.0]


A = lp.placeholder((2, 3), "float32", name="A")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: lp.einsum("ij,jk->ik", A), r"einsum\('ij,jk->ik'\) names 2 operands, and 1 are given"),
        (lambda: lp.einsum("ijk", A), "'ijk' names 3 dimensions of A .* which has 2"),
        (lambda: lp.einsum("ij,ij->ik", A, A), "'k' of the result is named once, and in an operand"),
        (lambda: lp.einsum("ij->ii", A), "'i' of the result is named once"),
        (lambda: lp.einsum("ij,jk->ik", A, A), "'j' has two sizes"),
        (lambda: lp.einsum("i1->i", A), "'i1' is no list of letters"),
        (lambda: lp.einsum("...j->j", A), "the result has no '...', which operands have"),
    ],
)
def test_refusals(wrong: Any, told: str) -> None:
    with pytest.raises(lp.ExprError, match=told):
        wrong()


def test_einsum_multiplies_in_the_order_of_the_fewest_products() -> None:
    x, y, z = (lp.placeholder(n, "float32", name=c) for n, c in (((9, 8), "x"), ((8, 7), "y"), ((7,), "z")))
    text = str(lp.Schedule(lp.einsum("ij,jk,k->i", x, y, z)))
    assert "y[i, j] * z[j]" in text
    n = lp.symbol("n")
    text = str(lp.Schedule(lp.einsum("ij,jk,k->i", lp.placeholder((n, 8), "float32", name="x"), y, z)))
    assert "x[i, k] * y[k, j]" in text


def test_einsum_rounds_each_product_of_narrow_operands() -> None:
    """As those are that torch makes one after the other, so that all are products of 16 bits."""
    x = lp.placeholder((4, 4), "bfloat16", name="x")
    rounded = "float32(bfloat16(einsum["
    assert rounded in str(lp.Schedule(lp.einsum("ij,jk,kl->il", x, x, x)))
    assert rounded not in str(lp.Schedule(lp.einsum("ij,jk,kl->il", x, x, x, accum_dtype="float32")))
