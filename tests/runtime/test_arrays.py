"""What may be passed as an array, what is refused and how, and what comes back."""

from __future__ import annotations

import array
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopir as lp
from loopir.runtime.arrays import ArgSpec, Signature, bind, stream_asker, stream_of
from loopir.runtime.plans import Plans
from loopir.shapes import Linear

F32 = np.float32


def signature(*args: str, sizes: tuple[str, ...] = ("n",), assumes: tuple[tuple[str, str], ...] = ()) -> Signature:
    """Arguments as "name access dtype shape", the shape with commas and no spaces."""
    specs = []
    for spelt in args:
        name, access, dtype, *shape = spelt.split(" ")
        dims = tuple(shape[0].split(",")) if shape else ()
        linear = [Linear({d: 1}, 0, d) if d.isidentifier() else None for d in dims]
        specs.append(ArgSpec(name, dtype, dims, access, tuple(linear)))
    return Signature("f", sizes, tuple(specs), assumes)


VECTOR = signature("a in float32 n", "b out float32 n")


def bound(s: Signature, *args: Any, out: Any = None, device: str = "cpu", **named: Any) -> Any:
    return bind(s, args, named, out, device)


# ---------------------------------------------------------------- kinds of arrays


def test_anything_that_shares_memory_is_taken_without_a_copy() -> None:
    a = np.ones(4, F32)
    interface = SimpleNamespace(__array_interface__=a.__array_interface__)
    shared = SimpleNamespace(__dlpack__=a.__dlpack__, __dlpack_device__=a.__dlpack_device__)
    for x in (a, a.view(np.recarray), interface, shared, memoryview(a)):
        assert bound(VECTOR, x).arrays[0].pointer == a.ctypes.data
    assert bound(VECTOR, array.array("f", [1, 2])).sizes == (2,)


def test_numbers_of_python_fit_the_type_or_are_refused() -> None:
    def one(dtype: str, x: Any) -> Any:
        return bound(signature(f"x in {dtype}", sizes=()), x).arrays[0].array[()]

    assert one("float32", 3) == 3.0
    assert one("bfloat16", 0.5) == 0.5
    assert one("int8", -128) == -128
    assert one("bool", True)
    assert one("float32", F32(0.1)) == F32(0.1)
    for dtype, x, error, message in [
        ("int32", 3.5, TypeError, "x is 3.5, and the kernel takes int32"),
        ("bool", 1, TypeError, "x is 1, and the kernel takes bool"),
        ("int8", 300, ValueError, "x is 300, which int8 does not hold"),
        ("uint8", -1, ValueError, "x is -1, which uint8 does not hold"),
        ("float32", np.float64(0.1), TypeError, "x holds float64, and the kernel takes float32"),
    ]:
        with pytest.raises(error, match=message):
            one(dtype, x)


