"""A user's own instruction, declared once a process, and a product with a tile that is what it means."""

# ruff: noqa: F821, F722  (instructions are nests, never run as Python)

import loopir as lp
from loopir.ir.parser.parse import parse


@lp.instruction()
def outer4(A: "float32[4]", B: "float32[4]", C: "inout float32[4, 4]"):
    """A user's own: a product of a column and a row, with no spelling anywhere, so that every target runs its loops."""
    for i, j in grid(4, 4):
        C[i, j] += A[i] * B[j]


def matmul(order: str = "ijk", value: str = "A[i, k] * B[k, j]", target: str = "C[i, j]") -> lp.Schedule:
    extents = {"i": "8", "j": "12", "k": "K"}
    loops = "".join(f"{'    ' * (n + 1)}for {v} in range({extents[v]}):\n" for n, v in enumerate(order))
    source = f'def f(K: "size", A: "float32[8, K]", B: "float32[K, 12]", C: "out float32[8, 12]"):\n{loops}'
    return lp.Schedule(parse(f"{source}{'    ' * 4}{target} = sum({value}, over=k, init=0.0)\n"))


def tiled(**how: str) -> lp.Schedule:
    return matmul(**how).split("i", 4).split("j", 4).reorder("i_o", "j_o", "k", "i_i", "j_i")
