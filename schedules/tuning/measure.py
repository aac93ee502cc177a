"""Asking processes to run candidates: one that crashes, hangs or runs out of memory costs itself alone.

`ask_worker(job, limit)` is what an executor runs: it has a process of its own (`.worker`) answer, and says how that
ended. So any `concurrent.futures.Executor` may measure, of threads here, of processes, or of other hosts: what it is
sent and what it gives back is plain data, and what goes wrong stays in a process that nobody else waits for. Idle
processes are kept for the next question, each with the inputs and the result of its last program.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

Answer = dict[str, Any]
"""`outcome`, one of those of a record; `said`, where it is not "ok"; `times`."""
MOST_IDLE = 4
"""Workers that wait for the next candidate, at most."""
KILLED = {"SIGKILL": "out of memory", "SIGABRT": "crashed"}
MEMORY_WORDS = ("out of memory", "bad_alloc", "Cannot allocate", "MemoryError")


class _Worker:
    """A process that answers questions."""

    def __init__(self) -> None:
        paths = os.pathsep.join(x or os.getcwd() for x in sys.path)
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "loopir.schedules.tuning.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**os.environ, "PYTHONPATH": paths}, start_new_session=True,
        )  # fmt: skip
        self.answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        """Pass on what it answers; "" once it is gone."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put("")

    def ask(self, job: Mapping[str, Any], limit: float) -> Answer:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            line = self.answers.get(timeout=limit)
        except queue.Empty:
            self.end()
            return {"outcome": "hung", "said": f"it did not end in {limit:.0f} s", "gone": True}
        except OSError:
            line = ""
        if not line:
            ended = self._ended()
            self.end()
            return {**ended, "gone": True}
        return json.loads(line)

    def _ended(self) -> Answer:
        """How the process ended."""
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read()[-2000:].decode(errors="replace").strip().splitlines()
        last = f": {said[-1]}" if said else ""
        name = signal.Signals(-code).name if code < 0 else f"status {code}"
        memory = name == "SIGKILL" or any(w in x for x in said for w in MEMORY_WORDS)
        outcome = "out of memory" if memory else "crashed"
        return {"outcome": outcome, "said": f"its process ended by {name}{last}"}

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.listener.join(START)
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            with suppress(OSError):  # what was not written yet goes nowhere
                if pipe is not None:
                    pipe.close()


_idle: list[_Worker] = []
_lock = threading.Lock()


def ask_worker(job: Mapping[str, Any], limit: float) -> Answer:
    """The answer of a process to `job`, or how it ended; it may take `limit` seconds, beside those for its start."""
    with _lock:
        worker = _idle.pop() if _idle else None
    fresh = worker is None
    if worker is None or worker.process.poll() is not None:
        worker = _Worker()
    try:
        found = worker.ask(job, limit + (START if fresh else 0.0))
    except BaseException:
        worker.end()
        raise
    if not found.pop("gone", False):
        with _lock:
            if len(_idle) < MOST_IDLE:
                _idle.append(worker)
                return found
        worker.end()
    return found


START = 20.0
"""Seconds in which a process has to have started."""


@atexit.register
def end_workers() -> None:
    """End the processes that wait for questions."""
    with _lock:
        workers, _idle[:] = list(_idle), []
    for worker in workers:
        worker.end()