def test_bfloat16_is_known() -> None:
    s = signature("a in bfloat16 n", "b out bfloat16 n")
    made = bound(s, np.ones(3, ml_dtypes.bfloat16)).results[0]
    assert made.dtype == ml_dtypes.bfloat16
    with pytest.raises(TypeError, match="a holds float16, and the kernel takes bfloat16"):
        bound(s, np.ones(3, np.float16))


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ("abc", TypeError, "a is a str; a kernel takes arrays"),
        (None, TypeError, "a is a NoneType"),
        ([1.0], TypeError, "a is a list"),
        (np.ma.array([1.0], F32), TypeError, r"a has a mask.*a\.filled"),
        (np.frombuffer(bytes(9), F32, 2, 1), ValueError, r"a does not start at a multiple of 4 bytes; pass a.copy\(\)"),
        (np.array(["x"]), TypeError, "a holds str"),
        (np.array([1j]), TypeError, "a holds complex128"),
    ],
)
def test_what_is_no_array_of_the_kind_is_refused(x: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        bound(VECTOR, x)


def test_a_result_whose_elements_share_memory_is_to_be_assigned_back() -> None:
    message = r"b of shape \(2,\) .*\(2,\) bytes; .*ascontiguousarray\(b\) makes, and assign it back .* as f writes it"
    into = np.lib.stride_tricks.as_strided(np.ones(4, F32), (2,), (2,))
    with pytest.raises(ValueError, match=message):
        bound(VECTOR, np.ones(2, F32), out=(into,))


def test_strides_of_dimensions_without_room_do_not_matter() -> None:
    s = signature("a in float32 n,m", "b out float32 n,m", sizes=("n", "m"))
    for x in (np.ones((1, 4), F32).T, np.ones((6, 4), F32)[::6], np.ones((6, 4), F32)[6:, ::2]):
        assert bound(s, x).sizes == x.shape


# ---------------------------------------------------------------- torch, without torch


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that has as much of torch as the call path touches."""
    module: Any = ModuleType("torch")

    class Tensor:
        requires_grad, layout, first, __torch_dispatch__ = False, "torch.strided", 0, None

        def __init__(self, a: np.ndarray, device: str = "cpu") -> None:
            kind, _, index = device.partition(":")
            self.a, self.shape, self.dtype = a, a.shape, f"torch.{a.dtype.name}"
            self.device = SimpleNamespace(type=kind, index=int(index) if index else None)
            self.stored, self.is_cpu = a.nbytes, kind == "cpu"

        def untyped_storage(self) -> Any:
            return SimpleNamespace(nbytes=lambda: self.stored)

        def storage_offset(self) -> int:
            return self.first

        def element_size(self) -> int:
            return self.a.itemsize

        def numel(self) -> int:
            return self.a.size

        def data_ptr(self) -> int:
            return self.a.ctypes.data

        def stride(self) -> tuple[int, ...]:
            return tuple(x // self.a.itemsize for x in self.a.strides)

        def is_contiguous(self) -> bool:
            return self.a.flags.c_contiguous

        def is_neg(self) -> bool:
            return False

        is_conj = is_neg

    Tensor.__module__ = "torch"
    module.Tensor, module.float32, module.bfloat16 = Tensor, F32, np.dtype(ml_dtypes.bfloat16)
    module.empty = lambda shape, dtype, device: Tensor(np.empty(shape, dtype))
    module.device = lambda *device: device
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_tensors_give_tensors(torch: Any) -> None:
    x = lp.placeholder((lp.symbol("n"),), "float32", name="x")
    y = lp.Schedule((x + 1.0).named("y")).build("llvm")(torch.Tensor(np.arange(3, dtype=F32)))
    assert isinstance(y, torch.Tensor)
    assert (y.a == [1, 2, 3]).all()
    made = bound(signature("a in bfloat16 n", "b out bfloat16 n"), torch.Tensor(np.ones(2, ml_dtypes.bfloat16)))
    assert made.results[0].dtype == "torch.bfloat16"


def test_tensors_that_do_not_fit_are_refused(torch: Any) -> None:
    def tensor(**changed: Any) -> Any:
        t = torch.Tensor(np.ones(4, F32))
        vars(t).update(changed)
        return t

    for x, message in [
        (tensor(requires_grad=True), r"a requires a gradient.*a\.detach"),
        (tensor(layout="torch.sparse_coo"), "a is sparse"),
        (tensor(is_neg=lambda: True), "lazy view"),
    ]:
        with pytest.raises(TypeError, match=message):
            bound(VECTOR, x)
    with pytest.raises(ValueError, match="a is on cuda:0, and f was built for the CPU"):
        bound(VECTOR, torch.Tensor(np.ones(4, F32), "cuda"))
    with pytest.raises(ValueError, match="a is on cuda:1, and f runs on cuda:0"):
        bound(VECTOR, torch.Tensor(np.ones(4, F32), "cuda:1"), device="cuda", out=(np.ones(4, F32),))


def test_tensors_without_memory_are_refused(torch: Any) -> None:
    """A kernel would have read or written wherever their address says, and the process ended."""

    def tensor(**changed: Any) -> Any:
        t = torch.Tensor(np.ones(4, F32))
        vars(t).update(changed)
        return t

    class FakeTensor(torch.Tensor):
        __torch_dispatch__ = classmethod(lambda *_: None)

    def nowhere() -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage\nmore")

    with pytest.raises(TypeError, match=r"a is a FakeTensor, which has no memory of its own; pass a plain"):
        bound(VECTOR, FakeTensor(np.ones(4, F32)))
    with pytest.raises(TypeError, match=r"a: torch tells no address of its memory: Cannot access .* storage(\n|$)"):
        bound(VECTOR, tensor(data_ptr=nowhere))
    for changed in ({"stored": 0, "data_ptr": lambda: 0}, {"stored": 15}, {"first": 1}):
        with pytest.raises(ValueError, match=r"a of shape \(4,\) takes 16 bytes, and its storage has (0|12|15): it"):
            bound(VECTOR, tensor(**changed))
    with pytest.raises(ValueError, match=r"a of shape \(4,\) has no memory: its address is 0"):
        bound(VECTOR, tensor(data_ptr=lambda: 0))
    with pytest.raises(ValueError, match=r"b of shape .* its storage has 0"):
        bound(VECTOR, tensor(), out=(tensor(stored=0),))
    with pytest.raises(ValueError, match="a is on torch's meta device, which has no memory"):
        bound(VECTOR, torch.Tensor(np.ones(4, F32), "meta"))
    assert bound(VECTOR, torch.Tensor(np.ones(0, F32))).sizes == (0,)


class Told:
    """An object that says of itself what a test wants."""

    def __init__(self, **told: Any) -> None:
        vars(self).update(told)


def raising(*_: Any, **__: Any) -> Any:
    raise KeyError("nothing")


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            Told(__array_interface__={"shape": (4,), "typestr": "<f4", "data": (0, False), "version": 3}),
            "NULL|cannot coerce scalar",
        ),
        (Told(__array_interface__={"shape": (-4,), "typestr": "<f4", "data": (64, False), "version": 3}), "negative"),
        (Told(__array_interface__={"shape": (4,)}), "typestr"),
        (Told(__array_interface__=7), "a: Told cannot be shared"),
        (Told(__array_interface__={"shape": (4,), "typestr": "<f4", "data": b"short", "version": 3}), "buffer has 5"),
        (
            Told(__array_interface__={"shape": (4,), "typestr": "<f4", "data": bytes(16), "offset": 4, "version": 3}),
            "takes bytes 4 to 20, and its buffer has 16",
        ),
        (Told(__dlpack__=raising, __dlpack_device__=lambda: (1, 0)), "KeyError: 'nothing'"),
        (Told(__dlpack__=lambda **_: 7, __dlpack_device__=lambda: (1, 0)), "a: Told cannot be shared"),
        (Told(__dlpack__=None), "a: Told cannot be shared"),
        (Told(__cuda_array_interface__=None), "a: Told cannot be shared"),
        (Told(__cuda_array_interface__={"shape": (4,)}), "KeyError"),
        (Told(__cuda_array_interface__={"shape": 4, "typestr": "<f4", "data": (64, False)}), "not iterable"),
        (Told(__cuda_array_interface__={"shape": (4,), "typestr": "<x9", "data": (64, False)}), "a: Told cannot be"),
        (Told(__cuda_array_interface__={"shape": (-4,), "typestr": "<f4", "data": (64, False)}), r"shape is \(-4,\)"),
        (Told(__cuda_array_interface__={"shape": (4,), "typestr": "<f4", "data": ("x", False)}), "TypeError"),
        (Told(__cuda_array_interface__={"shape": (4,), "typestr": ">f4", "data": (64, False)}), "byte-swapped float32"),
        (Told(__cuda_array_interface__={"shape": (4,), "typestr": "<f4", "data": (0, False)}), "on cuda:0|no memory"),
    ],
)
def test_what_cannot_tell_what_it_holds_is_refused_in_words(x: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        bound(VECTOR, x)


def test_an_array_on_a_gpu_at_address_0_is_refused() -> None:
    x = Told(__cuda_array_interface__={"shape": (4,), "typestr": "<f4", "data": (0, False)})
    with pytest.raises(ValueError, match=r"a of shape \(4,\) has no memory: its address is 0"):
        bound(VECTOR, x, device="cuda", out=(np.empty(4, F32),))


@pytest.mark.parametrize("x", [3.0, 3, np.float32(3.0)])
def test_a_number_is_not_written(x: Any) -> None:
    """It would be written in a copy, which nobody sees."""
    with pytest.raises(ValueError, match="a is written by f, and it is read-only"):
        bound(signature("a inout float32", sizes=()), x)


# ---------------------------------------------------------------- sizes, results, overlaps


def test_sizes_come_from_any_array_or_by_name() -> None:
    s = signature("b out float32 n+1")
    assert bound(s, n=3).results[0].shape == (4,)
    assert bound(signature("b out float32 n"), out=(np.empty(5, F32),)).sizes == (5,)
    for call, error, message in [
        (lambda: bound(s), ValueError, "no array given tells n; give it by name, as n=4"),
        (lambda: bound(s, n=3, out=(np.empty(5, F32),)), ValueError, r"b has shape \(5,\).*\(4,\) \(n=3\)"),
        (lambda: bound(VECTOR, np.ones(3, F32), n=4), ValueError, "makes n 3; another argument makes it 4"),
        (lambda: bound(s, n=2.5), TypeError, "n is a size, and 2.5 is no integer"),
        (lambda: bound(s, n=-1), ValueError, "n is a size, and -1 is below 0"),
        (lambda: bound(s, m=1), TypeError, "no argument 'm'; it takes no arrays"),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_a_nest_without_inputs_runs() -> None:
    nest = lp.parse('def f(n: "size", a: "out int32[n]"):\n    for i in range(n):\n        a[i] = int32(i * i)\n')
    for target in ("llvm", "interpret"):
        kernel = lp.Schedule(nest).build(target)
        assert kernel(n=4).tolist() == [0, 1, 4, 9]
        out = np.empty(3, np.int32)
        kernel(out=(out,))
        assert out.tolist() == [0, 1, 4]


def test_written_arrays_stand_alone() -> None:
    s = signature("a inout float32 n", "b in float32 n", "c out float32 n", "d out float32 n")
    x = np.zeros(12, F32)
    one, two, three = x[:4], x[4:8], x[8:]
    assert bound(s, one, two, out=(three, np.empty(4, F32))).sizes == (4,)
    for args, out, message in [
        ((one, one), None, "a, which f writes, overlaps b"),
        ((one, two), (x[5:9], three), "c, which f writes, overlaps b"),
        ((one, two), (three, three), "c, which f writes, overlaps d"),
        ((one, x[3:7]), None, "a, which f writes, overlaps b"),
    ]:
        with pytest.raises(ValueError, match=message):
            bound(s, *args, out=out)


# ---------------------------------------------------------------- the short way


# ---------------------------------------------------------------- cupy, without cupy


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that has as much of cupy as the call path touches; its arrays lie in the host's memory."""
    module: Any = ModuleType("cupy")
    module.entered = []

    class Device:
        def __init__(self, number: int) -> None:
            self.id = number

        def __enter__(self) -> None:
            module.entered.append(self.id)

        def __exit__(self, *_: object) -> None:
            module.entered.append(-1)

    class ndarray:  # as cupy spells it
        def __init__(self, a: np.ndarray, device: int = 0) -> None:
            self.a, self.shape, self.dtype, self.flags, self.device = a, a.shape, a.dtype, a.flags, Device(device)
            self.data = SimpleNamespace(ptr=a.ctypes.data, device_id=device)

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {**self.a.__array_interface__, "data": (self.data.ptr, False)}

    ndarray.__module__ = "cupy"
    module.ndarray, module.empty = ndarray, lambda shape, dtype: ndarray(np.empty(shape, dtype))
    stream = lambda gpu: SimpleNamespace(ptr=70 + gpu)  # noqa: E731
    module.cuda = SimpleNamespace(Device=Device, get_current_stream=stream)
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_arrays_of_cupy_go_the_short_way_on_cupys_stream(cupy: Any) -> None:
    plans = Plans(VECTOR, "cuda")
    a = cupy.ndarray(np.ones(4, F32))
    first = bound(VECTOR, a, device="cuda")
    assert isinstance(first.results[0], cupy.ndarray)
    assert cupy.entered == [0, -1]  # its results lie where it lies
    assert stream_of(first.arrays) == stream_asker(first.arrays)(0) == 70
    plans.learn((a,), first, lambda: lambda pointers: None)
    _, pointers, made = plans.ready((a,), None) or pytest.fail("no plan")
    assert isinstance(made, cupy.ndarray)
    assert pointers == tuple(x.data.ptr for x in (a, made))
    for x in (cupy.ndarray(np.ones(5, F32)), cupy.ndarray(np.ones(4)), cupy.ndarray(np.ones(8, F32)[::2]),
              cupy.ndarray(np.ones(4, F32), 1), np.ones(4, F32)):  # fmt: skip
        assert plans.ready((x,), None) is None
    assert plans.ready((a,), (a,)) is None
    with pytest.raises(ValueError, match="a is on cuda:1, and f runs on cuda:0; move it there"):
        bound(VECTOR, cupy.ndarray(np.ones(4, F32), 1), device="cuda")
