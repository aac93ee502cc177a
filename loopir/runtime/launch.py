"""A program's kernels on a GPU: launches in the order of a stream, by the host function or as they were written down.

A call that is like an earlier one has its launches prepared: grids and integers are settled, and only addresses are
filled in. Everything is done in order on a stream: the one that the library which owns the caller's arrays uses at the
call, so that a kernel runs after what made its inputs and before what reads its outputs, and nothing is waited for.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from operator import itemgetter
from struct import Struct
from typing import Any

import numpy as np

from loopir.errors import TargetError
from loopir.runtime.arrays import Bound, Signature, stream_of
from loopir.runtime.checks import Checked
from loopir.runtime.driver import MOST_STREAMS, Device, Stream
from loopir.runtime.graphs import Graph
from loopir.runtime.maps import Map
from loopir.runtime.plans import Run
from loopir.runtime.record import Launch, MapOf, Slot, recorded

PORTABLE_CLUSTER = 8
"""Blocks of a cluster that every GPU with clusters takes."""
MAX_GRID = (2**31 - 1, 65535, 65535)
Other = Callable[[bool, bool], tuple[bytes, Sequence[Any]]]
"""Compiles a program again: counting in 64 bits or not, copying element by element or not."""


class CudaRuntime:
    """A program's kernels on a GPU. `on` a stream it is what the program's host function calls."""

    device = "cuda"

    def __init__(self, gpu: Device, cubin: bytes, kernels: Sequence[Any], other: Other | None = None) -> None:
        self.gpu = gpu
        self._other, self._others = other, dict[tuple[bool, bool], list[Loaded]]()
        self.kernels = self._loaded(cubin, kernels)
        self.wide: frozenset[str] = frozenset().union(*(k.wide for k in kernels))
        """The arrays that some kernel moves in vectors of 16 bytes."""
        self._running: dict[int, Running] = {}

    def _loaded(self, cubin: bytes, kernels: Sequence[Any]) -> list[Loaded]:
        gpu, cu = self.gpu, self.gpu.cu
        gpu.current()
        module = gpu.check(cu.cuModuleLoadData(cubin), "load the kernels")
        loaded: list[Loaded] = []
        for k in kernels:
            function = gpu.check(cu.cuModuleGetFunction(module, k.name.encode()), f"find {k.name}")
            if k.shared_bytes:
                attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                gpu.check(cu.cuFuncSetAttribute(function, attribute, k.shared_bytes), "give a block its shared memory")
            if k.cluster > PORTABLE_CLUSTER:
                attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
                gpu.check(cu.cuFuncSetAttribute(function, attribute, 1), f"run clusters of {k.cluster} blocks")
            wide = tuple(n for n, (_, name) in enumerate(k.params) if name in k.wide)
            plain, maps = len(k.params), tuple(Map(gpu, m.dtype, m.box, m.span) for m in k.maps)
            loaded.append(Loaded(k.name, function, (*k.block, k.shared_bytes), wide, plain, maps))
        return loaded

    def kernel(self, n: int, fits: bool = True, scalar: bool = False) -> Loaded:
        """Kernel `n`: as it was built, if its indices fit ints and its arrays vectors; else compiled anew, and kept."""
        if fits and not scalar:
            return self.kernels[n]
        which = (not fits, scalar)
        if which not in self._others:
            if self._other is None:
                return self.kernels[n]
            self._others[which] = self._loaded(*self._other(*which))
        return self._others[which][n]

    def on(self, handle: int) -> Running:
        """The program on the stream with that handle, in this thread."""
        found = self._running.get(handle)
        if found is None:
            if len(self._running) >= MOST_STREAMS:
                self._running.clear()
            found = self._running[handle] = Running(self, self.gpu.stream(handle))
        return found

    def prepared(self, host: Callable[..., None], sizes: tuple[int, ...], count: int) -> Run:
        """What runs the program at these sizes on `count` arrays of torch's, on the stream that torch works on."""
        current, running = _torch_stream(), self._running
        recording = recorded(host, sizes, count)
        if recording is None:
            return lambda pointers: host(self.on(current(0)), *sizes, *pointers)
        steps = [Prepared(self.kernel(x.kernel, x.fits), x) for x in recording.launches]

        def run(pointers: Sequence[int]) -> None:
            stream = current(0)
            here = running.get(stream) or self.on(stream)
            for step in steps:
                step(here, pointers)

        def with_workspace(pointers: Sequence[int]) -> None:
            here = self.on(current(0))
            start = here.alloc(recording.workspace)
            try:
                memory = (*pointers, *[start + offset for offset in recording.offsets])
                for step in steps:
                    step(here, memory)
            finally:
                here.free(start)

        return with_workspace if recording.workspace else run

    def graph(self, host: Callable[..., None], sizes: tuple[int, ...], bound: Bound, results: Any) -> Graph:
        """The launches of a call on these arrays, as a CUDA graph."""
        if isinstance(host, Checked):
            raise TargetError("a program that tests subscripts from memory waits for that, and a graph never waits")
        for t in bound.arrays:
            if t.device == "cpu":
                raise ValueError("a graph runs on arrays on the GPU, and one is the host's; move it there")
        pointers = [t.pointer for t in bound.arrays]

        def launches(stream: int) -> None:
            host(Running(self, Stream(self.gpu, stream)), *sizes, *pointers)

        return Graph(self.gpu, launches, partial(stream_of, bound.arrays), bound.arrays, results)


