"""What is emitted as CUDA C, run on the CPU by g++: what the interpreter gives, or the same refusals in words."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_on_cpu import build, needs_compiler
from test_overflow import PRODUCT, UNSIGNED

import loopir as lp
import schedules

pytestmark = needs_compiler


def test_threads_that_meet_in_shared_memory_and_in_warps() -> None:
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), "int32", name="x")
    a = np.arange(3 * 70, dtype=np.int32).reshape(3, 70)
    kernel = build(schedules.gpu(lp.Schedule(x.sum(axis=1).named("y")), threads=64))
    assert "__syncthreads" in kernel.source or "lp_lane_xor" in kernel.source
    np.testing.assert_array_equal(kernel(a), a.sum(axis=1))


def test_a_guard_beyond_64_bits_is_refused_and_one_beyond_32_is_exact() -> None:
    kernel = build(
        lp.Schedule(lp.parse(PRODUCT.format(cond="n * n * n * n * n * n < 5", at="i"))).bind("i", "blockIdx.x")
    )
    for n, refused in ((1, False), (100, False), (300, False), (3000, True)):
        b = np.zeros(n, np.float32)
        if refused:
            with pytest.raises(ValueError, match="compiled code counts in 64 bits"):
                kernel(np.zeros(n, np.float32), b)
        else:
            kernel(np.zeros(n, np.float32), b)
        assert (b == (n == 1)).all()


def test_unsigned_numbers_are_compared_and_divided_as_they_are() -> None:
    terms = ("index(p[i]) < index(q[i])", "index(p[i]) % 7 < 3", "index(p[i]) // n < n", "index(p[i]) < n",
             "min(index(p[i]), 5) < 3", "index(r[i]) < i - 5")  # fmt: skip
    bits = " + ".join(f"({1 << k} if {c} else 0)" for k, c in enumerate(terms))
    s = lp.Schedule(lp.parse(UNSIGNED.replace("1 if {cond} else 0", bits)))
    edges = np.array([0, 1, 5, 2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    p, q = (x.reshape(-1) for x in np.meshgrid(edges, edges))
    r = q.view(np.int64)
    np.testing.assert_array_equal(build(s.bind("i", "blockIdx.x"))(p, q, r), s.build("interpret")(p, q, r))
