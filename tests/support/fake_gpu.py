"""A GPU that only notes what it is asked to launch: tests of launches need none."""

from __future__ import annotations

import ctypes
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from loopir.errors import TargetError
from loopir.runtime.cuda import launch

INFO = SimpleNamespace(block=(32, 1, 1), shared_bytes=0, cluster=1, wide=frozenset({"x"}), maps=())


@dataclass
class Fake:
    """A driver that notes what it is asked to launch: the function, the shape, and the arguments' values."""

    counts: dict[str, int]
    early: frozenset[str]
    launched: list[Any] = field(default_factory=list[Any])
    pieces: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    codes: list[int] = field(default_factory=list[int])
    """What the next launches give, if they fail."""
    CUresult = SimpleNamespace(CUDA_SUCCESS=0)

    def cuModuleLoadData(self, cubin: bytes) -> Any:
        return 0, cubin

    def cuModuleGetFunction(self, module: Any, name: bytes) -> Any:
        return 0, list(self.counts).index(name.decode()) + 1

    def launch(self, config: Any, function: Any, arguments: Any, _: Any) -> int:
        if self.codes:
            return self.codes.pop(0)
        name = list(self.counts)[function.value - 1]
        shape = tuple((ctypes.c_uint * 7).from_address(config.value))
        stream, attributes, count = (ctypes.c_longlong * 3).from_address(config.value + 32)
        assert (attributes, count) == (Gpu.attributes if name in self.early else (0, 0))
        each = (ctypes.c_void_p * self.counts[name]).from_address(arguments.value)
        values = [ctypes.c_longlong.from_address(at or 0).value for at in each]
        self.launched.append((name, shape, stream, values))
        return 0


class Gpu:
    """A GPU with that driver."""

    attributes = (1234, 1)
    memory = 1 << 40
    """Bytes that one piece may have."""

    def __init__(self, cu: Fake) -> None:
        self.cu, self.top, self.launch = cu, 1 << 20, cu.launch
        self.words: list[Any] = []

    def check(self, result: Any, what: str) -> Any:
        return result[1] if len(result) == 2 else result[1:]

    here = staticmethod(nullcontext)

    def stream(self, number: int) -> Any:
        return SimpleNamespace(number=number, alloc=self.alloc, free=self.free, upload=self.copy, download=self.copy)

    def copy(self, *what: Any) -> None:
        """A copy to the GPU or from there."""

    def relaunch(self, name: str, *what: Any) -> None:
        if code := self.launch(*what):
            raise TargetError(f"the GPU could not launch {name}: {code}")

    def host_words(self, size: int) -> tuple[int, int]:
        """Memory of the host, which the fake GPU has at the same address."""
        self.words.append(ctypes.create_string_buffer(size))
        return ctypes.addressof(self.words[-1]), ctypes.addressof(self.words[-1])

    def synchronize(self) -> None:
        self.cu.pieces.append(("wait", 0))

    def alloc(self, size: int) -> int:
        if size > self.memory:
            raise TargetError(f"the GPU has no {size} bytes left")
        self.top += size
        self.cu.pieces.append(("alloc", size))
        return self.top

    def free(self, pointer: int) -> None:
        self.cu.pieces.append(("free", pointer))


def program(monkeypatch: pytest.MonkeyPatch, *kernels: tuple[str, str]) -> tuple[Fake, launch.CudaRuntime]:
    """A runtime with kernels of that name and those parameters."""
    infos = [
        SimpleNamespace(**vars(INFO), name=name, params=[("?", p) for p in params.split()]) for name, params in kernels
    ]
    cu = Fake({k.name: len(k.params) for k in infos}, frozenset(k.name for k in infos[::2]))
    monkeypatch.delitem(sys.modules, "torch", raising=False)  # the real one, where another test has imported it
    monkeypatch.setattr(launch, "kernels_that_wait_first", lambda cubin: cu.early)
    return cu, launch.CudaRuntime(Gpu(cu), b"", infos)  # type: ignore[arg-type]
