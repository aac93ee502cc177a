"""Candidates of the tuner: plans and knobs, none twice, none that is predicted to be hopeless."""

from __future__ import annotations

from loopir.schedules.tuning.candidates import Candidate, NoCandidate, Space
from loopir.schedules.tuning.records import canonical

import loopir as lp
import schedules


def test_knobs_of_a_product_give_schedules_that_differ() -> None:
    a, b = (lp.placeholder((96, 96), "float32", name=n) for n in "ab")
    space = Space(canonical(lp.Schedule(a @ b)), "llvm", None, {})
    plans = list(space.plans())
    assert [x.name for x in plans] == ["auto"]  # as written it is hopeless
    first = space.neighbours("fused", {})
    assert {next(iter(v)).partition("(")[0] for v in first} >= {"tile", "in place", "prefetched"} - {"prefetched"}
    made = [x for v in first[:6] if isinstance(x := space.made("fused", v), Candidate)]
    texts = {x.text for x in made}
    assert len(texts) == len(made) >= 3
    assert all(len(x.knobs) == 1 and x.label.startswith("fused, ") for x in made)
    assert space.made("fused", made[0].values) is None  # it was made before
    again = space.program.schedule_nests((space.program.stages, made[0].trace))
    assert again.stages


def test_knobs_of_a_gpu_are_asked_too() -> None:
    x = lp.placeholder((1 << 16,), "float32", name="x")
    space = Space(canonical(lp.Schedule(lp.exp(x) + 1.0)), "cuda", "sm_90a", {})
    assert [c.name for c in space.plans()] == ["auto"]
    values = space.neighbours("auto", {})
    assert any("threads" in key for v in values for key in v)
    assert any(isinstance(space.made("auto", v), Candidate) for v in values)


def test_a_recipe_that_ends_the_process_is_no_candidate() -> None:
    def ends(s: lp.Schedule, stage: str) -> lp.Schedule:
        raise SystemExit("my script")

    s = canonical(lp.Schedule((lp.placeholder((64,), "float32", name="x") * 2.0).named("y")))
    space = Space(s, "llvm", None, {}, [schedules.Rule("ends", lambda v: v.only("elementwise"), ends, target="llvm")])
    found = {x.name: x for x in space.plans()}["ends"]
    assert isinstance(found, NoCandidate)
    assert found.said == "SystemExit: my script"
