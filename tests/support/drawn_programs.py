"""Random programs of tensors as users write them, each beside what NumPy gives in float64.

`drawn(seed)` gives the same program in every process: up to a dozen operations over arrays of any type, rank and size,
0 and 1 and a size that is known only at the call among them. `drawn(seed, large=True)` has the sizes of workloads, to
be predicted, and `form` changes what should cost nothing: a name, a view, a cheap step, a cast, a row more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import loopir as lp
from loopir.ir.dtypes import dtype as dtype_of
from loopir.ir.layout.layouts import evaluate

Array = Any
F32, BF = "float32", "bfloat16"
FLOATS = (F32, F32, F32, "float64", "float16", BF)
SMALL = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33)
LARGE = (64, 100, 128, 512, 768, 1000, 1024, 4096)
FORMS = (
    "plain", "named", "flat inputs", "flat outputs", "inputs twice transposed", "a unit dimension before",
    "a unit dimension after", "a step after", "a cast after", "one row more",
)  # fmt: skip
"""What a program may be written as, each with nearly the same work."""


@dataclass
class Value:
    """A tensor, the numbers that its elements are in float64, and whether these are free of rounding."""

    tensor: Any
    numbers: Callable[[], Array]
    shape: tuple[int, ...]
    exact: bool
    _held: Array = None

    def array(self) -> Array:
        if self._held is None:
            with np.errstate(all="ignore"):
                self._held = np.asarray(self.numbers())
        return self._held

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(str(d) for d in self.tensor.shape)

    @property
    def type(self) -> str:
        return self.tensor.dtype.name

    @property
    def is_float(self) -> bool:
        return self.tensor.dtype.is_float


@dataclass
class Program:
    """A program: its outputs, what to call it with, and the sizes that it is called at."""

    seed: int
    large: bool = False
    form: str = "plain"
    operations: tuple[str, ...] = ()
    inputs: dict[str, Callable[[], Array]] = field(default_factory=dict[str, Any])
    values: list[Value] = field(default_factory=list[Value])
    outputs: list[Value] = field(default_factory=list[Value])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    scale: float = 1.0

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.seed} {self.large}")

    # ---------------------------------------------------------------- drawing

    def pick(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def often(self, share: float) -> bool:
        return self.rng.random() < share

    def given(self, dims: Sequence[Any], t: str, low: int = -4, high: int = 4, unit: float = 0.25) -> Value:
        """An input of multiples of `unit`, which every type holds exactly, or of whole numbers."""
        name, shape = f"x{len(self.inputs)}", tuple(map(self.number, dims))
        real = dtype_of(t).is_float
        seed = self.rng.randrange(1 << 30)

        def numbers() -> Array:
            if t == "bool":
                return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)
            n = np.random.default_rng(seed).integers(low, high + 1, shape)
            return n * unit if real else n.astype(np.int64)

        self.inputs[name] = lambda: numbers().astype(dtype_of(t).numpy)
        return Value(self._placeholder(dims, t, name), numbers, shape, exact=True)

    def _placeholder(self, dims: Sequence[Any], t: str, name: str) -> Any:
        flat = self.inputs[name]
        if self.form == "flat inputs" and len(dims) > 1 and all(isinstance(d, int) for d in dims):
            self.inputs[name] = lambda: flat().ravel()
            return lp.placeholder((int(np.prod(dims)),), t, name=name).reshape(tuple(dims))
        if self.form == "a unit dimension before" and dims:
            self.inputs[name] = lambda: flat()[:, None]
            return lp.placeholder((dims[0], 1, *dims[1:]), t, name=name)[:, 0]
        x = lp.placeholder(tuple(dims), t, name=name)
        return lp.transpose(lp.transpose(x)) if self.form == "inputs twice transposed" and len(dims) > 1 else x

    def number(self, dim: Any) -> int:
        return dim if isinstance(dim, int) else int(evaluate(dim.ix, self.sizes))

    def made(self, tensor: Any, numbers: Callable[[], Array], *of: Value, exact: bool = False) -> Value:
        """The value of `tensor`; free of rounding if `exact`, and all that it is made of is."""
        if self.form == "named" and not self.rng_forms.randrange(2):
            tensor = tensor.named(f"stage{len(self.values)}")
        shape = tuple(map(self.number, tensor.shape))
        return Value(tensor, numbers, shape, exact and all(v.exact for v in of))

    def value(self, ok: Callable[[Value], bool] = lambda v: True) -> Value | None:
        found = [v for v in self.values if ok(v)]
        return self.rng.choice(found[-4:] if self.often(0.7) else found) if found else None

    # ---------------------------------------------------------------- the whole

    def draw(self) -> Program:
        self.rng_forms = random.Random(self.seed)
        pool = LARGE if self.large else SMALL
        self.dims: list[Any] = [self.pick(*pool) for _ in range(3)]
        if self.large and self.form == "one row more":
            self.dims[0] += 1
        if not self.large:
            kind = self.pick(*range(8))
            if kind < 2:
                self.sizes["n"] = self.pick(1, 2, 5, 7, 16)
                self.dims[0] = lp.symbol("n")
            elif kind == 2:
                self.dims[self.pick(0, 1)] = self.pick(0, 1)
        self.real = self.pick(F32, BF, BF) if self.large else self.pick(*FLOATS)
        self.values = [self.given(self.dims[: self.pick(2, 2, 3)], self.real) for _ in range(self.pick(1, 2))]
        first, wanted = len(self.values), self.pick(1, 2, 3, 4) if self.large else self.pick(2, 3, 5, 8, 12)
        names: list[str] = []
        for _ in range(4 * wanted):
            if len(self.values) >= first + wanted:
                break
            operation = self.rng.choice(LARGE_OPERATIONS if self.large else OPERATIONS)
            made = operation(self)
            if made is not None and np.prod(made.shape) <= (1 << 27 if self.large else 30_000):
                self.values.append(made)
                names.append(operation.__name__)
        self.operations = tuple(names)
        count = self.pick(1, 1, 2, 3)
        made = self.values[first:] or [self.scaled()]
        self.outputs = [self._result(v) for v in (made[-1:] + self.rng.sample(made[:-1], min(count, len(made)) - 1))]
        return self

    def scaled(self) -> Value:
        v = self.values[-1]
        return self.made(v.tensor * 2, lambda: v.array() * 2, v)

    def _result(self, v: Value) -> Value:
        t = v.tensor
        if self.form == "flat outputs" and v.rank > 1 and all(isinstance(d, int) for d in t.shape):
            return Value(t.reshape((int(np.prod(v.shape)),)), lambda: v.array().ravel(), (), v.exact)
        if self.form == "a unit dimension after":
            return Value(t[None], lambda: v.array()[None], (), v.exact)
        if self.form == "a step after" and v.is_float:
            return Value(t * 0.5, lambda: v.array() * 0.5, (), v.exact)
        if self.form == "a cast after" and v.type in (F32, BF):
            return Value(t.astype("float16"), v.array, (), False)
        return v


Operation = Callable[[Program], Value | None]
OPERATIONS: list[Operation] = []
LARGE_OPERATIONS: list[Operation] = []


def operation(*, large: bool = True, times: int = 1) -> Callable[[Operation], Operation]:
    def add(f: Operation) -> Operation:
        OPERATIONS.extend([f] * times)
        if large:
            LARGE_OPERATIONS.extend([f] * times)
        return f

    return add


def wide(v: Value) -> Any:
    """The tensor in a type in which sums are good."""
    return v.tensor.astype(F32) if v.type in ("float16", BF) else v.tensor


def bounded(v: Value) -> bool:
    """Whether exponentials of it stay small."""
    return v.is_float


UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "relu": (lp.relu, lambda x: np.maximum(x, 0.0)),
    "tanh": (lp.tanh, np.tanh),
    "sigmoid": (lp.sigmoid, lambda x: 1.0 / (1.0 + np.exp(-x))),
    "silu": (lp.silu, lambda x: x / (1.0 + np.exp(-x))),
    "exp": (lambda x: lp.exp(-lp.abs(x)), lambda x: np.exp(-np.abs(x))),
    "sqrt": (lambda x: lp.sqrt(lp.abs(x) + 1.0), lambda x: np.sqrt(np.abs(x) + 1.0)),
    "log": (lambda x: lp.log(x * x + 1.0), lambda x: np.log(x * x + 1.0)),
    "sin": (lp.sin, np.sin),
    "square": (lp.square, np.square),
    "negative": (lambda x: -x, lambda x: -x),
    "affine": (lambda x: x * 0.5 + 1.0, lambda x: x * 0.5 + 1.0),
    "softplus": (lp.softplus, lambda x: np.logaddexp(x, 0.0)),
    "clip": (lambda x: lp.clip(x, -1.0, 1.5), lambda x: np.clip(x, -1.0, 1.5)),
    "recip": (lambda x: 1.0 / (lp.abs(x) + 1.0), lambda x: 1.0 / (np.abs(x) + 1.0)),
}


@operation(times=3)
def unary(p: Program) -> Value | None:
    v = p.value(lambda v: v.is_float)
    if v is None:
        return None
    ours, theirs = p.pick(*UNARY.values())
    return p.made(ours(v.tensor), lambda: theirs(v.array()), v)


BINARY: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = (
    (lambda a, b: a + b, np.add),
    (lambda a, b: a - b * 0.5, lambda a, b: a - b * 0.5),
    (lambda a, b: a * b, np.multiply),
    (lp.maximum, np.maximum),
    (lp.minimum, np.minimum),
    (lambda a, b: a / (b * b + 1.0), lambda a, b: a / (b * b + 1.0)),
)


@operation(times=3)
def binary(p: Program) -> Value | None:
    """Two values, one of which may be repeated along dimensions."""
    v = p.value(lambda v: v.is_float)
    if v is None:
        return None
    w = p.value(lambda w: w.is_float and w.key in (v.key, v.key[1:], v.key[2:]) and w.rank <= v.rank)
    w = w or p.given(v.tensor.shape[v.rank - p.pick(*range(v.rank + 1)) :], p.real)
    ours, theirs = p.pick(*BINARY)
    return p.made(ours(v.tensor, w.tensor), lambda: theirs(v.array(), w.array()), v, w)


@operation()
def column(p: Program) -> Value | None:
    """One value for each row."""
    v = p.value(lambda v: v.is_float and v.rank >= 2)
    if v is None:
        return None
    w = p.given(v.tensor.shape[:-1], p.real)
    return p.made(v.tensor * w.tensor[..., None], lambda: v.array() * w.array()[..., None], v, w)


@operation()
def selected(p: Program) -> Value | None:
    v = p.value(lambda v: v.exact and v.is_float)
    w = None if v is None else p.value(lambda w: w.is_float and w.key == v.key)
    if v is None or w is None:
        return None
    return p.made(
        lp.where(v.tensor > 0.0, w.tensor, v.tensor * 0.25),
        lambda: np.where(v.array() > 0.0, w.array(), v.array() * 0.25), v, w,
    )  # fmt: skip


@operation()
def masked(p: Program) -> Value | None:
    """A triangle, or what a mask from memory says."""
    v = p.value(lambda v: v.rank >= 2 and v.is_float)
    if v is None:
        return None
    kind = p.pick("lower", "upper", "given")
    if kind == "given":
        m = p.given(v.tensor.shape[-2:], "bool")
        return p.made(lp.where(m.tensor, v.tensor, -1.0), lambda: np.where(m.array(), v.array(), -1.0), v, exact=True)
    k = p.pick(-1, 0, 1)
    ours, theirs = (lp.tril, np.tril) if kind == "lower" else (lp.triu, np.triu)
    return p.made(ours(v.tensor, k), lambda: theirs(v.array(), k), v, exact=True)


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lp.sum, np.sum),
    "mean": (lp.mean, np.mean),
    "max": (lp.max, np.max),
    "min": (lp.min, np.min),
    "var": (lp.var, np.var),
    "norm": (lambda x, **k: lp.sqrt(lp.sum(x * x, **k)), lambda x, **k: np.sqrt(np.sum(x * x, **k))),
}


@operation(times=3)
def reduced(p: Program) -> Value | None:
    """Over any axes; kept as 1, and perhaps combined with what was reduced."""
    v = p.value(lambda v: v.rank >= 1 and v.is_float)
    if v is None:
        return None
    axes = tuple(sorted(p.rng.sample(range(v.rank), p.pick(*range(1, v.rank + 1)))))
    name = p.pick(*REDUCTIONS)
    if name != "sum" and any(v.shape[a] == 0 for a in axes):
        name = "sum"
    ours, theirs = REDUCTIONS[name]
    axis: Any = axes if len(axes) > 1 or p.often(0.5) else axes[0]
    x = wide(v)
    if p.often(0.4):
        return p.made(ours(x, axis=axis), lambda: theirs(v.array(), axis=axis), v)
    folded = ours(x, axis=axis, keepdims=True)
    return p.made(x - folded, lambda: v.array() - theirs(v.array(), axis=axis, keepdims=True), v)


@operation(times=2)
def normed(p: Program) -> Value | None:
    """Softmax, a norm, or a logarithm of sums along an axis."""
    v = p.value(lambda v: v.rank >= 1 and v.is_float and min(v.shape) > 0)
    if v is None:
        return None
    axis = p.pick(-1, -1, p.pick(*range(v.rank)))
    x = wide(v)
    kind = p.pick("softmax", "log_softmax", "layernorm", "rms", "logsumexp")

    def exps() -> Array:
        a = v.array()
        return np.exp(a - a.max(axis=axis, keepdims=True))

    if kind == "softmax":
        return p.made(lp.softmax(x, axis=axis), lambda: exps() / exps().sum(axis=axis, keepdims=True), v)
    if kind in ("log_softmax", "logsumexp"):

        def total() -> Array:
            return np.log(exps().sum(axis=axis, keepdims=True)) + v.array().max(axis=axis, keepdims=True)

        if kind == "log_softmax":
            return p.made(lp.log_softmax(x, axis=axis), lambda: v.array() - total(), v)
        return p.made(lp.logsumexp(x, axis=axis), lambda: np.squeeze(total(), axis), v)
    mean = lp.mean(x, axis=axis, keepdims=True) if kind == "layernorm" else 0.0
    c = x - mean if kind == "layernorm" else x

    def centred() -> Array:
        return v.array() - (v.array().mean(axis=axis, keepdims=True) if kind == "layernorm" else 0.0)

    return p.made(
        (c * lp.rsqrt(lp.mean(c * c, axis=axis, keepdims=True) + 0.5)).astype(v.type),
        lambda: centred() / np.sqrt((centred() ** 2).mean(axis=axis, keepdims=True) + 0.5), v,
    )  # fmt: skip


@operation()
def running(p: Program) -> Value | None:
    v = p.value(lambda v: v.rank >= 1 and v.is_float)
    if v is None:
        return None
    axis = p.pick(*range(v.rank))
    return p.made(lp.cumsum(wide(v), axis=axis), lambda: np.cumsum(v.array(), axis=axis), v)


@operation(times=3)
def product(p: Program) -> Value | None:
    """By a matrix that is given, by another value, of each batch, or with itself."""
    v = p.value(lambda v: v.rank >= 2 and v.is_float)
    if v is None:
        return None
    kind = p.pick("given", "given", "given", "batched", "self", "vector", "given before")
    k = 1.0 / max(1, v.shape[-1]) ** 0.5
    if kind == "self":
        turned = lp.swapaxes(v.tensor, -1, -2)
        return p.made((v.tensor @ turned) * k, lambda: (v.array() @ np.swapaxes(v.array(), -1, -2)) * k, v)
    if kind == "given before" and v.rank == 2:
        w = p.given((p.pick(*p.dims), v.tensor.shape[0]), v.type)
        k = 1.0 / max(1, v.shape[0]) ** 0.5
        return p.made((w.tensor @ v.tensor) * k, lambda: (w.array() @ v.array()) * k, v, w)
    batch = v.tensor.shape[:-2] if kind == "batched" else ()
    wide_by = () if kind == "vector" else (p.pick(*p.dims, p.pick(*(LARGE if p.large else SMALL))),)
    w = p.given((*batch, v.tensor.shape[-1], *wide_by), v.type)
    return p.made((v.tensor @ w.tensor) * k, lambda: (v.array() @ w.array()) * k, v, w)


@operation(large=False)
def contracted(p: Program) -> Value | None:
    v = p.value(lambda v: v.rank == 3 and v.is_float)
    if v is None:
        return None
    w = p.given((v.tensor.shape[0], p.pick(2, 3), v.tensor.shape[2]), v.type)
    how = p.pick("bij,bkj->bik", "bij,bkj->ikb", "bij,bkj->ik", "bij,bkj->kj")
    k = 0.25
    return p.made(lp.einsum(how, v.tensor, w.tensor) * k, lambda: np.einsum(how, v.array(), w.array()) * k, v, w)


@operation(times=2)
def turned(p: Program) -> Value | None:
    v = p.value(lambda v: v.rank >= 2)
    if v is None:
        return None
    order = tuple(p.rng.sample(range(v.rank), v.rank))
    return p.made(lp.transpose(v.tensor, order), lambda: np.transpose(v.array(), order), v, exact=True)


@operation(times=2)
def reshaped(p: Program) -> Value | None:
    v = p.value(lambda v: v.rank >= 2)
    if v is None:
        return None
    at = p.pick(*range(v.rank - 1))
    dims = v.tensor.shape
    new = (*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :])
    shape = (*v.shape[:at], v.shape[at] * v.shape[at + 1], *v.shape[at + 2 :])
    return p.made(v.tensor.reshape(new), lambda: v.array().reshape(shape), v, exact=True)


@operation()
def cut(p: Program) -> Value | None:
    """One dimension as two."""
    v = p.value(lambda v: any(n > 3 and n % 2 == 0 and isinstance(d, int) for n, d in zip(v.shape, v.tensor.shape)))
    if v is None or v.rank > 3:
        return None
    at = p.pick(*(k for k, n in enumerate(v.shape) if n > 3 and n % 2 == 0 and isinstance(v.tensor.shape[k], int)))
    n, dims = v.shape[at], v.tensor.shape
    by = p.pick(2, n // 2)
    shape = (*v.shape[:at], by, n // by, *v.shape[at + 1 :])
    new = (*dims[:at], by, n // by, *dims[at + 1 :])
    return p.made(v.tensor.reshape(new), lambda: v.array().reshape(shape), v, exact=True)


@operation(times=2)
def sliced(p: Program) -> Value | None:
    v = p.value(lambda v: v.rank >= 1 and v.shape[-1] > 2 and isinstance(v.tensor.shape[-1], int))
    if v is None:
        return None
    key = p.pick(slice(1, None), slice(None, -1), slice(None, None, 2), slice(None, None, -1), slice(1, -1))
    return p.made(v.tensor[..., key], lambda: v.array()[..., key], v, exact=True)


@operation(large=False)
def first_rows(p: Program) -> Value | None:
    v = p.value(lambda v: v.rank >= 2 and v.shape[0] > 1 and isinstance(v.tensor.shape[0], int))
    if v is None:
        return None
    k = p.pick(*range(1, v.shape[0]))
    return p.made(v.tensor[:k], lambda: v.array()[:k], v, exact=True)


@operation(times=2)
def joined(p: Program) -> Value | None:
    v = p.value(lambda v: v.rank >= 1)
    w = None if v is None else p.value(lambda w: w.key == v.key and w.type == v.type)
    if v is None or w is None:
        return None
    axis = p.pick(*range(v.rank))
    if p.often(0.3):
        return p.made(
            lp.stack([v.tensor, w.tensor], axis=axis),
            lambda: np.stack([v.array(), w.array()], axis=axis), v, w, exact=True,
        )  # fmt: skip
    return p.made(
        lp.concatenate([v.tensor, w.tensor], axis=axis),
        lambda: np.concatenate([v.array(), w.array()], axis=axis), v, w, exact=True,
    )  # fmt: skip


@operation()
def padded(p: Program) -> Value | None:
    v = p.value(lambda v: v.rank >= 1 and v.is_float)
    if v is None:
        return None
    widths = [(p.pick(0, 1), p.pick(0, 0, 2)) for _ in range(v.rank)]
    return p.made(lp.pad(v.tensor, widths), lambda: np.pad(v.array(), widths), v, exact=True)


@operation()
def gathered(p: Program) -> Value | None:
    v = p.value(lambda v: v.rank >= 1 and min(v.shape) > 0)
    if v is None:
        return None
    axis, count = p.pick(*range(v.rank)), p.pick(*p.dims)
    ids = p.given((count,), "int32", 0, v.shape[axis] - 1)
    return p.made(
        lp.take(v.tensor, ids.tensor, axis=axis), lambda: np.take(v.array(), ids.array(), axis=axis), v, exact=True
    )


@operation(large=False)
def scattered(p: Program) -> Value | None:
    v = p.value(lambda v: v.rank == 2 and min(v.shape) > 0 and v.is_float and v.type == F32)
    if v is None:
        return None
    ids = p.given(v.tensor.shape, "int64", 0, v.shape[0] - 1)
    w = p.given(v.tensor.shape, F32)

    def added() -> Array:
        out = v.array().copy()
        np.add.at(out, (ids.array(), np.arange(v.shape[1])[None, :]), w.array())
        return out

    return p.made(lp.scatter_add(v.tensor, 0, ids.tensor, w.tensor), added, v, w)


@operation()
def converted(p: Program) -> Value | None:
    v = p.value(lambda v: v.is_float)
    if v is None:
        return None
    t = p.pick(F32, BF, "float16") if p.large else p.pick(*FLOATS)
    return p.made(v.tensor.astype(t), v.array, v, exact=True)


@operation(large=False)
def whole(p: Program) -> Value | None:
    """Whole numbers: their remainders and quotients, and floats again."""
    v = p.given(p.dims[: p.pick(1, 2)], p.pick("int32", "int64", "int8"), -9, 9)
    kind = p.pick("remainder", "quotient", "largest", "count")
    if kind == "remainder":
        return p.made((v.tensor % 3).astype(p.real), lambda: (v.array() % 3).astype(float), v, exact=True)
    if kind == "quotient":
        return p.made((v.tensor // -2).astype(p.real), lambda: (v.array() // -2).astype(float), v, exact=True)
    if kind == "largest" and min(v.shape) > 0:
        return p.made(
            lp.argmax(v.tensor, axis=-1).astype(F32), lambda: np.argmax(v.array(), axis=-1).astype(float), v, exact=True
        )
    return p.made(
        (v.tensor > 0).astype("int32").sum(axis=-1).astype(p.real), lambda: (v.array() > 0).sum(axis=-1) * 1.0, v,
        exact=True,
    )  # fmt: skip


@operation(large=False)
def arranged(p: Program) -> Value | None:
    """Turned round, rolled or repeated."""
    v = p.value(lambda v: v.rank >= 1 and min(v.shape) > 0)
    if v is None:
        return None
    axis, by = p.pick(*range(v.rank)), p.pick(1, 2, -1)
    kind = p.pick("flip", "roll", "repeat", "tile") if isinstance(v.tensor.shape[axis], int) else "flip"
    if kind == "flip":
        return p.made(lp.flip(v.tensor, axis), lambda: np.flip(v.array(), axis), v, exact=True)
    if kind == "roll":
        return p.made(lp.roll(v.tensor, by, axis), lambda: np.roll(v.array(), by, axis), v, exact=True)
    if kind == "repeat":
        return p.made(lp.repeat(v.tensor, 2, axis), lambda: np.repeat(v.array(), 2, axis), v, exact=True)
    return p.made(lp.tile(v.tensor, (2,) * v.rank), lambda: np.tile(v.array(), (2,) * v.rank), v, exact=True)


@operation(large=False)
def sorted_rows(p: Program) -> Value | None:
    v = p.value(lambda v: v.rank >= 1 and v.exact and 0 < v.shape[-1] <= 17 and isinstance(v.tensor.shape[-1], int))
    if v is None:
        return None
    return p.made(lp.sort(v.tensor, axis=-1), lambda: np.sort(v.array(), axis=-1), v, exact=True)


@operation(times=2)
def stencil(p: Program) -> Value | None:
    """Neighbours along the last dimension, inside the array or held to its ends."""
    v = p.value(lambda v: v.rank in (1, 2) and v.is_float and v.shape[-1] > 2 and isinstance(v.tensor.shape[-1], int))
    if v is None:
        return None
    x, n, a = v.tensor, v.shape[-1], v.array
    if p.often(0.5):
        y = x[..., :-2] + x[..., 1:-1] * 2.0 + x[..., 2:]
        return p.made(y * 0.25, lambda: (a()[..., :-2] + a()[..., 1:-1] * 2.0 + a()[..., 2:]) * 0.25, v)
    last = n - 1

    def body(*at: Any) -> Any:
        *o, j = at
        return x[(*o, lp.minimum(j + 1, last))] - x[(*o, lp.maximum(j - 1, 0))]

    at = np.arange(n)
    return p.made(
        lp.compute(x.shape, body, name=f"stencil{len(p.values)}"),
        lambda: a()[..., np.minimum(at + 1, last)] - a()[..., np.maximum(at - 1, 0)], v,
    )  # fmt: skip


@operation()
def convolved(p: Program) -> Value | None:
    """Rows as the signal of one channel or of several, by a small kernel; or pooled."""
    v = p.value(lambda v: v.rank == 3 and v.is_float and v.shape[-1] > 4 and min(v.shape) > 0)
    if v is None or (p.large and v.shape[1] > 256):
        return None
    n = v.shape[-1]
    if not isinstance(v.tensor.shape[-1], int) or not isinstance(v.tensor.shape[1], int):
        return None
    if p.often(0.3):
        k = n // 2
        return p.made(
            lp.max_pool1d(v.tensor, 2), lambda: v.array()[..., : 2 * k].reshape(*v.shape[:2], k, 2).max(-1), v,
            exact=True,
        )  # fmt: skip
    c, out, stride, pad = v.shape[1], p.pick(2, 3, 8), p.pick(1, 1, 2), p.pick(0, 1)
    w = p.given((out, c, 3), v.type)
    k = 1.0 / (3 * c) ** 0.5

    def reference() -> Array:
        a = np.pad(v.array(), ((0, 0), (0, 0), (pad, pad)))
        windows = np.lib.stride_tricks.sliding_window_view(a, 3, axis=2)[:, :, ::stride]
        return np.einsum("bcwk,ock->bow", windows, w.array()) * k

    return p.made(lp.conv1d(v.tensor, w.tensor, stride=stride, padding=pad) * k, reference, v, w)


@operation(large=False)
def stored(p: Program) -> Value | None:
    v = p.value()
    return None if v is None else p.made(v.tensor.named(f"held{len(p.values)}"), v.array, v, exact=True)


def drawn(seed: int, *, large: bool = False, form: str = "plain") -> Program:
    """The program of a seed, in one of FORMS."""
    return Program(seed, large, form).draw()
