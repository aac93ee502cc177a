"""Build a kernel from a Schedule for a target: the only file that imports every package.

    Schedule -> lower/pipeline (the table of passes) -> codegen (CUDA C or LLVM IR, and the host function)
             -> runtime (NVRTC and the driver, or LLVM's JIT) -> Kernel

Nothing after the Schedule knows a primitive: what a step does is in the Func. Backends are imported when a target needs
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np

from loopir.codegen.host import host_function, host_source, python_cond, python_index
from loopir.codegen.params import kernels_of, params_of
from loopir.errors import CompileError, LowerError, NanError, TargetError
from loopir.interp.interpret import interpret
from loopir.interp.size_equations import size_equation
from loopir.interp.watch import Watch, Watcher, Write
from loopir.ir.arguments import answer_arguments
from loopir.ir.grammar import Arg, Func, Kernel as KernelNode, Loop, Stmt
from loopir.ir.ops import REGISTRY
from loopir.ir.printer import text
from loopir.ir.recursion import deep
from loopir.ir.traverse.walk import map_body, map_stmts
from loopir.ir.verify.verify import evaluate
from loopir.loading import load
from loopir.lower import pipeline
from loopir.lower.common.insert_bounds_checks import describe_tests, without_reset
from loopir.lower.common.record_faults import fault_sites, in_text_order
from loopir.lower.target import TARGETS, no_target, require_arch
from loopir.machines import Cpu, Machine, cpu_like, machine, nearest
from loopir.runtime.arrays import ArgSpec, Bound, Signature
from loopir.runtime.bounds_report import Checked, Located
from loopir.runtime.call import Kernel
from loopir.runtime.export import Exportable, cpu_tests, hide_symbols, require_free_symbol
from loopir.runtime.recorder import Recording
from loopir.schedule import Schedule
from loopir.schedule.core.find import all_buffers
from loopir.show.cpu_time import nest_costs
from loopir.show.dag import nest_boxes
from loopir.show.estimate import TYPICAL_SIZE, at_sizes, size_of
from loopir.show.predict import Prediction, predict_cpu, predict_gpu
from loopir.show.report import Report, report as made
from loopir.show.timeline import Cost, Profile, cpu_costs, gpu_costs, labels_in, profile
from loopir.show.view import Line, page

__all__ = [
    "Schedule", "buffer_bytes", "build", "caches", "compile_source", "cpu_features", "describe_target", "local_machine",
    "lower", "predict", "resolve_target", "thread_count", "vector_unit",
]  # fmt: skip

Watching = str | Collection[str] | Watcher | None
"""What `watch` may be: the name of a buffer, several, or what is called with each write."""


def _backend(name: str) -> Any:
    """A module of a backend, loaded when a target asks for it; TargetError where a package is missing that it needs."""
    try:
        return load(name)
    except ModuleNotFoundError as error:
        raise TargetError(str(error)) from None


@deep(LowerError)
def build(
    schedule: Schedule,
    target: str = "auto",
    *,
    arch: str | None = None,
    fma: bool = True,
    threads: int | None = None,
    checks: bool = False,
    watch: Watching = None,
) -> Kernel:
    """Compile `schedule` for "cuda", "llvm", "interpret" or "auto" (CUDA if a GPU is there) and give its Kernel.

    `fma` lets a product and a sum be rounded once. `threads` is for "llvm": how many threads run parallel loops
    (default: LOOPIR_NUM_THREADS, or the CPUs there are). `arch` is for "cuda": the architecture, such as "sm_90a"
    (default: the GPU's). `checks` is for "llvm" and "interpret": the first nan that is stored raises NanError, the
    first subscript outside BoundsError, with the statement and the iteration; the nest runs in the order of its text.
    `watch` is for "interpret": buffers whose writes are printed, or a function that is given each write. Raises
    TargetError for a target that is not there or lacks room, LowerError for a schedule that it cannot run.
    """
    func = schedule.func
    target = resolve_target(target)
    _require_debugged(func, target, checks, watch)
    if target == "interpret":
        return _interpreted(func, checks, watch)
    if target == "cuda":
        device = _backend("loopir.runtime.cuda.driver").device()
        gpu = nearest(device.arch) if arch is None else machine(arch)
        return _cuda(func, _lowered(func, target, gpu=gpu), device, gpu.arch, fma)
    if target == "llvm":
        return _llvm(func, _lowered(func, target, checks=checks), fma, threads, checks)
    raise TargetError(
        f"lp.lower knows the target {target!r}, but nothing builds kernels for it; build for cuda or llvm"
    )


@answer_arguments
def lower(schedule: Schedule, target: str, *, show: Callable[[str, Func], None] | None = None) -> tuple[Func, ...]:
    """The Funcs that the emitter of `target` gets: here one, with every kernel in it.

    `show(name, func)` is called after each pass. Raises LowerError for a schedule that `target` cannot run.
    """
    return (pipeline.lower(_func_of("lower", schedule), target, show=show),)


def _lowered(func: Func, target: str, **asked: Any) -> Func:
    """What kernels are made of: `func` lowered, called with the words of its tests filled with 0."""
    return without_reset(pipeline.lower(func, target, **asked), len(func.args))


def _func_of(what: str, schedule: Schedule) -> Func:
    """The nest of the Schedule that `what` is given; TypeError for anything else."""
    if not isinstance(schedule, Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{what} takes a Schedule, as lp.Schedule(C), not a {type(schedule).__name__}")
    return schedule.func


def compile_source(schedule: Schedule, arch: str = "sm_90a", *, fma: bool = True) -> Any:
    """CUDA C and machine code for `arch`, with no GPU in the machine: `.source`, `.cubin`, `.resources`, `.log`.

    `.resources` has, by kernel, the registers of a thread, and bytes of what it spills and of shared memory. Raises
    TargetError without NVRTC or for an `arch` that `lp.machine` does not know, LowerError for a schedule that a GPU
    cannot run, CompileError for what NVRTC turns down.
    """
    gpu = machine(arch)
    module = _backend("loopir.codegen.cuda.emit").emit(_lowered(_func_of("compile_source", schedule), "cuda", gpu=gpu))
    require_arch(module.needs, gpu.arch)
    compiled = _backend("loopir.runtime.cuda.nvrtc").compile(module.source, gpu.arch, fma=fma)
    return replace(compiled, source=_with_registers(compiled))


def _with_registers(compiled: Any) -> str:
    """The source with what a thread of each kernel takes of registers in the comments above kernels."""
    registers = {name: used.registers for name, used in compiled.resources.items()}
    return _backend("loopir.codegen.cuda.launch_comment").with_registers(compiled.source, registers)


def report(schedule: Schedule, arch: str | None = None, **sizes: int) -> Report:
    """What `schedule` costs on a GPU at these sizes, kernel by kernel, and the time predicted; see `Report`.

    `arch` is the GPU's, by default that of `lp.machine()`. Registers are known where NVRTC is installed. ValueError
    names the sizes that are missing.
    """
    if sizes.keys() != set(schedule.func.sizes):
        wanted = ", ".join(f"{n}=4096" for n in schedule.func.sizes)
        raise ValueError(f"a report is of given sizes, here report({wanted})")
    at_sizes(schedule.func, sizes)
    gpu = machine(arch)
    lowered = _lowered(schedule.func, "cuda", gpu=gpu)
    resources: dict[str, Any] = {}
    with suppress(TargetError):
        resources = compile_source(schedule, gpu.arch).resources
    return made(lowered, sizes, resources, gpu)


@answer_arguments
@deep(LowerError)
def predict(
    schedule: Schedule,
    target: str = "auto",
    *,
    arch: str | Machine | None = None,
    sizes: Mapping[str, int] | None = None,
    threads: int | None = None,
) -> Prediction:
    """The price of `schedule` on "cuda" or "llvm", without compiling it: seconds, kernels, bytes; see `Prediction`.

    `arch` is the GPU's, by default that of `lp.machine()`; a size that is not given is taken for 1024. The CPU is this
    machine's, and `threads` how many run parallel loops, as for `build`. Raises LowerError or TargetError for a
    schedule that the target cannot run.
    """
    func = _func_of("predict", schedule)
    given = _sizes_of("predict", func, sizes)
    if resolve_target(target) != "cuda":
        return predict_cpu(func, given, local_cpu(), thread_count(threads))
    gpu = machine(arch)
    return predict_gpu(func, _lowered(func, "cuda", gpu=gpu), given, gpu)


def _sizes_of(what: str, func: Func, sizes: object) -> Mapping[str, int]:
    """`sizes`, by name; TypeError for what is no such thing, ValueError for a name that `func` has no size of."""
    if sizes is None:
        return {}
    known = ", ".join(f'"{n}": 1024' for n in func.sizes)
    if not isinstance(sizes, Mapping):
        raise TypeError(f"{what} with sizes={sizes!r}; they are given by name, as sizes={{{known}}}")
    found = cast("Mapping[str, int]", sizes)
    if odd := [n for n in found if n not in func.sizes]:
        raise ValueError(f"{what}: {func.name} has no size {odd[0]!r}; its sizes are {', '.join(func.sizes) or 'none'}")
    return found


def buffer_bytes(schedule: Schedule, sizes: Mapping[str, int] | None = None) -> dict[str, float]:
    """The bytes of each buffer of `schedule`, by name; a size that is not given is taken for 1024."""
    given = at_sizes(schedule.func, _sizes_of("buffer_bytes", schedule.func, sizes))
    return {b.name: size_of(b, given) for b in all_buffers(schedule.func)}


def view(schedule: Schedule, path: str | Path | None = None, target: str = "cuda") -> Path:
    """Write `schedule` beside the code it becomes on `target`, "cuda" or "llvm", as one HTML page, and give its path.

    On "cuda" machine code stands there, too, where NVRTC and nvdisasm are installed; else the page says what is not.
    Without a `path`, it is named after the program, in the current directory.
    """
    written = Path(path) if path is not None else Path(f"{schedule.func.name}.html")
    lowered = _lowered(schedule.func, target)
    emitter = _backend(f"loopir.codegen.{target}.emit")
    if target == "cuda":
        module = emitter.emit(lowered)
        code, left_out = _machine_code(module)
        sides = [("CUDA C", list(zip(module.source.splitlines(), module.loops, strict=True))), *code]
    else:
        module, left_out = emitter.emit(lowered), ""
        sides = [("LLVM IR", list(zip(module.source.splitlines(), module.loops, strict=True)))]
    boxes = nest_boxes(schedule.func, _nest_times(schedule.func, lowered, target))
    written.write_text(page(schedule, sides, left_out, boxes), encoding="utf-8")
    return written


def _nest_times(func: Func, lowered: Func, target: str) -> list[tuple[frozenset[str], float]]:
    """Predicted seconds of each kernel on a GPU, of each nest on a CPU, with the labels of its statements."""
    if target != "cuda":
        return [(c.labels, c.seconds) for c in nest_costs(func, {}, local_cpu(), thread_count())]
    kernels = kernels_of(lowered)
    costs = gpu_costs(kernels, made(lowered, dict.fromkeys(func.sizes, TYPICAL_SIZE), {}, machine()))
    return [(frozenset(labels_in(k)), c.seconds) for k, c in zip(kernels, costs, strict=True) if c is not None]


def _machine_code(module: Any) -> tuple[list[tuple[str, list[Line]]], str]:
    """The SASS of a module of CUDA C, compiled for sm_90a; or nothing, and why."""
    try:
        compiled = _backend("loopir.runtime.cuda.nvrtc").compile(module.source, "sm_90a", lines=True)
        code = _backend("loopir.runtime.cuda.disassembler").disassemble(compiled.cubin)
    except (TargetError, CompileError) as error:
        return [], f"Left out: SASS. {error}"
    return [("SASS (sm_90a)", [(line, None if at is None else module.loops[at - 1]) for line, at in code])], ""


# ---------------------------------------------------------------- targets


def resolve_target(target: str) -> str:
    """`target`, with "auto" settled: "cuda" if a GPU is there, else "llvm"."""
    if target == "auto":
        try:
            _backend("loopir.runtime.cuda.driver").device()
        except TargetError:
            return "llvm"
        return "cuda"
    if target != "interpret" and target not in TARGETS:
        raise no_target(target)
    return target


def describe_target(target: str) -> str:
    """What runs `target` here; TargetError, with what is missing, if nothing does."""
    if target == "cuda":
        return _backend("loopir.runtime.cuda.driver").device().description
    return f"{_backend('loopir.runtime.llvm_jit').cpu()}, {thread_count()} threads"


def local_machine() -> Machine | None:
    """The record of the GPU in this machine, or of the last one before it that there is a record of; None without a
    GPU."""
    try:
        return nearest(_backend("loopir.runtime.cuda.driver").device().arch)
    except TargetError:
        return None


def local_cpu() -> Cpu:
    """The record of this machine's CPU: as it was measured on one of its kind, with the caches that this one has."""
    return cpu_like(vector_unit()[0], caches(), thread_count())


def vector_unit() -> tuple[int, int]:
    """The bytes of a vector register of this machine's CPU, and how many registers there are: what a tile may take."""
    return _backend("loopir.runtime.llvm_jit").vector_unit()


def cpu_features() -> frozenset[str]:
    """What this machine's CPU has, as LLVM calls it, such as "avx512vnni": what an instruction may be chosen by."""
    return _backend("loopir.runtime.llvm_jit").cpu_features()


def caches() -> tuple[int, int, int]:
    """The bytes of this machine's caches for data, first to third level, by which a tile may be chosen."""
    return _backend("loopir.runtime.llvm_jit").caches()


def thread_count(threads: int | None = None) -> int:
    """How many threads run parallel loops on this machine: `threads`, else LOOPIR_NUM_THREADS, else its CPUs."""
    return _backend("loopir.runtime.cpu.thread_pool").thread_count(threads)


def _cuda(func: Func, lowered: Func, device: Any, arch: str, fma: bool) -> Kernel:
    emit = _backend("loopir.codegen.cuda.emit").emit
    compile_ = partial(_backend("loopir.runtime.cuda.nvrtc").compile, arch=arch, fma=fma)
    module = emit(lowered)
    require_arch(module.needs, arch)
    compiled = compile_(module.source)

    def other(long: bool, scalar: bool) -> tuple[bytes, Sequence[Any]]:
        text = emit(lowered, long=long, scalar=scalar)
        return compile_(text.source).cubin, text.kernels

    source = host_source(lowered, partial(_launch, module.kernels))
    runtime = _backend("loopir.runtime.cuda.launch").CudaRuntime(device, compiled.cubin, module.kernels, other)
    return Kernel(_signature(func), _host(func, lowered, source), runtime, source=_with_registers(compiled),
                  resources=compiled.resources, target="cuda", host_source=source,
                  profiler=partial(_gpu_profile, func, lowered, compiled.resources, arch))  # fmt: skip


def _gpu_profile(
    func: Func, lowered: Func, resources: Any, arch: str, sizes: Mapping[str, int], recording: Recording
) -> Profile:
    """The times of a recorded call beside the report of the program at its sizes."""
    found, kernels = made(lowered, sizes, resources, machine(arch)), kernels_of(lowered)
    costs: list[Cost | None] = gpu_costs(kernels, found)
    return profile(func, kernels, sizes, costs, found.gpu.name, recording.spans, recording.seconds)


def _launch(kernels: Sequence[Any], n: int, _: KernelNode) -> list[str]:
    """How the host launches kernel `n`: its grid, its arguments, and whether its indices fit ints if that is open."""
    k = kernels[n]
    grid = "".join(f"{python_index(x)}, " for x in k.grid)
    arguments = "".join(f"{name}, " for _, name in k.params)
    for m, info in enumerate(k.maps):
        sizes = "".join(f"{python_index(x)}, " for x in (*info.shape, *info.strides))
        arguments += f"lp_rt.map({n}, {m}, {info.buffer}, ({sizes})), "
    within = "".join(f", lp_max({', '.join(map(python_index, k.within))}, 0) < {1 << 31}" if k.within else "")
    return [f"lp_rt.launch({n}, ({grid}), ({arguments}){within})"]


def _require_debugged(func: Func, target: str, checks: bool, watch: Watching) -> None:
    """Refuse `checks` and `watch` where they are not to be had, and names that no buffer has."""
    if watch is not None and target != "interpret":
        raise TargetError(
            f'watch tells what the interpreter writes, and this is {target}; build("interpret", watch=...)'
        )
    if checks and target == "cuda":
        raise TargetError('checks are made on the CPU, and this is cuda; build("llvm", checks=True)')
    if watch is not None and not callable(watch):
        if not isinstance(watch, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f'watch={watch!r}; it is the name of a buffer, as watch="C", several, or a function')
        names = [b.name for b in all_buffers(func)]
        for name in [watch] if isinstance(watch, str) else watch:
            if name not in names:
                raise ValueError(f"watch: there is no buffer {name!r} in {func.name}; there are {', '.join(names)}")


def _llvm(func: Func, lowered: Func, fma: bool, threads: int | None, checks: bool) -> Kernel:
    jit = _backend("loopir.runtime.llvm_jit")
    module = _backend("loopir.codegen.llvm.emit").emit(lowered, fma=fma, vector_functions=_vector_functions())
    library = jit.Library(module.source, left=module.left)

    def spell(n: int, kernel: KernelNode) -> list[str]:
        arguments = f"({''.join(f'{name}, ' for name in params_of(kernel).names)})"
        first = kernel.body[0]
        if isinstance(first, Loop) and first.kind == "parallel":
            return [f"lp_rt.parallel({n}, {python_index(first.extent)}, {arguments})"]
        return [f"lp_rt.call({n}, {arguments})"]

    source = host_source(lowered, spell)
    entries = [(k.name, len(k.params.integers), len(k.params.buffers), k.root is not None) for k in module.kernels]
    shared = _backend("loopir.runtime.cpu.thread_pool").pool(threads)
    runtime = _backend("loopir.runtime.cpu.runtime").CpuRuntime(library, entries, shared)
    resources = {"kernels": len(kernels_of(lowered)), "threads": shared.count, "cpu": jit.cpu()}
    host = (_located_host if checks else _host)(func, lowered, source)
    plain = _lowered(func, "llvm") if checks else lowered
    return Kernel(_signature(func), host, runtime, source=library.source, resources=resources,
                  target="llvm", host_source=source, exporter=partial(_exportable, func, plain, fma),
                  profiler=partial(_cpu_profile, func, lowered, shared.count))  # fmt: skip


@cache
def _vector_functions() -> frozenset[str]:
    """The symbols of the functions of vectors that kernels of this process may call; what is exported calls none."""
    jit, names = _backend("loopir.runtime.llvm_jit"), _backend("loopir.codegen.llvm.vector_functions")
    called = [fn for fn in REGISTRY.values() if fn.llvm.get("float", "").startswith("vector-call ")]
    return frozenset(
        symbol
        for fn in called
        for size, symbol in names.vector_symbols(fn.llvm["float"].partition(" ")[2], fn.arity)
        if jit.has_vector_function(size, symbol)
    )


def _cpu_profile(func: Func, lowered: Func, threads: int, sizes: Mapping[str, int], recording: Recording) -> Profile:
    """The times of a recorded call beside the price of each nest at its sizes."""
    cpu, kernels = local_cpu(), kernels_of(lowered)
    costs = cpu_costs(kernels, nest_costs(func, sizes, cpu, threads))
    name = f"{cpu.name}, {threads} thread{'s' * (threads > 1)}"
    return profile(func, kernels, sizes, costs, name, recording.spans, recording.seconds)


@deep(LowerError)
def _exportable(func: Func, lowered: Func, fma: bool, name: str, checks: bool) -> Exportable:
    """What `Kernel.export` writes: the kernels under names of their own, and the host function in C."""
    c_host = _backend("loopir.codegen.c_host")
    if not c_host.c_identifier(name):
        raise ValueError(f"{name!r} cannot name a C function; give another by name=, of letters, digits and _")
    require_free_symbol(name)
    numbers = count()

    def renamed(s: Stmt) -> Stmt:
        if isinstance(s, KernelNode):
            return replace(s, name=c_host.kernel_symbol(name, next(numbers)))
        return map_stmts(s, renamed)

    module = _backend("loopir.codegen.llvm.emit").emit(replace(lowered, body=map_body(lowered.body, renamed)), fma=fma)
    jit = _backend("loopir.runtime.llvm_jit")
    code = jit.object_code(hide_symbols(module.source), left=module.left)
    source, header = c_host.c_host(func, lowered, name, checks=checks, cpu_tests=cpu_tests(jit.cpu_features()))
    return Exportable(name, code, source, f"// For the CPU {jit.cpu()} and those with its instructions.\n{header}")


def _host(func: Func, lowered: Func, source: str) -> Callable[..., None]:
    """The host function; where lowering put tests of subscripts, one that raises what they tell."""
    host = host_function(source)
    words = lowered.args[len(func.args) :]
    return Checked(host, func.name, describe_tests(lowered, words[0].buffer)) if words else host


def _located_host(func: Func, lowered: Func, source: str) -> Callable[..., None]:
    """The host function of a program that was lowered with checks: one that raises what was recorded first."""
    sites = fault_sites(in_text_order(func))
    faults = lowered.args[len(func.args)].buffer
    named = replace(func, params=(*func.params, Arg(faults, "inout")))
    described = [(s.description, s.loops) for s in sites]
    values = {n for n, s in enumerate(sites, 1) if s.of is None}
    return Located(_host(named, lowered, source), func.name, described, values, evaluate(faults.shape[0], {}))


class _Interpreter:
    """The interpreter as a target: arrays are read and written by NumPy."""

    device = "cpu"
    takes_addresses = False
    here = staticmethod(nullcontext)

    def on(self, handle: int) -> _Interpreter:
        return self

    def enter(self, bound: Bound, signature: Signature) -> list[Any]:
        return [np.asarray(t.array) for t in bound.arrays]

    def leave(self, bound: Bound, signature: Signature, pointers: Any) -> None:
        return None

    def time(self, run: Callable[[], None]) -> float:
        raise TargetError("the interpreter says what a nest means, not how fast it is; build for llvm or cuda")


def _interpreted(func: Func, checks: bool, watch: Watching) -> Kernel:
    names = watch if watch is None or callable(watch) else {watch} if isinstance(watch, str) else {*watch}
    show: Watcher = watch if callable(watch) else print

    def seen(w: Write) -> None:
        if watch is not None and (callable(names) or w.buffer in (names or ())):
            show(w)
        if checks and w.value != w.value:
            at = ", ".join(f"{v}={x}" for v, x in w.loops.items())
            element = f"{w.buffer}[{', '.join(map(str, w.at))}]"
            where = f" (at {at})" if at else ""
            raise NanError(f"{func.name}: statement {w.statement} stores nan in {element}{where}")

    watching = Watch(seen) if checks or watch is not None else None

    def host(_: _Interpreter, *values: Any) -> None:
        count = len(func.sizes)
        arrays = {a.buffer.name: x for a, x in zip(func.args, values[count:], strict=True)}
        given = {a.buffer.name: arrays[a.buffer.name] for a in func.args if a.access != "out"}
        for name, result in interpret(
            func, given, dict(zip(func.sizes, values[:count], strict=True)), watch=watching
        ).items():
            arrays[name][...] = result

    return Kernel(_signature(func), host, _Interpreter(), source=text(func), resources={}, target="interpret")


def _signature(func: Func) -> Signature:
    args = tuple(
        ArgSpec(b.name, b.dtype.name, tuple(map(python_index, b.shape)), a.access, tuple(map(size_equation, b.shape)))
        for a in func.args
        for b in (a.buffer,)
    )
    return Signature(func.name, func.sizes, args, tuple((python_cond(c), text(c)) for c in func.assumes))