class Loaded:
    """A kernel on a GPU, and memory for the arguments of launches; a launch copies them before it returns."""

    def __init__(
        self,
        name: str,
        function: Any,
        shape: tuple[int, ...],
        wide: tuple[int, ...],
        count: int,
        maps: tuple[Map, ...] = (),
    ) -> None:
        self.name, self.function, self.shape, self.wide, self.count = name, function, shape, wide, count
        self.maps = maps
        self.pack = Struct(f"{count}q").pack_into
        self.rooms: list[tuple[Any, int, Any]] = []

    def room(self) -> tuple[Any, int, Any]:
        """Room for the values, where the addresses of each stand, and what keeps those; every argument has 8 bytes."""
        values = (ctypes.c_longlong * max(1, self.count))()
        first = ctypes.addressof(values)
        each = (ctypes.c_void_p * max(1, self.count + len(self.maps)))(*range(first, first + 8 * self.count, 8))
        return values, ctypes.addressof(each), each


class Prepared:
    """One launch at settled sizes: addresses are written where the driver reads them, and it is told."""

    def __init__(self, kernel: Loaded, launch: Launch) -> None:
        self.kernel, self.grid = kernel, launch.grid
        plain, maps = launch.args[: kernel.count], launch.args[kernel.count :]
        self.integers = [a for a in plain if isinstance(a, int)]
        places = [a.n for a in plain if isinstance(a, Slot)]
        self.pick = _picker(places)
        self.pack = Struct(f"{len(places)}q").pack_into
        self.start = 8 * len(self.integers)  # a kernel's integers are its first parameters
        self.maps = [a for a in maps if isinstance(a, MapOf)]
        self.rooms: list[tuple[Any, int, Any]] = []
        self.shape = (kernel.function, *launch.grid, *kernel.shape)

    def room(self) -> tuple[Any, int, Any]:
        room = self.kernel.room()
        room[0][: len(self.integers)] = self.integers
        return room

    def __call__(self, running: Running, memory: Sequence[int]) -> None:
        try:
            room = self.rooms.pop()
        except IndexError:  # the first launch, or as many at once as never before
            room = self.room()
        values, addresses, each = room
        self.pack(values, self.start, *self.pick(memory))
        if self.maps:
            for n, m in enumerate(self.maps, self.kernel.count):
                each[n] = self.kernel.maps[m.map].at(memory[m.slot.n], m.sizes)
        running.submit(self.shape, addresses)
        self.rooms.append(room)


def _picker(places: Sequence[int]) -> Callable[[Sequence[int]], Sequence[int]]:
    """What picks these of a sequence."""
    if len(places) == 1:
        (only,) = places
        return lambda memory: (memory[only],)
    return itemgetter(*places) if places else lambda memory: ()


def _torch_stream() -> Callable[[int], int]:
    """Asks torch for the stream it works on: its raw handle where torch tells it, which takes a tenth of the time."""
    torch: Any = sys.modules["torch"]
    asked = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return asked or (lambda _: torch.cuda.current_stream().cuda_stream)


