"""The portable path compiles for sm_80 with nothing of a later GPU: cp.async, ldmatrix, mma.sync; FFMA for float32."""

from __future__ import annotations

import pytest
from products import CASES, Case, schedule
from sass import HGMMA, HMMA, LDGSTS, opcodes

import loopir as lp
import schedules

FFMA = 0x223
SHOWN = {"a @ b": (256, 16), "a.T @ b": (256,), "bias and gelu": (256,), "batches": (256,), "two products": (256,),
         "an int8 weight": (256, 16), "an int4 weight": (16,)}  # fmt: skip
"""Products, and how many rows they have."""


@pytest.mark.parametrize(
    ("case", "rows"), [(c, m) for c in CASES for m in SHOWN.get(c.name, ())], ids=lambda x: getattr(x, "name", x)
)
def test_products_of_16_bits(case: Case, rows: int) -> None:
    compiled = lp.compile_source(
        schedules.auto(schedule(case, rows, 256, 4096 if "weight" in case.name else 256), "cuda", "sm_80"), "sm_80"
    )
    assert all(r.spill_stores == r.spill_loads == r.stack == 0 for r in compiled.resources.values())
    found = opcodes(compiled.cubin)
    assert found[HMMA] >= 4
    assert LDGSTS in found
    assert HGMMA not in found
    assert "setmaxnreg" not in compiled.source


@pytest.mark.parametrize("lies", ["nn", "nt", "tn", "tt"])
def test_products_of_float32(lies: str) -> None:
    a, b = (lp.placeholder((2048, 2048), "float32", name=x) for x in "AB")
    left, right = (x.T if how == "t" else x for x, how in zip((a, b), lies, strict=True))
    compiled = lp.compile_source(schedules.auto(lp.Schedule(lp.relu(left @ right)), "cuda", "sm_80"), "sm_80")
    assert all(r.spill_stores == r.spill_loads == r.stack == 0 for r in compiled.resources.values())
    found = opcodes(compiled.cubin)
    assert found[FFMA] >= 64
    assert HMMA not in found
