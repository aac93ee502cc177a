"""The shortest way for a call on a GPU: torch's tensors go to machine code as they are, which launches the kernels.

What a call of a small kernel costs is Python, and what costs most there is to ask tensors what they are. So the checks
of a plan (see `plans`) are made in machine code, too, by torch's C functions for compiled models, which it keeps as
they are from release to release; then the launches are made, one after the other. All is in `native.ll`, beside this
file, the same for all programs; this file lays out what it reads. What does not fit goes the way of plans, and so does
all where torch or the interpreter is another than is known here.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from loopir.errors import TargetError
from loopir.runtime.arrays import ArgSpec, BorrowedArray, Bound, Signature
from loopir.runtime.cuda.driver import Device
from loopir.runtime.cuda.launch_record import MapOf, Recording, Slot
from loopir.runtime.cuda.tensor_maps import TensorMap
from loopir.runtime.llvm_jit import Library
from loopir.runtime.plans import TORCH, WIDE

DRIVER = {
    "launch": "cuLaunchKernelEx", "encode": "cuTensorMapEncodeTiled", "capturing": "cuStreamIsCapturing",
    "number of stream": "cuStreamGetId", "graph": "cuGraphLaunch",
}  # fmt: skip
PYTHON = {
    "save": "PyEval_SaveThread", "restore": "PyEval_RestoreThread", "call nothing": "PyObject_CallNoArgs",
    "call one": "PyObject_CallOneArg", "attribute": "PyObject_GetAttr", "more": "Py_IncRef", "fewer": "Py_DecRef",
    "number": "PyLong_FromLongLong", "forget": "PyErr_Clear",
}  # fmt: skip
SHIM = {
    "layout": "aoti_torch_get_layout", "device type": "aoti_torch_get_device_type",
    "device": "aoti_torch_get_device_index", "contiguous": "aoti_torch_is_contiguous", "dtype": "aoti_torch_get_dtype",
    "dimensions": "aoti_torch_get_dim", "sizes": "aoti_torch_get_sizes", "address": "aoti_torch_get_data_ptr",
}  # fmt: skip
STORAGE = {"storage": "aoti_torch_get_storage_size", "first": "aoti_torch_get_storage_offset"}
ORDER = (
    *("launch", "encode", "capturing"), *PYTHON, *("tuple", "None", "NotImplemented", "False"),
    *("tensor", "requires_grad", "is_neg"), *SHIM,
    *("stream", "number of stream", "tensor at", "strided", "cuda", "gpu", "graph"), *STORAGE,
)  # fmt: skip
"""What the words of `%env` are; behind them is the first room."""
MOST_ARRAYS, MOST_WORDS, MOST_MAPS, MOST_PLANS, MOST_ROOMS = 16, 64, 8, 64, 8
"""Of a call, of a launch, of a call; of a kernel; of a GPU. The first three are sizes in `native.ll`."""
ROOM = 8 << 20
"""Bytes of intermediates on a stream; a program with more of them goes the longer way, which is short beside them."""
MAP_BYTES, MAP_ALIGNMENT = 128, 64
FASTCALL = 0x80
Points = Mapping[str, int]
"""Addresses and numbers by the names of ORDER."""


class Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


class Native:
    """What the calls of all kernels on a GPU need: functions and objects, and memory for intermediates by stream."""

    def __init__(self, gpu: Device, points: Points) -> None:
        self.gpu, self.points = gpu, points
        self.env = _words([*(points[name] for name in ORDER), 0])
        self.rooms: dict[int, ctypes.Array[ctypes.c_int64]] = {}
        self._making = threading.Lock()
        self.library = Library((Path(__file__).parent / "native.ll").read_text(encoding="utf-8"))
        names = ("call", "replay")
        self.methods = {x: Method(x.encode(), self.library.address(x), FASTCALL, None) for x in names}

    def builtin(self, name: str, head: ctypes.Array[ctypes.c_int64], kept: object) -> Callable[..., Any]:
        """What calls a function of `native.ll` for what is at `head`, and keeps all that it needs."""
        new = ctypes.pythonapi.PyCFunction_NewEx
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        address = ctypes.addressof(head).to_bytes(8, sys.byteorder)
        return new(ctypes.addressof(self.methods[name]), (address, head, kept, self), None)

    def replay(self, graph: int, results: Any) -> Callable[[], Any]:
        """What launches a graph on torch's stream and gives `results`; NotImplemented where it fails."""
        return self.builtin("replay", _words([ctypes.addressof(self.env), graph, id(results)]), results)

    def room(self, handle: int) -> None:
        """Have memory on the stream with that handle, if it may have some and there is some.

        What is linked to the first room stays for good, as machine code may be at it.
        """
        if not self._making.acquire(blocking=False):
            return
        try:
            self._room(handle)
        finally:
            self._making.release()

    def _room(self, handle: int) -> None:
        stream = self.gpu.stream(handle)
        key, found = stream.key(), self.rooms.get(handle)
        if key is None or (found is None and len(self.rooms) >= MOST_ROOMS):
            return
        if found is not None and (found[2] == key or not found[3]):
            return
        try:
            pointer = stream.alloc(ROOM)
        except TargetError:
            return
        if found is not None:  # of a stream that had this handle before
            stream.free(found[3])
            found[3], found[2] = 0, key
            found[3] = pointer
            return
        self.rooms[handle] = made = _words([self.env[len(ORDER)], handle, key, pointer])
        self.env[len(ORDER)] = ctypes.addressof(made)

    def asked(self, which: str, x: Any) -> int:
        """What torch's C function tells of a tensor; -1 where it fails."""
        value = ctypes.c_int64(0)
        ask = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(self.points[which])
        return -1 if ask(id(x) + self.points["tensor at"], ctypes.addressof(value)) else value.value

    def knows(self, t: BorrowedArray) -> bool:
        """Whether machine code reads the same of the fields of `t` as Python, and the call takes such tensors."""
        x, want = t.array, self.points
        if id(type(x)) != want["tensor"] or t.device != f"cuda:{want['gpu']}" or not t.contiguous or not prod(t.shape):
            return False
        told = [self.asked(name, x) for name in ("layout", "device type", "device", "contiguous", "dimensions")]
        if told != [want["strided"], want["cuda"], want["gpu"], 1, len(t.shape)]:
            return False
        sizes = (ctypes.c_int64 * len(t.shape)).from_address(self.asked("sizes", x)) if t.shape else ()
        return tuple(sizes) == t.shape and self.asked("address", x) == t.pointer and self.asked("dtype", x) >= 0


