"""The GPU by the CUDA driver: memory, copies, launches, times. Loaded only when a program is built for it.

Everything is done in order on a stream: the one that the library which owns the caller's arrays uses at the call, so
that a kernel runs after what made its inputs and before what reads its outputs, and nothing is waited for.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from struct import Struct
from typing import Any

import numpy as np

from loopir.errors import TargetError
from loopir.runtime.arrays import Bound, Signature

PORTABLE_CLUSTER = 8
"""Blocks of a cluster that every GPU with clusters takes."""
MAX_GRID = (2**31 - 1, 65535, 65535)
MAP_TYPES = {
    "bfloat16": ("BFLOAT16", 2), "float16": ("FLOAT16", 2), "float32": ("FLOAT32", 4), "int8": ("UINT8", 1),
    "int32": ("INT32", 4),
}  # fmt: skip
"""What the driver calls an element type, and its bytes."""
MOST_MAPS = 256
MOST_STREAMS = 64
"""Kept by their handles; after as many they are looked up anew."""
_devices: dict[int, Device] = {}


def device(ordinal: int = 0) -> Device:
    """GPU number `ordinal`; TargetError, with what is missing, if there is none."""
    if ordinal not in _devices:
        _devices[ordinal] = Device(ordinal)
    return _devices[ordinal]


def _driver() -> Any:
    try:
        from cuda.bindings import driver  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError as error:
        raise TargetError(f'a GPU is driven through cuda-python ({error}); pip install "loopir[cuda]"') from None
    return driver


class Device:
    """One GPU with its primary context: `.arch` ("sm_90a"), `.name`, `.description`."""

    def __init__(self, ordinal: int) -> None:
        self.cu = _driver()
        try:
            self.check(self.cu.cuInit(0), "start the driver")
        except RuntimeError as error:
            raise TargetError(f"no CUDA driver is here ({error}); a GPU needs NVIDIA's driver installed") from None
        count = self.check(self.cu.cuDeviceGetCount(), "count the GPUs")
        if ordinal >= count:
            raise TargetError(f"GPU {ordinal} was asked for, and there are {count}")
        self.handle = self.check(self.cu.cuDeviceGet(ordinal), "open the GPU")
        self.context = self.check(self.cu.cuDevicePrimaryCtxRetain(self.handle), "make a context")
        self.current()
        attribute = self.cu.CUdevice_attribute
        self.capability = tuple(
            self.check(self.cu.cuDeviceGetAttribute(a, self.handle), "read the compute capability")
            for a in (
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        name = self.check(self.cu.cuDeviceGetName(256, self.handle), "read the name")
        self.name = name.split(b"\0")[0].decode()
        major, minor = self.capability
        self.arch = f"sm_{major}{minor}{'a' if major >= 9 else ''}"
        self.description = f"{self.name}, {self.arch}"
        self._streams: dict[int, Stream] = {}

    def check(self, result: tuple[Any, ...], what: str) -> Any:
        """The values of a driver call; TargetError, saying what was tried, if it failed."""
        error, *values = result
        if error != self.cu.CUresult.CUDA_SUCCESS:
            raise TargetError(f"the GPU could not {what}: {error.name}")
        return values[0] if len(values) == 1 else tuple(values)

    def current(self) -> None:
        """Make this GPU's context the calling thread's."""
        self.check(self.cu.cuCtxSetCurrent(self.context), "take its context")

    def stream(self, handle: int = 0) -> Stream:
        """The stream with that handle; 0 is the default one."""
        found = self._streams.get(handle)
        if found is None:
            if len(self._streams) >= MOST_STREAMS:
                self._streams.clear()
            found = self._streams[handle] = Stream(self, handle)
        return found


class Stream:
    """Memory, copies and times in the order of one stream of a GPU."""

    def __init__(self, gpu: Device, handle: int) -> None:
        self.gpu, self.cu, self.check = gpu, gpu.cu, gpu.check
        self.handle = self.cu.CUstream(handle)

    def alloc(self, size: int) -> int:
        """The address of `size` bytes from the driver's pool, in stream order."""
        error, pointer = self.cu.cuMemAllocAsync(max(1, size), self.handle)
        if error != self.cu.CUresult.CUDA_SUCCESS:
            free, total = self.check(self.cu.cuMemGetInfo(), "say how much memory it has")
            raise TargetError(f"the GPU has no {size} bytes left: {free} of {total} are free ({error.name})")
        return int(pointer)

    def free(self, pointer: int) -> None:
        self.check(self.cu.cuMemFreeAsync(pointer, self.handle), "free memory")

    def upload(self, pointer: int, array: np.ndarray[Any, Any]) -> None:
        if array.nbytes:
            address = array.__array_interface__["data"][0]
            self.check(self.cu.cuMemcpyHtoDAsync(pointer, address, array.nbytes, self.handle), "take an array")
            self.synchronize()

    def download(self, array: np.ndarray[Any, Any], pointer: int) -> None:
        if array.nbytes:
            address = array.__array_interface__["data"][0]
            self.check(self.cu.cuMemcpyDtoHAsync(address, pointer, array.nbytes, self.handle), "give an array back")
            self.synchronize()

    def synchronize(self) -> None:
        """Wait for all that was launched, and raise what went wrong in it."""
        self.check(self.cu.cuStreamSynchronize(self.handle), "finish what it was given")

    def time(self, run: Callable[[], None]) -> float:
        """Seconds that what `run` launches takes on the GPU."""
        start, end = (self.check(self.cu.cuEventCreate(0), "make an event") for _ in range(2))
        self.check(self.cu.cuEventRecord(start, self.handle), "record an event")
        run()
        self.check(self.cu.cuEventRecord(end, self.handle), "record an event")
        self.check(self.cu.cuEventSynchronize(end), "finish what it was given")
        seconds = self.check(self.cu.cuEventElapsedTime(start, end), "tell the time") * 1e-3
        for event in (start, end):
            self.cu.cuEventDestroy(event)
        return seconds


