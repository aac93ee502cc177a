"""A program's kernels on a GPU: launches in the order of a stream, by the host function or as they were written down.

A call that is like an earlier one has its launches prepared: grids and integers are settled, and only addresses are
filled in. Everything is done in order on a stream: the one that the library which owns the caller's arrays uses at the
call, so that a kernel runs after what made its inputs and before what reads its outputs, and nothing is waited for.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
import itertools
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
from loopir.runtime.arrays import UNTOLD, Bound, Signature, stream_of
from loopir.runtime.bounds_report import Checked
from loopir.runtime.cuda.deferred_tests import DeferredTests
from loopir.runtime.cuda.driver import MOST_STREAMS, Device, Stream
from loopir.runtime.cuda.graphs import Graph
from loopir.runtime.cuda.launch_record import Launch, MapOf, Slot, record_launches
from loopir.runtime.cuda.machine_code import kernels_that_wait_first
from loopir.runtime.cuda.native_call import MOST_ARRAYS, ROOM, Calls, Native, native_of
from loopir.runtime.cuda.tensor_maps import TensorMap
from loopir.runtime.plans import Run

PORTABLE_CLUSTER = 8
"""Blocks of a cluster that every GPU with clusters takes."""
MAX_GRID = (2**31 - 1, 65535, 65535)
SHAPE, STREAM, VALUES = Struct("7I"), 32, 7
"""CUlaunchConfig: grid, block and shared memory; the byte where the stream, the attributes and their number stand; the
number of words of 8 bytes that it has."""
NOTHING = ctypes.c_void_p(0)
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
        self._calls: Calls | None = None
        self._tests: DeferredTests | None = None

    def _loaded(self, cubin: bytes, kernels: Sequence[Any]) -> list[Loaded]:
        with self.gpu.here():
            return self._taken(cubin, kernels)

    def _taken(self, cubin: bytes, kernels: Sequence[Any]) -> list[Loaded]:
        gpu, cu = self.gpu, self.gpu.cu
        module, early = gpu.check(cu.cuModuleLoadData(cubin), "load the kernels"), kernels_that_wait_first(cubin)
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
            plain, maps = len(k.params), tuple(TensorMap(gpu, m.dtype, m.box, m.span) for m in k.maps)
            told = gpu.attributes if k.name in early else (0, 0)
            loaded.append(Loaded(k.name, function, k.block, k.shared_bytes, told, wide, plain, maps))
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

    def prepared(
        self, host: Callable[..., None], sizes: tuple[int, ...], count: int, current: Callable[[int], int]
    ) -> Run:
        """What runs the program at these sizes on `count` arrays, on the stream that `current` tells of a GPU."""
        if isinstance(host, Checked):
            return self._deferred(host).before(self.prepared(self.queued(host), sizes, count, current))
        recording = record_launches(host, sizes, count)
        if recording is None:

            def whole(pointers: Sequence[int]) -> None:
                with self.gpu.here():
                    host(self.on(current(0)), *sizes, *pointers)

            return whole
        steps = [Prepared(self.gpu, self.kernel(x.kernel, x.fits), x) for x in recording.launches]

        def run(pointers: Sequence[int]) -> None:
            stream = current(0)
            for step in steps:
                step(stream, pointers)

        def with_workspace(pointers: Sequence[int]) -> None:
            stream = current(0)
            here = self.gpu.stream(stream)
            start = here.alloc(recording.workspace)
            try:
                memory = (*pointers, *[start + offset for offset in recording.offsets])
                for step in steps:
                    step(stream, memory)
            finally:
                here.free(start)
            native = shared(self.gpu)
            if native is not None and recording.workspace <= ROOM:
                native.room(stream)

        if len(steps) == 1 and not recording.workspace:
            return steps[0].alone(current)
        return with_workspace if recording.workspace else run

    def native(self, signature: Signature, bound: Bound, host: Callable[..., None]) -> Callable[..., Any] | None:
        """What runs calls like `bound` the shortest way, and those learnt before; None if there is none."""
        before = self._deferred(host).before if isinstance(host, Checked) else None
        host = self.queued(host)
        native = shared(self.gpu)
        if native is not None and len(bound.arrays) <= MOST_ARRAYS and all(native.knows(t) for t in bound.arrays):
            recording = record_launches(host, bound.sizes, len(signature.args))
            if recording is not None and recording.launches:
                calls = self._calls = self._calls or Calls(native, signature, self.wide, bound)
                calls.learn(bound, recording, [self.kernel(x.kernel, x.fits) for x in recording.launches])
        if self._calls is None:
            return None
        return self._calls.call if before is None else before(self._calls.call)

    def queued(self, host: Callable[..., None]) -> Callable[..., None]:
        """`host`, waiting for nothing: tests of subscripts write to where the next call looks."""
        if not isinstance(host, Checked):
            return host
        plain, pointer = host.host, self._deferred(host).pointer

        def queued(runtime: Any, *args: Any) -> None:
            plain(runtime, *args, pointer)

        return queued

    def _deferred(self, checked: Checked) -> DeferredTests:
        """The program's tests as calls leave them that do not wait."""
        if self._tests is None:
            self._tests = DeferredTests(self.gpu, checked)
        return self._tests

    def synchronize(self) -> None:
        """Wait for the GPU, and raise BoundsError if a test of a call so far has failed."""
        self.gpu.synchronize()
        self.require()

    def require(self) -> None:
        """Raise BoundsError if a test of an earlier call is known to have failed."""
        if self._tests is not None:
            self._tests.require()

    def graph(self, host: Callable[..., None], sizes: tuple[int, ...], bound: Bound, results: Any) -> Graph:
        """The launches of a call on these arrays, as a CUDA graph."""
        before = self._deferred(host).require if isinstance(host, Checked) else None
        host = self.queued(host)
        for t in bound.arrays:
            if t.device == "cpu":
                raise ValueError("a graph runs on arrays on the GPU, and one is the host's; move it there")
        pointers = [t.pointer for t in bound.arrays]

        def launches(stream: int) -> None:
            host(Running(self, Stream(self.gpu, stream)), *sizes, *pointers)

        native = shared(self.gpu)
        known = native is not None and all(native.knows(t) for t in bound.arrays)
        replay = native.replay if native is not None and known else None
        with self.gpu.here():
            return Graph(self.gpu, launches, partial(stream_of, bound.arrays), bound.arrays, results, replay, before)


