"""Matrix products on tensor cores, beside torch: batched and transposed, with an epilogue, at several sizes."""

from __future__ import annotations

from typing import Any

import pytest
from int8_tile import TILE

import loopir as lp
import schedules
from schedules.cuda.matmul_mma import matmul_mma
from schedules.cuda.matmul_simt import matmul_simt

pytestmark = pytest.mark.gpu


def product(dtype: str, transposed: bool, epilogue: bool, stages: int) -> lp.Schedule:
    b, m = lp.symbol("b"), lp.symbol("m", multiple_of=128)
    n, k = lp.symbol("n", multiple_of=128), lp.symbol("k", multiple_of=32)
    x = lp.placeholder((b, m, k), dtype, name="A")
    y = lp.placeholder((b, n, k) if transposed else (b, k, n), dtype, name="B")
    bias = lp.placeholder((n,), dtype, name="bias")
    out = x @ (y.transpose(0, 2, 1) if transposed else y)
    return matmul_mma(lp.Schedule(lp.relu(out + bias) if epilogue else out), "matmul", stages=stages)


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("shape", [(1, 128, 128, 32), (2, 256, 384, 96), (3, 1024, 512, 2048)])
@pytest.mark.parametrize(
    ("dtype", "transposed", "epilogue"),
    [("bfloat16", False, False), ("bfloat16", True, True), ("float16", False, True), ("float16", True, False)],
)
def test_products_are_torchs(
    torch: Any, shape: tuple[int, ...], dtype: str, transposed: bool, epilogue: bool, stages: int
) -> None:
    b, m, n, k = shape
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    x = torch.randn(b, m, k, device="cuda", dtype=kind)
    y = torch.randn((b, n, k) if transposed else (b, k, n), device="cuda", dtype=kind)
    bias = torch.randn(n, device="cuda", dtype=kind)
    kernel = product(dtype, transposed, epilogue, stages).build("cuda")
    found = kernel(x, y, bias) if epilogue else kernel(x, y)
    exact = x.double() @ (y.transpose(1, 2) if transposed else y).double()
    expected = torch.relu(exact.to(kind) + bias) if epilogue else exact.to(kind)
    step = 2.0 ** (-8 if dtype == "bfloat16" else -10)
    assert bool((found.double() - expected.double()).abs().max() <= 2 * step * float(exact.abs().max()))


def test_small_integers_are_exact(torch: Any) -> None:
    x = torch.randint(-4, 5, (2, 256, 64), device="cuda").to(torch.bfloat16)
    y = torch.randint(-4, 5, (2, 64, 128), device="cuda").to(torch.bfloat16)
    a = lp.placeholder((2, 256, 64), "bfloat16", name="A")
    b = lp.placeholder((2, 64, 128), "bfloat16", name="B")
    found = matmul_mma(lp.Schedule(a @ b), "matmul").build("cuda")(x, y)
    assert bool((found == (x.float() @ y.float()).to(torch.bfloat16)).all())


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (127, 129, 33), (500, 300, 1000)])
def test_any_size_is_right(torch: Any, m: int, n: int, k: int, stages: int) -> None:
    sizes = [lp.symbol(x) for x in "mnk"]
    a = lp.placeholder((sizes[0], sizes[2]), "bfloat16", name="A")
    b = lp.placeholder((sizes[2], sizes[1]), "bfloat16", name="B")
    x = torch.randint(-2, 3, (m, k), device="cuda").to(torch.bfloat16)
    y = torch.randint(-2, 3, (k, n), device="cuda").to(torch.bfloat16)
    found = matmul_mma(lp.Schedule(a @ b), "matmul", stages=stages).build("cuda")(x, y)
    assert bool((found == (x.double() @ y.double()).to(torch.bfloat16)).all())


def test_blocks_that_stay_take_tiles_in_bands(torch: Any) -> None:
    m, n = lp.symbol("m", multiple_of=128), lp.symbol("n", multiple_of=128)
    k = lp.symbol("k", multiple_of=32)
    a, b = lp.placeholder((m, k), "bfloat16", name="A"), lp.placeholder((k, n), "bfloat16", name="B")
    kernel = matmul_mma(lp.Schedule(a @ b), "matmul", stages=4, group=8, blocks=132).build("cuda")
    x = torch.randint(-2, 3, (128 * 19, 256), device="cuda").to(torch.bfloat16)
    y = torch.randint(-2, 3, (256, 128 * 23), device="cuda").to(torch.bfloat16)
    assert bool((kernel(x, y) == (x.double() @ y.double()).to(torch.bfloat16)).all())


@pytest.mark.parametrize("lies", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("m", "n", "k"), [(256, 512, 384), (16, 384, 512), (129, 67, 1027), (20, 1000, 40)])
def test_what_is_chosen_is_right_however_operands_lie(torch: Any, lies: str, m: int, n: int, k: int) -> None:
    shapes = [(k, m) if lies[0] == "t" else (m, k), (n, k) if lies[1] == "t" else (k, n)]
    a, b = (lp.placeholder(v, "bfloat16", name=x) for x, v in zip("AB", shapes, strict=True))
    product = (a.T if lies[0] == "t" else a) @ (b.T if lies[1] == "t" else b)
    s = schedules.auto(lp.Schedule(product), "cuda")
    assert "mma_m" in str(s)  # of warps, or of warpgroups
    x, y = (torch.randint(-2, 3, v, device="cuda").to(torch.bfloat16) for v in shapes)
    want = (x.T if lies[0] == "t" else x).double() @ (y.T if lies[1] == "t" else y).double()
    assert bool((s.build("cuda")(x, y) == want.to(torch.bfloat16)).all())


