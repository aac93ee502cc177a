"""Bad input to a program for a GPU: each is refused with what is wrong, or taken as it is, and the next call works.

The GPU is one that only notes its launches. Its arrays tell of themselves by `__cuda_array_interface__`, as cupy's do,
so they may be where no array of a library would be.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_gpu import Fake, program

import loopir as lp
from loopir.runtime.arrays import ArgSpec, Signature
from loopir.runtime.call import Kernel
from loopir.shapes import Linear

F32 = 4
START = 1 << 30


class OnGpu:
    """An array in a GPU's memory."""

    def __init__(
        self, shape: tuple[int, ...], at: int = START, *, strides: tuple[int, ...] | None = None, gpu: int = 0,
        dtype: str = "<f4", readonly: bool = False,
    ) -> None:  # fmt: skip
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": dtype, "data": (at, readonly), "strides": strides, "version": 3, "stream": 3,
        }  # fmt: skip
        self.device = SimpleNamespace(id=gpu)


def names(*sizes: str) -> tuple[Linear, ...]:
    return tuple(Linear({x: 1}, 0, x) for x in sizes)


N, M = names("n", "m")
SIGNATURE = Signature(
    "f", ("n", "m"),
    (ArgSpec("x", "float32", ("n", "m"), "in", (N, M)), ArgSpec("y", "float32", ("n", "m"), "out", (N, M))),
)  # fmt: skip


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> tuple[Fake, Any, Any]:
    """A driver, its GPU, and a kernel y[n, m] of x[n, m] that moves x in vectors and takes memory of n bytes beside."""
    cu, runtime = program(monkeypatch, ("k", "n m x t y"))
    runtime._other = lambda long, scalar: (b"", [_info("k.long" if long else "k.scalar")])
    cu.counts |= {"k.scalar": 5, "k.long": 5}

    def host(rt: Any, n: int, m: int, x: int, y: int) -> None:
        t = rt.alloc(n)
        try:
            rt.launch(0, (n, 1, 1), (n, m, x, t, y), n * m < 1 << 31)
        finally:
            rt.free(t)

    return cu, runtime.gpu, Kernel(SIGNATURE, host, runtime, source="", resources={}, target="cuda")


def _info(name: str) -> Any:
    return SimpleNamespace(
        name=name, params=[("?", p) for p in ["n", "m", "x", "t", "y"]], block=(32, 1, 1), shared_bytes=0, cluster=1,
        wide=frozenset(), maps=(),
    )  # fmt: skip


def next_call_works(cu: Fake, kernel: Any) -> None:
    x, y = OnGpu((4, 8), START), OnGpu((4, 8), START + 4096)
    cu.launched.clear()
    before = len(cu.pieces)
    assert kernel(x, out=(y,)) is y
    ((name, shape, _, values),) = cu.launched
    assert (name, shape[0], values[:3], values[4]) == ("k", 4, [4, 8, START], START + 4096)
    kinds = [kind for kind, _ in cu.pieces]
    assert kinds.count("alloc") == kinds.count("free")
    assert len(cu.pieces) == before + 2