_natives: dict[Any, Native | None] = {}


def shared(gpu: Device) -> Native | None:
    """What calls that go the shortest way share on that GPU, made when torch is there."""
    if gpu not in _natives and "torch" in sys.modules:
        _natives[gpu] = native_of(gpu)
    return _natives.get(gpu)


class Loaded:
    """A kernel on a GPU, and rooms for launches that are not prepared."""

    def __init__(
        self, name: str, function: Any, block: tuple[int, int, int], shared: int, attributes: tuple[int, int],
        wide: tuple[int, ...], count: int, maps: tuple[TensorMap, ...] = (),
    ) -> None:  # fmt: skip
        self.name, self.block, self.shared, self.wide, self.count, self.maps = name, block, shared, wide, count, maps
        self.attributes = attributes
        self.function = ctypes.c_void_p(int(function))
        self.pack = Struct(f"{3 + count}q").pack_into
        self.rooms: list[Room] = []


class Room:
    """The driver's arguments of one launch: a CUlaunchConfig, values behind it, and where each argument's value is.

    Arguments have 8 bytes each, of which the driver takes as many as the kernel's parameter has; `order` says which of
    the values each is. The driver has copied all when a launch returns.
    """

    def __init__(self, kernel: Loaded, order: Sequence[int]) -> None:
        self.words = (ctypes.c_longlong * (VALUES + len(order)))()
        first = ctypes.addressof(self.words)
        values = [first + 8 * (VALUES + n) for n in order]
        self.each = (ctypes.c_void_p * max(1, len(order) + len(kernel.maps)))(*values)
        self.config, self.arguments = ctypes.c_void_p(first), ctypes.c_void_p(ctypes.addressof(self.each))

    def shape(self, grid: tuple[int, int, int], kernel: Loaded) -> None:
        SHAPE.pack_into(self.words, 0, *grid, *kernel.block, kernel.shared)


