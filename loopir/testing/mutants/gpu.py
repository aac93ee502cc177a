"""Faults in GPU synchronisation and mapping: barriers and waits left out, guards of threads lost, trees cut short."""

from __future__ import annotations

from hypothesis import strategies as st

from loopir.errors import LowerError, TargetError
from loopir.ir.parser.parse import parse
from loopir.lower.pipeline import lower
from loopir.schedule import Schedule
from loopir.schedule.core.find import all_buffers
from loopir.testing.checking import Wrong, judge_case
from loopir.testing.generate.gpu_programs import Bound, kernels
from loopir.testing.generate.strategies import arguments, sizes
from loopir.testing.mutants.mutant import Mutant, family
from loopir.testing.oracles.gpu_memory import memory_report
from loopir.testing.oracles.oracles import Case

COPIES = """
def f(A: "float32[{rounds}, 32]", C: "inout float32[32]"):
    for b in bind("blockIdx.x", 1):
        for t in range({rounds}):
            with alloc("float32[32]", scope="shared") as T:
                for x in bind("threadIdx.x", 8):
                    for v in range(4):
                        T[x * 4 + v] = A[t, x * 4 + v]
                for i in bind("threadIdx.x", 32):
                    C[i] = sum(T[{read}], over=t)
"""
"""Asynchronous copies: four elements a thread, used by others."""


def threads(data: st.DataObject) -> None:
    """A random kernel under adversarial orders of threads, and the vectors that it moves."""
    bound = data.draw(kernels())
    judged(data, bound)


def copies(data: st.DataObject) -> None:
    """A loop that runs ahead with asynchronous copies."""
    rounds, stages = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    read = data.draw(st.sampled_from(("31 - i", "i")))
    before = parse(COPIES.format(rounds=rounds, read=read))
    s = Schedule(before).tensorize("v", "cp_async_f32")
    s = s.pipeline("t", stages=stages) if stages > 1 else s
    judged(data, Bound(before, s))


def judged(data: st.DataObject, bound: Bound) -> None:
    """Put a kernel, called with random arrays, to the interpreter's watch, and to the report on memory."""
    s, at = bound.after, data.draw(sizes(bound.before, largest=3))
    case = Case(bound.before, s.func, at, data.draw(arguments(bound.before, at)))
    call = s.script()
    judge_case(case, call, ("adversarial threads",))
    try:
        report = memory_report(lower(s.func, "cuda"), case.arrays, at)
    except (LowerError, TargetError) as error:
        if any(b.scope == "local" for b in all_buffers(s.func)):
            return  # threads that need what others have in local memory are turned down
        raise Wrong("lowering", str(error), call, case.before, case.after, at) from error
    if report.misaligned:
        raise Wrong("memory report", str(report), call, case.before, case.after, at)


GPU = family(
    "GPU synchronisation and mapping",
    Mutant(
        "no barrier before", "threads do not meet between a write and another thread's access",
        "lower.gpu.insert_barriers:_BarrierPlan.order", "_mark(self.before, both.before(found), wide)", "pass", threads,
    ),
    Mutant(
        "no barrier at the end", "threads do not meet at the end of a loop's iteration",
        "lower.gpu.insert_barriers:_BarrierPlan.order_iterations", "_mark(self.ends, both.ends(loop, found), wide)",
        "pass", threads,
    ),
    Mutant(
        "one group too many", "a thread goes on while the copies that it needs are under way",
        "lower.gpu.asynchronous.insert_copy_waits:_Plan.whole", "AsyncWait(self.pending)",
        "AsyncWait(self.pending + 1)", copies,
    ),
    Mutant(
        "no wait", "a copy that is used at once is not waited for",
        "lower.gpu.asynchronous.async_groups:wait_after_each",
        "(s, AsyncCommit(group), AsyncWait(0, group))", "(s, AsyncCommit(group))", copies,
    ),
    Mutant(
        "all threads", "a loop that is shorter than its axis is run by all threads of it",
        "lower.gpu.bind_threads:_Binding.bound_loop",
        'return inner if s.extent == extent else (If(Cmp("<", Var(name), s.extent), inner),)', "return inner", threads,
    ),
    Mutant(
        "every thread alone", "a statement under no loop of an axis is run by all threads of it",
        "lower.gpu.bind_threads:_Binding.by_first_thread", "return If(conj(*missing), (s,)) if missing else s",
        "return s", threads,
    ),
    Mutant(
        "everybody's total", "every thread of a group folds the total into the element",
        "lower.gpu.lower_thread_reductions:_Fold.finish", "if not self.copies:", "if False:", threads,
    ),
    Mutant(
        "half a tree", "lanes do not exchange with those half a group away",
        "lower.gpu.thread_reductions:_Tree.exchanges",
        "bit = lanes // 2", "bit = lanes // 4", threads,
    ),
    Mutant(
        "last part lost", "what the last thread of a group has is not folded",
        "lower.gpu.thread_reductions:_Tree.one_by_one",
        "Int(size - 1)", "Int(size - 2)", threads,
    ),
    Mutant(
        "vectors anywhere", "a vector may start anywhere", "lower.gpu.vectorize_memory:_Lanes.first",
        "begin if simplify(begin % width, self.ctx) == Int(0) else None", "begin", threads,
    ),
)  # fmt: skip
