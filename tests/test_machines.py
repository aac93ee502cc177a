"""Records of machines: what they say of themselves, who asks them, and that what is made for one fits it."""

import dataclasses

import pytest
from hypothesis import example, given, settings, strategies as st

import loopir as lp
import schedules
from loopir.ir.grammar import Kernel
from loopir.ir.layout.shared_memory import shared_layout
from loopir.ir.traverse.walk import statements
from loopir.lower.target import target
from loopir.machines import ALIASES, MACHINES, nearest

ARCHES = sorted(MACHINES)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_record_is_sound(arch: str) -> None:
    m = lp.machine(arch)
    assert m.arch == arch
    assert m.shared_per_block + m.shared_reserved <= m.shared_per_processor
    assert m.threads_per_block <= m.threads_per_processor <= 32 * 64
    assert m.read_bandwidth < m.l2_bandwidth
    assert m.copy_bandwidth <= m.read_bandwidth < m.dram_bandwidth
    assert m.has("wgmma") == any(t.warpgroup for t in m.tensor) == bool(m.tiles.wgmma)
    assert m.has("fp8") == any(t.dtype.startswith("float8") for t in m.tensor)
    assert m.tensor_rate("int8").warp > m.tensor_rate("bfloat16").warp > m.tensor_rate("float32").warp


@pytest.mark.parametrize("arch", ["hopper", "sm_75", "sm_9", "90a", "", "sm_90b", "SM_90a"])
def test_an_architecture_that_is_not_known_is_refused(arch: str) -> None:
    """By whoever is given one, with those that there are; "hopper" gave the kernels of sm_80 quietly before."""
    a = lp.placeholder((64, 64), "bfloat16", name="a")
    known = rf"there is no architecture '{arch}'; there are {', '.join(MACHINES)}"
    for ask in (
        lambda: lp.machine(arch),
        lambda: schedules.auto(lp.Schedule(a @ a), "cuda", arch=arch),
        lambda: schedules.gpu(lp.Schedule(a @ a), arch=arch),
        lambda: lp.compile_source(lp.Schedule(a + a), arch),
        lambda: lp.Schedule(a + a).report(arch),
    ):
        with pytest.raises(lp.TargetError, match=known):
            ask()


@pytest.mark.parametrize(("name", "arch"), sorted(ALIASES.items()))
def test_another_name_is_the_same_machine(name: str, arch: str) -> None:
    assert lp.machine(name) is lp.machine(arch)


def test_sm_90_gets_the_products_of_sm_90a() -> None:
    a = lp.placeholder((4096, 4096), "bfloat16", name="a")
    made = [schedules.auto(lp.Schedule(a @ a), "cuda", arch=arch) for arch in ("sm_90", "sm_90a", "sm_80")]
    assert made[0] == made[1]
    assert "wgmma" in str(made[0])
    assert "wgmma" not in str(made[2])


def test_a_gpu_of_which_there_is_no_record_takes_the_one_before() -> None:
    m = nearest("sm_103a")
    assert dataclasses.replace(m, arch="sm_100a") == lp.machine("sm_100a")
    assert nearest("sm_121a").name == lp.machine("sm_120").name
    assert not nearest("sm_95a").has("wgmma")
    with pytest.raises(lp.TargetError, match="older than sm_80"):
        nearest("sm_75")


def test_schedules_are_made_for_the_machine_at_hand() -> None:
    before = lp.machine()
    with lp.scheduling_for(lp.machine("sm_86")) as m:
        assert lp.machine() is m
        assert target("cuda").shared_bytes == m.shared_per_block
        with pytest.raises(KeyError), lp.scheduling_for(lp.machine("sm_80")):
            raise KeyError
        assert lp.machine() is m
    assert lp.machine() is before


def test_lowering_asks_the_record_how_much_shared_memory_there_is() -> None:
    """At what fits exactly, and one vector more."""
    for arch in ("sm_89", "sm_80", "sm_90a"):
        most = lp.machine(arch).shared_per_block // 4
        for n, fits in ((most, True), (most + 4, False)):
            x = lp.placeholder((8, n), "float32", name="x")
            s = lp.Schedule((x + 1.0).named("y")).bind("i", "blockIdx.x").cache_read("y", "x", "shared", "i")
            if fits:
                assert lp.compile_source(s, arch).source
            else:
                with pytest.raises(lp.TargetError, match=rf"{4 * n} bytes of shared memory .* there are {4 * most}"):
                    lp.compile_source(s, arch)


def used(s: lp.Schedule, arch: str) -> int:
    """Bytes of shared memory that the hungriest block of `s` takes."""
    with lp.scheduling_for(lp.machine(arch)):
        (func,) = lp.lower(s, "cuda")
    return max(shared_layout(k)[1] for k in statements(func.body) if isinstance(k, Kernel))


SIDES = st.sampled_from([1, 3, 8, 16, 60, 64, 128, 500, 512, 1024, 4096])


@settings(max_examples=12, deadline=None)
@example("sm_90a", "float32", 16, 16, 4096)
@given(st.sampled_from(ARCHES), st.sampled_from(["bfloat16", "float32", "int8"]), SIDES, SIDES, SIDES)
def test_no_product_takes_more_shared_memory_than_there_is(arch: str, dtype: str, m: int, n: int, k: int) -> None:
    a, b = lp.placeholder((m, k), dtype, name="a"), lp.placeholder((k, n), dtype, name="b")
    made = schedules.auto(lp.Schedule(a @ b), "cuda", arch=arch)
    assert used(made, arch) <= lp.machine(arch).shared_per_block


@pytest.mark.parametrize("arch", ["sm_86", "sm_89", "sm_120"])
@pytest.mark.parametrize("length", [1024, 16384, 32768])
def test_no_row_takes_more_shared_memory_than_there_is(arch: str, length: int) -> None:
    x = lp.placeholder((512, length), "float32", name="x")
    made = schedules.auto(lp.Schedule(lp.softmax(x)), "cuda", arch=arch)
    assert used(made, arch) <= lp.machine(arch).shared_per_block
