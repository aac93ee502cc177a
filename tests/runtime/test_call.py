"""Calling kernels: what fits, what is refused and how, and what comes back."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir.runtime.cpu.thread_pool import thread_count


@pytest.fixture(scope="module")
def add() -> Any:
    n = lp.symbol("n")
    A, B = (lp.placeholder((n, 3), "float32", name=name) for name in "AB")
    return lp.Schedule((A + B).named("C")).build("llvm")


def ones(*shape: int, dtype: str = "float32") -> Any:
    return np.ones(shape, dtype)


def test_results_are_new_or_go_where_they_are_told(add: Any) -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert (add(a, a) == 2 * a).all()
    assert (add(B=a, A=a * 3) == 4 * a).all()
    out = np.empty((2, 3), np.float32)
    assert add(a, a, out=(out,)) is out
    assert (out == 2 * a).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda k: k(ones(2, 3)), TypeError, "B is missing"),
        (lambda k: k(ones(2, 3), ones(2, 3), ones(2, 3)), TypeError, "takes 2 arrays"),
        (lambda k: k(ones(2, 3), X=ones(2, 3)), TypeError, "no argument 'X'"),
        (lambda k: k(ones(2, 3), ones(2, 3), A=ones(2, 3)), TypeError, "A twice"),
        (lambda k: k(ones(2, 3), [[1, 2, 3]]), TypeError, "B is a list"),
        (
            lambda k: k(ones(2, 3), ones(2, 3, dtype="float64")),
            TypeError,
            "B holds float64, and the kernel takes float32",
        ),
        (lambda k: k(ones(2, 3), ones(3)), ValueError, "B has 1 dimension "),
        (lambda k: k(ones(2, 3), ones(4, 3)), ValueError, "B has shape .*makes n 4; another argument makes it 2"),
        (lambda k: k(ones(2, 4), ones(2, 4)), ValueError, r"A has shape \(2, 4\), and the kernel takes \(2, 3\)"),
        (lambda k: k(ones(0, 3), ones(0, 3)), ValueError, "assumes 1 <= n"),
        (lambda k: k(ones(2, 3), ones(2, 3), out=ones(2, 3)), TypeError, "out= is a tuple of 1"),
        (lambda k: k(ones(2, 3), ones(2, 3), out=(ones(3, 3),)), ValueError, "C has shape"),
        (lambda k: k(ones(2, 3), ones(2, 3).astype(">f4")), TypeError, "byte-swapped"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(add: Any, call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(add)


def test_outputs_may_not_overlap_inputs_nor_be_read_only(add: Any) -> None:
    block = np.ones((3, 3), np.float32)
    with pytest.raises(ValueError, match=r"C, which .* writes, overlaps A"):
        add(block[:2], ones(2, 3), out=(block[1:],))
    locked = np.empty((2, 3), np.float32)
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        add(ones(2, 3), ones(2, 3), out=(locked,))
    assert (add(block[:2], block[1:]) == 2).all()  # inputs may share


def test_nan_and_inf_are_carried(add: Any) -> None:
    a = np.array([[np.nan, np.inf, -np.inf]], np.float32)
    b = np.array([[1.0, -np.inf, 5.0]], np.float32)
    np.testing.assert_array_equal(add(a, b), np.array([[np.nan, np.nan, -np.inf]], np.float32))


def test_empty_arrays_where_the_size_allows_them() -> None:
    x = lp.placeholder((lp.symbol("n", min=0), 4), "float32", name="x")
    s = lp.Schedule([x.sum(axis=0).named("s"), x.max(axis=1).named("m"), (x + 1.0).named("y")])
    total, most, more = s.build("llvm")(np.empty((0, 4), np.float32))
    assert (total == 0).all()
    assert most.shape == (0,)
    assert more.shape == (0, 4)


def test_in_place_arguments_are_updated_and_nothing_is_returned() -> None:
    nest = lp.parse('def f(n: "size", a: "inout float32[n]"):\n    for i in range(n):\n        a[i] += 1.0\n')
    for target in ("llvm", "interpret"):
        a = np.zeros(5, np.float32)
        assert lp.Schedule(nest).build(target)(a) is None
        assert (a == 1).all()


def test_scalars_dlpack_and_subclasses() -> None:
    x = lp.placeholder((), "float32", name="x")
    assert lp.Schedule((x * 2.0).named("y")).build("llvm")(3.0) == 6

    class Shared:
        def __init__(self, a: Any) -> None:
            self.a = a

        def __dlpack__(self, **options: Any) -> Any:
            return self.a.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.a.__dlpack_device__()

    v = lp.placeholder((3,), "float32", name="v")
    kernel = lp.Schedule((v + 1.0).named("w")).build("llvm")
    assert (kernel(Shared(np.ones(3, np.float32))) == 2).all()
    assert (kernel(np.ones(3, np.float32).view(np.recarray)) == 2).all()


def test_several_threads_may_call_one_kernel() -> None:
    x = lp.placeholder((lp.symbol("n"), 64), "float32", name="x")
    y = (x + 1.0).named("y")
    kernel = lp.Schedule((y * y).named("z")).parallel("y.i").parallel("z.i").build("llvm", threads=2)
    wrong: list[int] = []

    def work(seed: int) -> None:
        a = np.full((50, 64), seed, np.float32)
        wrong.extend(seed for _ in range(30) if not (kernel(a) == (seed + 1) ** 2).all())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_timer_times_runs_one_by_one_and_leaves_inputs_alone(add: Any) -> None:
    a = ones(2, 3)
    with add.timer(a, B=a) as seconds:
        assert seconds() > 0.0
        assert seconds() > 0.0
    assert (a == 1.0).all()
    with pytest.raises(TypeError, match="B is missing"), add.timer(a):
        pass


def test_thread_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPIR_NUM_THREADS", "3")
    assert thread_count() == 3
    assert thread_count(2) == 2
    monkeypatch.setenv("LOOPIR_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="LOOPIR_NUM_THREADS is 'many'"):
        thread_count()
    with pytest.raises(ValueError, match="threads=0"):
        thread_count(0)


def test_targets_that_are_not_there() -> None:
    x = lp.placeholder((3,), "float32", name="x")
    with pytest.raises(lp.TargetError, match="no target 'metal'; there are cuda, llvm, interpret and auto"):
        lp.Schedule((x + 1.0).named("y")).build("metal")
    assert lp.resolve_target("auto") in ("cuda", "llvm")


def test_graphs_are_of_a_gpu(add: Any) -> None:
    with pytest.raises(lp.TargetError, match="built for llvm"):
        add.graph(ones(2, 3), ones(2, 3))


def test_unchecked_runs_are_of_sizes_that_were_called(add: Any) -> None:
    a, c = np.arange(21, dtype=np.float32).reshape(7, 3), np.empty((7, 3), np.float32)
    assert add.unchecked((7,)) is None
    add(a, a)
    run = add.unchecked((7,))
    run([a.ctypes.data, a.ctypes.data, c.ctypes.data])
    assert (c == 2 * a).all()
