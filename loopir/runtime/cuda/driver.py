"""The GPU by the CUDA driver: memory, copies, times. Loaded only when a program is built for it.

Everything is done in order on a stream: the one that the library which owns the caller's arrays uses at the call, so
that a kernel runs after what made its inputs and before what reads its outputs, and nothing is waited for.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from loopir.errors import TargetError
from loopir.requirements import install_extra
from loopir.runtime.cuda.memory_pool import MemoryPool

MOST_STREAMS = 64
"""Kept by their handles; after as many they are looked up anew."""
LEGACY, PER_THREAD = (0, 1), 2
"""The handles of the default stream, and of the one that each thread has for itself."""
KEPT_SHARE = 32
"""Of a GPU's memory, one part in as many is kept at most on a stream for later calls."""
WORD_PAGE = 4096
"""Bytes of host memory that words are cut from."""
EARLY = (9, 0)
"""The compute capability from which on a kernel may be put in place while the one before it ends: its blocks wait for
that before they touch memory (`griddepcontrol`, which every kernel begins with)."""
AFTER_PREVIOUS = (ctypes.c_int * 18)(6, 0, 1)
"""CUlaunchAttribute: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1."""
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
        raise TargetError(f"a GPU is driven through cuda-python ({error}); {install_extra('cuda')}") from None
    return driver


def version() -> tuple[int, int]:
    """The newest CUDA that the driver runs; TargetError where there is no driver."""
    cu = _driver()
    try:
        error, number = cu.cuDriverGetVersion()
    except RuntimeError as missing:
        raise TargetError(f"no CUDA driver is here ({missing}); a GPU needs NVIDIA's driver installed") from None
    if error != cu.CUresult.CUDA_SUCCESS:
        raise TargetError(f"the CUDA driver does not tell its version: {error.name}")
    return number // 1000, number % 1000 // 10


