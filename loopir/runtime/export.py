"""Write a compiled kernel into a folder for programs without Python: C header, C file, object file, shared library.

The object file has the kernels; the C file has the function that is called, with its checks and its intermediates. The
shared library is both, linked by the system's C compiler where there is one.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from loopir.errors import CompileError

COMPILERS = ("cc", "gcc", "clang")
TESTED_FEATURES = ("avx", "avx2", "fma", "bmi2", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni")
"""What `__builtin_cpu_supports` of every compiler knows of what LLVM may use."""


@dataclass(frozen=True, slots=True)
class Exportable:
    """A kernel as an object file and C text."""

    name: str
    code: bytes
    source: str
    header: str


@dataclass(frozen=True, slots=True)
class Export:
    """The files that `Kernel.export` wrote, and a sentence on what it left out, if anything."""

    header: Path
    source: Path
    object: Path
    cmake: Path
    library: Path | None
    left_out: str = ""

    def __str__(self) -> str:
        files = [self.header, self.source, self.object, self.cmake, *([self.library] if self.library else [])]
        return "\n".join([*map(str, files), *([self.left_out] if self.left_out else [])])


def c_compiler() -> str | None:
    """The system's C compiler; None if there is none."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)


def require_free_symbol(name: str) -> None:
    """ValueError for a name that the C library has: the kernels, or the program, would call the wrong function."""
    if hasattr(ctypes.CDLL(None), name):
        raise ValueError(f"{name!r} is a function of the C library or of the system; give another by name=")


def hide_symbols(source: str) -> str:
    """LLVM IR whose functions are seen inside the library alone, and those for our thread pool nowhere."""
    source = re.sub(r"^define (?=\w+ @\S+\.(?:part|shared)\()", "define internal ", source, flags=re.MULTILINE)
    return re.sub(r"^define (?!internal )", "define hidden ", source, flags=re.MULTILINE)


def cpu_tests(features: Collection[str]) -> list[str]:
    """C conditions that hold on an x86 CPU with these features; a compiler for another CPU does not link x86 code."""
    return [f'__builtin_cpu_supports("{x}")' for x in TESTED_FEATURES if x in features]


def cmake_snippet(name: str) -> str:
    """A target `loopir_<name>` for a program that includes this file."""
    return f"""\
# include(<this file>), then target_link_libraries(program PRIVATE loopir_{name})
enable_language(C)
add_library(loopir_{name} STATIC "${{CMAKE_CURRENT_LIST_DIR}}/{name}.c" "${{CMAKE_CURRENT_LIST_DIR}}/{name}.o")
set_target_properties(loopir_{name} PROPERTIES C_STANDARD 11 POSITION_INDEPENDENT_CODE ON)
target_include_directories(loopir_{name} PUBLIC "${{CMAKE_CURRENT_LIST_DIR}}")
target_link_libraries(loopir_{name} PUBLIC m)
find_package(OpenMP COMPONENTS C)
if(OpenMP_C_FOUND)
  target_link_libraries(loopir_{name} PUBLIC OpenMP::OpenMP_C)
endif()
"""


def write(kernel: Exportable, folder: Path) -> Export:
    """Write the files, and the shared library where a C compiler is; all of them, or none.

    Raises CompileError with the compiler's words if it turns the files down.
    """
    name, compiler = kernel.name, c_compiler()
    folder.mkdir(parents=True, exist_ok=True)
    library = f"lib{name}.{'dylib' if sys.platform == 'darwin' else 'so'}"
    with tempfile.TemporaryDirectory(dir=folder) as made:
        at = Path(made)
        (at / f"{name}.h").write_text(kernel.header, encoding="utf-8")
        (at / f"{name}.c").write_text(kernel.source, encoding="utf-8")
        (at / f"{name}.o").write_bytes(kernel.code)
        (at / f"{name}.cmake").write_text(cmake_snippet(name), encoding="utf-8")
        if compiler is not None:
            _link(compiler, at, name, library)
        else:
            (folder / library).unlink(missing_ok=True)  # of an earlier export, whose header is replaced
        for path in sorted(at.iterdir()):
            os.replace(path, folder / path.name)
    linked = folder / library if compiler is not None else None
    left_out = (
        f"Left out: {library}. There is no C compiler ({', '.join(COMPILERS)}) on the path." if not linked else ""
    )
    header, source, code, cmake = (folder / f"{name}.{ending}" for ending in ("h", "c", "o", "cmake"))
    return Export(header, source, code, cmake, linked, left_out)


def _link(compiler: str, folder: Path, name: str, library: str) -> None:
    """Link the shared library, with OpenMP where the compiler has it."""
    strict = () if sys.platform == "darwin" else ("-Wl,-z,defs",)
    command = [compiler, "-std=c11", "-O2", "-fPIC", "-shared", "-o", library, f"{name}.c", f"{name}.o", *strict, "-lm"]
    for openmp in (["-fopenmp"], []):
        result = subprocess.run([*command, *openmp], cwd=folder, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return
    raise CompileError(
        f"the C compiler {compiler} refuses the exported program: {result.stderr}",
        source=(folder / f"{name}.c").read_text(encoding="utf-8"),
        log=result.stderr,
    )