@pytest.mark.parametrize(("ahead", "spread"), [(True, False), (False, True), (True, True)])
def test_copies_and_fragments_may_run_ahead(torch: Any, ahead: bool, spread: bool) -> None:
    a, b = lp.placeholder((256, 320), "bfloat16", name="A"), lp.placeholder((320, 256), "bfloat16", name="B")
    s = matmul_mma(lp.Schedule(a @ b), "matmul", depth=64, stages=3, ahead=ahead, spread=spread)
    x, y = (torch.randint(-2, 3, v, device="cuda").to(torch.bfloat16) for v in ((256, 320), (320, 256)))
    assert bool((s.build("cuda")(x, y) == (x.double() @ y.double()).to(torch.bfloat16)).all())


def test_int8_is_exact(torch: Any) -> None:
    kernel = lp.Schedule(lp.parse(TILE)).tensorize("m", "mma_m16n8k32_s8_bt").build("cuda")
    x = torch.randint(-128, 128, (16, 64), device="cuda", dtype=torch.int8)
    y = torch.randint(-128, 128, (8, 64), device="cuda", dtype=torch.int8)
    assert bool((kernel(x, y).double() == x.double() @ y.double().T).all())


@pytest.mark.parametrize("nearest", [True, False])
@pytest.mark.parametrize("lies", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("m", "n", "k"), [(256, 384, 512), (129, 67, 101)])
def test_tf32_is_asked_for_and_rounded_as_told(torch: Any, lies: str, m: int, n: int, k: int, nearest: bool) -> None:
    """Small integers and a part that the rounding takes away: the sums are exact."""
    shapes = [(k, m) if lies[0] == "t" else (m, k), (n, k) if lies[1] == "t" else (k, n)]
    a, b = (lp.placeholder(v, "float32", name=x) for x, v in zip("AB", shapes, strict=True))
    s = schedules.auto(
        lp.Schedule(
            lp.tf32(a.T if lies[0] == "t" else a, nearest=nearest)
            @ lp.tf32(b.T if lies[1] == "t" else b, nearest=nearest)
        ),
        "cuda",
    )
    by_warpgroups = not nearest and lies == "nt" and lp.machine().has("wgmma")  # which cut off by themselves
    assert ("wgmma_" if by_warpgroups else "mma_m16n8k8_tf32" if nearest else "mma_m16n8k8_tf32_below") in str(s)
    whole = [torch.randint(-4, 5, v, device="cuda").double() for v in shapes]
    least = -1 if nearest else 0
    x, y = ((v * (1 + torch.randint(least, 2, v.shape, device="cuda") * 2.0**-12)).float() for v in whole)
    want = (whole[0].T if lies[0] == "t" else whole[0]) @ (whole[1].T if lies[1] == "t" else whole[1])
    assert bool((s.build("cuda")(x, y).double() == want).all())


def test_memory_between_kernels_is_lent_again_and_graphs_have_their_own(torch: Any) -> None:
    a, b = (lp.placeholder((129, 131), "bfloat16", name=x) for x in "AB")
    kernel = matmul_mma(lp.Schedule(a @ b.T), "matmul", whole=True, block=(64, 64), warps=(2, 2)).build("cuda")
    pairs = [[torch.randint(-2, 3, (129, 131), device="cuda").to(torch.bfloat16) for _ in range(2)] for _ in range(3)]
    want = [(x.double() @ y.double().T).to(torch.bfloat16) for x, y in pairs]
    assert all(bool((kernel(x, y) == z).all()) for (x, y), z in zip(pairs, want, strict=True))
    graph, out = torch.cuda.CUDAGraph(), torch.empty_like(want[0])
    with torch.cuda.graph(graph):
        kernel(*pairs[0], out=(out,))
    kernel(*pairs[1])
    graph.replay()
    assert bool((out == want[0]).all())


@pytest.mark.parametrize("lies", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("turn", [False, True])
def test_float32_without_tensor_cores_is_exact_on_integers(torch: Any, lies: str, turn: bool) -> None:
    m, n, k = 256, 384, 320
    shapes = [(k, m) if lies[0] == "t" else (m, k), (n, k) if lies[1] == "t" else (k, n)]
    a, b = (lp.placeholder(v, "float32", name=x) for x, v in zip("AB", shapes, strict=True))
    left, right = (v.T if how == "t" else v for v, how in zip((a, b), lies, strict=True))
    s = lp.Schedule(left @ right)
    kernel = matmul_simt(s, s.stages[-1], turn=turn).build("cuda")
    x, y = (torch.randint(-4, 5, v, device="cuda").float() for v in shapes)
    want = (x.T if lies[0] == "t" else x).double() @ (y.T if lies[1] == "t" else y).double()
    assert bool((kernel(x, y).double() == want).all())
