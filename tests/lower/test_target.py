"""Targets: their limits are those of the machine, and one that there is not is named with those that there are."""

import pytest

from loopir.errors import TargetError
from loopir.lower.target import no_target, require_arch, target
from loopir.machines import MACHINES


@pytest.mark.parametrize("arch", sorted(a for a, m in MACHINES.items() if a.startswith("sm_")))
def test_a_gpu_has_the_limits_of_its_record(arch: str) -> None:
    m = MACHINES[arch]
    t = target("cuda", m)
    assert (t.gpu, t.max_threads, t.shared_bytes, t.max_cluster) == (
        m.arch, m.threads_per_block, m.shared_per_block, m.max_cluster,
    )  # fmt: skip
    assert t.instructions
    assert not t.hints


def test_a_cpu_takes_hints_and_no_instructions() -> None:
    t = target("llvm")
    assert t.hints
    assert not t.instructions
    assert t.roots == {"parallel"}


@pytest.mark.parametrize(
    ("name", "said"),
    [("cpu", "the CPU is llvm"), ("GPU", "the GPU is cuda"), ("CUDA", 'write "cuda"'), ("", "cuda, llvm")],
)
def test_another_is_refused_with_what_was_meant(name: str, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        target(name)
    assert said in str(no_target(name))


@pytest.mark.parametrize(("least", "arch", "fits"), [
    ("sm_90", "sm_90a", True), ("sm_90", "sm_100a", True), ("sm_90", "sm_89", False), ("sm_90a", "sm_90a", True),
    ("sm_90a", "sm_90", False), ("sm_90a", "sm_100a", False), ("sm_80", "sm_120", True), ("sm_100", "sm_90a", False),
])  # fmt: skip
def test_an_architecture_has_what_is_needed_or_is_refused(least: str, arch: str, fits: bool) -> None:
    if fits:
        return require_arch([("this", least)], arch)
    with pytest.raises(TargetError, match=f"this is .*{least}, and this is {arch}"):
        require_arch([("that", "sm_80"), ("this", least)], arch)
    return None
