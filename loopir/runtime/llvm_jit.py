"""LLVM IR to machine code in this process, for this machine's CPU."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from loopir.errors import CompileError, TargetError
from loopir.loading import at_fork
from loopir.runtime import cache
from loopir.runtime.amx_permission import permitted
from loopir.runtime.interruptible import interruptible

_lock: Any = ffi.lib._lock  # pyright: ignore[reportPrivateUsage]
"""llvmlite's own lock, which each of its calls takes, held for as long as a kernel is made.

One lock cannot be taken in two orders. It is reentrant, so that a signal handler or a finaliser that interrupts a build
can build: between two calls LLVM's state is whole. A fork waits for it: no child inherits LLVM half way through.
"""
at_fork(_lock)
T = TypeVar("T")
SELECTS = "-x86-cmov-converter=false"
"""Leaves selects, minima and maxima of numbers what they are, where LLVM would guess that a branch on them is predicted
well: on the data of array programs none is. LLVM has the option for the process as a whole alone."""
CHECKS = "-hoist-runtime-checks=false"
"""Asks in each row whether what it stores is read there, where LLVM would ask once of all rows together: of a matrix
that is updated in place these always meet, though no row does, and none is in vectors then."""
PRESSURE = "-misched-regpressure="
"""Has LLVM order instructions so that few registers are live. Where there are more constants than registers, as in the
polynomials of a function, it then takes one vector after another, each step of which waits for the one before."""
VECTOR_LIBRARY = "libmvec.so.1"
"""Of the GNU C library on x86-64."""
_ready = False


def _initialise() -> None:
    global _ready
    if not _ready:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()  # an instruction's own text may be one of assembly
        if platform.machine().lower() in ("x86_64", "amd64"):
            llvm.set_option("loopir", SELECTS)
        llvm.set_option("loopir", CHECKS)
        _ready = True


def cpu() -> str:
    """The host's CPU, as LLVM calls it."""
    _initialise()
    return llvm.get_host_cpu_name()


def vector_unit() -> tuple[int, int]:
    """The bytes of a vector register of the host's CPU, and how many of them there are."""
    _initialise()
    has = llvm.get_host_cpu_features()
    if has.get("avx512f"):
        return 64, 32
    if has.get("avx"):
        return 32, 16
    return 16, 32 if has.get("neon") else 16


def cpu_features() -> frozenset[str]:
    """What the host's CPU has, as LLVM calls it, such as "avx2" and "avx512vnni", and this process may use."""
    _initialise()
    found = frozenset(name for name, has in llvm.get_host_cpu_features().items() if has)
    if "amx-tile" in found and not permitted():
        return frozenset(name for name in found if not name.startswith("amx-"))
    return found


@lru_cache(maxsize=1)
def vector_library() -> Any:
    """The C library's functions of vectors, whose symbols kernels may call from now on; None where there is none."""
    with suppress(OSError, RuntimeError), _lock:
        llvm.load_library_permanently(VECTOR_LIBRARY)
        return ctypes.CDLL(VECTOR_LIBRARY)
    return None


def has_vector_function(size: int, symbol: str) -> bool:
    """Whether kernels may call `symbol`, a function of vectors of so many bytes."""
    return size <= vector_unit()[0] and hasattr(vector_library(), symbol)


_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_USUAL: tuple[int, ...] = (32 << 10, 512 << 10, 32 << 20)


@lru_cache(maxsize=1)
def caches() -> tuple[int, int, int]:
    """The bytes of the host's caches for data, first to third level; where the system does not tell, usual ones."""
    found = dict(enumerate(_USUAL, 1))
    for index in _CACHES.glob("index*"):
        with suppress(OSError, ValueError, KeyError):
            if (index / "type").read_text().strip() != "Instruction":
                size = (index / "size").read_text().strip()
                found[int((index / "level").read_text())] = int(size[:-1]) << {"K": 10, "M": 20}[size[-1]]
    return found[1], found[2], found[3]


class Library:
    """Compiled kernels, from the cache if they were compiled before.

    `.source` is the IR after optimisation, `.assembly` what became of it. Unless something is `left` to make faster,
    LLVM's passes for that are not run.
    """

    def __init__(self, source: str, *, left: bool = True) -> None:
        with _lock:
            _initialise()
            if TILES in source:
                _require_tiles()
            name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
            target = llvm.Target.from_default_triple()
            self._machine = target.create_target_machine(cpu=name, features=features, opt=3, jit=True)
        entry = cache.key("object", source, name, features, str(llvm.llvm_version_info), _passes(left))
        kept = cache.load(entry) or _outside_lock(partial(_compiled_entry, entry, source, self._machine, left))
        text, code = kept[_WORD:][: (size := int.from_bytes(kept[:_WORD], "little"))], kept[_WORD + size :]
        self.source = text.decode()
        with _lock:
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), self._machine)
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

    @property
    def assembly(self) -> str:
        """The machine code, as text."""
        return _outside_lock(self._emit_assembly)

    def _emit_assembly(self) -> str:
        with _lock, _instruction_order(self.source):
            return self._machine.emit_assembly(llvm.parse_assembly(self.source))

    def address(self, name: str) -> int:
        """Where the function `name` is; CompileError where there is none, as a call of address 0 ends the process."""
        with _lock:
            at: int = self._engine.get_function_address(name)
        if not at:
            raise CompileError(f"the machine code has no function {name!r}; empty the compile cache: {cache.CLEAR}")
        return at

    def bind(self, name: str, result: Any, *args: Any) -> Any:
        """The function `name`, called with ctypes' types `args` and without the interpreter's lock."""
        return ctypes.CFUNCTYPE(result, *args)(self.address(name))