Y = OnGpu((4, 8), START + 4096)
REFUSED: dict[str, tuple[OnGpu, OnGpu, str]] = {
    "a start between elements": (OnGpu((4, 8), START + 2), Y, "x does not start at a multiple of 4 bytes"),
    "an output between elements": (OnGpu((4, 8)), OnGpu((4, 8), START + 4097), "y does not start at a multiple of 4"),
    "negative strides": (OnGpu((4, 8), strides=(-32, 4)), Y, r"not contiguous .* its strides are \(-32, 4\) bytes"),
    "negative strides along rows": (OnGpu((4, 8), strides=(32, -4)), Y, "not contiguous in row-major order"),
    "strides of zero": (OnGpu((4, 8), strides=(0, 4)), Y, r"not contiguous .* strides are \(0, 4\)"),
    "all strides zero": (OnGpu((4, 8), strides=(0, 0)), Y, "not contiguous"),
    "every other column": (OnGpu((4, 8), strides=(64, 8)), Y, "not contiguous"),
    "a transposed view": (
        OnGpu((4, 8), strides=(4, 16)),
        Y,
        "not contiguous .* pass a copy, as cupy.ascontiguousarray",
    ),
    "an output with strides": (OnGpu((4, 8)), OnGpu((4, 8), START + 4096, strides=(64, 4)), "assign it back after"),
    "another GPU": (OnGpu((4, 8), gpu=1), Y, "x is on cuda:1, and f runs on cuda:0; move it there"),
    "an output on another GPU": (OnGpu((4, 8)), OnGpu((4, 8), START + 4096, gpu=3), "y is on cuda:3, and f runs on"),
    "the same memory": (OnGpu((4, 8)), OnGpu((4, 8), START + 64), "y, which f writes, overlaps x"),
    "an output that is read-only": (OnGpu((4, 8)), OnGpu((4, 8), START + 4096, readonly=True), "it is read-only"),
    "fewer rows": (OnGpu((4, 8)), OnGpu((3, 8), START + 4096), "y has shape"),
    "another rank": (OnGpu((32,)), Y, "dimension"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_and_the_next_call_works(made: tuple[Fake, Any, Any], name: str) -> None:
    cu, _, kernel = made
    x, y, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        kernel(x, out=(y,))
    assert not cu.launched
    assert not cu.pieces
    next_call_works(cu, kernel)


def test_another_type_is_refused(made: tuple[Fake, Any, Any]) -> None:
    cu, _, kernel = made
    with pytest.raises(TypeError, match="x holds float64, and the kernel takes float32"):
        kernel(OnGpu((4, 8), dtype="<f8"), out=(Y,))
    next_call_works(cu, kernel)


def test_a_start_between_vectors_takes_the_kernel_that_has_none(made: tuple[Fake, Any, Any]) -> None:
    cu, _, kernel = made
    kernel(OnGpu((4, 8), START + F32), out=(Y,))
    assert [x[0] for x in cu.launched] == ["k.scalar"]
    next_call_works(cu, kernel)


@pytest.mark.parametrize("shape", [(0, 8), (4, 0), (0, 0)])
def test_without_elements_nothing_goes_wrong(made: tuple[Fake, Any, Any], shape: tuple[int, int]) -> None:
    """Also where the arrays are nowhere, and strides do not matter."""
    cu, _, kernel = made
    kernel(OnGpu(shape, 0, strides=(-4, 0)), out=(OnGpu(shape, 0),))
    assert [x[1][0] for x in cu.launched] == [4] * (shape[0] > 0)
    next_call_works(cu, kernel)


@pytest.mark.parametrize("shape", [(1, 8), (4, 1), (1, 1)])
def test_strides_of_dimensions_of_one_element_do_not_matter(
    made: tuple[Fake, Any, Any], shape: tuple[int, int]
) -> None:
    cu, _, kernel = made
    strides = tuple(-400 if n == 1 else 4 for n in shape)
    kernel(OnGpu(shape, strides=strides), out=(Y if shape == (4, 8) else OnGpu(shape, START + 4096),))
    assert [x[3][:2] for x in cu.launched] == [list(shape)]
    next_call_works(cu, kernel)


@pytest.mark.parametrize(("rows", "which"), [((1 << 20) - 1, "k"), (1 << 20, "k.long"), (1 << 22, "k.long")])
def test_from_2_31_elements_on_indices_have_64_bits(made: tuple[Fake, Any, Any], rows: int, which: str) -> None:
    cu, _, kernel = made
    kernel(OnGpu((rows, 2048)), out=(OnGpu((rows, 2048), START + (1 << 40)),))
    assert [x[0] for x in cu.launched] == [which]
    next_call_works(cu, kernel)


def test_no_memory_left_is_told(made: tuple[Fake, Any, Any]) -> None:
    cu, gpu, kernel = made
    gpu.memory = 100
    with pytest.raises(lp.TargetError, match="no 101 bytes left"):
        kernel(OnGpu((101, 8)), out=(OnGpu((101, 8), START + 4096),))
    assert not cu.launched
    next_call_works(cu, kernel)


def test_no_memory_left_for_arrays_of_the_host_is_told_and_what_was_taken_is_free(made: tuple[Fake, Any, Any]) -> None:
    cu, gpu, kernel = made
    x = np.ones((100, 8), np.float32)
    gpu.memory = x.nbytes - 1
    with pytest.raises(lp.TargetError, match="bytes left"):
        kernel(x)
    gpu.memory = x.nbytes
    assert kernel(x).shape == x.shape
    kinds = [kind for kind, _ in cu.pieces]
    assert kinds.count("alloc") == kinds.count("free") == 3
    next_call_works(cu, kernel)


def test_more_blocks_than_a_grid_has_are_told(made: tuple[Fake, Any, Any]) -> None:
    cu, _, kernel = made
    rows = 1 << 31
    with pytest.raises(lp.TargetError, match=r"grid of \(2147483648, 1, 1\) blocks, and a GPU takes"):
        kernel(OnGpu((rows, 1)), out=(OnGpu((rows, 1), START + (1 << 40)),))
    next_call_works(cu, kernel)


def test_a_launch_that_fails_is_told_and_its_memory_is_free(made: tuple[Fake, Any, Any]) -> None:
    cu, _, kernel = made
    cu.codes = [719, 719]  # again with the GPU's context
    with pytest.raises(lp.TargetError, match="could not launch k: 719"):
        kernel(OnGpu((4, 8)), out=(Y,))
    next_call_works(cu, kernel)
