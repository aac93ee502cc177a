"""What the tests here need of the machine: a GPU, torch beside it, wgmma. Without it they are skipped, and say why."""

from __future__ import annotations

from typing import Any

import pytest

import loopir as lp


@pytest.fixture(scope="session")
def gpu() -> Any:
    """The GPU, for tests that compare with NumPy or the interpreter alone."""
    from loopir.runtime.cuda.driver import device

    try:
        return device()
    except lp.TargetError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def torch() -> Any:
    """torch on a GPU, whose context kernels share: it is asked for before anything here makes one."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    return torch


@pytest.fixture(scope="session")
def sm_90a(torch: Any) -> None:
    """A GPU with wgmma, for modules whose kernels need it."""
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("there is no GPU of sm_90a")
