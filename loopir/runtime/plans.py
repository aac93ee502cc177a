"""The short way for a call like an earlier one: arrays of one library, of the same types and shapes.

A plan keeps what `arrays.bind` found out from types and shapes, and how the program is run at these sizes; addresses,
strides and overlaps are checked at every call. Whatever is unusual goes the long way, which also says what is wrong.
NumPy's arrays and torch's tensors go it to the CPU, torch's tensors and cupy's arrays on the GPU to the GPU.

The checks of a signature are spelt as one Python function without loops: most of what a launch costs is Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from loopir.runtime.arrays import ArgSpec, Bound, Signature, address

MAX_PLANS = 256
"""Plans kept; after as many combinations of shapes they are made anew."""
WIDE = 16
"""Bytes of the longest vectors, which what is moved in them is aligned to."""
Run = Callable[[Sequence[int]], None]
"""Runs a program, whose sizes are settled, on arrays at these addresses."""
Short = tuple[Run, tuple[int, ...], Any]
"""A call that may run: how, on which addresses, and what it returns."""


@dataclass(frozen=True, slots=True)
class Library:
    """How arrays of one library are asked, in Python's words about an array `x`."""

    kind: str
    like: str
    address: str
    plain: str
    writable: str
    short: str
    """Whether there is less memory behind its address than `{b}` bytes."""
    lazy: str
    """Of an array of one element, whether it has to be computed first. A lazy view of more is not contiguous."""
    scope: Callable[[], dict[str, Any]]
    """What these words need."""
    maker: Callable[[tuple[int, ...], ArgSpec], Callable[[], Any]]
    """What makes arrays of one shape and type."""


def _torch() -> dict[str, Any]:
    return {"Tensor": sys.modules["torch"].Tensor}


def _cupy() -> dict[str, Any]:
    return {"ndarray": sys.modules["cupy"].ndarray}


def _cupy_maker(shape: tuple[int, ...], spec: ArgSpec) -> Callable[[], Any]:
    cupy = sys.modules["cupy"]

    def make() -> Any:
        with cupy.cuda.Device(0):
            return cupy.empty(shape, spec.numpy)

    return make


def _torch_maker(*device: str | int) -> Callable[[tuple[int, ...], ArgSpec], Callable[[], Any]]:
    def maker(shape: tuple[int, ...], spec: ArgSpec) -> Callable[[], Any]:
        torch = sys.modules["torch"]
        return partial(torch.empty, shape, dtype=getattr(torch, spec.dtype), device=torch.device(*device))

    return maker


NUMPY = Library(
    "type({x}) is ndarray", "{x}.shape, {x}.dtype", "address({x})", "{x}.flags.c_contiguous", "{x}.flags.writeable",
    "False", "False", lambda: {"ndarray": np.ndarray, "address": address},
    lambda shape, spec: partial(np.empty, shape, spec.numpy),
)  # fmt: skip
TORCH = Library(
    "type({x}) is Tensor and {x}.get_device() == 0", "{x}.shape, {x}.dtype", "{x}.data_ptr()",
    "{x}.is_contiguous() and not {x}.requires_grad", "True",
    "{x}.untyped_storage().nbytes() - {x}.storage_offset() * {x}.element_size() < {b}",
    "{x}.is_neg()", _torch, _torch_maker("cuda", 0),
)  # fmt: skip
"""torch is not imported: who has a tensor has it. A sparse tensor has no address, and asking for it raises."""
CUPY = Library(
    "type({x}) is ndarray and {x}.data.device_id == 0", "{x}.shape, {x}.dtype", "{x}.data.ptr",
    "{x}.flags.c_contiguous", "True", "False", "False", _cupy, _cupy_maker,
)  # fmt: skip
TORCH_CPU = replace(TORCH, kind="type({x}) is Tensor and {x}.is_cpu", maker=_torch_maker("cpu"))
LIBRARIES = {"cuda": {"torch": TORCH, "cupy": CUPY}, "cpu": {"numpy": NUMPY, "torch": TORCH_CPU}}
"""By device, the libraries whose arrays go the short way, by the names of their packages."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One combination of types and shapes: how to run it, what its new outputs are, and the bytes of each argument."""

    run: Run
    outputs: tuple[Callable[[], Any], ...]
    """Each makes an output."""
    bytes: tuple[int, ...]
    single: bool
    """Whether some array has one element."""