def object_code(source: str, *, left: bool = True) -> bytes:
    """An object file of the functions in `source` for this machine's CPU, to be linked into programs of others.

    It is position-independent. TargetError for tiles of AMX, which a process has to be permitted to use first.
    """
    if TILES in source:
        raise TargetError(
            "tiles of AMX cannot be exported: a process has to ask the system for them; take a schedule without"
        )
    with _lock:
        _initialise()
        name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=name, features=features, opt=3, reloc="pic", codemodel="default"
        )
    entry = cache.key("exported", source, name, features, str(llvm.llvm_version_info), _passes(left))
    compiled = cache.load(entry) or _outside_lock(partial(_compiled_entry, entry, source, machine, left))
    return compiled[_WORD + int.from_bytes(compiled[:_WORD], "little") :]


_WORD = 8
TILES = "llvm.x86.ldtilecfg"
"""What a kernel with tiles of AMX begins with."""
_X86_INTRINSIC = re.compile(r"@\"?llvm\.x86\.((?:sse2|avx2|avx512|avx512bf16)\.[a-z0-9.]+|ldtilecfg|tdp\w+)")
_NEEDED = (
    (re.compile(r"avx512\.vpdp\w+\.512"), ("avx512vnni",)),
    (re.compile(r"avx512\.vpdp"), ("avx512vnni", "avx512vl"), ("avxvnni",)),
    (re.compile(r"avx2\.vpdpb"), ("avxvnniint8",)),
    (re.compile(r"avx512bf16\.\w+\.512"), ("avx512bf16",)),
    (re.compile(r"avx512bf16\."), ("avx512bf16", "avx512vl")),
    (re.compile(r"avx512\."), ("avx512bw",)),
    (re.compile(r"avx2\."), ("avx2",)),
    (re.compile(r"ldtilecfg"), ("amx-tile",)),
    (re.compile(r"tdpbf16ps"), ("amx-bf16",)),
    (re.compile(r"tdpb"), ("amx-int8",)),
    (re.compile(r"sse2\."), ("sse2",)),
)
"""By what an instruction of x86 is called the features that a CPU needs for it, or others; the first that fits."""


def _require_tiles() -> None:
    """TargetError where tiles are there, and this process may not use them: its first one would end it."""
    if llvm.get_host_cpu_features().get("amx-tile") and not permitted():
        raise TargetError("the system does not let this process use tiles (amx-tile); build another schedule")


_OWN = re.compile(r"(?m)^; instruction (\w+)(?: needs (.*))?$")
"""How `loopir.codegen.llvm.instruction_text` heads the function of an instruction that is spelt in LLVM's language."""


def _require_features(source: str) -> None:
    """TargetError for an instruction that this CPU has not, on which LLVM would end the process."""
    has = cpu_features()
    for name, needs in _OWN.findall(source):
        lacks = [x for x in needs.split() if x not in has]
        known = llvm.get_host_cpu_features()
        if odd := next((x for x in lacks if x not in known), None):
            near = get_close_matches(odd, known, n=3)
            raise TargetError(
                f"the instruction {name} needs {odd!r}, which is no feature of a CPU that LLVM knows"
                + (f"; did you mean {' or '.join(near)}?" if near else "; lp.cpu_features() has those of this one")
            )
        if lacks:
            raise TargetError(f"the instruction {name} needs {lacks[0]}, which this CPU ({cpu()}) has not")
    for asked in sorted(set(_X86_INTRINSIC.findall(source))):
        needed = next(ways for called, *ways in _NEEDED if called.match(asked))
        lacks = [next((x for x in way if x not in has), None) for way in needed]
        if all(lacks):
            raise TargetError(f"an instruction of {lacks[0]} is asked for, which this CPU ({cpu()}) has not")


TILE_PASSES = ("simplify_cfg", "sroa", "instruction_combine")
"""What is run where loops are as they are to be: tiles get their registers, and indices their shortest form."""


def _passes(left: bool) -> str:
    """The key of a compilation among those of one source."""
    return f"{'3' if left else ' '.join(TILE_PASSES)}, lone lanes, {SELECTS}, {CHECKS}, {PRESSURE}"


def _outside_lock(work: Callable[[], T]) -> T:
    """What `work`, which takes LLVM's lock, gives, while signals are answered.

    Who interrupts a call of LLVM in this thread, as a handler and a finaliser do, has the lock and works in its thread.
    """
    return work() if _lock._lock._is_owned() else interruptible(work)


