"""`python -m loopir doctor`: what is installed, what runs here, and what to do about what is missing.

Every line that says that something is missing says what it is for and how to get it. Nothing missing is an error: the
exit status is 1 only if no kernel can be built at all.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import loopir as lp
from loopir.errors import LoopirError
from loopir.loading import load
from loopir.requirements import install

NEEDED = ("numpy", "ml_dtypes", "islpy", "llvmlite", "sympy", "rich", "platformdirs")
OPTIONAL = {
    "cuda-bindings": "kernels on a GPU",
    "cuda-core": "kernels on a GPU",
    "nvidia-cuda-nvrtc": "compiling CUDA C, with or without a GPU",
    "nvidia-cuda-nvdisasm": "machine code in s.view()",
    "matplotlib": "s.report().plot()",
    "hypothesis": "loopir.testing",
    "scikit-learn": "the digits of python -m loopir demo",
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox")
VARIABLES = ("LOOPIR_CACHE_DIR", "LOOPIR_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "NO_COLOR")


def main() -> int:
    """Print the report; 1 if a needed package is missing or no target runs, else 0."""
    print(f"loopir {lp.__version__}, Python {platform.python_version()}, {platform.machine()} {platform.system()}")
    for line in (*_packages(), *_tools(), *_caches(), *_surroundings()):
        print(f"  {line}")
    targets = {name: _tried(lambda name=name: lp.describe_target(name)) for name in ("llvm", "cuda")}
    for name, (runs, told) in targets.items():
        print(f"  target {name}: {told if runs else f'not here; {told}'}")
    if not targets["cuda"][0]:
        print("    without a GPU: build for 'llvm'; lp.compile_source and s.report work all the same")
    missing = [name for name in NEEDED if _version(name) is None]
    return 1 if missing or not any(runs for runs, _ in targets.values()) else 0


def _packages() -> Iterator[str]:
    for name in NEEDED:
        yield f"{name} {_version(name) or f'is not installed: {install(name)}'}"
    for name, purpose in OPTIONAL.items():
        missing = f"is not installed, for {purpose}: {install(name)}"
        yield f"{name} {_version(name) or missing}"


def _tools() -> Iterator[str]:
    """NVRTC and the driver by their versions, the disassembler, a browser."""
    works, told = _tried(lambda: "{}.{}".format(*_runtime("cuda.nvrtc").version()))
    yield f"NVRTC {told}" if works else f"NVRTC: {told}"
    works, told = _tried(lambda: "{}.{}".format(*_runtime("cuda.driver").version()))
    yield f"driver for CUDA {told}" if works else f"driver: {told}"
    works, told = _tried(lambda: str(_runtime("cuda.disassembler").nvdisasm()))
    yield f"nvdisasm {told}" if works else f"nvdisasm: {told}"
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    yield f"browser {found}" if found else "browser: none on the PATH; pages of s.view() are files for any browser"


def _caches() -> Iterator[str]:
    told = _tried(lambda: _runtime("cache").described())[1].splitlines()
    yield f"compile cache: {told[0]}"
    yield from (f"  {line}" for line in told[1:])


def _surroundings() -> Iterator[str]:
    for name in VARIABLES:
        if name in os.environ:
            yield f"{name}={os.environ[name]}"
    yield f"terminal: {'yes' if sys.stdout.isatty() else 'no, output is redirected and has no colour'}"


def _runtime(name: str) -> Any:
    """A module of `loopir.runtime`, loaded when it is asked, as packages may be missing that it needs."""
    return load(f"loopir.runtime.{name}")


def _tried(ask: Callable[[], str]) -> tuple[bool, str]:
    try:
        return True, ask()
    except (LoopirError, ImportError) as error:
        return False, str(error)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
