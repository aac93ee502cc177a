"""Bank conflicts counted from addresses: swizzled tiles have none, and rows that lie in one bank are counted."""

import numpy as np
import pytest

import loopir as lp
from loopir.testing import bank_conflicts
from schedules.cuda.matmul_mma import matmul_mma, swizzled
from schedules.cuda.tile_choice import Sizes, choice

TURN = """
def f(A: "float32[32, 32]", B: "out float32[32, 32]"):
    for b in bind("blockIdx.x", 1):
        with alloc("float32[32, 32]", scope="shared"{layout}) as T:
            for i in range(32):
                for x in bind("threadIdx.x", 32):
                    T[i, x] = A[i, x]
            for j in range(32):
                for y in bind("threadIdx.x", 32):
                    B[j, y] = T[y, j]
"""


@pytest.mark.parametrize(
    ("layout", "turns"),
    [("", 32), (", layout=strided(33, 1)", 1), (", layout=mapped(lambda r, c: r * 32 + (r ^ c))", 1),
     (", layout=strided(34, 1)", 2)],
)  # fmt: skip
def test_columns_of_a_tile(layout: str, turns: int) -> None:
    found = bank_conflicts(lp.lower(lp.Schedule(lp.parse(TURN.format(layout=layout))), "cuda")[0])
    assert found == {("T", "T"): 1.0, ("B", "T"): float(turns)}


@pytest.mark.parametrize("lies", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("block", "depth"), [((128, 128), 32), ((128, 64), 64), ((64, 32), 16)])
def test_tiles_of_a_product_have_none(lies: str, block: tuple[int, int], depth: int) -> None:
    x = lp.placeholder((256, 256), "bfloat16", name="A")
    y = lp.placeholder((256, 256), "bfloat16", name="B")
    product = lp.Schedule((x.T if lies[0] == "t" else x) @ (y.T if lies[1] == "t" else y))
    s = matmul_mma(product, "matmul", block=block, warps=(2, 1), depth=depth, stages=2)
    (lowered,) = lp.lower(s, "cuda")
    found = bank_conflicts(lowered, samples=4)
    assert len(found) == 4  # two copies, two loads of fragments
    assert set(found.values()) == {1.0}


@pytest.mark.parametrize("width", [16, 32, 48, 64, 96, 128, 192, 256])
def test_vectors_below_one_another_and_along_a_row_are_in_different_banks(width: int) -> None:
    layout = eval(swizzled(width))
    parts = [layout(r, c) for r in range(64) for c in range(0, width, 8)]
    top = [max(p[d] for p in parts) + 1 for d in range(len(parts[0]) - 1)]
    place = {
        (r, c): int(np.ravel_multi_index(layout(r, c)[:-1], top)) for r in range(64) for c in range(0, width, 8)
    }  # in vectors of 16 bytes, 8 of which are all banks
    assert len(set(place.values())) == len(place)
    for c in range(0, width, 8):
        for r in range(0, 64, 8):
            assert len({place[r + n, c] % 8 for n in range(8)}) == 8
    flat = [place[r, c] % 8 for r in range(64) for c in range(0, width, 8)]
    assert all(len(set(flat[n : n + 8])) == 8 for n in range(0, len(flat), 8))


@pytest.mark.parametrize(
    "sizes",
    [
        (100, 40, 4096),
        (4096, 4096, 4096),
        (1024, 1024, 1024),
        (16, 12288, 4096),
        (1025, 1023, 1027),
        (256, 4096, 11008),
    ],
)
def test_a_chosen_tile_can_be_run(sizes: tuple[int, int, int]) -> None:
    chosen = choice(Sizes(*sizes))
    (m, n), depth, stages = chosen["block"], chosen["depth"], chosen["stages"]
    threads = 32 * chosen["warps"][0] * chosen["warps"][1]
    assert stages >= 3
    assert 2 * (m + n) * depth * stages <= 227 * 1024
    assert m * depth % (8 * threads) == n * depth % (8 * threads) == 0
    fit = all(size % part == 0 or (size < part) for size, part in zip(sizes, (m, n, depth), strict=True))
    assert chosen["whole"] != fit  # copied into whole tiles, unless they are
    assert m <= sizes[0]
    assert n <= sizes[1]
    assert m * n // threads <= 128  # sums of a thread