def _compiled_entry(entry: str, source: str, machine: Any, left: bool) -> bytes:
    """`_compiled`, kept in the cache also where nobody waits for it any more; taken from there if it is by now."""
    with _lock:
        kept = cache.load(entry) or _compiled(source, machine, left)
    cache.store(entry, kept)
    return kept


def _compiled(source: str, machine: Any, left: bool, *, tried: bool = False) -> bytes:
    """The IR after optimisation, its length in bytes before it, and the object code after it."""
    _require_features(source)
    if (own := _OWN.findall(source)) and not tried:
        _try_apart(source, left, [name for name, _ in own])
    try:
        module = llvm.parse_assembly(source)
        module.triple = llvm.get_process_triple()
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"LLVM refuses the emitted code: {error}", source=source, log=str(error)) from None
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager() if left else llvm.create_new_module_pass_manager()
    for name in () if left else (*(("always_inliner",) if _OWN.search(source) else ()), *TILE_PASSES):
        getattr(passes, f"add_{name}_pass")()
    try:
        passes.run(module, builder)
    finally:
        _dispose(passes)
    text = str(module)
    told = lone_lanes(text)
    if told != text:
        module = llvm.parse_assembly(told)
    text = told.encode()
    with _instruction_order(told):
        return len(text).to_bytes(_WORD, "little") + text + machine.emit_object(module)


_CONSTANT = re.compile(r"splat \((?:float|double) [^)]*\)")
_VECTOR_PHI = re.compile(r"= phi <\d+ x ")


@contextmanager
def _instruction_order(text: str) -> Iterator[None]:
    """Have instructions ordered by their latencies alone where vectors have more constants than there are registers,
    which are loaded where they are used in any order, and no loop keeps sums in vectors, for which registers are."""
    apart = not _VECTOR_PHI.search(text) and len({*_CONSTANT.findall(text)}) > vector_unit()[1]
    if apart:
        llvm.set_option("loopir", f"{PRESSURE}false")
    try:
        yield
    finally:
        if apart:
            llvm.set_option("loopir", f"{PRESSURE}true")


_TRIAL = "import sys; sys.path[:] = sys.argv[2:]; from loopir.runtime import llvm_jit; llvm_jit.trial(sys.argv[1])"
"""What a process is started with that compiles a text of somebody else's."""


def trial(left: str) -> None:
    """Compile the IR on standard input; if LLVM does not end this process, it does not end one that does it again."""
    _initialise()
    name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=name, features=features, opt=3, jit=True)
    try:
        _compiled(sys.stdin.read(), machine, left == "left", tried=True)
    except CompileError as error:
        sys.exit(error.log)


def _try_apart(source: str, left: bool, names: list[str]) -> None:
    """CompileError if LLVM cannot compile the texts of the instructions `names`, for which it may end its process."""
    if not sys.executable:
        return
    command = [sys.executable, "-c", _TRIAL, "left" if left else "", *sys.path]
    run = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if run.returncode:
        told = run.stderr.strip().splitlines() or [f"its process ended with {run.returncode}"]
        first = next((x for x in told if "error: " in x), told[0])
        raise CompileError(
            f"LLVM cannot compile the text of {' or '.join(names)}: {first}", source=source, log="\n".join(told)
        )


def _dispose(passes: Any) -> None:
    """Free a pass manager.

    In llvmlite up to 0.50 `close` does nothing: `_dispose` of its first base class hides that of the second.
    """
    if type(passes)._dispose is ffi.ObjectRef._dispose:
        ffi.lib.LLVMPY_DisposeNewModulePassManger(passes)
        passes.detach()
    else:
        passes.close()


_MASKED = re.compile(
    r"(?:tail )?call void @llvm\.masked\.store\.v\d+i(\d+)\.p0\((<\d+ x i\d+>) (\S+|<.*>|splat \(.*?\)), "
    r"ptr (?:align (\d+) )?(\S+), <\d+ x i1> <([^>]*)>\).*"
)
_LANE = "i1 true"


def lone_lanes(text: str) -> str:
    """IR in which a store of vectors that is known to be of one lane is one of that element.

    Of an element that was cut to fewer bits, LLVM (22.1) stores all bits on AVX-512, and so over the elements behind.
    No name in our IR has a `$`.
    """
    count = 0

    def single(found: re.Match[str]) -> str:
        nonlocal count
        bits, kind, value, align, address, mask = found.groups()
        lanes = mask.split(", ")
        if lanes.count(_LANE) != 1:
            return found[0]
        count += 1
        n, least = lanes.index(_LANE), min(int(align or 1), int(bits) // 8)
        return (
            f"%lane${count} = extractelement {kind} {value}, i64 {n}\n"
            f"  %lane${count}.at = getelementptr i{bits}, ptr {address}, i64 {n}\n"
            f"  store i{bits} %lane${count}, ptr %lane${count}.at, align {least}"
        )

    return _MASKED.sub(single, text) if "@llvm.masked.store." in text else text
