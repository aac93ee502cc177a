"""Libraries to compare, each in a process of its own that is stopped while it is another's turn.

In one process they disturb each other. The threads of OpenBLAS go on looking for work some 30 ms after a call, and on
two cores take half of what comes next: beside them a product of 1024^3 took 24 ms, which alone takes 13. So the process
of a library is told what to prepare and when to run, and is stopped (SIGSTOP, all its threads) once it has answered.
Of several threads, the one that calls has a core for itself and the others have the rest: after a stop the system often
woke both threads of a library on one core, and left them there for longer than a block takes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cpu_programs as programs
import numpy as np

import loopir as lp

POOLS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "HL_NUM_THREADS", "LOOPIR_NUM_THREADS")
PAUSE_SECONDS = 0.002
AWAKE_SECONDS = 0.005
"""For how long a process of several threads calls before it is timed: the system then has each on a core of its own."""
TOLD = "AVX-512"
"""NumPy whose OpenBLAS is told to take kernels of AVX-512, where the CPU has that and it takes others by itself."""
WIDE = ("SkylakeX", "Cooperlake", "SapphireRapids")
"""What OpenBLAS calls its kernels of AVX-512; they are the same ones for products of float32."""


class Peer:
    """The process of the library `who`, which has `threads` threads and runs only while it is asked something."""

    def __init__(self, who: str, threads: int) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(who, threads, theirs), daemon=True)
        told = {"OPENBLAS_CORETYPE": WIDE[0]} if who == TOLD else {}
        with _settings(dict.fromkeys(POOLS, str(threads)) | told):
            self.process.start()
        theirs.close()
        self.ask("ready")

    def ask(self, what: str, *args: Any) -> Any:
        """The answer to one question; the process is stopped before and after."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)
        self.pipe.send((what, *args))
        answer = self.pipe.recv()
        os.kill(self.process.pid, signal.SIGSTOP)
        time.sleep(PAUSE_SECONDS)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.join()


@contextmanager
def peers(names: tuple[str, ...], threads: int) -> Iterator[dict[str, Peer]]:
    """The processes of the libraries `names`, ended with the context."""
    running: dict[str, Peer] = {}
    try:
        for who in names:
            running[who] = Peer(who, threads)
        yield running
    finally:
        for peer in running.values():
            peer.end()


def kernels() -> dict[str, str]:
    """What kernels OpenBLAS takes here, by what it calls them; and where it is told to, if that makes a difference."""
    with peers(("NumPy", TOLD), 1) as running:
        found = {who: peer.ask("kernels") for who, peer in running.items()}
    if found["NumPy"] in WIDE or found[TOLD] not in WIDE or "avx512f" not in lp.cpu_features():
        del found[TOLD]
    return found


@contextmanager
def _settings(new: dict[str, str]) -> Iterator[None]:
    """The environment with `new` in it, for a process that is started now."""
    old = {name: os.environ.get(name) for name in new}
    os.environ.update(new)
    yield
    for name, value in old.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


# ---------------------------------------------------------------- in the process


def _serve(who: str, threads: int, pipe: Connection) -> None:
    """Answer what comes through `pipe`, to the end of the process."""
    serving = _Serving(who, threads)
    while True:
        what, *args = pipe.recv()
        try:
            pipe.send(getattr(serving, what)(*args))
        except Exception as error:
            pipe.send(RuntimeError(f"{who}: {type(error).__name__}: {error}"))


class _Serving:
    """What a library's process can be asked."""

    def __init__(self, who: str, threads: int) -> None:
        self.who, self.threads = who, threads
        self.clock = time.process_time if threads == 1 else time.perf_counter
        self.cores = os.sched_getaffinity(0)
        self.call: Callable[[], object] = lambda: None
        self.work: Any = None

    def ready(self) -> bool:
        return True

    def kernels(self) -> str:
        """What NumPy's OpenBLAS calls the kernels that it takes; nothing where it is another library."""
        maps = Path("/proc/self/maps")
        lines = maps.read_text().splitlines() if maps.exists() else []
        for path in {line.split()[-1] for line in lines if "openblas" in line}:
            for name in ("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename"):
                if (asked := getattr(ctypes.CDLL(path), name, None)) is not None:
                    asked.restype = ctypes.c_char_p
                    return asked().decode()
        return ""

    def prepare(self, row: str, args: tuple[Any, ...], result: str) -> str:
        """Make the program `row`, of `programs` or as "module:function", ready to time; its name in the table.

        loopir's result goes to the file `result`, and that of others is compared with it.
        """
        module, _, function = row.rpartition(":")
        make = getattr(import_module(module) if module else programs, function)
        self.work = work = make(*args)  # which keeps the arrays that Halide's call reads
        os.sched_setaffinity(0, self.cores)  # which threads that start now inherit
        self.call, out = work.call("NumPy" if self.who == TOLD else self.who, self.threads)
        self.call()
        if self.threads > 1:
            self._place_threads()
        found = out.astype(np.float32) if out.dtype.kind == "V" else out  # NumPy's files have no bfloat16
        tolerance = getattr(work, "tolerance", 1e-3)
        if self.who == "loopir":
            np.save(result, found)
        elif not np.allclose(found, np.load(result), rtol=tolerance, atol=tolerance / 10):
            raise AssertionError(f"{work.name} has another result")
        return work.name

    def _place_threads(self) -> None:
        """Give the calling thread the first core, and the others of this process those that are left."""
        first, *others = sorted(self.cores)
        for thread in map(int, os.listdir("/proc/self/task")):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(thread, {first} if thread == os.getpid() or not others else others)

    def block(self, count: int) -> float:
        """Seconds of a call, of so many in a row after one that is not timed, or some where threads are to wake up."""
        ready = self.clock() + AWAKE_SECONDS * (self.threads > 1)
        self.call()
        while self.clock() < ready:
            self.call()
        start = self.clock()
        for _ in range(count):
            self.call()
        return (self.clock() - start) / count
