"""The shortest way of a call on a GPU, with a torch and a driver that only note what they are asked; no GPU is here."""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from types import SimpleNamespace
from typing import Any

import pytest

import loopir as lp
from loopir.runtime.arrays import ArgSpec, BorrowedArray, Bound, Signature
from loopir.runtime.cuda import launch, native_call
from loopir.runtime.cuda.launch_record import record_launches

FLOAT32, FLOAT64 = 6, 7
STRIDED, CUDA, STREAM = 0, 1, 5
ASK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64))
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
_addresses = itertools.count(1 << 20, 1 << 16)


class Tensor:
    """A tensor of torch's, as far as calls ask it."""

    def __init__(self, *shape: int, at: int | None = None, **other: Any) -> None:
        self.sizes = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.shape, self.pointer, self.requires_grad = shape, next(_addresses) if at is None else at, False
        self.dtype, self.layout, self.kind, self.device, self.contiguous, self.neg = FLOAT32, STRIDED, CUDA, 0, 1, False
        self.storage, self.first = 4 * prod(shape), 0
        vars(self).update(other)
        known[id(self)] = self

    def is_neg(self) -> bool:
        return self.neg


known: dict[int, Tensor] = {}
OFFSET = 16


def asks(tell: Callable[[Tensor], int]) -> Any:
    def ask(handle: int, where: Any) -> int:
        where[0] = tell(known[handle - OFFSET])
        return 0

    return ASK(ask)


TELL = {
    "layout": asks(lambda x: x.layout), "device type": asks(lambda x: x.kind), "device": asks(lambda x: x.device),
    "contiguous": asks(lambda x: x.contiguous), "dtype": asks(lambda x: x.dtype),
    "dimensions": asks(lambda x: len(x.shape)), "sizes": asks(lambda x: ctypes.addressof(x.sizes)),
    "address": asks(lambda x: x.pointer), "storage": asks(lambda x: x.storage), "first": asks(lambda x: x.first),
}  # fmt: skip


@dataclass
class Machine:
    """A GPU, and what its driver was asked to launch."""

    counts: dict[int, int] = field(default_factory=dict[int, int])
    """Parameters by function, tensor maps among them."""
    launched: list[Any] = field(default_factory=list[Any])
    encoded: list[int] = field(default_factory=list[int])
    codes: list[int] = field(default_factory=list[int])
    """What the next launches give."""
    stream_now: int = 0
    captured: int = 0
    number: int = 11
    wait: threading.Barrier | None = None
    CUresult = staticmethod(lambda code: SimpleNamespace(name=f"ERROR_{code}"))

    def __post_init__(self) -> None:
        self.cu, self.freed, self.top, self.lock = self, list[int](), 1 << 40, threading.Lock()
        code = ctypes.c_int
        current = ctypes.CFUNCTYPE(code, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64))(self._current)
        word, address, small = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32
        encode = ctypes.CFUNCTYPE(code, address, small, small, word, *[address] * 4, *[small] * 4)(self._encode)
        self.functions = {
            "launch": LAUNCH(self._launch), "encode": encode, "stream": current,
            "capturing": ASK(lambda _, where: self._tell(where, self.captured)),
            "number of stream": ASK(lambda _, where: self._tell(where, self.number)),
            "graph": ctypes.CFUNCTYPE(code, word, word)(self._graph),
        }  # fmt: skip

    def _tell(self, where: Any, value: int) -> int:
        where[0] = value
        return 0

    def _current(self, gpu: int, where: Any) -> int:
        return self._tell(where, self.stream_now)

    def _encode(self, into: int, *told: Any) -> int:
        self.encoded.append(told[2])
        ctypes.memmove(into, told[2].to_bytes(8, "little") * 16, 128)
        return 0 if into % 64 == 0 else 1

    def _launch(self, config: int, function: int, arguments: int, _: Any) -> int:
        shape = tuple((ctypes.c_uint * 7).from_address(config))
        stream, *attributes = (ctypes.c_longlong * 3).from_address(config + 32)
        each = (ctypes.c_void_p * self.counts[function]).from_address(arguments)
        values = [ctypes.c_longlong.from_address(at or 0).value for at in each]
        code = self.codes.pop(0) if self.codes else 0
        if not code:
            with self.lock:
                self.launched.append((function, shape, stream, tuple(attributes), values))
        if self.wait is not None:
            self.wait.wait()
        return code

    def _graph(self, graph: int, stream: int) -> int:
        self.launched.append((graph, stream))
        return self.codes.pop() if self.codes else 0

    def stream(self, handle: int) -> Any:
        return SimpleNamespace(
            key=lambda: None if self.captured else self.number, alloc=self.alloc, free=self.freed.append
        )

    def alloc(self, size: int) -> int:
        self.top += size
        return self.top

    def points(self) -> dict[str, int]:
        objects = {"tensor": Tensor, "requires_grad": sys.intern("requires_grad"), "is_neg": Tensor.is_neg}
        functions = {n: ctypes.cast(f, ctypes.c_void_p).value or 0 for n, f in (TELL | self.functions).items()}
        numbers = {"strided": STRIDED, "cuda": CUDA, "gpu": 0, "tensor at": OFFSET}
        python = native_call.python_points()
        assert python is not None
        return python | functions | numbers | {n: id(x) for n, x in objects.items()}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.delitem(sys.modules, "torch", raising=False)  # the real one, where another test has imported it
    monkeypatch.setattr(native_call, "TORCH", SimpleNamespace(maker=lambda shape, _: lambda: Tensor(*shape)))
    yield Machine()
    known.clear()


