"""Kernels with two loops whose copies warps of their own make: one after the other, and one in the other.

The second is of the kind of attention: a tile that stays for all of an inner loop, which brings another in every turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import loopir as lp

SEQ = """
def f(n: "size", A: "float32[n, 16, 32]", C: "float32[n, 16, 32]", B: "out float32[n, 128]", D: "out float32[n, 128]"):
    for t in bind("blockIdx.x", 2):
        for u in range((n - t + 1) // 2):
            for o in range(4):
                with alloc("float32[4, 32]", scope="shared") as T:
                    for i in range(4):
                        for j in range(32):
                            T[i, j] = A[u * 2 + t, o * 4 + i, j]
                    for w in bind("warp.x", 4):
                        for l in bind("lane", 32):
                            for k in range(4):
                                B[u * 2 + t, w * 32 + l] = sum(T[k, l] * float32(w + 1), over=(o, k), init=0.0)
            for o_1 in range(3):
                with alloc("float32[4, 32]", scope="shared") as T_1:
                    for i_1 in range(4):
                        for j_1 in range(32):
                            T_1[i_1, j_1] = C[u * 2 + t, o_1 * 4 + i_1, j_1]
                    for w_1 in bind("warp.x", 4):
                        for l_1 in bind("lane", 32):
                            for k_1 in range(4):
                                D[u * 2 + t, w_1 * 32 + l_1] = sum(T_1[k_1, l_1] * float32(w_1 + 1), over=(o_1, k_1), init=0.0)
"""  # noqa: E501
NEST = """
def f(n: "size", A: "float32[n, 16, 32]", C: "float32[n, 16, 32]", B: "out float32[n, 128]"):
    for t in bind("blockIdx.x", 2):
        for u in range((n - t + 1) // 2):
            with alloc("float32[4, 32]", scope="shared") as Q:
                for i in range(4):
                    for j in range(32):
                        Q[i, j] = A[u * 2 + t, i, j]
                for o in range(4):
                    with alloc("float32[4, 32]", scope="shared") as T:
                        for i_1 in range(4):
                            for j_1 in range(32):
                                T[i_1, j_1] = C[u * 2 + t, o * 4 + i_1, j_1]
                        for w in bind("warp.x", 4):
                            for l in bind("lane", 32):
                                for k in range(4):
                                    B[u * 2 + t, w * 32 + l] = sum(T[k, l] * Q[k, 31 - l] * float32(w + 1), over=(o, k), init=0.0)
"""  # noqa: E501
LOOPS = {
    "in turn": (SEQ, {"o": 3, "o_1": 2}),
    "nested": (NEST, {"u": 2, "o": 3}),
    "nested, inner first": (NEST, {"o": 3, "u": 2}),
}
"""By name: the program, and the loops in the order in which they are specialized, with the stages of each."""


def several(name: str, **how: Any) -> lp.Schedule:
    source, loops = LOOPS[name]
    s = lp.Schedule(lp.parse(source)).tensorize("i", "tma_load_4x32_f32").tensorize("i_1", "tma_load_4x32_f32")
    for loop, stages in loops.items():
        s = s.specialize_warps(loop, stages=stages, **how)
    return s


def given() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return tuple(rng.integers(-3, 4, (6, 16, 32)).astype(np.float32) for _ in range(2))


def wanted(name: str, a: Any, c: Any) -> dict[str, Any]:
    def by_warps(x: Any) -> Any:
        return np.concatenate([x * (w + 1) for w in range(4)], 1)

    if name == "in turn":
        return {"B": by_warps(a.sum(1)), "D": by_warps(c[:, :12].sum(1))}
    return {"B": by_warps(sum((c[:, o : o + 4] * a[:, :4, ::-1]).sum(1) for o in range(0, 16, 4)))}