class Calls:
    """The plans of one kernel as machine code reads them. `.call(args, out)` is its call, or NotImplemented."""

    def __init__(self, native: Native, signature: Signature, wide: frozenset[str], bound: Bound) -> None:
        self.native, self.signature, self.plans = native, signature, list[tuple[int, ...]]()
        args, count = signature.args, len(signature.outputs)
        self.order = sorted(range(len(args)), key=lambda n: args[n].access == "out")
        """The arguments, inputs first."""
        table = [
            (native.asked("dtype", bound.arrays[n].array), len(args[n].shape),
             (WIDE if args[n].name in wide else args[n].numpy.itemsize) - 1, int(args[n].access != "in"),
             args[n].numpy.itemsize)
            for n in self.order
        ]  # fmt: skip
        self.kept: list[Any] = [self._failed]
        """What addresses in plans are of."""
        self.head = _words([
            ctypes.addressof(native.env), 0, len(args) - count, count, self._at([w for row in table for w in row]),
            id(self.kept[0]),
        ])  # fmt: skip
        self.call = native.builtin("call", self.head, self.kept)

    def _failed(self, code: int) -> None:
        """Say that a launch, not the first of a call, failed."""
        number, error = code >> 32, self.native.gpu.cu.CUresult(code & 0xFFFFFFFF).name
        raise TargetError(f"the GPU could not launch kernel {number} of {self.signature.name}: {error}")

    def _at(self, words: Sequence[int]) -> int:
        """Where those words lie from now on."""
        self.kept.append(_words(words))
        return ctypes.addressof(self.kept[-1])

    def learn(self, bound: Bound, recording: Recording, kernels: Sequence[Any]) -> None:
        """Run calls like `bound` as it was written down, its launches being of these kernels."""
        shapes = tuple(d for n in self.order for d in bound.arrays[n].shape)
        if shapes in self.plans or len(self.plans) >= MOST_PLANS or not self._fits(bound, recording, kernels):
            return
        places = {n: k for k, n in enumerate(self.order)}
        launches, maps = list[int](), list[int]()
        for launch, kernel in zip(recording.launches, kernels, strict=True):
            plain, mapped = launch.args[: kernel.count], [a for a in launch.args if isinstance(a, MapOf)]
            words = self._at([w for a in plain for w in _word(a, places)])
            launches += [kernel.function.value, *_config(launch.grid, kernel), len(plain), words]
            launches += [len(mapped), len(maps) // MAP_WORDS]
            maps += [w for a in mapped for w in self._map(a, kernel.maps[a.map], places)]
        taken = [bound.arrays[n] for n in self.order]
        makers = [_new(bound.arrays[n].shape, a) for n, a in enumerate(self.signature.args) if a.access == "out"]
        self.kept.append(maker := _maker(makers))
        plan = [
            self.head[1], self._at(shapes), id(maker), recording.workspace, len(recording.launches),
            self._at(launches), len(maps) // MAP_WORDS, self._at(maps),
        ]  # fmt: skip
        sizes, lone = self._at([t.bytes for t in taken]), self._at([int(prod(t.shape) == 1) for t in taken])
        self.head[1] = self._at([*plan[:2], sizes, lone, *plan[2:]])
        self.plans.append(shapes)

    def _fits(self, bound: Bound, recording: Recording, kernels: Sequence[Any]) -> bool:
        maps = [a for x in recording.launches for a in x.args if isinstance(a, MapOf)]
        return (
            all(self.native.knows(t) for t in bound.arrays)
            and recording.workspace <= ROOM
            and len(maps) <= MOST_MAPS
            and all(min(a.sizes) > 0 for a in maps)
            and all(k.count <= MOST_WORDS for k in kernels)
        )

    def _map(self, a: MapOf, map_: TensorMap, places: Mapping[int, int]) -> list[int]:
        """A `%map`, and room for it."""
        room = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
        kept = -(-ctypes.addressof(room) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        self.kept.append(room)
        made = map_.descriptor(a.sizes)
        sizes, strides = self._at(made.sizes), self._at(made.strides)
        box, steps = self._at(_halves(made.box)), self._at(_halves([1] * len(made.box)))
        rest = (int(x) for x in (made.interleave, made.swizzle, made.promotion, made.fill))
        return [*_word(a.slot, places), 0, kept, int(made.dtype), len(made.box), sizes, strides, box, steps, *rest]


MAP_WORDS = 14


def _words(words: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * max(1, len(words)))(*words)


def _halves(words: Sequence[int]) -> list[int]:
    """Words of 4 bytes, two in each of 8."""
    even = [*words, *[0] * (len(words) % 2)]
    return [a | b << 32 for a, b in zip(even[::2], even[1::2], strict=True)]


def _word(a: Any, places: Mapping[int, int]) -> tuple[int, int]:
    """A parameter's `%word`."""
    if not isinstance(a, Slot):
        return 0, int(a)
    return (1, places[a.n]) if a.offset is None else (2, a.offset)


def _config(grid: tuple[int, int, int], kernel: Any) -> list[int]:
    """A CUlaunchConfig of 7 words, without the stream."""
    shape = _halves([*grid, *kernel.block, kernel.shared, 0])
    return [*shape, 0, *kernel.attributes]


def _new(shape: tuple[int, ...], spec: ArgSpec) -> Callable[[], Any]:
    """What makes tensors of one shape and type, by the way that is there for torch's own compiled programs if it is.

    That takes the GPU that is torch's at the call, so what it makes has to be looked at; `native.ll` does.
    """
    torch: Any = sys.modules.get("torch")
    try:
        short = torch._C._dynamo.guards._empty_strided_cuda
    except AttributeError:
        return TORCH.maker(shape, spec)
    strides = tuple(prod(shape[n + 1 :]) for n in range(len(shape)))
    return partial(short, shape, strides, getattr(torch, spec.dtype))


def _maker(makers: Sequence[Callable[[], Any]]) -> Callable[[], tuple[Any, ...]]:
    if len(makers) == 1:
        (only,) = makers
        return lambda: (only(),)
    return lambda: tuple(make() for make in makers)


# ---------------------------------------------------------------- what is known of the interpreter and of torch


def python_points() -> dict[str, int] | None:
    """The interpreter's functions and objects; None for another interpreter than is known here."""
    laid_out = (object.__basicsize__, tuple.__basicsize__, bytes.__basicsize__) == (16, 24, 33)
    if sys.implementation.name != "cpython" or not laid_out or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    objects = {"tuple": tuple, "None": None, "NotImplemented": NotImplemented, "False": False}
    return _addresses(ctypes.pythonapi, PYTHON) | {name: id(x) for name, x in objects.items()}


def torch_points() -> dict[str, int] | None:
    """Torch's functions and objects; None if it was not imported, or is laid out in another way."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    probe = torch.empty(1)
    at = next((n for n in (16, 24) if ctypes.c_size_t.from_address(id(probe) + n).value == probe._cdata), None)
    folder = Path(torch.__file__).parent / "lib"
    try:
        code, gpu = (ctypes.CDLL(str(folder / f"libtorch_{name}.so")) for name in ("cpu", "cuda"))
        found = _addresses(code, SHIM | STORAGE) | _addresses(gpu, {"stream": "aoti_torch_get_current_cuda_stream"})
        numbers = {"strided": code.aoti_torch_layout_strided(), "cuda": code.aoti_torch_device_type_cuda()}
    except (OSError, AttributeError):
        return None
    if at is None:
        return None
    objects = {"tensor": torch.Tensor, "requires_grad": sys.intern("requires_grad"), "is_neg": torch.Tensor.is_neg}
    _forever.extend(objects.values())
    return found | numbers | {name: id(x) for name, x in objects.items()} | {"tensor at": at, "gpu": 0}


_forever: list[Any] = []
"""Objects that machine code knows by their addresses."""


def _addresses(library: Any, names: Mapping[str, str]) -> dict[str, int]:
    return {name: ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0 for name, symbol in names.items()}


def native_of(gpu: Device) -> Native | None:
    """What kernels on that GPU share; None where calls cannot go the shortest way."""
    python, torch = python_points(), torch_points()
    if python is None or torch is None:
        return None
    return Native(gpu, python | torch | _addresses(gpu.library, DRIVER))