def _library() -> Any:
    """The driver itself, which cuda-python has loaded."""
    return ctypes.WinDLL("nvcuda.dll") if sys.platform == "win32" else ctypes.CDLL("libcuda.so.1")


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
        self.library = _library()
        self.launch: Callable[..., int] = self.library.cuLaunchKernelEx
        """As the driver has it, of ctypes' objects: four arguments cost less than the eleven of cuLaunchKernel."""
        early = self.capability >= EARLY
        self.attributes = (ctypes.addressof(AFTER_PREVIOUS), 1) if early else (0, 0)
        """Attributes of launches of kernels that wait first: their address, and their number."""
        self._streams: dict[int, Stream] = {}
        self.l2_bytes: int = self.check(
            self.cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, self.handle), "size its cache"
        )
        total = self.check(self.cu.cuDeviceTotalMem(self.handle), "say how much memory it has")
        self.blocks = MemoryPool(self, total // KEPT_SHARE)
        self._words, self._words_left, self._making_words = (0, 0), 0, threading.Lock()

    def synchronize(self) -> None:
        """Wait for all that was launched on this GPU, and raise what went wrong in it."""
        with self.here():
            self.check(self.cu.cuCtxSynchronize(), "finish what it was given")

    def host_words(self, size: int) -> tuple[int, int]:
        """`size` bytes of host memory that the GPU writes to, filled with 0 and kept for good: the addresses for the
        host and for the GPU."""
        with self._making_words:
            if size > self._words_left:
                self._words_left = max(size, WORD_PAGE)
                portable = self.cu.CU_MEMHOSTALLOC_PORTABLE | self.cu.CU_MEMHOSTALLOC_DEVICEMAP
                with self.here():
                    host = self.check(self.cu.cuMemHostAlloc(self._words_left, portable), "lend host memory")
                    there = self.check(self.cu.cuMemHostGetDevicePointer(host, 0), "find host memory")
                self._words = int(host), int(there)
                ctypes.memset(self._words[0], 0, self._words_left)
            found = self._words
            self._words = found[0] + size, found[1] + size
            self._words_left -= size
            return found

    def relaunch(self, name: str, *what: Any) -> None:
        """Launch again what failed: this thread may have had another context, or none yet."""
        with self.here():
            error = self.launch(*what)
        if error:
            raise TargetError(f"the GPU could not launch {name}: {self.cu.CUresult(error).name}")

    def take(self, size: int, stream: int) -> int | None:
        with self.here():
            error, pointer = self.cu.cuMemAllocAsync(size, stream)
        return int(pointer) if error == self.cu.CUresult.CUDA_SUCCESS else None

    def give(self, pointer: int, stream: int) -> None:
        with self.here():
            self.check(self.cu.cuMemFreeAsync(pointer, stream), "free memory")

    def drop(self, pointers: list[int]) -> None:
        self.synchronize()
        with self.here():
            for pointer in pointers:
                self.check(self.cu.cuMemFree(pointer), "free memory")

    def check(self, result: tuple[Any, ...], what: str) -> Any:
        """The values of a driver call; TargetError, saying what was tried, if it failed."""
        error, *values = result
        if error != self.cu.CUresult.CUDA_SUCCESS:
            raise TargetError(f"the GPU could not {what}: {error.name}")
        return values[0] if len(values) == 1 else tuple(values)

    @contextmanager
    def here(self) -> Iterator[None]:
        """This GPU's context is the calling thread's while this lasts; and from then on, if the thread has none yet.

        The thread may work on another GPU, and goes on with that one.
        """
        mine, now = int(self.context), int(self.check(self.cu.cuCtxGetCurrent(), "tell its context"))
        if now and now != mine:
            self.check(self.cu.cuCtxPushCurrent(self.context), "take its context")
            try:
                yield
            finally:
                self.check(self.cu.cuCtxPopCurrent(), "leave its context")
            return
        if not now:
            self.check(self.cu.cuCtxSetCurrent(self.context), "take its context")
        yield

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
        self.number, self.handle = handle, self.cu.CUstream(handle)
        self.free = gpu.blocks.free

    def alloc(self, size: int) -> int:
        """The address of `size` bytes, in stream order."""
        pointer = self.gpu.blocks.alloc(size, self.key(), self.number)
        if pointer is None:
            with self.gpu.here():
                free, total = self.check(self.cu.cuMemGetInfo(), "say how much memory it has")
            raise TargetError(f"the GPU has no {size} bytes left: {free} of {total} are free")
        return pointer

    def key(self) -> int | None:
        """What tells this stream from any other that has, or had, its handle; None where nothing may be kept."""
        if self.number in LEGACY:
            return -1
        if self.number == PER_THREAD:
            return None
        capturing = self.check(self.cu.cuStreamIsCapturing(self.handle), "say whether it records a graph")
        if capturing != self.cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE:
            return None
        return self.check(self.cu.cuStreamGetId(self.handle), "number its stream")

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

    def fill(self, pointer: int, size: int) -> None:
        """Set `size` bytes to 0."""
        self.check(self.cu.cuMemsetD8Async(pointer, 0, size, self.handle), "fill memory")

    def time(self, run: Callable[[], None]) -> float:
        """Seconds that what `run` launches takes on the GPU."""
        start = self.mark()
        run()
        return self.moments([start, self.mark()])[1]

    def mark(self) -> Any:
        """An event that is recorded here in the order of the stream."""
        event = self.check(self.cu.cuEventCreate(0), "make an event")
        self.check(self.cu.cuEventRecord(event, self.handle), "record an event")
        return event

    def moments(self, marks: Sequence[Any]) -> list[float]:
        """The seconds from the first of `marks` to each of them, when the last is reached; the events are destroyed."""
        self.check(self.cu.cuEventSynchronize(marks[-1]), "finish what it was given")
        elapsed = [self.check(self.cu.cuEventElapsedTime(marks[0], m), "tell the time") * 1e-3 for m in marks]
        for event in marks:
            self.cu.cuEventDestroy(event)
        return elapsed