class Plans:
    """The plans of one kernel, for arrays of each library that its calls came with.

    `wide` are the arguments that are moved in whole vectors.
    """

    def __init__(self, signature: Signature, device: str, wide: frozenset[str] = frozenset()) -> None:
        self.signature, self.device = signature, device
        self.made = [n for n, a in enumerate(signature.args) if a.access == "out"]
        self.aligned = [WIDE if a.name in wide else a.numpy.itemsize for a in signature.args]
        self.new: dict[Any, Plan] = {}
        self.placed: dict[Any, Plan] = {}
        self._spelt: dict[str, dict[str, Callable[..., Any]]] = {}
        """By library, the functions that its arrays are asked by."""

    def ready(self, args: Sequence[Any], out: Sequence[Any] | None) -> Short | None:
        """The call with `args`, if it is like an earlier one and nothing is wrong with it."""
        return None  # until one was learnt

    def learn(self, args: Sequence[Any], bound: Bound, prepared: Callable[[], Run]) -> None:
        """Keep what was found out about a call that went the long way, and what `prepared` gives to run such a call."""
        if len(args) != len(self.signature.inputs) or not args:
            return
        kind = type(args[0]).__module__.partition(".")[0]
        library = LIBRARIES[self.device].get(kind)
        if library is None or (kind not in self._spelt and not self._spell(kind, library)):
            return
        spelt = self._spelt[kind]
        new = spelt["key_new"](*args)
        placed = spelt["key_placed"](*_merged(self.made, args, bound.results))
        if new is None or placed is None:
            return
        if len(self.new) >= MAX_PLANS:
            self.new.clear()
            self.placed.clear()
        shapes = [t.shape for t in bound.arrays]
        outputs = tuple(library.maker(shapes[n], self.signature.args[n]) for n in self.made)
        sizes = tuple(prod(t.shape) * a.numpy.itemsize for t, a in zip(bound.arrays, self.signature.args, strict=True))
        single = any(prod(shape) == 1 for shape in shapes)
        self.new[new] = self.placed[placed] = Plan(prepared(), outputs, sizes, single)

    def _spell(self, kind: str, library: Library) -> bool:
        """Make the functions for arrays of `library`, unless it is another one that is called so."""
        try:
            scope = library.scope()
        except KeyError:
            return False
        scope |= {"new": self.new, "placed": self.placed}
        exec(compile(self.source(library), "<plans>", "exec"), scope)
        self._spelt[kind] = {name: scope[name] for name in ("ready", "key_new", "key_placed")}
        ways = [spelt["ready"] for spelt in self._spelt.values()]
        self.ready = ways[0] if len(ways) == 1 else partial(_first_ready, ways)
        return True

    def source(self, say: Library) -> str:
        """The checks of a call, in Python: x0, x1, ... are the arguments, p0 ... where they lie, b0 ... their bytes."""
        args = self.signature.args
        every = range(len(args))
        given = [n for n in every if n not in self.made]
        written = [n for n in every if args[n].access != "in"]
        inplace = [n for n in written if n not in self.made]

        def both(words: str, which: Sequence[int], between: str = " and ") -> str:
            return between.join(words.format(x=f"x{n}", b=f"b{n}") for n in which) or "True"

        def names(letter: str, which: Sequence[int]) -> str:
            return "".join(f"{letter}{n}, " for n in which)

        def apart(which: Sequence[int]) -> str:
            pairs = [(n, k) for n in which for k in every if k != n and (k not in written or n < k)]
            return " or ".join(f"p{n} < p{k} + b{k} and p{k} < p{n} + b{n}" for n, k in pairs) or "False"

        made = both(say.kind, self.made)
        align: dict[int, list[int]] = {}
        for n in every:
            align.setdefault(self.aligned[n], []).append(n)
        odd = " or ".join(f"({' | '.join(f'p{n}' for n in which)}) % {size}" for size, which in sorted(align.items()))
        results = names("x", self.made)
        missing = f"not ({' and '.join(f'p{n}' for n in every)})"  # an array without elements may have no address, too
        if say.short != "False":
            missing += f" or {both(say.short, every, ' or ')}"
        lines = [
            "def key_new(" + names("x", given) + "):",
            f"    return ({both(say.like, given, ', ')},) if {both(say.kind, given)} else None",
            "def key_placed(" + names("x", every) + "):",
            f"    return ({both(say.like, every, ', ')},) if {both(say.kind, every)} else None",
            "def ready(args, out):",
            "    try:",
            f"        {names('x', given)} = args",
            f"        if not ({both(say.kind, given)}):",
            "            return None",
            "        if out is None:",
            f"            plan = new.get(({both(say.like, given, ', ')},))",
            "            if plan is None:",
            "                return None",
            *(f"            x{n} = plan.outputs[{k}]()" for k, n in enumerate(self.made)),
            f"            {names('b', every)} = plan.bytes",
            "        else:",
            *([f"            {results} = out"] if results else []),
            f"            if type(out) is not tuple or {'out or ' if not results else ''}not ({made}):",
            "                return None",
            f"            plan = placed.get(({both(say.like, every, ', ')},))",
            "            if plan is None:",
            "                return None",
            f"            {names('b', every)} = plan.bytes",
            f"        {names('p', every)} = {both(say.address, every, ', ')},",
            f"        if {missing} or {odd} or not ({both(say.plain, every)} and {both(say.writable, inplace)}):",
            "            return None",
            f"        if plan.single and ({both(say.lazy, every, ' or ')}) or {apart(inplace)}:",
            "            return None",
            f"        if out is not None and ({apart(self.made)} or not ({both(say.writable, self.made)})):",
            "            return None",
            "    except (ValueError, RuntimeError):",
            "        return None",
            f"    return plan.run, ({names('p', every)}), {_given(self.made)}",
        ]
        return "\n".join(lines) + "\n"


def _first_ready(ways: Sequence[Callable[..., Short | None]], args: Sequence[Any], out: Any) -> Short | None:
    """What the first of several libraries says that knows these arrays."""
    for way in ways:
        if (short := way(args, out)) is not None:
            return short
    return None


def _merged(made: Sequence[int], args: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """All arguments in order."""
    arrays = list(args)
    for n, x in zip(made, results, strict=True):
        arrays.insert(n, x)
    return arrays


def _given(made: Sequence[int]) -> str:
    """What a call returns: one array, a tuple of several, or None."""
    return f"x{made[0]}" if len(made) == 1 else f"({', '.join(f'x{n}' for n in made)})" if made else "None"