def spec(name: str, access: str, rank: int = 1) -> ArgSpec:
    return ArgSpec(name, "float32", ("n",) * rank, access, (None,) * rank)


COPY = Signature("copy", ("n",), (spec("y", "out"), spec("x", "in")))


def bound_of(*arrays: Tensor) -> Bound:
    taken = [BorrowedArray(x, x.pointer, x.shape, "float32", True, "cuda:0", True, None) for x in arrays]
    return Bound((arrays[0].shape[0] if arrays[0].shape else 1,), tuple(taken), ())


def kernel(function: int, count: int, attributes: tuple[int, int] = (0, 0), maps: tuple[Any, ...] = ()) -> Any:
    return SimpleNamespace(
        function=ctypes.c_void_p(function), block=(32, 2, 1), shared=48, attributes=attributes, count=count, maps=maps
    )


def calls(
    machine: Machine, signature: Signature, host: Callable[..., None], kernels: list[Any],
    *examples: tuple[Tensor, ...], wide: frozenset[str] = frozenset(),
) -> native_call.Calls:  # fmt: skip
    """The calls of a program with that host function, which learnt those."""
    machine.counts = {k.function.value: k.count + len(k.maps) for k in kernels}
    made = native_call.Calls(native_call.Native(machine, machine.points()), signature, wide, bound_of(*examples[0]))  # type: ignore[arg-type]
    for arrays in examples:
        recording = record_launches(host, bound_of(*arrays).sizes, len(arrays))
        assert recording is not None
        made.learn(bound_of(*arrays), recording, [kernels[x.kernel] for x in recording.launches])
    return made


def copy_host(rt: Any, n: int, y: Any, x: Any) -> None:
    rt.launch(0, (n, 3, 1), (n, -n, x, y))


def copies(machine: Machine, *sizes: int, **more: Any) -> native_call.Calls:
    return calls(machine, COPY, copy_host, [kernel(77, 4, (1234, 1))], *[(Tensor(n), Tensor(n)) for n in sizes], **more)


def test_a_call_is_launched_with_its_addresses_on_the_current_stream(machine: Machine) -> None:
    call = copies(machine, 4).call
    for machine.stream_now in (0, STREAM):
        x, y = Tensor(4), Tensor(4)
        assert call((x,), (y,)) is y
        values = [4, -4, x.pointer, y.pointer]
        assert machine.launched.pop() == (77, (4, 3, 1, 32, 2, 1, 48), machine.stream_now, (1234, 1), values)


def test_each_shape_that_was_learnt_has_a_plan_of_its_own(machine: Machine) -> None:
    call = copies(machine, 4, 5, 6).call
    for n in (5, 4, 6, 5):
        y = call((Tensor(n),), None)
        assert y.shape == (n,)
        assert machine.launched.pop()[1][0] == n
    assert call((Tensor(7),), None) is NotImplemented
    assert call((Tensor(4),), (Tensor(5),)) is NotImplemented
    assert not machine.launched


