"""check_static_allocs refuses memory of a kernel whose size no launch knows, and more than a block can have."""

import pytest

from loopir.errors import LowerError, TargetError
from loopir.ir.parser.parse import parse
from loopir.lower.common.outline_kernels import outline_kernels
from loopir.lower.gpu.check_static_allocs import check_static_allocs
from loopir.lower.target import target
from loopir.machines import machine

GPU = machine("sm_90a")
MOST = GPU.shared_per_block


def checked(one: str, other: str = "1", scope: str = "shared") -> None:
    func = parse(f"""
def f(n: "size", a: "inout float32[n]"):
    for b in bind("blockIdx.x", n):
        for t in bind("threadIdx.x", 1):
            with alloc("int8[{one}]", scope="{scope}") as S:
                S[0] = 1
                a[b] = float32(S[0])
                with alloc("int8[{other}]", scope="{scope}") as T:
                    T[0] = 2
                    a[b] = a[b] + float32(T[0])
""")
    lowered = outline_kernels(func, target("cuda", GPU))
    assert check_static_allocs(lowered, target("cuda", GPU)) is lowered


def test_shared_memory_to_the_last_byte() -> None:
    half = MOST // 2
    checked(str(half), str(half))
    with pytest.raises(TargetError, match=rf"a block would take \d+ bytes of shared memory .*, and there are {MOST}"):
        checked(str(half), str(half + 1))
    with pytest.raises(TargetError):
        checked(str(MOST + 1))


@pytest.mark.parametrize("scope", ["shared", "local"])
def test_a_size_has_to_be_a_constant(scope: str) -> None:
    with pytest.raises(LowerError, match="constant"):
        checked("n", scope=scope)
