"""`schedules.tune` on a dask cluster of 4 workers on this machine, two of which are killed while it measures.

    python benchmarks/tuning_cluster.py [--budget 60]     # needs pip install '.[cluster]'

The same program is tuned by this process alone, too. Printed are both choices and the records of each database; the
exit status is 1 unless the choices are the same, two workers were killed before the run ended, and every candidate that
was timed in the run with the cluster is on record.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from typing import Any

import loopir as lp
from loopir import schedules

WORKERS, KILLED = 4, 2


def program() -> lp.Schedule:
    """A transpose, of which the fastest candidate is not the formula's on the CPU that it was tried on."""
    return lp.Schedule(lp.placeholder((480, 280), "float64", name="x").T * 2.0)


def tuned(folder: str, budget: float, executor: Any) -> schedules.Tuned:
    return schedules.tune(program(), "llvm", budget_s=budget, executor=executor, database=folder, progress=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=60.0)
    budget = parser.parse_args().budget
    from distributed import Client, LocalCluster  # noqa: PLC0415  # pyright: ignore[reportMissingImports]

    os.environ["LOOPIR_NUM_THREADS"] = "1"
    with (
        tempfile.TemporaryDirectory() as ours,
        tempfile.TemporaryDirectory() as alone,
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        killed: list[int] = []
        ended = threading.Event()

        def kill() -> None:
            """End a worker a little after the run began, and another a little later."""
            for n in range(KILLED):
                if ended.wait(budget / 12):
                    return
                killed.append(list(cluster.workers.values())[n].pid)
                os.kill(killed[-1], signal.SIGKILL)

        thread = threading.Thread(target=kill, daemon=True)
        start = time.monotonic()
        thread.start()
        found = tuned(ours, budget, client.get_executor())
        ended.set()
        print(f"on {WORKERS} workers, {len(killed)} of them killed, {time.monotonic() - start:.0f} s: {found}")
        timed = sum(outcome == "ok" for _, outcome, _, _ in found.rows)
        records = [r for r in schedules.Database(ours).records() if r.kind == "candidate" and r.outcome == "ok"]
        single = tuned(alone, budget, None)
        print(f"alone: {single}")
        same = found.name == single.name
        print(f"killed: {len(killed)}; timed: {timed}, on record: {len(records)}; same choice: {same}")
        right = same and len(killed) == KILLED and len(records) >= timed
    sys.exit(not right)


if __name__ == "__main__":
    main()
