"""CUDA C to machine code by NVRTC, for one architecture, with no GPU needed; and what the assembler reports of it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from loopir.errors import CompileError, TargetError
from loopir.requirements import install_extra
from loopir.runtime import cache
from loopir.runtime.interruptible import interruptible


@dataclass(frozen=True, slots=True)
class Resources:
    """What ptxas gives a kernel: registers a thread; bytes of spills, stack, shared and constant memory."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int
    constant: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """CUDA C, the machine code for `arch`, what the compiler said, and each kernel's resources by name."""

    source: str
    arch: str
    cubin: bytes
    log: str
    resources: dict[str, Resources]


def compile(source: str, arch: str = "sm_90a", *, fma: bool = True, lines: bool = False) -> Compiled:
    """Compile `source` straight to machine code for `arch`. Division and square roots are IEEE; nothing is fast-math.

    With `lines`, the machine code tells the lines of the source that it came from; it is the same code.
    Raises CompileError with the source and NVRTC's log where it is turned down, or where ptxas serialises or ignores
    what it was told (messages C75xx), TargetError where NVRTC is not installed.
    """
    options = [f"--gpu-architecture={arch}", f"--fmad={'true' if fma else 'false'}", "--ptxas-options=-v", "-std=c++17"]
    options += ["--generate-line-info"] if lines else []
    nvrtc, made_by = _nvrtc(), version()
    if made_by >= (12, 9):  # what NVRTC's own cache gives back comes without ptxas' report and its warnings
        options.append("--no-cache")
    entry = cache.key("cubin", source, *options, str(made_by), "1")
    kept = cache.load(entry)
    if kept is not None:
        head, _, cubin = kept.partition(b"\n")
        try:
            facts = json.loads(head)
            resources = {k: Resources(**v) for k, v in facts["resources"].items()}
            return Compiled(source, arch, cubin, facts["log"], resources)
        except (ValueError, TypeError, KeyError):
            pass
    return interruptible(lambda: _compiled_entry(entry, _compile(nvrtc, source, arch, options)))


def _compiled_entry(entry: str, compiled: Compiled) -> Compiled:
    """`compiled`, kept in the cache."""
    facts = {"log": compiled.log, "resources": {k: asdict(v) for k, v in compiled.resources.items()}}
    cache.store(entry, json.dumps(facts).encode() + b"\n" + compiled.cubin)
    return compiled


def version() -> tuple[int, int]:
    """NVRTC's version; TargetError where it is not installed."""
    nvrtc = _nvrtc()
    try:
        return _check(nvrtc, nvrtc.nvrtcVersion())
    except RuntimeError as error:  # the shared library is not to be found
        raise TargetError(f"NVRTC cannot be loaded ({error}); {install_extra('cuda')}") from None


def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError as error:
        raise TargetError(
            f"CUDA C is compiled by NVRTC, which is not here ({error}); {install_extra('cuda')}"
        ) from None
    return nvrtc


def _check(nvrtc: Any, result: tuple[Any, ...]) -> Any:
    """The values of an NVRTC call; CompileError if it failed."""
    error, *values = result
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC: {error.name}")
    return values[0] if len(values) == 1 else tuple(values)


def _compile(nvrtc: Any, source: str, arch: str, options: list[str]) -> Compiled:
    try:
        program = _check(nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), b"loopir.cu", 0, [], []))
    except RuntimeError as error:  # the shared library is not to be found
        raise TargetError(f"NVRTC cannot be loaded ({error}); {install_extra('cuda')}") from None
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        size = _check(nvrtc, nvrtc.nvrtcGetProgramLogSize(program))
        text = bytes(size)  # its own memory, which is written to; b" " * 1 is an object that the whole process shares
        _check(nvrtc, nvrtc.nvrtcGetProgramLog(program, text))
        log = text.rstrip(b"\0 ").decode(errors="replace")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(f"NVRTC turns the emitted source down for {arch}:\n{log}", source=source, log=log)
        if ignored := re.findall(r".*C75\d\d.*", log):
            raise CompileError("ptxas ignored directives of the source:\n" + "\n".join(ignored), source=source, log=log)
        cubin = bytes(_check(nvrtc, nvrtc.nvrtcGetCUBINSize(program)))
        _check(nvrtc, nvrtc.nvrtcGetCUBIN(program, cubin))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return Compiled(source, arch, cubin, log, _resources(log))


def _resources(log: str) -> dict[str, Resources]:
    """ptxas' report, by kernel."""
    out: dict[str, Resources] = {}
    for part in re.split(r"Compiling entry function '", log)[1:]:
        name = part.partition("'")[0]

        def number(pattern: str, part: str = part) -> int:
            found = re.search(pattern, part)
            return int(found.group(1)) if found else 0

        out[name] = Resources(
            number(r"Used (\d+) registers"), number(r"(\d+) bytes spill stores"), number(r"(\d+) bytes spill loads"),
            number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes smem"), number(r"(\d+) bytes cmem"),
        )  # fmt: skip
    return out
