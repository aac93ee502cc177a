"""Two products in one grid on a GPU: small integers, whose sums are exact."""

from __future__ import annotations

from typing import Any

import pytest
from side_by_side import side_by_side

from schedules.cuda.matmul_mma import matmul_mma
from schedules.cuda.matmul_wgmma import matmul_wgmma

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("sm_90a")]


@pytest.mark.parametrize(("schedule", "how"), [(matmul_mma, {"warps": (2, 2)}), (matmul_wgmma, {"roles": False})])
@pytest.mark.parametrize("stages", [1, 4])
@pytest.mark.parametrize(("m", "n", "p", "k"), [(512, 256, 384, 320), (200, 264, 136, 72)])
def test_both_are_torchs_in_one_launch(
    torch: Any, schedule: Any, how: dict[str, Any], stages: int, m: int, n: int, p: int, k: int
) -> None:
    kernel = side_by_side(schedule, m, n, p, k, block=(128, 128), group=2, stages=stages, **how).build("cuda")
    a, b, c = (torch.randint(-2, 3, x, device="cuda").to(torch.bfloat16) for x in ((m, k), (k, n), (k, p)))
    one, other = kernel(a, b, c)
    assert len(kernel.resources) == 1
    assert bool((one == torch.relu(a.double() @ b.double()).to(torch.bfloat16)).all())
    assert bool((other == (a.double() @ c.double()).to(torch.bfloat16)).all())