class Prepared:
    """One launch at settled sizes: the stream and addresses are written where the driver reads them, and it is told."""

    def __init__(self, gpu: Device, kernel: Loaded, launch: Launch) -> None:
        self.gpu, self.kernel, self.grid = gpu, kernel, launch.grid
        plain, maps = launch.args[: kernel.count], launch.args[kernel.count :]
        self.integers = [a for a in plain if isinstance(a, int)]
        places = [a.n for a in plain if isinstance(a, Slot)]
        self.pick, self.pack = _picker(places), Struct(f"{3 + len(places)}q").pack_into
        addresses, integers = itertools.count(), itertools.count(len(places))
        self.order = [next(addresses if isinstance(a, Slot) else integers) for a in plain]
        self.maps = [a for a in maps if isinstance(a, MapOf)]
        self.rooms = [self.room()]

    def room(self) -> Room:
        room, start = Room(self.kernel, self.order), VALUES + self.kernel.count - len(self.integers)
        room.shape(self.grid, self.kernel)
        room.words[start : start + len(self.integers)] = self.integers
        return room

    def alone(self, current: Callable[[int], int]) -> Run:
        """What makes this launch, the only one of its program, on the stream that is current: nothing is looked up."""
        if self.maps:
            return lambda pointers: self(current(0), pointers)
        gpu, pack, pick, rooms, name = self.gpu, self.pack, self.pick, self.rooms, self.kernel.name
        launch, function, (start, count) = gpu.launch, self.kernel.function, self.kernel.attributes

        def run(pointers: Sequence[int]) -> None:
            try:
                room = rooms.pop()
            except IndexError:  # as many launches at once as never before
                room = self.room()
            pack(room.words, STREAM, current(0), start, count, *pick(pointers))
            if launch(room.config, function, room.arguments, NOTHING):
                gpu.relaunch(name, room.config, function, room.arguments, NOTHING)
            rooms.append(room)

        return run

    def __call__(self, stream: int, memory: Sequence[int]) -> None:
        try:
            room = self.rooms.pop()
        except IndexError:  # as many launches at once as never before
            room = self.room()
        gpu = self.gpu
        self.pack(room.words, STREAM, stream, *self.kernel.attributes, *self.pick(memory))
        if self.maps:
            for n, m in enumerate(self.maps, self.kernel.count):
                room.each[n] = self.kernel.maps[m.map].at(memory[m.slot.n], m.sizes)
        if gpu.launch(room.config, self.kernel.function, room.arguments, NOTHING):
            gpu.relaunch(self.kernel.name, room.config, self.kernel.function, room.arguments, NOTHING)
        self.rooms.append(room)


def _picker(places: Sequence[int]) -> Callable[[Sequence[int]], Sequence[int]]:
    """What picks these of a sequence; a tuple of one is made by hand, as itemgetter gives no tuple then."""
    if len(places) == 1:
        (only,) = places
        return lambda memory: (memory[only],)
    return itemgetter(*places) if places else lambda memory: ()


class Running:
    """A program's kernels on a stream: what its host function calls. Arrays of the host are copied there and back."""

    def __init__(self, runtime: CudaRuntime, stream: Stream) -> None:
        self.gpu, self.kernel, self.stream, self.number = runtime.gpu, runtime.kernel, stream, stream.number
        self.require = runtime.require
        self.alloc, self.free, self.here = stream.alloc, stream.free, runtime.gpu.here

    @property
    def mark(self) -> Callable[[], Any]:
        """What notes a moment in the order of the stream."""
        return self.stream.mark

    @property
    def moments(self) -> Callable[[Sequence[Any]], list[float]]:
        """What gives the seconds of such marks, when all before them is done."""
        return self.stream.moments

    @contextmanager
    def lent(self, words: np.ndarray[Any, Any]) -> Iterator[int]:
        """Device memory with `words`, copied back into it at the end of the block, after all launches."""
        self.require()
        pointer = self.alloc(words.nbytes)
        try:
            self.stream.upload(pointer, words)
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
            room = Room(k, range(k.count))
        room.shape(grid, k)
        k.pack(room.words, STREAM, self.number, *k.attributes, *args[: k.count])
        for n, where in enumerate(args[k.count :], k.count):
            room.each[n] = where  # a map is read from where it is kept
        if self.gpu.launch(room.config, k.function, room.arguments, NOTHING):
            self.gpu.relaunch(k.name, room.config, k.function, room.arguments, NOTHING)
        k.rooms.append(room)

    def map(self, n: int, m: int, pointer: int, sizes: tuple[int, ...]) -> int:
        """Where tensor map `m` of kernel `n` is, for an array at `pointer` of so many elements, and strides."""
        return self.kernel(n).maps[m].at(pointer, sizes)

    def enter(self, bound: Bound, signature: Signature) -> list[int]:
        """The arguments' addresses on the GPU, which is the thread's now: theirs, or those of copies."""
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

    def cold_time(self, run: Callable[[], None]) -> float:
        """Seconds of one run on the GPU after other memory has filled the L2 cache."""
        size = 2 * self.gpu.l2_bytes
        scratch = self.alloc(size)
        try:
            self.stream.fill(scratch, size)
            return self.stream.time(run)
        finally:
            self.free(scratch)


def _host_array(x: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A NumPy view of an array in the host's memory."""
    if isinstance(x, np.ndarray):
        return x
    if type(x).__module__.partition(".")[0] == "torch":
        # NumPy does not know torch's bfloat16 and floats of 8 bits; both know the integers
        word = {1: "int8", 2: "int16"}.get(dtype.itemsize) if dtype.name in UNTOLD else None
        return x.numpy() if word is None else x.view(dtype=getattr(sys.modules["torch"], word)).numpy().view(dtype)
    return np.asarray(x)
