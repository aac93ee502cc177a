"""Products of warpgroups on a GPU, fed by boxes of global arrays: small integers, whose sums are exact."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import pytest
import several_roles
from left_in_registers import KINDS, given, product, wanted
from several_roles import LOOPS, several

import loopir as lp
import schedules
from schedules.common.fusion import inlined
from schedules.cuda.matmul_wgmma import matmul_wgmma

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("sm_90a")]


def exact(torch: Any, shape: tuple[int, int, int], sizes: Any, turned: bool, dtype: str, **how: Any) -> bool:
    m, n, k = shape
    a, b = lp.placeholder((sizes[0], sizes[2]), dtype, name="A"), (sizes[2], sizes[1]) if turned else sizes[1:]
    right = lp.placeholder(b, dtype, name="B")
    kernel = matmul_wgmma(lp.Schedule(a @ (right if turned else right.T)), "matmul", **how).build("cuda")
    kind = getattr(torch, dtype)
    x = torch.randint(-4, 5, (m, k), device="cuda").to(kind)
    y = torch.randint(-4, 5, (k, n) if turned else (n, k), device="cuda").to(kind)
    want = (x.double() @ (y if turned else y.T).double()).to(kind)
    return bool((kernel(x, y) == want).all())


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(128, 128, 64), (256, 384, 320), (512, 256, 1024)])
def test_tiles_that_fit(torch: Any, shape: tuple[int, int, int], turned: bool, stages: int) -> None:
    assert exact(torch, shape, shape, turned, "bfloat16", stages=stages)


@pytest.mark.parametrize("block", [(64, 16), (64, 64), (128, 256), (256, 128)])
def test_tiles_of_other_shapes(torch: Any, block: tuple[int, int]) -> None:
    assert exact(torch, (512, 512, 256), (512, 512, 256), False, "float16", block=block, stages=3)


@pytest.mark.parametrize("blocks", [None, 132])
@pytest.mark.parametrize("shape", [(1, 1, 8), (127, 129, 40), (1025, 1023, 1032)])
def test_any_size_whose_rows_a_tensor_map_tells_of(torch: Any, shape: tuple[int, int, int], blocks: int | None) -> None:
    sizes = lp.symbol("m"), lp.symbol("n"), lp.symbol("k", multiple_of=8)
    assert exact(torch, shape, sizes, False, "bfloat16", stages=4, group=4, blocks=blocks)


def test_any_size(torch: Any) -> None:
    assert exact(torch, (127, 129, 33), tuple(map(lp.symbol, "mnk")), False, "bfloat16", stages=3)


@pytest.mark.parametrize("right", ["n", "t"])
@pytest.mark.parametrize("how", [{}, {"block": (64, 64), "stages": 1}, {"block": (128, 256)}])
def test_a_left_operand_whose_rows_are_steps_of_the_sum(torch: Any, right: str, how: dict[str, Any]) -> None:
    m, n, k = 264, 512, 328
    shapes = (k, m), (n, k) if right == "t" else (k, n)
    a, b = (lp.placeholder(v, "float16", name=x) for x, v in zip("AB", shapes, strict=True))
    kernel = matmul_wgmma(lp.Schedule(a.T @ (b.T if right == "t" else b)), "matmul", **how).build("cuda")
    x, y = (torch.randint(-2, 3, v, device="cuda").to(torch.float16) for v in shapes)
    want = x.T.double() @ (y.T if right == "t" else y).double()
    assert bool((kernel(x, y) == want.to(torch.float16)).all())


@pytest.mark.parametrize("how", [{}, {"block": (128, 256)}, {"block": (64, 32), "stages": 1}])
@pytest.mark.parametrize("kind", ["s8", "tf32"])
def test_int8_and_tf32(torch: Any, kind: str, how: dict[str, Any]) -> None:
    """Of float32 the product reads the bits of TF32 alone: what is added below them changes nothing."""
    m, n, k = 264, 520, 400
    a, b = (lp.placeholder((x, k), "int8" if kind == "s8" else "float32", name=y) for x, y in ((m, "A"), (n, "B")))
    left, right = (lp.cast(x, "int32") if kind == "s8" else lp.tf32(x, nearest=False) for x in (a, b))
    kernel = matmul_wgmma(inlined(lp.Schedule(lp.relu(left @ right.T))), "matmul", **how).build("cuda")
    x, y = (torch.randint(-4, 5, (v, k), device="cuda") for v in (m, n))
    want = torch.relu(x.double() @ y.double().T)
    given = [v.to(torch.int8) if kind == "s8" else v.float() * (1 + 2.0**-12) for v in (x, y)]
    assert bool((kernel(*given).double() == want).all())


@pytest.mark.parametrize("how", [{}, {"block": (128, 256)}, {"block": (64, 32), "stages": 1}])
@pytest.mark.parametrize("t", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_8_bits(torch: Any, t: str, how: dict[str, Any]) -> None:
    m, n, k = 264, 520, 400
    a, b = (lp.cast(lp.placeholder((x, k), t, name=y), "float32") for x, y in ((m, "A"), (n, "B")))
    kernel = matmul_wgmma(inlined(lp.Schedule(lp.relu(a @ b.T))), "matmul", **how).build("cuda")
    x, y = (torch.randint(-4, 5, (v, k), device="cuda").float().to(getattr(torch, t)) for v in (m, n))
    want = torch.relu(x.double() @ y.double().T)
    assert bool((kernel(x, y).double() == want).all())


@pytest.mark.parametrize("t", ["float8_e4m3fn", "float8_e5m2"])
def test_conversions_to_8_bits(torch: Any, t: str) -> None:
    x = torch.randn(1 << 16, device="cuda").exp2() ** 6
    x[:6] = torch.tensor([448.0, 464.0, 465.0, 61439.0, 61440.0, float("inf")], device="cuda")
    kernel = schedules.auto(lp.Schedule(lp.placeholder((1 << 16,), "float32", name="x").astype(t)), "cuda").build(
        "cuda"
    )
    want = torch.from_numpy(x.cpu().numpy().astype(getattr(ml_dtypes, t)).view("uint8")).cuda()
    assert bool((kernel(x).view(torch.uint8) == want).all())


@pytest.mark.parametrize("cluster", [2, 8])
def test_blocks_in_clusters(torch: Any, cluster: int) -> None:
    n = lp.symbol("n")
    s = lp.Schedule(lp.compute((n, 256), lambda i, j: lp.placeholder((n, 256), "float32", name="A")[i, j] + 1.0))
    i, j = s.loops()
    s = s.split(i, cluster).bind(f"{i}_o", "blockIdx.x").bind(f"{i}_i", "cluster").bind(j, "threadIdx.x")
    x = torch.randn(33, 256, device="cuda")
    assert bool((s.build("cuda")(x) == x + 1.0).all())


@pytest.mark.parametrize("how", [{}, {"block": (128, 256), "roles": True, "blocks": 7}, {"block": (64, 64)}])
@pytest.mark.parametrize("shape", [(128, 256, 64), (520, 1032, 328), (1024, 512, 256)])
def test_results_stored_as_boxes(torch: Any, shape: tuple[int, int, int], how: dict[str, Any]) -> None:
    """Also where the last ones reach out of the array."""
    assert exact(torch, shape, shape, False, "bfloat16", store="boxes", **how)


@pytest.mark.parametrize("short", KINDS)
def test_a_left_operand_made_in_registers(torch: Any, short: str) -> None:
    args = given(short)
    assert bool((product(short).build("cuda")(*args) == wanted(short, *args)).all())


@pytest.mark.parametrize("name", LOOPS)
def test_several_roles_in_a_kernel(torch: Any, name: str) -> None:
    a, c = several_roles.given()
    found = several(name).build("cuda")(torch.from_numpy(a).cuda(), torch.from_numpy(c).cuda())
    want = several_roles.wanted(name, a, c)
    for x, y in zip(found if isinstance(found, tuple) else (found,), want.values(), strict=True):
        assert bool((x.cpu() == torch.from_numpy(y)).all())


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("t", ["int8", "uint8", "float8_e4m3fn"])
def test_rows_of_bytes_that_are_no_whole_vectors(torch: Any, t: str, layout: str) -> None:
    """They are filled up in copies, from which boxes are copied, or vectors for warps."""
    m, n, k = 265, 519, 1001
    shapes = (m, k) if layout[0] == "n" else (k, m), (k, n) if layout[1] == "n" else (n, k)
    x, y = (lp.placeholder(shape, t, name=name) for shape, name in zip(shapes, "xy", strict=True))
    wide = "int32" if "int" in t else "float32"
    left, right = (lp.cast(v if way == "n" else v.T, wide) for v, way in zip((x, y), layout, strict=True))
    kernel = schedules.auto(lp.Schedule(left @ right), "cuda").build("cuda")
    a, b = (torch.randint(0, 3, shape, device="cuda").float().to(getattr(torch, t)) for shape in shapes)
    p, q = a.double(), b.double()
    want = (p if layout[0] == "n" else p.T) @ (q if layout[1] == "n" else q.T)
    assert bool((kernel(a, b).double() == want).all())


@pytest.mark.parametrize("columns", [(280, 280), (358, 358)])
def test_products_of_one_array_in_one_launch(torch: Any, columns: tuple[int, int]) -> None:
    """Copies of each wait for their own groups alone."""
    m, k = 265, 520
    x = lp.placeholder((m, k), "bfloat16", name="x")
    ws = [lp.placeholder((k, n), "bfloat16", name=f"w{at}") for at, n in enumerate((k, *columns))]
    kernel = schedules.auto(lp.Schedule([x @ w for w in ws]), "cuda").build("cuda")
    shapes = ((m, k), *((k, n) for n in (k, *columns)))
    a, *bs = (torch.randint(-4, 5, shape, device="cuda").bfloat16() for shape in shapes)
    for found, b in zip(kernel(a, *bs), bs, strict=True):
        assert bool((found == (a.double() @ b.double()).bfloat16()).all())
