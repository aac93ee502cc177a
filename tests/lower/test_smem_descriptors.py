"""Matrix descriptors say what the layout does, or why none can."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from test_insert_wgmma_waits import arguments, pieces, product, run

import loopir as lp
from loopir.errors import InterpretError, ScheduleError
from loopir.ir.grammar import InstrCall, Stmt
from loopir.ir.layout.smem_descriptors import MODES, MatrixDescriptor, matrix_descriptor, swizzle_byte
from loopir.ir.traverse.walk import rewrite, statements


@pytest.mark.parametrize("change", [lambda w: w ^ 1 << 62, lambda w: w + (1 << 32), lambda w: w + (1 << 16)])
def test_a_wrong_descriptor_gives_wrong_sums(change: Callable[[int], int]) -> None:
    a, b, want = arguments()
    (func,) = lp.lower(product(), "cuda")

    def visit(s: Stmt) -> Stmt | None:
        words = tuple((n, change(w) if n == "A" else w) for n, w in s.words) if isinstance(s, InstrCall) else ()
        return replace(s, words=words) if isinstance(s, InstrCall) else None

    try:
        found = run(replace(func, body=rewrite(func.body, visit)), a, b)
    except InterpretError:
        return  # outside of its memory
    assert not np.array_equal(found, want)


def test_a_layout_that_no_descriptor_says_is_refused() -> None:
    with pytest.raises(
        ScheduleError, match=r"no descriptor says where the elements of As lie.*128 bytes: element \(1, 0"
    ):
        product(la="")
    with pytest.raises(ScheduleError, match=r"no descriptor says where the elements of Bs lie"):
        product(lb=", layout=mapped(lambda i, k: i * 64 + (k // 8 ^ i % 4) * 8 + k % 8)")
    with pytest.raises(ScheduleError, match="has to lie in pieces of 32 bytes or more"):
        product(lb=", layout=mapped(lambda k, i: i // 8 * 512 + k // 8 * 64 + k % 8 * 8 + i % 8)", turned=True)


@pytest.mark.parametrize("span", list(MODES))
def test_a_descriptor_says_what_the_layout_does(span: int) -> None:
    made = MatrixDescriptor(span, 4096, 2048)
    assert MatrixDescriptor.of(made.word("mn")) == made
    at = np.arange(4096)
    assert np.array_equal(swizzle_byte(swizzle_byte(at, span), span), at)


def test_the_reference_form_is_found() -> None:
    layout = pieces(128, 256, 64).partition("=")[2]
    s = lp.Schedule(
        lp.parse(f"""
def f(A: "float32[1]", B: "out float32[1]"):
    with alloc("bfloat16[256, 64]", scope="shared", layout={layout}) as T:
        B[0] = A[0]
""")
    )
    (b,) = (x.buffer for x in statements(s.func.body) if hasattr(x, "buffer") and x.buffer.name == "T")
    found = matrix_descriptor(b, (0, 1))
    assert found == MatrixDescriptor(128, 1024, 0)
    assert found.word("k") == 1 << 16 | 64 << 32 | 1 << 62
