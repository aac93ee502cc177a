"""The shortest way of a call: taken for arrays like those before, and for no others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir.runtime.cpu import direct_call

Array = np.ndarray[Any, Any]


def kernel(threads: int = 1) -> Any:
    n = lp.symbol("n")
    a, b = lp.placeholder((n, 4), "float32", name="a"), lp.placeholder((4,), "float32", name="b")
    return lp.Schedule(lp.compute((n, 4), lambda i, j: a[i, j] * 2.0 + b[j], name="c")).build("llvm", threads=threads)


def arrays(rows: int = 3) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(rows)
    return rng.random((rows, 4), np.float32), rng.random(4, np.float32), np.zeros((rows, 4), np.float32)


def learnt() -> Any:
    k = kernel()
    a, b, c = arrays()
    k(a, b, out=(c,))
    assert k._direct is not None
    k._host = None  # whoever goes another way fails
    k._plans.ready = lambda args, out: pytest.fail("the way of plans")
    return k


def test_calls_like_the_one_before_go_the_shortest_way() -> None:
    k = learnt()
    a, b, c = (x.copy() for x in arrays())
    assert k(a, b, out=(c,)) is c
    np.testing.assert_array_equal(c, a * 2 + b)
    np.testing.assert_array_equal(k(a, b), c)


def unlike() -> dict[str, Callable[[Array, Array, Array], tuple[Any, Any, Any]]]:
    return {
        "another shape": lambda a, b, c: (a[:2], b, c[:2]),
        "other shapes that do not fit": lambda a, b, c: (a[:2], b, c),
        "another type": lambda a, b, c: (a.astype(np.float64), b, c),
        "another byte order": lambda a, b, c: (a.astype(">f4"), b, c),
        "no array": lambda a, b, c: ([1.0], b, c),
        "None": lambda a, b, c: (a, None, c),
        "a subclass": lambda a, b, c: (a.view(np.matrix), b, c),
        "strides": lambda a, b, c: (np.asfortranarray(a), b, c),
        "another rank": lambda a, b, c: (a, b[None], c),
        "read-only": lambda a, b, c: (a, b, _frozen(c)),
        "the same memory": lambda a, b, c: (a, b, a),
        "memory in part the same": lambda a, b, c: (a, a.reshape(-1)[4:8], a),
        "no alignment": lambda a, b, c: (a, b, np.zeros(52, np.uint8)[1:49].view(np.float32).reshape(3, 4)),
        "too many": lambda a, b, c: (a, b, c, c),
    }


def _frozen(x: Array) -> Array:
    x.flags.writeable = False
    return x


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("case", unlike())
def test_others_do_what_they_do_at_first(case: str) -> None:
    def outcome(k: Any) -> Any:
        *given, out = unlike()[case](*arrays())
        try:
            return np.array(k(*given, out=(out,)))
        except Exception as error:
            return type(error), str(error)

    k = kernel()
    k(*arrays()[:2])
    assert k._direct is not None
    want, got = outcome(kernel()), outcome(k)
    assert type(got) is type(want)
    assert (got == want).all() if isinstance(want, np.ndarray) else got == want


def test_what_is_updated_in_place_must_be_writable_and_apart() -> None:
    text = """
def f(n: "size", a: "float32[n]", b: "inout float32[n]"):
    for i in range(n):
        b[i] = b[i] + a[i]
"""
    k = lp.Schedule(lp.parse(text)).build("llvm")
    a, b = np.ones(5, np.float32), np.ones(5, np.float32)
    k(a, b)
    assert k._direct is not None
    assert k(a, b) is None
    assert (b == 3).all()
    with pytest.raises(ValueError, match="read-only"):
        k(a, _frozen(b))
    with pytest.raises(ValueError, match="overlap"):
        k(a, a)


def two_stages(threads: int) -> Any:
    """An intermediate, made by one kernel and read by the other, each on threads."""
    x = lp.placeholder((64, 9), "float32", name="x")
    s = lp.Schedule((x + 1.0).named("t")[::-1] * 2.0)
    for stage in s.stages:
        s = s.parallel(s.loops(stage)[0])
    return s.build("llvm", threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_programs_of_several_kernels_with_memory_of_their_own(threads: int) -> None:
    k = two_stages(threads)
    assert "alloc" in k.host_source
    x = np.arange(64 * 9, dtype=np.float32).reshape(64, 9)
    k(x)
    k._host, k._plans.ready = None, lambda args, out: pytest.fail("the way of plans")
    for y in (x, x + 3):
        np.testing.assert_array_equal(k(y), (y[::-1] + 1) * 2)


@pytest.mark.parametrize(("count", "short"), [(direct_call.MAX_ARRAYS, True), (direct_call.MAX_ARRAYS + 1, False)])
def test_programs_of_many_arrays(count: int, short: bool) -> None:
    xs = [lp.placeholder((5,), "float32", name=f"x{n}") for n in range(count - 1)]
    k = lp.Schedule(sum(xs[1:], xs[0]).named("y")).build("llvm")
    given = [np.full(5, 2.0**n, np.float32) for n in range(count - 1)]
    for _ in range(2):
        np.testing.assert_array_equal(k(*given), np.full(5, 2.0 ** (count - 1) - 1))
    assert (k._direct is not None) == short
    y = np.zeros(9, np.float32)
    for n in (0, count - 2):
        with pytest.raises(ValueError, match="overlaps"):
            k(*given[:n], y[:5], *given[n + 1 :], out=(y[4:],))


@pytest.mark.parametrize(("count", "short"), [(direct_call.MAX_KERNELS, True), (direct_call.MAX_KERNELS + 1, False)])
def test_programs_of_many_kernels(count: int, short: bool) -> None:
    nests = "".join(f"    for i{n} in range(7):\n        Y[i{n}] = Y[i{n}] * 2.0\n" for n in range(count))
    k = lp.Schedule(lp.parse(f'def f(Y: "inout float32[7]"):\n{nests}')).build("llvm")
    y = np.ones(7, np.float32)
    for n in (1, 2):
        k(y)
        assert (y == 2.0 ** (count * n)).all()
    assert (k._direct is not None) == short


def test_threads_that_call_at_once_do_not_share_an_intermediate() -> None:
    k, wrong = two_stages(1), list[int]()
    x = np.zeros((64, 9), np.float32)
    k(x)

    def calls(n: int) -> None:
        y = x + n
        wrong.extend(n for _ in range(300) if not (k(y) == (y[::-1] + 1) * 2).all())

    started = [threading.Thread(target=calls, args=(n,)) for n in range(3)]
    for t in started:
        t.start()
    for t in started:
        t.join()
    assert not wrong


def test_after_a_fork_threads_are_others() -> None:
    k, x = two_stages(2), np.ones((64, 9), np.float32)
    k(x)
    before = k._runtime.pool.living
    k._runtime.pool.reset()  # as in a process that was forked
    assert before[0] == 0
    assert k._direct(x, np.empty_like(x)) == direct_call.OTHER
    assert (k(x) == 4).all()


def test_where_arrays_lie_otherwise_calls_go_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_call, "_known", lambda: False)
    k = kernel()
    k(*arrays()[:2])
    assert k._direct is None
    np.testing.assert_array_equal(k(*arrays()[:2]), kernel()(*arrays()[:2]))
