"""Tensor cores by `wgmma`: 64 rows by n columns, 16 steps of the sum, issued by a warpgroup (PTX ISA, "Asynchronous
warpgroup level matrix instructions"; sm_90a alone).

Both operands come straight from shared memory, each told by a descriptor; the sums are a fragment that the 128 threads
hold. There is one instruction for every n that is a multiple of 8 up to 256, declared when its name is first used.
"""

from __future__ import annotations

import re

from loopir.intrinsics import monoids as monoids  # the meanings fold
from loopir.ir.instruction import instruction
from loopir.ir.ops import FAMILIES

DTYPES = {"bf16": "bfloat16", "f16": "float16"}
MOST = 256
"""Columns of one product."""

_PRELUDE = """\
__device__ __forceinline__ unsigned long long lp_matrix(const void* p, unsigned long long word) {{
  return word | ((unsigned int)__cvta_generic_to_shared(p) & 0x3FFFFu) >> 4;
}}
"""
_WGMMA = """\
__device__ __forceinline__ void lp_{name}(float* d, unsigned long long a, unsigned long long b) {{
  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, 1, 0;\\n"
               "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{short}.{short} {{{registers}}}, %{a}, %{b}, "
               "p, 1, 1, {left}, {right};\\n}}"
               : {outputs} : "l"(a), "l"(b));
}}
"""


def accumulator(n: int) -> str:
    """How the 128 threads of a warpgroup hold 64 rows of n sums."""
    row, column = "t // 32 * 16 + t % 32 // 4 + v // 2 % 2 * 8", "v // 4 * 8 + t % 4 * 2 + v % 2"
    return f"fragment(128, {n // 2}, lambda t, v: ({row}, {column}))"


def _product(columns: str, short: str, by_columns: str | None, transposed: str | None) -> None:
    """Each operand lies with the reduced loop along its rows, or with its other loop, which the descriptor tells."""
    n = int(columns)
    if n % 8 or not 8 <= n <= MOST:
        return
    left, right, dtype = by_columns is not None, transposed is None, DTYPES[short]
    name = f"wgmma_m64n{n}k16_{short}{by_columns or ''}{transposed or ''}"
    count = n // 2
    spelt = _WGMMA.format(
        name=name, n=n, short=short, left=int(left), right=int(right), a=count, b=count + 1,
        registers=", ".join(f"%{i}" for i in range(count)), outputs=", ".join(f'"+f"(d[{i}])' for i in range(count)),
    )  # fmt: skip
    instruction(
        level="warpgroup", cuda=f"lp_{name}({{C}}, lp_matrix({{A}}, {{A_word}}), lp_matrix({{B}}, {{B_word}}));",
        cuda_prelude=_PRELUDE.format() + spelt, asynchronous="products", arch="sm_90a",
        matrices={"A": "mn" if left else "k", "B": "mn" if right else "k"},
        doc=f"C += A{'.T' if left else ''} @ B{'' if right else '.T'} of {dtype}, 64 x 16 by {n} columns, in float32.",
    )(f"""
def {name}(C: "inout float32[64, {n}] fragment {accumulator(n)}",
           A: "{dtype}[{'16, 64' if left else '64, 16'}] shared",
           B: "{dtype}[{f'16, {n}' if right else f'{n}, 16'}] shared"):
    for i, j, k in grid(64, {n}, 16):
        C[i, j] += float32(A[{'k, i' if left else 'i, k'}]) * float32(B[{'k, j' if right else 'j, k'}])
""")  # fmt: skip


FAMILIES.append((re.compile(r"wgmma_m64n(\d+)k16_(bf16|f16)(_at)?(_bt)?"), _product))
