"""What nothing has written may be copied, and no step makes more of such a copy than a copy."""

import numpy as np
import pytest

import loopir as lp
from loopir.ir.traverse.walk import leaf_paths_of
from loopir.schedule.legality.copied_memory import copies_what_is_written

COPIES = """
def f(A: "float32[8]", B: "out float32[8]"):
    with alloc("float32[8]") as T, alloc("float32[9]") as U, alloc("float32[9]") as V:
        for t in range({length}):
            T[t] = A[t]
        for x in range({n}):
            {guard}
                U[x] = {value}
        for y in range(9):
            if 1 <= y:
                V[y] = U[y]
        for j in range(8):
            B[j] = A[j]
"""
GUARDED, WRAPPED = (9, "if 1 <= x:", "T[x - 1]"), (8, "if x < 8:", "T[(x + 1) % 8]")


@pytest.mark.parametrize(("length", "written"), [(8, True), (7, False), (0, False)])
@pytest.mark.parametrize(
    ("form", "step", "stage"), [(GUARDED, "pad", "U"), (GUARDED, "pad", "V"), (WRAPPED, "unwrap", "U")]
)
def test_what_need_not_be_written_is_copied_and_not_selected(
    length: int, written: bool, form: tuple[int, str, str], step: str, stage: str
) -> None:
    n, guard, value = form
    s = lp.Schedule(lp.parse(COPIES.format(length=length, n=n, guard=guard, value=value)))
    a = np.arange(8, dtype=np.float32)
    assert np.array_equal(s.build("interpret")(a), a)
    (store,) = (p.stmt for p in leaf_paths_of(s.func) if p.stmt.label == "U")
    assert copies_what_is_written(s.func, store) == written  # pyright: ignore[reportArgumentType]
    refused = s.why(step, stage)
    if not written:
        assert refused is not None
        assert "need not be written" in str(refused)
    else:
        assert refused is None, refused
        assert np.array_equal(getattr(s, step)(stage).build("interpret")(a), a)
