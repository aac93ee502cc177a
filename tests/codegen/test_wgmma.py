"""Products of a warpgroup in machine code: no spills, and no word from ptxas of products that wait for one another."""

from __future__ import annotations

import pytest
from sass import HGMMA, MEMORY_BARRIER, opcodes, sequences

import loopir as lp
import schedules
from loopir.codegen.cuda.emit import emit
from schedules.cuda.matmul_wgmma import matmul_wgmma


def product(m: object, n: object, k: object, **how: object) -> lp.Schedule:
    a, b = lp.placeholder((m, k), "bfloat16", name="A"), lp.placeholder((n, k), "bfloat16", name="B")
    return matmul_wgmma(lp.Schedule(lp.relu(a @ b.T)), "matmul", **how)


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("how", [{}, {"block": (128, 256)}, {"stages": 2, "block": (64, 16)}])
def test_registers_suffice_and_products_are_not_serialised(how: dict[str, object], sized: bool) -> None:
    sizes = [256, 256, 256] if sized else [lp.symbol(x, multiple_of=256) for x in "mnk"]
    compiled = lp.compile_source(product(*sizes, **how))
    (used,) = compiled.resources.values()
    assert used.spill_stores == used.spill_loads == used.stack == 0
    assert opcodes(compiled.cubin)[HGMMA] >= 4


@pytest.mark.parametrize(
    "how",
    [
        {"block": (128, 256)},
        {"block": (128, 256), "cluster": 2},
        {"block": (128, 256), "store": "rows"},
        {"block": (128, 128), "alternate": True, "stages": 6},
        {"block": (128, 128), "alternate": True, "stages": 6, "cluster": 2},
    ],
)
def test_warps_of_their_own_for_copies_leave_the_others_all_to_themselves(how: dict[str, object]) -> None:
    compiled = lp.compile_source(product(4096, 4096, 4096, roles=True, blocks=132, **how))
    (used,) = compiled.resources.values()
    assert used.spill_stores == used.spill_loads == used.stack == 0
    (code,) = sequences(compiled.cubin)
    first, last = code.index(HGMMA), len(code) - code[::-1].index(HGMMA)
    assert MEMORY_BARRIER not in code[first - 100 : last + 40]  # which an arrival spelt otherwise has
    assert compiled.source.count("setmaxnreg") == 2
    boxes = how.get("store") != "rows" and not how.get("alternate")
    assert ("lp_tma_store(&" in compiled.source) == boxes


def test_products_of_two_widths_are_spelt_in_one_program() -> None:
    sizes = (8192, 512), (512, 256), (64, 256)
    a, b, c = (lp.placeholder(x, "bfloat16", name=name) for x, name in zip(sizes, "ABC", strict=True))
    source = emit(lp.lower(schedules.gpu(lp.Schedule(lp.relu(a @ b) @ c.T), arch="sm_90a"), "cuda")[0]).source
    assert all(x in source for x in ("m64n128k16", "m64n64k16"))
    assert source.count(" lp_matrix(const void* p") == 1


def test_they_are_chosen_for_the_gpu_that_has_them() -> None:
    a, b = lp.placeholder((2048, 512), "bfloat16", name="A"), lp.placeholder((512, 2048), "bfloat16", name="B")
    s = lp.Schedule(a @ b)
    assert HGMMA in opcodes(lp.compile_source(schedules.gpu(s, arch="sm_90a"), "sm_90a").cubin)
    assert lp.compile_source(schedules.gpu(s), "sm_80").cubin
