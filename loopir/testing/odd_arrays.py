"""Calls with odd arrays: views, other types, lying objects, freed memory. Each is right, or refused in words.

    python -m loopir.testing.odd_arrays --calls 100000 --seed 0

Calls are made in processes of their own, so that one that ends its process is counted and reported, and the next made.
Call number n of a seed is the same in every run on a machine with the same libraries: torch and JAX are tried where
they are installed. Right means: what NumPy makes of the same elements. Wrong means other values, something taken that
holds none, or an exception that says nothing of the argument.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingImports=false, reportUnknownLambdaType=false, reportMissingTypeStubs=false, reportArgumentType=false

from __future__ import annotations

import argparse
import array
import ctypes
import importlib
import json
import random
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from loopir.build import build
from loopir.errors import LoopirError
from loopir.ir.dtypes import Array
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule
from loopir.schedule.core.trace import Step

Odd = tuple[Any, Array | None]
"""What is passed, and the elements that it holds; None if it holds none that a kernel could take."""
Maker = Callable[[random.Random, Array], Odd]
CHUNK = 20_000
"""Calls of one process."""


# ---------------------------------------------------------------- programs


@dataclass(frozen=True)
class Program:
    """A kernel, its arguments as (name, dtype, dimensions, written in place), and what NumPy says of the results."""

    source: str
    inputs: tuple[tuple[str, str, int], ...]
    outputs: int
    meaning: Callable[..., tuple[Array, ...]]
    updated: int | None = None
    parallel: str | None = None


PROGRAMS = (
    Program(
        'def f(n: "size", A: "float32[n]", X: "out float32[n]"):\n'
        "    for i in range(n):\n        X[i] = A[i] + 1.0\n",
        (("A", "float32", 1),), 1, lambda a: (a + np.float32(1),),
    ),
    Program(
        'def f(n: "size", m: "size", A: "float64[n, m]", B: "int64[m]", X: "out float64[n, m]"):\n'
        "    for i in range(n):\n        for j in range(m):\n            X[i, j] = A[i, j] + float64(B[j])\n",
        (("A", "float64", 2), ("B", "int64", 1)), 1, lambda a, b: (a + b,), parallel="i",
    ),
    Program(
        'def f(n: "size", A: "inout int32[n]", B: "int32[n]"):\n'
        "    for i in range(n):\n        A[i] = A[i] + B[i]\n",
        (("A", "int32", 1), ("B", "int32", 1)), 0, lambda a, b: (a + b,), updated=0,
    ),
    Program(
        'def f(n: "size", S: "bfloat16[()]", A: "uint8[n]", X: "out bfloat16[n]", Y: "out uint8[n]"):\n'
        "    for i in range(n):\n        X[i] = S[()]\n        Y[i] = A[i]\n",
        (("S", "bfloat16", 0), ("A", "uint8", 1)), 2, lambda s, a: (np.full(a.shape, s), a.copy()),
    ),
    Program(
        'def f(n: "size", A: "bool[n]", X: "out bool[n]"):\n    for i in range(n):\n        X[i] = A[n - 1 - i]\n',
        (("A", "bool", 1),), 1, lambda a: (a[::-1].copy(),),
    ),
)  # fmt: skip


@cache
def kernel_of(number: int) -> Any:
    """The kernel of a program, built once in a process."""
    p = PROGRAMS[number]
    s = Schedule(parse(p.source))
    return build(s if p.parallel is None else s.apply(Step("parallel", (p.parallel,), ())), "llvm")


# ---------------------------------------------------------------- odd arrays of NumPy and of the standard library


def _misaligned(r: random.Random, a: Array) -> Odd:
    raw = np.zeros(a.nbytes + 1, np.uint8)
    made = raw[1:].view(a.dtype).reshape(a.shape) if a.size else a
    made[...] = a
    return made, a


def _strided(r: random.Random, a: Array) -> Odd:
    wide = np.zeros([d * 2 for d in a.shape], a.dtype)
    made = wide[tuple(slice(None, None, 2) for _ in a.shape)]
    made[...] = a
    return made, a


def _readonly(r: random.Random, a: Array) -> Odd:
    made = a.copy()
    made.flags.writeable = False
    return made, a


def _released(r: random.Random, a: Array) -> Odd:
    view = memoryview(a.copy())
    view.release()
    return view, None


def _as_buffer(r: random.Random, a: Array) -> Odd:
    raw = a.tobytes()
    kind = r.choice(
        [bytes, bytearray, memoryview, lambda b: array.array("B", b), lambda b: (ctypes.c_ubyte * len(b))(*b)]
    )
    return kind(raw), np.frombuffer(raw, np.uint8) if a.dtype == np.uint8 and a.ndim == 1 else None


def _typed_buffer(r: random.Random, a: Array) -> Odd:
    if a.dtype == np.float32 and a.ndim == 1:
        made = r.choice([array.array("f", a.tolist()), (ctypes.c_float * a.size)(*a.tolist())])
        return made, a
    return memoryview(a.copy()).toreadonly(), a


def _lying(r: random.Random, a: Array) -> Odd:
    """Objects whose array interface says what cannot be."""
    interface = dict(a.__array_interface__) if a.dtype != ml_dtypes.bfloat16 else {"shape": a.shape, "version": 3}
    lie = r.choice([
        {"data": (0, False)}, {"shape": tuple(-d - 1 for d in a.shape) or (-1,)}, {"typestr": "<x3"}, {"typestr": 7},
        {"shape": None}, {"shape": "abc"}, {"version": "x", "data": None}, {"strides": (1, 2, 3, 4, 5)},
        {"data": b"", "shape": (1 << 20,)}, {"data": "nothing"}, {"shape": (1 << 62, 1 << 62)},
    ])  # fmt: skip
    return SimpleNamespace(__array_interface__={**interface, **lie}, kept=a), None


def _raises(error: type[BaseException]) -> Callable[..., Any]:
    def ask(*_: Any, **__: Any) -> Any:
        raise error("no")

    return ask


def _dlpack(r: random.Random, a: Array) -> Odd:
    """Objects that give a capsule, or something else."""
    if a.dtype == ml_dtypes.bfloat16:
        return SimpleNamespace(__dlpack__=a.__dlpack__, __dlpack_device__=a.__dlpack_device__), None
    good = SimpleNamespace(__dlpack__=a.__dlpack__, __dlpack_device__=a.__dlpack_device__)
    spent = a.__dlpack__()
    np.from_dlpack(SimpleNamespace(__dlpack__=lambda **_: spent, __dlpack_device__=lambda: (1, 0)))
    return r.choice([
        (good, a), (good, a),
        (SimpleNamespace(__dlpack__=lambda **_: spent, __dlpack_device__=lambda: (1, 0)), None),
        (SimpleNamespace(__dlpack__=lambda **_: None, __dlpack_device__=lambda: (1, 0)), None),
        (SimpleNamespace(__dlpack__=_raises(r.choice([KeyError, RuntimeError, AttributeError, OSError])),
                         __dlpack_device__=lambda: (1, 0)), None),
        (SimpleNamespace(__dlpack__=a.__dlpack__, __dlpack_device__=lambda: (2, 0)), a),
        (SimpleNamespace(__dlpack__=a.__dlpack__, __dlpack_device__=lambda: "cpu"), a),
        (SimpleNamespace(__dlpack__=a.__dlpack__), a), (SimpleNamespace(__dlpack__=7), None),
    ])  # fmt: skip


def _on_gpu(r: random.Random, a: Array) -> Odd:
    """Objects that say they are on a GPU, or say nonsense of it."""
    whole = {"shape": a.shape, "typestr": "<f4", "data": (a.ctypes.data, False), "version": 3}
    lie = r.choice([{}, {"data": (0, False)}, {"shape": (-1,)}, {"shape": 7}, {"typestr": "?9"}, {"data": None},
                    {"strides": (4, 4, 4)}, {"data": ("x", 1)}])  # fmt: skip
    interface = r.choice([{**whole, **lie}, None, {}, 7, {"shape": a.shape}])
    return SimpleNamespace(__cuda_array_interface__=interface, kept=a), None


def _other_type(r: random.Random, a: Array) -> Odd:
    other = r.choice(["float16", "float32", "float64", "int8", "int32", "int64", "uint64", "complex64", "object", "U3",
                      "S2", "M8[s]", "V4", ">f4", "<i4", "bool", [("x", "f4"), ("y", "i4")]])  # fmt: skip
    made = np.zeros(a.shape, np.dtype(other))
    return made, made if made.dtype == a.dtype and made.dtype.isnative else None


def _pass_number(x: Any, a: Array) -> Odd:
    return x, None if a.ndim else np.asarray(x, a.dtype)


NUMPY: tuple[Maker, ...] = (
    lambda r, a: (a.copy(), a),
    lambda r, a: (np.asfortranarray(a), a),
    lambda r, a: (np.flip(np.flip(a).copy()), a),
    lambda r, a: (a.astype(a.dtype.newbyteorder()) if a.dtype.kind in "fiu" and a.dtype.itemsize > 1 else a.T, a),
    lambda r, a: (a[..., None], None),
    lambda r, a: (np.zeros(tuple(0 for _ in a.shape), a.dtype), np.zeros(tuple(0 for _ in a.shape), a.dtype)),
    lambda r, a: (np.zeros((), a.dtype), np.zeros((), a.dtype)),
    lambda r, a: (np.broadcast_to(np.zeros((), a.dtype), (1 << 40,)), None),
    lambda r, a: (np.broadcast_to(np.zeros((), a.dtype), a.shape), np.zeros(a.shape, a.dtype)),
    lambda r, a: (np.ma.masked_array(a, np.ones(a.shape, bool)), None),
    lambda r, a: (a.view(np.recarray) if a.dtype != ml_dtypes.bfloat16 else a, a),
    lambda r, a: (np.ones(a.shape, a.dtype)[()], np.ones(a.shape, a.dtype)),
    lambda r, a: (a.tolist(), None if a.ndim else a),
    lambda r, a: (r.choice([None, "a", object(), type, {}, (), [], 1j, np.dtype("f4"), lambda: 0, Ellipsis]), None),
    lambda r, a: _pass_number(r.choice([3, 2.5, True, -1, 10**30, float("nan"), np.float64(2)]), a),
    _misaligned, _strided, _readonly, _released, _as_buffer, _typed_buffer, _lying, _dlpack, _on_gpu, _other_type,
)  # fmt: skip


# ---------------------------------------------------------------- those of torch and of JAX


def torch_makers() -> tuple[Maker, ...]:
    """Tensors, where torch is installed."""
    try:
        torch: Any = importlib.import_module("torch")
        fake_mode: Any = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode
    except ImportError:
        return ()
    mode = fake_mode()

    def plain(a: Array) -> Any:
        return torch.tensor(a) if a.dtype != ml_dtypes.bfloat16 else torch.ones(a.shape, dtype=torch.bfloat16)

    def freed(r: random.Random, a: Array) -> Odd:
        t = plain(a)
        left = r.choice([0, max(0, a.nbytes - 1)])
        seen = t[1:] if a.ndim and len(a) > 2 and r.random() < 0.5 else t
        t.untyped_storage().resize_(left)
        return seen, None if a.size else a

    def fake(r: random.Random, a: Array) -> Odd:
        with mode:
            return torch.empty(a.shape, dtype=plain(a).dtype), None

    def held(r: random.Random, a: Array) -> Odd:
        t = plain(a)
        return t, np.ones(a.shape, a.dtype) if a.dtype == ml_dtypes.bfloat16 else a

    def lazy(r: random.Random, a: Array) -> Odd:
        t = plain(a)
        ways = [lambda: t.to("meta"), lambda: t.to_sparse(), lambda: t.expand(7, *t.shape), lambda: t[..., None],
                lambda: torch.nn.Parameter(t.float()), lambda: t.to(torch.complex64).conj(), lambda: t.dtype,
                lambda: t.to(torch.complex64).conj().imag, lambda: t.device, lambda: torch.nn.Linear(2, 2),
                lambda: torch.quantize_per_tensor(t.float(), 0.1, 0, torch.qint8)]  # fmt: skip
        return r.choice(ways)(), None

    return held, freed, fake, lazy


def jax_makers() -> tuple[Maker, ...]:
    """Arrays, where JAX is installed."""
    try:
        jax: Any = importlib.import_module("jax")
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_enable_x64", True)
        jnp = jax.numpy
    except ImportError:
        return ()

    def held(r: random.Random, a: Array) -> Odd:
        return jnp.asarray(a), a

    def deleted(r: random.Random, a: Array) -> Odd:
        x = jnp.array(a, copy=True)
        x.delete()
        return x, None

    def abstract(r: random.Random, a: Array) -> Odd:
        return jax.ShapeDtypeStruct(a.shape, a.dtype), None

    return held, deleted, abstract


@cache
def makers() -> tuple[Maker, ...]:
    """All kinds of odd arrays that there are here."""
    return (*NUMPY, *torch_makers(), *jax_makers())


# ---------------------------------------------------------------- calls


@dataclass(frozen=True)
class Outcome:
    """What became of a call: "right", "refused" or "wrong", and what was wrong."""

    kind: str
    message: str = ""


def elements(r: random.Random, dtype: str, shape: tuple[int, ...]) -> Array:
    """Small numbers of a type."""
    whole = np.array([r.randrange(100) for _ in range(int(np.prod(shape)))]).reshape(shape)
    return np.asarray(whole % 2 if dtype == "bool" else whole).astype(np.dtype(dtype))


def _odd(r: random.Random, a: Array) -> Odd:
    """An odd array; `a` itself where its type is none that such an array can have."""
    maker = r.choice(makers())
    try:
        return maker(r, a)
    except Exception:  # of the library, which has no such arrays
        return a.copy(), a


def call(seed: int, number: int) -> Outcome:
    """Make one call and judge it."""
    r = random.Random(f"{seed}:{number}")
    which = r.randrange(len(PROGRAMS))
    p, kernel = PROGRAMS[which], kernel_of(which)
    n, m = r.choice([1, 3, 4, 16]), r.choice([1, 4])
    shapes = {0: (), 1: (m if which == 1 else n,), 2: (n, m)}
    given: list[Odd] = []
    odd = r.randrange(len(p.inputs) + (p.outputs > 0))
    for k, (_, dtype, rank) in enumerate(p.inputs):
        a = elements(r, dtype, shapes[rank])
        given.append(_odd(r, a) if k == odd or r.random() < 0.1 else (a.copy(), a))
    known = [x[1] for x in given]
    before = [None if x is None else x.copy() for x in known]
    out = _outs(r, p, before, odd=odd == len(p.inputs))
    try:
        results = kernel(*[x[0] for x in given], **({} if out is None else {"out": out}))
    except (TypeError, ValueError, LoopirError) as error:
        return Outcome("refused") if str(error).strip() else Outcome("wrong", f"{type(error).__name__} without a word")
    except Exception as error:
        return Outcome("wrong", f"{type(error).__name__}: {error}")
    if any(x is None for x in before):
        return Outcome("wrong", "taken, though it holds no such elements")
    return _judged(p, before, results if p.updated is None else given[p.updated][0])


def _outs(r: random.Random, p: Program, given: list[Array | None], *, odd: bool) -> Any:
    """What is passed as `out`, if anything: plain arrays, one of them odd."""
    if not odd and r.random() < 0.5:
        return None
    if not p.outputs or any(x is None for x in given):
        return None if p.outputs else ()
    try:
        made = [np.zeros_like(x) for x in p.meaning(*given)]
    except (ValueError, IndexError):  # elements that do not fit
        return None
    if odd:
        made[r.randrange(len(made))] = _odd(r, made[-1])[0]
    return r.choice([tuple(made)] * 6 + [list(made), made[0], (), (*made, made[0])])


def _judged(p: Program, given: list[Array | None], results: Any) -> Outcome:
    try:
        wanted = p.meaning(*given)
    except (ValueError, IndexError):
        return Outcome("wrong", "taken, though the shapes do not fit")
    found = results if isinstance(results, tuple) else (results,)
    for x, want in zip(found, wanted, strict=True):
        got = _numbers(x)
        if not np.array_equal(got, np.asarray(want, np.float64), equal_nan=True):
            return Outcome("wrong", f"{got} is not {want}")
    return Outcome("right")


def _numbers(x: Any) -> Array:
    """The elements of what a call gave back, which is of the kind of what it took."""
    if hasattr(x, "tolist"):
        return np.asarray(x.tolist(), np.float64).reshape(getattr(x, "shape", -1))  # a list of nothing has no shape
    if hasattr(x, "__dlpack__"):
        return np.from_dlpack(x).astype(np.float64)
    return np.asarray(x).astype(np.float64)


# ---------------------------------------------------------------- processes


@dataclass
class Counts:
    """How many calls ended how."""

    ended: Counter[str] = field(default_factory=Counter[str])
    messages: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        total = sum(self.ended.values())
        listed = ", ".join(f"{self.ended[k]} {k}" for k in ("right", "refused", "wrong", "crashed"))
        return "\n".join([f"{total} calls: {listed}", *self.messages])


def make_calls(seed: int, first: int, last: int, place: Path) -> None:
    """Make the calls from `first` to before `last`; `place` has the number of the one that is being made."""
    warnings.simplefilter("ignore")
    counts = Counts()
    with place.open("r+b", buffering=0) as report:
        for n in range(first, last):
            report.seek(0)
            report.write(f"{n:12}{json.dumps(counts.ended):200}".encode())
            outcome = call(seed, n)
            counts.ended[outcome.kind] += 1
            if outcome.kind == "wrong":
                counts.messages.append(f"call {n} of seed {seed} is wrong: {outcome.message[:300]}")
    print(json.dumps([counts.ended, counts.messages]))


def made(calls: int, seed: int, *, plain: bool = False) -> Counts:
    """What becomes of `calls` calls, those that end their process among them; with no torch and no JAX if `plain`."""
    counts, n = Counts(), 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "place"
        while n < calls:
            last = min(calls, n + CHUNK)
            place.write_bytes(b" " * 212)
            command = [sys.executable, "-m", "loopir.testing.odd_arrays", "--work", str(n), str(last), str(place)]
            command += ["--seed", str(seed), *(["--plain"] if plain else [])]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode == 0:
                ended, messages = json.loads(run.stdout.splitlines()[-1])
                n = last
            else:
                at = place.read_bytes()
                if not at.strip() or run.returncode > 0:  # it is this file that is wrong
                    raise RuntimeError(run.stderr)
                n, ended = int(at[:12]) + 1, json.loads(at[12:])
                how = run.stderr.strip().splitlines()[-1:] or [""]
                messages = [f"call {n - 1} of seed {seed} ended its process with {run.returncode}: {how[0][:300]}"]
                counts.ended["crashed"] += 1
            counts.ended.update(ended)
            counts.messages += messages
    return counts


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.testing.odd_arrays", description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="without torch and JAX")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.work is not None:
        first, last, place = options.work
        for library in ("torch", "jax") if options.plain else ():
            sys.modules[library] = None  # type: ignore[assignment]  # it counts as not installed
        make_calls(options.seed, int(first), int(last), Path(place))
        return 0
    counts = made(options.calls, options.seed, plain=options.plain)
    print(counts)
    return 1 if counts.ended["wrong"] or counts.ended["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
