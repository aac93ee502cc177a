"""Calling a kernel: arrays in, arrays out, the same for every target."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from loopir.errors import TargetError
from loopir.runtime.arrays import Bound, Signature, bind, call_sizes, outputs_in_order, stream_asker, stream_of
from loopir.runtime.export import Export, Exportable, write
from loopir.runtime.interruptible import interruptible
from loopir.runtime.plans import MAX_PLANS, Plans, Run
from loopir.runtime.recorder import Recorder, Recording
from loopir.runtime.torch_operator import register_torch_operator

LONG_CALL_SECONDS = 0.25
"""Seconds of a processor from which on calls like this one are left as soon as a signal handler raises."""


class Runtime(Protocol):
    """What a target lends a program while it runs."""

    device: str


class Running(Protocol):
    """A program where its arrays are, in the order of a stream: arguments are brought there, results back."""

    def here(self) -> AbstractContextManager[None]: ...

    def enter(self, bound: Bound, signature: Signature) -> Sequence[int]: ...

    def leave(self, bound: Bound, signature: Signature, pointers: Sequence[int]) -> None: ...

    def time(self, run: Callable[[], None]) -> float: ...


ASKED_OF_KERNELS = {
    **dict.fromkeys(("run", "execute", "launch", "forward"), "it is called: kernel(*arrays)"),
    **dict.fromkeys(("benchmark", "timeit", "time_evaluator"), "kernel.time(*arrays) measures it"),
    **dict.fromkeys(("build", "compile"), "it is built already: kernel(*arrays) runs it"),
    **dict.fromkeys(("code", "get_source", "ptx", "asm", "ir"), "kernel.source is what was compiled"),
    **dict.fromkeys(("save", "export_library"), "kernel.export writes it as a library"),
}  # fmt: skip
"""What is written in place of methods of a kernel that people look for."""


class Kernel:
    """A compiled program. `kernel(a, b)` takes the inputs in order or by name and returns the outputs.

    `out=(c,)`, or `out={"C": c}` by name, writes into arrays of the caller; "inout" arguments are updated in place.
    One output is returned as an array, several as a tuple, none as None, each of the kind of the first argument (NumPy,
    torch, cupy). Arguments are checked before anything runs: TypeError for dtypes, ValueError for shapes, devices and
    overlaps. An array that is not contiguous is copied, and copied back if it is written, and a warning says so. A
    subscript that the arrays' contents bring outside its array raises BoundsError, an IndexError, after the run:
    nothing outside was touched, but the outputs are not complete. On a GPU only the first call at its sizes waits for
    that, and calls on arrays of the host; what another call did raises at the next one, or at `.synchronize()`.

    Ctrl-C ends a long call on the CPU with KeyboardInterrupt. What it had begun goes on in the background, to its end
    or that of the process, and its outputs are written until then.

    `.source` is what was compiled (CUDA C, or LLVM IR after optimisation), `.resources` what it takes.
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            cure = ASKED_OF_KERNELS.get(name, "it is built, and steps and questions are those of its Schedule, before")
            raise AttributeError(f"a Kernel has no {name!r}; {cure}", name=name, obj=self)

    def __init__(
        self,
        signature: Signature,
        host: Callable[..., None],
        runtime: Any,
        *,
        source: str,
        resources: Any,
        target: str,
        host_source: str = "",
        exporter: Callable[[str, bool], Exportable] | None = None,
        profiler: Callable[[Mapping[str, int], Recording], Any] | None = None,
    ) -> None:
        self.signature, self.target = signature, target
        self.source, self.resources, self.host_source = source, resources, host_source
        self._host, self._runtime, self._exporter, self._profiler = host, runtime, exporter, profiler
        wide: frozenset[str] = getattr(runtime, "wide", frozenset())
        self._plans = Plans(signature, runtime.device, wide) if getattr(runtime, "takes_addresses", True) else None
        self._counts = len(signature.inputs), len(signature.outputs)
        self._direct: Callable[..., int] | None = None
        """Runs calls like the one learnt last, where the target has a way that is shorter than plans; 0 if it did."""
        self._made: Callable[[], tuple[Any, ...]] = tuple
        self._native: Callable[..., Any] | None = None
        """The same for a GPU: it gives what the call returns, or NotImplemented for a call like none learnt."""
        self._on_cpu = self._plans is not None and runtime.device == "cpu"
        self._short: set[tuple[int, ...]] = set()
        """Sizes at which a call was not long, and is waited for."""

    def __repr__(self) -> str:
        listed = ", ".join(f"{a.name}: {a.access} {a.dtype}[{', '.join(a.shape)}]" for a in self.signature.args)
        return f"<{self.target} kernel {self.signature.name}({listed})>"

    def __call__(self, *args: Any, out: Sequence[Any] | Mapping[str, Any] | None = None, **named: Any) -> Any:
        native = self._native
        if native is not None and not named:
            results = native(args, out) if not isinstance(out, dict) else NotImplemented
            if results is not NotImplemented:
                return results
        direct = self._direct
        if direct is not None and not named and type(args[0] if args else None) is np.ndarray:
            placed = self._made() if out is None else out
            if type(placed) is tuple and (len(args), len(placed)) == self._counts and direct(*args, *placed) == 0:
                return placed[0] if len(placed) == 1 else placed or None
        return self._call(args, outputs_in_order(self.signature, out), named)

    def _call(self, args: tuple[Any, ...], out: Sequence[Any] | None, named: dict[str, Any]) -> Any:
        """A call that no machine code takes whole: by a plan, or checked array by array."""
        plans = self._plans
        if plans is not None and not named:
            short = plans.ready(args, out)
            if short is not None:
                run, pointers, results = short
                run(pointers)
                return results
        bound = bind(self.signature, args, named, out, self._runtime.device)
        with self._placed(bound) as (runtime, pointers):
            short = self._run(bound.sizes, partial(self._host, runtime, *bound.sizes, *pointers))
        bound.write_back(self.signature)
        if plans is not None and not named and short and not bound.copied:
            plans.learn(args, bound, partial(self._prepared, bound))
            self._learn_direct(bound)
        return _given(bound.results)

    def _run(self, sizes: tuple[int, ...], run: Callable[[], None]) -> bool:
        """Do `run`, the program at these `sizes`, so that signals are answered on the CPU; whether it was no long one.

        A call that is learnt takes less time than to start a thread: long ones are not learnt, and all go this way.
        """
        if not self._on_cpu or sizes in self._short:
            run()
            return True
        if interruptible(partial(_processor_seconds, run), once=True) >= LONG_CALL_SECONDS:
            return False
        if len(self._short) >= MAX_PLANS:
            self._short.clear()
        self._short.add(sizes)
        return True

    def _learn_direct(self, bound: Bound) -> None:
        """Run calls like this one the shortest way from now on, if the target has one."""
        native = getattr(self._runtime, "native", None)
        if native is not None:
            self._native = native(self.signature, bound, self._host)
        learnt = getattr(self._runtime, "direct", None)
        if learnt is not None:
            new = [partial(np.empty, t.shape, a.numpy) for t, a in zip(bound.arrays, self.signature.args, strict=True)
                   if a.access == "out"]  # fmt: skip
            direct = learnt(self.signature, bound, self._host)
            if direct is not None:
                self._direct, self._made = direct, lambda: tuple(x() for x in new)

    def _prepared(self, bound: Bound) -> Run:
        """What runs the program at the sizes of `bound`, given addresses of arrays of its library."""
        prepared, sizes = getattr(self._runtime, "prepared", None), bound.sizes
        if prepared is not None:
            return prepared(self._host, sizes, len(bound.arrays), stream_asker(bound.arrays))
        host, runtime = self._host, self._runtime
        return lambda pointers: host(runtime, *sizes, *pointers)

    def unchecked(self, sizes: tuple[int, ...]) -> Run | None:
        """What runs the program at these `sizes`, given the addresses of all arguments in order, and checks nothing.

        For a caller who knows types, shapes, strides and that nothing overlaps. None unless a checked call at these
        sizes on the CPU was made, and was no long one: such a call is to answer signals.
        """
        if not self._on_cpu or sizes not in self._short:
            return None
        return partial(_run_on, partial(self._host, self._runtime, *sizes))

    def graph(self, *args: Any, out: Sequence[Any] | None = None, **named: Any) -> Any:
        """The launches of such a call as a CUDA graph: `graph()` replays them on the same arrays and gives the results.

            replay = kernel.graph(a, out=(b,))
            replay()                     # b is made of what a holds by now

        A replay costs one launch, however many kernels the program has, and nothing is checked again. The arrays are
        on the GPU and live as long as the graph. The call itself is made once first. Raises what a call raises, and
        TargetError for another target than "cuda".
        """
        graph = getattr(self._runtime, "graph", None)
        if graph is None:
            raise TargetError(f"a graph is of launches on a GPU, and {self.signature.name} was built for {self.target}")
        if copied := bind(self.signature, args, named, out, self._runtime.device).copied:
            raise ValueError(f"a graph is replayed on the arrays themselves, and {min(copied)} is not contiguous")
        results = self(*args, out=out, **named)
        placed = (results,) if len(self.signature.outputs) == 1 else results or ()
        bound = bind(self.signature, args, named, placed if self.signature.outputs else out, self._runtime.device)
        return graph(self._host, bound.sizes, bound, results)

    def synchronize(self) -> None:
        """Wait for all calls so far on the GPU, and raise BoundsError if one had a subscript outside its array.

        Without a GPU a call has raised already, and nothing is done.
        """
        synchronize = getattr(self._runtime, "synchronize", None)
        if synchronize is not None:
            synchronize()

    def as_torch_op(self, name: str, backward: Callable[..., Any] | None = None) -> Any:
        """Register the kernel as an operator of torch, "namespace::name", and give it.

            double = k.as_torch_op("mine::double", backward=lambda gradient, x: 2 * gradient)

        torch.compile, export and autograd see one operation. `backward` takes the gradients of the results, then the
        inputs, and gives the gradient of each input, None where there is none; it is a function of tensors, or a
        kernel, which is registered, too. Without it, a backward pass raises RuntimeError. Inputs that are not
        contiguous are copied. Raises ValueError for a name that is taken or none, and for sizes that no input tells.
        """
        return register_torch_operator(self, name, backward)

    def export(self, folder: str | Path, name: str | None = None, *, checks: bool = True) -> Export:
        """Write the kernel into `folder` for programs without Python: C header, C file, object file, CMake snippet.

            print(kernel.export("build/add", "add"))

        The C function `name` (default: the program's) takes the sizes as int64_t, then the arrays, and returns 0 or a
        code that the header explains. Without `checks` its arguments are not checked. A shared library is linked where
        the system has a C compiler; else `.left_out` says so. The code is for this machine's CPU. Files of these names
        are replaced, all or none. Raises TargetError for another target than "llvm" and for tiles of AMX, ValueError
        for a name that C does not take, CompileError for what the C compiler turns down.
        """
        if self._exporter is None:
            raise TargetError(
                f"{self.signature.name} was built for {self.target}, and export writes kernels for the CPU; "
                'build("llvm") makes one'
            )
        return write(self._exporter(self.signature.name if name is None else name, checks), Path(folder))

    def sizes(self, *args: Any, **named: Any) -> dict[str, int]:
        """The symbolic sizes at which a call with these arguments runs, by name."""
        return call_sizes(self.signature, args, named)

    def time(self, *args: Any, repeats: int = 7, **named: Any) -> float:
        """Median seconds of one run, without checking arguments or copying them to a GPU."""
        bound = bind(self.signature, args, named, None, self._runtime.device)
        with self._placed(bound) as (runtime, pointers):
            short = self._run(bound.sizes, partial(self._host, runtime, *bound.sizes, *pointers))
            run = partial(self._queued(), runtime, *bound.sizes, *pointers)
            seconds = partial(getattr(runtime, "time", _seconds), run)
            return statistics.median(seconds() if short else interruptible(seconds, once=True) for _ in range(repeats))

    def profile(self, *args: Any, repeats: int = 7, **named: Any) -> Any:
        """Time each kernel of a call with these arguments, and set it beside what the model of the machine predicts.

            print(kernel.profile(a, b))

        The result prints as a timeline, a row for each kernel: the stages it computes, when it starts, how long it
        takes, the seconds predicted, the bytes it moves and its share of the roofline; `.rows` has the numbers. Of
        `repeats` calls it is the one with the median time. Arguments are not copied to a GPU in that time. Each kernel
        is started from Python here, which adds about a microsecond between kernels. Raises TargetError for a kernel
        built for "interpret".
        """
        if self._profiler is None:
            raise TargetError(
                f"{self.signature.name} was built for {self.target}, which says what a nest means, not how fast it is; "
                'build("llvm") or build("cuda")'
            )
        bound = bind(self.signature, args, named, None, self._runtime.device)
        with self._placed(bound) as (runtime, pointers):
            recorder = Recorder(runtime)

            queued = self._queued()

            def run(lent: Any) -> None:
                queued(lent, *bound.sizes, *pointers)

            self._run(bound.sizes, partial(self._host, runtime, *bound.sizes, *pointers))
            recordings = sorted((recorder.record(run) for _ in range(repeats)), key=lambda r: r.seconds)
        sizes = dict(zip(self.signature.sizes, bound.sizes, strict=True))
        return self._profiler(sizes, recordings[len(recordings) // 2])

    @contextmanager
    def timer(self, *args: Any, **named: Any) -> Iterator[Callable[[], float]]:
        """Copy arguments to a GPU once, and give a function of the seconds of one run with them.

        On a GPU each run finds none of its memory in the L2 cache. Results of host arrays are written at the end.
        """
        bound = bind(self.signature, args, named, None, self._runtime.device)
        with self._placed(bound) as (runtime, pointers):
            run = partial(self._queued(), runtime, *bound.sizes, *pointers)
            yield partial(getattr(runtime, "cold_time", _seconds), run)

    def _queued(self) -> Callable[..., None]:
        """The host function, waiting for nothing: on a GPU, what tests of subscripts find is raised at a later call."""
        queued = getattr(self._runtime, "queued", None)
        return self._host if queued is None else queued(self._host)

    @contextmanager
    def _placed(self, bound: Bound) -> Iterator[tuple[Any, Sequence[int]]]:
        """What the host function runs on, and where the arguments are for it."""
        if not hasattr(self._runtime, "on"):
            yield self._runtime, [t.pointer for t in bound.arrays]
            return
        runtime = self._runtime.on(stream_of(bound.arrays))
        with runtime.here():
            pointers = runtime.enter(bound, self.signature)
            try:
                yield runtime, pointers
            finally:
                runtime.leave(bound, self.signature, pointers)


def _run_on(program: Callable[..., None], pointers: Sequence[int]) -> None:
    """Run `program` on arrays at these addresses."""
    program(*pointers)


def _given(results: tuple[Any, ...]) -> Any:
    """What a call returns: one array, a tuple of several, or None."""
    return results[0] if len(results) == 1 else results or None


def _processor_seconds(run: Callable[[], None]) -> float:
    """Seconds that this thread's processor is at `run`: other programs do not make it long."""
    start = time.thread_time()
    run()
    return time.thread_time() - start


def _seconds(run: Callable[[], None]) -> float:
    """Seconds of one run: of as many as take a millisecond together, divided."""
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            run()
        elapsed = time.perf_counter() - start
        if elapsed > 1e-3:
            return elapsed / count
        count *= 4
