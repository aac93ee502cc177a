"""Answers of the process that runs candidates: what is right is timed, what is wrong is named."""

from __future__ import annotations

import numpy as np
import pytest
from loopir.schedules.tuning.worker import Bench, answer
from test_tuning_measure import SHORT, SPLIT, TWICE, job


def test_a_worker_checks_and_times() -> None:
    found = answer(job("race", TWICE, SPLIT, rounds=3))
    assert found["outcome"] == "ok"
    assert [len(x) for x in found["times"]] == [3, 3]
    assert all(t > 0 for x in found["times"] for t in x)
    assert len(answer(job("calls", SPLIT, rounds=5))["times"]) == 5
    wrong = answer(job("race", SPLIT, SHORT))
    assert wrong["outcome"] == "wrong"
    assert wrong["at"] == 1
    assert "1 elements of y are wrong: at [63] it gives" in wrong["said"]
    failed = answer(job("check", TWICE.replace("* 2.0", "* no_such_buffer[i]")))
    assert failed["outcome"] == "failed"


def test_what_is_updated_is_as_at_first_for_every_call() -> None:
    text = 'def more(y: "float32[8]"):\n    for i in range(8):\n        y[i] = y[i] + 1.0\n'
    bench = Bench(job("check", reference=text))
    run = bench.ready(text)
    run()
    run()
    assert answer(job("check", text, reference=text))["outcome"] == "ok"


def test_all_candidates_write_the_same_arrays_and_none_passes_by_what_another_wrote() -> None:
    bench = Bench(job("check"))
    bench.ready(TWICE)
    assert (bench.out[0] == bench.wanted[0]).all()
    with pytest.raises(ValueError, match=r"1 elements of y are wrong: at \[63\]"):
        bench.ready(SHORT)
    bench.ready(SPLIT)
    assert (bench.out[0] == bench.wanted[0]).all()
    assert all(not np.shares_memory(bench.out[0], x) for x in bench.wanted)