def test_what_is_learnt_is_bounded(machine: Machine) -> None:
    made = copies(machine, *range(1, native_call.MOST_PLANS + 9))
    assert len(made.plans) == native_call.MOST_PLANS
    assert made.call((Tensor(native_call.MOST_PLANS),), None).shape == (native_call.MOST_PLANS,)
    assert made.call((Tensor(native_call.MOST_PLANS + 1),), None) is NotImplemented


X = Tensor(4)
UNLIKE: dict[str, Callable[[], tuple[Any, Any]]] = {
    "another rank": lambda: ((Tensor(4, 1),), None),
    "no dimensions": lambda: ((Tensor(),), None),
    "another type": lambda: ((Tensor(4, dtype=FLOAT64),), None),
    "an output of another type": lambda: ((Tensor(4),), (Tensor(4, dtype=FLOAT64),)),
    "another GPU": lambda: ((Tensor(4, device=1),), None),
    "an output on another GPU": lambda: ((Tensor(4),), (Tensor(4, device=1),)),
    "on the host": lambda: ((Tensor(4, kind=0, device=-1),), None),
    "strides": lambda: ((Tensor(4, contiguous=0),), None),
    "an output with strides": lambda: ((Tensor(4),), (Tensor(4, contiguous=0),)),
    "sparse": lambda: ((Tensor(4, layout=1),), None),
    "a gradient": lambda: ((Tensor(4, requires_grad=True),), None),
    "an output with a gradient": lambda: ((Tensor(4),), (Tensor(4, requires_grad=True),)),
    "a start between elements": lambda: ((Tensor(4, at=(1 << 20) + 2),), None),
    "a start between vectors": lambda: ((Tensor(4, at=(1 << 20) + 4),), None),
    "no address": lambda: ((Tensor(4, at=0),), None),
    "a storage that was freed": lambda: ((Tensor(4, storage=0),), None),
    "a storage that is too short": lambda: ((Tensor(4, storage=15),), None),
    "a storage that is too short behind its start": lambda: ((Tensor(4, first=1),), None),
    "an output whose storage was freed": lambda: ((Tensor(4),), (Tensor(4, storage=0),)),
    "the same memory": lambda: ((X,), (X,)),
    "memory in part the same": lambda: ((Tensor(4, at=1 << 20),), (Tensor(4, at=(1 << 20) + 12),)),
    "no tensor": lambda: ((4.0,), None),
    "None": lambda: ((None,), None),
    "a subclass": lambda: ((type("Parameter", (Tensor,), {})(4),), None),
    "too few": lambda: ((), None),
    "too many": lambda: ((Tensor(4), Tensor(4)), None),
    "too many outputs": lambda: ((Tensor(4),), (Tensor(4), Tensor(4))),
    "a list of outputs": lambda: ((Tensor(4),), [Tensor(4)]),
    "an output, not a tuple": lambda: ((Tensor(4),), Tensor(4)),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_another_call_goes_a_longer_way_and_the_next_one_works(machine: Machine, name: str) -> None:
    known[id(X)] = X
    call = copies(machine, 4, wide=frozenset({"x"})).call
    assert call(*UNLIKE[name]()) is NotImplemented
    assert not machine.launched
    y = Tensor(4)
    assert call((Tensor(4),), (y,)) is y
    assert len(machine.launched) == 1


def test_memory_side_by_side_is_not_the_same(machine: Machine) -> None:
    call = copies(machine, 4).call
    assert call((Tensor(4, at=1 << 20),), (y := Tensor(4, at=(1 << 20) + 16),)) is y


def test_inputs_may_share_memory_and_what_is_updated_in_place_may_not(machine: Machine) -> None:
    signature = Signature("add", ("n",), (spec("x", "in"), spec("z", "inout"), spec("y", "in")))

    def host(rt: Any, n: int, *arrays: Any) -> None:
        rt.launch(0, (1, 1, 1), arrays)

    call = calls(machine, signature, host, [kernel(77, 3)], tuple(Tensor(4) for _ in range(3))).call
    x, z = Tensor(4), Tensor(4)
    assert call((x, z, x), None) is None
    assert machine.launched.pop()[4] == [x.pointer, z.pointer, x.pointer]
    assert call((x, z, x), ()) is None
    assert call((x, z, z), None) is NotImplemented
    assert call((z, z, x), None) is NotImplemented


def test_a_lazy_view_of_one_element_is_not_taken(machine: Machine) -> None:
    call = copies(machine, 1).call
    assert call((Tensor(1, neg=True),), None) is NotImplemented
    assert call((Tensor(1),), (Tensor(1, neg=True),)) is NotImplemented
    assert call((Tensor(1),), None).shape == (1,)


TWO = [kernel(77, 2), kernel(88, 3)]


def two_host(rt: Any, n: int, x: Any, y: Any) -> None:
    t = rt.alloc(100)
    u = rt.alloc(1000)
    rt.launch(0, (1, 1, 1), (x, t))
    rt.launch(1, (2, 1, 1), (t, u, y))
    rt.free(u)
    rt.free(t)


def two(machine: Machine) -> native_call.Calls:
    signature = Signature("two", ("n",), (spec("x", "in"), spec("y", "out")))
    return calls(machine, signature, two_host, TWO, (Tensor(4), Tensor(4)))


def test_kernels_are_launched_in_order_with_memory_between_them(machine: Machine) -> None:
    made, x, y = two(machine), Tensor(4), Tensor(4)
    assert made.call((x,), (y,)) is NotImplemented  # there is no memory on this stream
    made.native.room(0)
    for _ in range(2):
        assert made.call((x,), (y,)) is y
        first, second = machine.launched
        assert first[4] == [x.pointer, machine.top]
        assert second[4] == [machine.top, machine.top + 512, y.pointer]
        machine.launched.clear()


def test_memory_on_a_stream_is_that_streams_only(machine: Machine) -> None:
    made, x, y = two(machine), Tensor(4), Tensor(4)
    for handle in (0, STREAM):
        made.native.room(handle)
        made.native.room(handle)
    assert len(made.native.rooms) == 2
    machine.stream_now = STREAM
    assert made.call((x,), (y,)) is y
    machine.captured = 1  # a graph may run at any time
    assert made.call((x,), (y,)) is NotImplemented
    machine.captured, machine.number = 0, 12  # another stream with that handle
    assert made.call((x,), (y,)) is NotImplemented
    before = machine.top
    made.native.room(STREAM)
    assert machine.freed == [before]
    assert made.call((x,), (y,)) is y
    assert machine.launched[-1][4][0] == machine.top != before
    machine.stream_now = STREAM + 1
    assert made.call((x,), (y,)) is NotImplemented


def test_two_threads_that_want_memory_on_a_stream_get_one_room(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, begun, go = two(machine), threading.Event(), threading.Event()

    def slowly(size: int) -> int:
        begun.set()
        go.wait()
        return 1 << 30

    monkeypatch.setattr(machine, "alloc", slowly)
    other = threading.Thread(target=made.native.room, args=(0,))
    other.start()
    begun.wait()
    made.native.room(0)  # another makes it
    go.set()
    other.join()
    linked, at = [], made.native.env[len(native_call.ORDER)]
    while at:
        linked.append(at)
        at = ctypes.c_int64.from_address(at).value
    assert linked == [ctypes.addressof(x) for x in made.native.rooms.values()]
    assert made.call((Tensor(4),), (y := Tensor(4),)) is y


def test_who_finds_the_memory_in_use_goes_a_longer_way(machine: Machine) -> None:
    made, x, y = two(machine), Tensor(4), Tensor(4)
    made.native.room(0)
    machine.wait = threading.Barrier(2)
    other = threading.Thread(target=made.call, args=((x,), (y,)))
    other.start()
    while not machine.launched:
        pass
    assert made.call((x,), (y,)) is NotImplemented  # the other call is between its launches
    machine.wait.wait()
    machine.wait.wait()
    other.join()
    machine.wait = None
    assert made.call((x,), (y,)) is y


def test_a_first_launch_that_fails_is_tried_again_and_a_later_one_raises(machine: Machine) -> None:
    made, x, y = two(machine), Tensor(4), Tensor(4)
    made.native.room(0)
    machine.codes = [201]
    assert made.call((x,), (y,)) is NotImplemented
    machine.codes = [0, 719]
    with pytest.raises(lp.TargetError, match="could not launch kernel 1 of two: ERROR_719"):
        made.call((x,), (y,))
    assert made.call((x,), (y,)) is y


class FakeMap:
    def descriptor(self, sizes: tuple[int, ...]) -> Any:
        return SimpleNamespace(
            dtype=9, sizes=sizes[:2], strides=sizes[2:-1], box=(64, 8), interleave=0, swizzle=3, promotion=3, fill=0
        )


def test_tensor_maps_are_made_when_an_address_is_new(machine: Machine) -> None:
    def host(rt: Any, n: int, y: Any, x: Any) -> None:
        rt.launch(0, (1, 1, 1), (n, y, rt.map(0, 0, x, (n, n, n, 1)), rt.map(0, 1, y, (n, n, n, 1))))

    made = calls(machine, COPY, host, [kernel(77, 2, maps=(FakeMap(), FakeMap()))], (Tensor(4), Tensor(4)))
    x, y, z = Tensor(4), Tensor(4), Tensor(4)
    for source, target in ((x, y), (x, y), (z, y), (x, z)):
        assert made.call((source,), (target,)) is target
        assert machine.launched.pop()[4] == [4, target.pointer, source.pointer, target.pointer]
    assert machine.encoded == [x.pointer, y.pointer, z.pointer, x.pointer, z.pointer]


def test_calls_from_several_threads_do_not_mix(machine: Machine) -> None:
    call = copies(machine, 4).call
    pairs = [(Tensor(4), Tensor(4)) for _ in range(4)]

    def work(x: Tensor, y: Tensor) -> None:
        for _ in range(300):
            call((x,), (y,))

    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(machine.launched) == 1200
    assert {tuple(x[4][2:]) for x in machine.launched} == {(x.pointer, y.pointer) for x, y in pairs}


def test_references_are_given_back(machine: Machine) -> None:
    made, x, y = copies(machine, 4), Tensor(4), Tensor(4)
    wrong = Tensor(5)
    args, out, others = (x,), (y,), (wrong,)
    counted = (x, y, wrong, args, out, others, made.call, NotImplemented, None)

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(o) for o in counted]

    gc.freeze()  # what other tests have left is not looked at
    before = counts()
    for _ in range(1000):
        made.call(args, out)
        made.call(args, None)
        made.call(others, out)
        made.call(args, args)
    *kept, of_none = (after - b for b, after in zip(before, counts(), strict=True))
    assert max(map(abs, kept)) < 500
    assert of_none < 500  # some are given back meanwhile by what other tests left


def test_outputs_that_cannot_be_made_raise(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Any:
        raise MemoryError("no room for it")

    monkeypatch.delitem(sys.modules, "torch", raising=False)  # the real one, where another test has imported it
    monkeypatch.setattr(native_call, "TORCH", SimpleNamespace(maker=lambda shape, _: fails))
    call = copies(machine, 4).call
    with pytest.raises(MemoryError, match="no room for it"):
        call((Tensor(4),), None)
    assert call((Tensor(4),), (y := Tensor(4),)) is y


def test_a_graph_is_replayed_on_the_current_stream(machine: Machine) -> None:
    results = (Tensor(4),)
    replay = native_call.Native(machine, machine.points()).replay(99, results)  # type: ignore[arg-type]
    for machine.stream_now in (0, STREAM):
        assert replay() is results
    assert machine.launched == [(99, 0), (99, STREAM)]
    machine.codes = [201]
    assert replay() is NotImplemented
    assert replay() is results


def test_without_torch_there_is_none(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert native_call.torch_points() is None
    assert launch.shared(object()) is None  # type: ignore[arg-type]


def test_what_machine_code_sees_in_another_way_is_not_learnt(machine: Machine) -> None:
    made, x, y = copies(machine, 4), Tensor(5), Tensor(5)
    recording = record_launches(copy_host, (5,), 2)
    assert recording is not None
    for wrong in ({"sizes": (ctypes.c_int64 * 1)(6)}, {"pointer": 1}, {"layout": 2}, {"device": 1}, {"contiguous": 0}):
        bound = bound_of(y, x)
        was = {name: getattr(x, name) for name in wrong}
        vars(x).update(wrong)
        made.learn(bound, recording, [kernel(77, 4)])
        vars(x).update(was)
        assert made.call((x,), (y,)) is NotImplemented
    made.learn(bound_of(y, x), recording, [kernel(77, 4)])
    assert made.call((x,), (y,)) is y
