"""Tiles of AMX: a process has them where the system grants them, and is asked once."""

import platform
from types import SimpleNamespace

import pytest

import loopir as lp
from loopir.runtime import amx_permission
from loopir.runtime.amx_permission import permitted


def test_tiles_are_there_where_the_system_grants_them() -> None:
    assert permitted() or not any(x.startswith("amx") for x in lp.cpu_features())


@pytest.mark.parametrize(
    ("system", "machine", "answer", "granted"),
    [("Linux", "x86_64", 0, True), ("Linux", "x86_64", -1, False), ("Linux", "aarch64", 0, False),
     ("Darwin", "x86_64", 0, False)],
)  # fmt: skip
def test_linux_on_x86_is_asked(
    system: str, machine: str, answer: int, granted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, ...]] = []

    def syscall(*args: int) -> int:
        asked.append(args)
        return answer

    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(amx_permission, "ctypes", SimpleNamespace(CDLL=lambda _: SimpleNamespace(syscall=syscall)))
    assert permitted.__wrapped__() is granted
    # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), by the kernel's Documentation/arch/x86/xstate.rst
    assert asked == ([(158, 0x1023, 18)] if (system, machine) == ("Linux", "x86_64") else [])