class CudaRuntime:
    """A program's kernels on a GPU. `on` a stream it is what the program's host function calls."""

    device = "cuda"

    def __init__(self, gpu: Device, cubin: bytes, kernels: Sequence[Any]) -> None:
        self.gpu, cu = gpu, gpu.cu
        gpu.current()
        self.module = gpu.check(cu.cuModuleLoadData(cubin), "load the kernels")
        self.kernels: list[Loaded] = []
        for k in kernels:
            function = gpu.check(cu.cuModuleGetFunction(self.module, k.name.encode()), f"find {k.name}")
            if k.shared_bytes:
                attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                gpu.check(cu.cuFuncSetAttribute(function, attribute, k.shared_bytes), "give a block its shared memory")
            if k.cluster > PORTABLE_CLUSTER:
                attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
                gpu.check(cu.cuFuncSetAttribute(function, attribute, 1), f"run clusters of {k.cluster} blocks")
            wide = tuple(n for n, (_, name) in enumerate(k.params) if name in k.wide)
            plain, maps = len(k.params), tuple(Map(gpu, m.dtype, m.box, m.span) for m in k.maps)
            self.kernels.append(Loaded(k.name, function, (*k.block, k.shared_bytes), wide, plain, maps))
        self._running: dict[int, Running] = {}

    def on(self, handle: int) -> Running:
        """The program on the stream with that handle, in this thread."""
        found = self._running.get(handle)
        if found is None:
            if len(self._running) >= MOST_STREAMS:
                self._running.clear()
            found = self._running[handle] = Running(self, self.gpu.stream(handle))
        return found


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


class Map:
    """The tensor maps of one parameter, by the array that each tells of; they are kept while they are in use."""

    def __init__(self, gpu: Device, dtype: str, box: tuple[int, ...], span: int) -> None:
        self.gpu, self.cu, self.dtype, self.box, self.span = gpu, gpu.cu, dtype, box, span
        self.kept: dict[tuple[int, tuple[int, ...]], tuple[int, Any]] = {}
        self.none = (ctypes.c_ulonglong * 16)()

    def at(self, pointer: int, sizes: tuple[int, ...]) -> int:
        """The address of the map, made when it is first asked for. Of an empty array it tells nothing."""
        found = self.kept.get((pointer, sizes))
        if found is None:
            if len(self.kept) >= MOST_MAPS:
                self.kept.clear()
            made = self.encoded(pointer, sizes) if min(sizes[: len(self.box)]) > 0 else None
            where = ctypes.addressof(self.none) if made is None else int(made.getPtr())
            found = self.kept[pointer, sizes] = (where, made)
        return found[0]

    def encoded(self, pointer: int, sizes: tuple[int, ...]) -> Any:
        cu, rank = self.cu, len(self.box)
        kind, bytes_ = MAP_TYPES[self.dtype]
        inner_first = [cu.cuuint64_t(x) for x in reversed(sizes[:rank])]
        strides = [cu.cuuint64_t(x * bytes_) for x in reversed(sizes[rank:-1])]
        swizzle = f"CU_TENSOR_MAP_SWIZZLE_{f'{self.span}B' if self.span else 'NONE'}"
        return self.gpu.check(
            cu.cuTensorMapEncodeTiled(
                getattr(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"), rank, pointer, inner_first, strides,
                [cu.cuuint32_t(x) for x in reversed(self.box)], [cu.cuuint32_t(1)] * rank,
                cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE, getattr(cu.CUtensorMapSwizzle, swizzle),
                cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            ),
            f"make a tensor map of an array at {pointer:#x} of sizes and strides {sizes}",
        )  # fmt: skip


class Running:
    """A program's kernels on a stream: what its host function calls. Arrays of the host are copied there and back."""

    def __init__(self, runtime: CudaRuntime, stream: Stream) -> None:
        self.gpu, self.kernels, self.stream = runtime.gpu, runtime.kernels, stream
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

    def launch(self, n: int, grid: tuple[int, int, int], args: tuple[int, ...]) -> None:
        """Launch kernel `n`; nothing for an empty grid."""
        k = self.kernels[n]
        x, y, z = grid
        if x <= 0 or y <= 0 or z <= 0:
            return
        if x > MAX_GRID[0] or y > MAX_GRID[1] or z > MAX_GRID[2]:
            raise TargetError(
                f"{k.name} would have a grid of {grid} blocks, and a GPU takes {MAX_GRID}; bind fewer blocks"
            )
        for a in k.wide:
            if args[a] % 16:
                raise ValueError(
                    f"{k.name} moves vectors of 16 bytes, and argument {a} starts at {args[a]:#x}; pass a copy"
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
        (error,) = self._launch(k.function, x, y, z, *k.shape, self.stream.handle, room[1], 0)
        if error != self._done:
            self.gpu.current()  # this thread may have had another context, or none yet
            (error,) = self._launch(k.function, x, y, z, *k.shape, self.stream.handle, room[1], 0)
        k.rooms.append(room)
        if error != self._done:
            self.gpu.check((error,), f"launch {k.name}")

    def map(self, n: int, m: int, pointer: int, sizes: tuple[int, ...]) -> int:
        """Where tensor map `m` of kernel `n` is, for an array at `pointer` of so many elements, and strides."""
        return self.kernels[n].maps[m].at(pointer, sizes)

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
