"""Functions of arrays, traced into tensor expressions once for each signature and compiled: `lp.jit`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from loopir.build import Schedule, build
from loopir.frontend.chosen_schedule import chosen_schedule
from loopir.ir.arguments import wrong_arguments
from loopir.ir.grammar import Func
from loopir.runtime.call import Kernel
from loopir.tensor.tensor import Tensor, placeholder


class Jitted:
    """A function of arrays that is compiled when it is called with types and shapes that are new to it.

    `kernels` are those made so far, by signature.
    """

    def __init__(self, fn: Callable[..., Any], target: str | None) -> None:
        if not callable(fn) or isinstance(fn, Func):
            cure = "; of an expression lp.Schedule(x).build() makes a kernel" if isinstance(fn, Tensor) else ""
            raise TypeError(f"lp.jit compiles a function of arrays, not a {type(fn).__name__}{cure}")
        self.fn, self.target = fn, target
        self.signature = inspect.signature(fn)
        if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in self.signature.parameters.values()):
            raise TypeError(f"lp.jit of {fn}: its parameters are named one by one, without * and keyword-only ones")
        self.names = tuple(self.signature.parameters)
        self.kernels: dict[Any, Kernel] = {}
        self._calls: dict[Any, Callable[[tuple[Any, ...]], Any]] = {}
        update_wrapper(self, fn)

    def __repr__(self) -> str:
        made = f"{len(self.kernels)} kernel{'s' * (len(self.kernels) != 1)} so far"
        return f"<lp.jit of {self.fn.__name__}({', '.join(self.names)}), {made}>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        if named or len(args) != len(self.names):
            if (told := wrong_arguments(self.fn, args, named)) is not None:
                raise TypeError(told)
            bound = self.signature.bind(*args, **named)
            bound.apply_defaults()
            args = bound.args
        key = tuple((x.dtype, x.shape) if hasattr(x, "shape") else (type(x), x) for x in args)
        try:
            call = self._calls.get(key)
        except TypeError:
            odd = next(x for x in args if not hasattr(x, "shape") and not _is_hashable(x))
            given = f"{self.fn.__name__} is given a {type(odd).__name__}"
            raise TypeError(f"{given}; lp.jit takes arrays, and constants that can be hashed") from None
        if call is None:
            call = self._calls[key] = self._traced(args)
        return call(args)

    def _traced(self, args: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], Any]:
        """Trace the function for arguments like these, compile it, and give what calls the kernel."""
        arrays = {name: x for name, x in zip(self.names, args, strict=True) if hasattr(x, "shape")}
        if not arrays:
            raise TypeError(f"{self.fn.__name__} is given no array; lp.jit compiles functions of arrays")
        target = self.target or _target_of(arrays)
        key = (target, *((_dtype_name(x), tuple(x.shape)) if hasattr(x, "shape") else (type(x), x) for x in args))
        if key not in self.kernels:
            self.kernels[key] = self._compile(arrays, args, target)
        kernel = self.kernels[key]
        read = [self.names.index(a.name) for a in kernel.signature.inputs]
        home = type(next(iter(arrays.values()))).__module__.partition(".")[0]
        if home not in ("jax", "jaxlib"):
            return lambda args: kernel(*(args[n] for n in read))
        return lambda args: _to_jax(kernel(*(args[n] for n in read)))

    def _compile(self, arrays: dict[str, Any], args: tuple[Any, ...], target: str) -> Kernel:
        given = {n: placeholder(tuple(map(int, x.shape)), _dtype_name(x), name=n) for n, x in arrays.items()}
        results = self.fn(*(given.get(name, x) for name, x in zip(self.names, args, strict=True)))
        listed = list(results) if isinstance(results, tuple | list) else [results]
        for r in listed:
            if not isinstance(r, Tensor):
                what = f"{self.fn.__name__} gives {'nothing' if r is None else f'a {type(r).__name__}'}"
                raise TypeError(f"{what}; a function under lp.jit gives a tensor, or a tuple of tensors")
        return build(chosen_schedule(Schedule(listed), target), target)


def _is_hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


def _dtype_name(x: Any) -> str:
    return str(x.dtype).removeprefix("torch.")


def _target_of(arrays: dict[str, Any]) -> str:
    """Where the arrays are: "cuda" if any is on a GPU."""
    kinds = [str(getattr(x, "device", "cpu")) for x in arrays.values()]
    on_gpu = any("cuda" in k.lower() or "gpu" in k.lower() for k in kinds)
    return "cuda" if on_gpu or any(hasattr(x, "__cuda_array_interface__") for x in arrays.values()) else "llvm"


def _to_jax(results: Any) -> Any:
    """Results as JAX's arrays, as the arguments were."""
    convert = sys.modules["jax"].numpy.asarray
    return tuple(map(convert, results)) if isinstance(results, tuple) else convert(results)