class Running:
    """A program's kernels on a stream: what its host function calls. Arrays of the host are copied there and back."""

    def __init__(self, runtime: CudaRuntime, stream: Stream) -> None:
        self.gpu, self.kernel, self.stream, self.handle = runtime.gpu, runtime.kernel, stream, stream.handle
        self.alloc, self.free = stream.alloc, stream.free
        self._launch, self._done = self.gpu.cu.cuLaunchKernel, self.gpu.cu.CUresult.CUDA_SUCCESS

    @contextmanager
    def lent(self, words: np.ndarray[Any, Any]) -> Iterator[int]:
        """Memory for `words`, which is read into it when the block ends; that waits for all that was launched."""
        pointer = self.alloc(words.nbytes)
        try:
            yield pointer
            self.stream.download(words, pointer)
        finally:
            self.free(pointer)

    def launch(self, n: int, grid: tuple[int, int, int], args: tuple[int, ...], fits: bool = True) -> None:
        """Launch kernel `n`, whose indices fit ints or not; nothing for an empty grid."""
        k = self.kernel(n, fits)
        x, y, z = grid
        if x <= 0 or y <= 0 or z <= 0:
            return
        if x > MAX_GRID[0] or y > MAX_GRID[1] or z > MAX_GRID[2]:
            raise TargetError(
                f"{k.name} would have a grid of {grid} blocks, and a GPU takes {MAX_GRID}; bind fewer blocks"
            )
        if any(args[a] % 16 for a in k.wide):
            k = self.kernel(n, fits, scalar=True)
            for a in k.wide:
                if args[a] % 16:
                    raise ValueError(
                        f"{k.name} moves 16 bytes in one instruction, and argument {a} starts at {args[a]:#x}; "
                        "pass a copy"
                    )
        try:
            room = k.rooms.pop()
        except IndexError:  # the first launch, or as many at once as never before
            room = k.room()
        if k.maps:
            for n, where in enumerate(args[k.count :], k.count):
                room[2][n] = where  # a map is read from where it is kept
            args = args[: k.count]
        k.pack(room[0], 0, *args)
        self.submit((k.function, x, y, z, *k.shape), room[1])
        k.rooms.append(room)

    def submit(self, shape: tuple[Any, ...], addresses: int) -> None:
        """Launch a function with its grid, block and shared memory, on arguments whose addresses stand there."""
        (error,) = self._launch(*shape, self.handle, addresses, 0)
        if error != self._done:
            self.gpu.current()  # this thread may have had another context, or none yet
            (error,) = self._launch(*shape, self.handle, addresses, 0)
            if error != self._done:
                self.gpu.check((error,), "launch a kernel")

    def map(self, n: int, m: int, pointer: int, sizes: tuple[int, ...]) -> int:
        """Where tensor map `m` of kernel `n` is, for an array at `pointer` of so many elements, and strides."""
        return self.kernel(n).maps[m].at(pointer, sizes)

    def enter(self, bound: Bound, signature: Signature) -> list[int]:
        """The arguments' addresses on the GPU: theirs, or those of copies."""
        self.gpu.current()
        pointers: list[int] = []
        copies: list[int] = []
        try:
            for t, spec in zip(bound.arrays, signature.args, strict=True):
                if t.device != "cpu":
                    pointers.append(t.pointer)
                    continue
                copies.append(self.alloc(prod(t.shape) * spec.numpy.itemsize))
                pointers.append(copies[-1])
                if spec.access != "out":
                    self.stream.upload(copies[-1], _host_array(t.array, spec.numpy))
        except BaseException:
            for pointer in copies:
                self.free(pointer)
            raise
        return pointers

    def leave(self, bound: Bound, signature: Signature, pointers: Sequence[int]) -> None:
        """Results of host arrays are copied back, and the copies' memory is given up."""
        for t, spec, pointer in zip(bound.arrays, signature.args, pointers, strict=True):
            if t.device == "cpu":
                if spec.access != "in":
                    self.stream.download(_host_array(t.array, spec.numpy), pointer)
                self.free(pointer)

    def time(self, run: Callable[[], None]) -> float:
        """Seconds of one run on the GPU: of ten together, divided."""

        def ten() -> None:
            for _ in range(10):
                run()

        return self.stream.time(ten) / 10


def _host_array(x: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A NumPy view of an array in the host's memory."""
    if isinstance(x, np.ndarray):
        return x
    if type(x).__module__.partition(".")[0] == "torch":
        # NumPy does not know torch's bfloat16; both know int16
        return x.view(dtype=sys.modules["torch"].int16).numpy().view(dtype) if dtype.itemsize == 2 else x.numpy()
    return np.asarray(x)
