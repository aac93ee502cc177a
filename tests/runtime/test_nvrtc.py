"""What NVRTC says, read into memory of its own and never lost to a cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopir.runtime.cuda import nvrtc

KERNEL = 'extern "C" __global__ void k(float* a) { a[threadIdx.x] = 1.f; }'
NO_KERNEL = "__device__ int f(int a) { return a; }"


def test_an_empty_log_leaves_shared_bytes_alone() -> None:
    load, compile_now = nvrtc._nvrtc, nvrtc._compile  # pyright: ignore[reportPrivateUsage]
    assert compile_now(load(), NO_KERNEL, "sm_90a", ["--gpu-architecture=sm_90a"]).log == ""
    assert chr(32).encode()[0] == 32


@pytest.mark.parametrize("where", ["here", pytest.param("beside a GPU, with NVRTC's cache", marks=pytest.mark.gpu)])
def test_compiled_anew_it_has_its_report_again(where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reports: list[dict[str, nvrtc.Resources]] = []
    for cache in ("one", "other"):
        monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path / cache))
        reports.append(nvrtc.compile(KERNEL).resources)
    assert reports[0] == reports[1]
    assert reports[1]["k"].registers > 0
