"""Attention on Hopper: one kernel, derived from the naive stages, checked in the interpreter and by ptxas."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.errors import InterpretError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import AsyncWait, Body, Func, If, InstrCall, Int, Kernel, Loop, MBarrierWait, Stmt, Turn
from loopir.ir.traverse.walk import replace, rewrite, statements
from loopir.lower.gpu.asynchronous.insert_wgmma_waits import GROUP
from loopir.lower.gpu.asynchronous.ring_slots import releases
from loopir.runtime.cuda.disassembler import disassemble
from schedules.cuda.product_chains import HIDDEN, product_chain

Score = Callable[[Any, Any, Any], Any]
"""What becomes of a score of a query and a key, given their numbers."""


def naive(
    shape: tuple[int, ...], rows: int, keys: int, depth: int, score: Score | None = None, dtype: str = "bfloat16"
) -> lp.Schedule:
    q, k, v = (lp.placeholder((*shape, n, depth), dtype, name=x) for x, n in zip("QKV", (rows, keys, keys)))
    turned = {0: lambda: k.T, 1: lambda: k.transpose(0, 2, 1), 2: lambda: k.transpose(0, 1, 3, 2)}[len(shape)]()
    s = (q @ turned) * depth**-0.5
    if score is not None:
        s = lp.compute((*shape, rows, keys), lambda *at: score(s[*at], at[-2], at[-1]), name="X")
    return lp.Schedule(lp.softmax(s) @ v)


def wanted(q: Any, k: Any, v: Any, score: Score | None = None) -> Any:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    if score is not None:
        s = score(s, *np.indices(s.shape)[-2:])
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def data(shape: tuple[int, ...], rows: int, keys: int, depth: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((*shape, n, depth)).astype(ml_dtypes.bfloat16) for n in (rows, keys, keys)]


def hopper(s: lp.Schedule, **how: Any) -> lp.Schedule:
    with lp.scheduling_for(lp.machine("sm_90a")):
        return product_chain(s, **how)


def off(func: Func, some: list[Any], score: Score | None = None) -> float:
    """How far off the results are that the interpreter gives, told of races and early reads."""
    return float(np.abs(interpret(func, some)["out"].astype(np.float64) - wanted(*some, score=score)).max())


CAUSAL: tuple[Score, Score] = (
    lambda s, i, j: lp.where(j <= i, s, -math.inf), lambda s, i, j: np.where(j <= i, s, -np.inf)
)  # fmt: skip
SCORES: dict[str, tuple[Score | None, Score | None]] = {
    "full": (None, None),
    "window": (
        lambda s, i, j: lp.where(j <= i, lp.where(i - j < 20, s, -math.inf), -math.inf),
        lambda s, i, j: np.where((j <= i) & (i - j < 20), s, -np.inf),
    ),
}


@pytest.mark.parametrize(("name", "keys", "block"), [("full", 48, 16), ("window", 64, 32)])  # 3, 2 blocks
def test_the_lowered_nest_is_right(name: str, keys: int, block: int) -> None:
    ours, numpys = SCORES[name]
    s = hopper(naive((1,), 64, keys, 64, ours), keys=block)
    assert off(lp.lower(s, "cuda")[0], data((1,), 64, keys, 64), numpys) < 0.03


@pytest.mark.parametrize(
    ("rows", "keys", "depth", "blocks", "score"),
    [(512, 352, 128, 2, CAUSAL[0])],
)
def test_auto_makes_one_kernel_without_spills(
    rows: int, keys: int, depth: int, blocks: int, score: Score | None
) -> None:
    """Products that ptxas serialises (messages C75xx) would end the build."""
    s = schedules.auto(naive((2, 2), rows, keys, depth, score), "cuda", arch="sm_90a")
    assert "rolling_update" in s.script()
    assert len([x for x in statements(lp.lower(s, "cuda")[0].body) if isinstance(x, Kernel)]) == 1
    made = lp.compile_source(s, "sm_90a")
    (used,) = made.resources.values()
    assert (used.spill_stores, used.spill_loads) == (0, 0)
    issued = [line for line, _ in disassemble(made.cubin) if "HGMMA" in line]
    assert len(issued) == 2 * (depth // 16 + keys // blocks // 16)  # in the loop, before it and after it


def test_heads_that_share_keys_and_powers_that_the_product_makes() -> None:
    """Scores of float32 with a soft cap; heads 0 and 1 have the same keys."""
    heads, n, depth, cap = 2, 32, 64, 3.0
    q = lp.placeholder((heads, 64, depth), "bfloat16", name="Q")
    k, v = (lp.placeholder((1, n, depth), "bfloat16", name=x) for x in "KV")
    d, j = lp.reduce_axis(depth, name="d"), lp.reduce_axis(n, name="j")
    f = "float32"
    s = lp.compute((heads, 64, n), lambda h, i, x: lp.sum(q[h, i, d].astype(f) * k[h // 2, x, d].astype(f), axis=d))
    p = lp.softmax(cap * lp.tanh(s * (depth**-0.5 / cap)))
    o = lp.compute(
        (heads, 64, depth),
        lambda h, i, e: lp.sum(p[h, i, j].astype("bfloat16").astype(f) * v[h // 2, j, e].astype(f), axis=j),
    )
    out = lp.compute((heads, 64, depth), lambda *at: o[at].astype("bfloat16"), name="out")
    func = lp.lower(hopper(lp.Schedule(out), keys=16), "cuda")[0]
    x, (_, y, z) = data((heads,), 64, n, depth)[0], data((1,), 64, n, depth)
    got = interpret(func, (x, y, z))["out"].astype(np.float64)
    assert float(np.abs(got - wanted(x, y, z, lambda s, i, j: cap * np.tanh(s / cap))).max()) < 0.03


def test_scores_that_are_sums_of_two_products() -> None:
    """As queries and keys with a part that all heads share: both products and the chain after them are one loop."""
    names, depths = ("Q", "K", "QR", "KR", "V"), (64, 64, 16, 16, 64)
    q, k, qr, kr, v = (lp.placeholder((64, d), "bfloat16", name=x) for x, d in zip(names, depths, strict=True))
    scores = ((q @ k.T).astype("float32") + (qr @ kr.T).astype("float32")) * 0.1
    s = hopper(lp.Schedule(lp.softmax(scores).astype("bfloat16") @ v), keys=32)
    lp.compile_source(s, "sm_90a")  # refused if ptxas makes products wait for one another
    func = lp.lower(s, "cuda")[0]
    assert len([x for x in statements(func.body) if isinstance(x, Kernel)]) == 1
    rng = np.random.default_rng(0)
    some = {a.buffer.name: rng.standard_normal([n.value for n in a.buffer.shape]) for a in func.args[:5]}
    given = {x: y.astype(ml_dtypes.bfloat16) for x, y in some.items()}
    a, b, ar, br, c = (given[x].astype(float) for x in names)
    p = np.exp((a @ b.T + ar @ br.T) * 0.1)
    got = interpret(func, [*given.values()])["out"].astype(float)
    assert np.abs(got - p / p.sum(-1, keepdims=True) @ c).max() < 0.05


def test_rows_of_pages_are_copied_page_by_page() -> None:
    """Pages that a table selects, two for a block of keys: a box for each of these."""
    page, pages, depth = 16, 4, 64
    q = lp.placeholder((64, depth), "bfloat16", name="Q")
    k, v = (lp.placeholder((2 * pages, page, depth), "bfloat16", name=x) for x in "KV")
    table = lp.placeholder((pages,), "int32", name="table")
    own = [x[table].reshape(64, depth) for x in (k, v)]
    func = lp.lower(hopper(lp.Schedule(lp.softmax((q @ own[0].T) * depth**-0.5) @ own[1]), keys=32), "cuda")[0]
    at = np.arange(2 * pages, dtype=np.int32)[::-2][:pages].copy()
    rows, *stored = data((), 64, 128, depth)[:1], *data((2 * pages,), 1, page, depth)[1:]
    assert (
        np.abs(
            interpret(func, [*rows, *stored, at])["out"].astype(float)
            - wanted(*rows, *(x[at].reshape(64, depth) for x in stored))
        ).max()
        < 0.03
    )


def test_heads_between_the_rows_of_keys_and_values() -> None:
    """[rows, heads, depth], as a projection gives them: boxes of rows that do not follow one another."""
    heads, n, depth = 2, 32, 64
    q, k, v = (lp.placeholder((r, heads, depth), "bfloat16", name=x) for x, r in zip("QKV", (64, n, n)))
    q, k, v = (x.transpose(1, 0, 2) for x in (q, k, v))
    func = lp.lower(hopper(lp.Schedule(lp.softmax((q @ k.transpose(0, 2, 1)) * depth**-0.5) @ v), keys=16), "cuda")[0]
    assert sorted(b.sizes for s in statements(func.body) if isinstance(s, InstrCall) for b in s.boxes)[0] == (16, 1, 64)
    x, (_, y, z) = data((heads,), 64, n, depth)[0], data((heads,), 64, n, depth)
    got = interpret(func, [np.ascontiguousarray(t.swapaxes(0, 1)) for t in (x, y, z)])["out"].astype(np.float64)
    assert float(np.abs(got - wanted(x, y, z)).max()) < 0.03


def test_what_is_made_of_folds_alone_is_stored_by_the_same_kernel() -> None:
    """As the logarithm of each row's sum, which gradients read; and a score of each head is in every sum."""
    n, depth = 64, 64
    q, k, v = (lp.placeholder((2, n, depth), "bfloat16", name=x) for x in "QKV")
    sink = lp.placeholder((2,), "float32", name="sink")
    s = (q @ k.transpose(0, 2, 1)).astype("float32") * depth**-0.5
    most = lp.maximum(lp.max(s, axis=-1, keepdims=True), sink[:, None, None])
    p = lp.exp(s - most)
    total = lp.sum(p, axis=-1, keepdims=True) + lp.exp(sink[:, None, None] - most)
    t = hopper(lp.Schedule(((p / total).astype("bfloat16") @ v, most + lp.log(total))), keys=32)
    assert len([x for x in statements(lp.lower(t, "cuda")[0].body) if isinstance(x, Kernel)]) == 1


@pytest.mark.parametrize("last", [False, True])
def test_powers_and_the_logarithm_of_their_sum_are_stages_of_one_kernel(last: bool) -> None:
    """The logarithm after the product or before it; the product makes its left operand of two stages itself."""
    n, keys, depth = 64, 48, 64
    q, k, v = (lp.placeholder((2, m, depth), "bfloat16", name=x) for x, m in zip("QKV", (n, keys, keys)))
    s = ((q @ k.transpose(0, 2, 1)).astype("float32") * depth**-0.5).named("scores")
    most = lp.max(s, axis=-1, keepdims=True)
    p = lp.exp(s - most).named("powers")
    total = lp.sum(p, axis=-1, keepdims=True)
    out, logarithm = (p * (1.0 / total)).astype("bfloat16") @ v, (most + lp.log(total))[..., 0]
    t = hopper(lp.Schedule((out, logarithm) if last else (logarithm, out)), keys=16)
    some = data((2,), n, keys, depth)
    found = list(interpret(lp.lower(t, "cuda")[0], some).values())
    got, told = found if last else reversed(found)
    assert float(np.abs(got.astype(np.float64) - wanted(*some)).max()) < 0.03
    x, y = (a.astype(np.float64) for a in some[:2])
    exact = np.log(np.exp(x @ np.swapaxes(y, -1, -2) * depth**-0.5).sum(-1))
    assert float(np.abs(told - exact).max()) < 0.03


def test_queries_keys_and_values_of_one_array() -> None:
    """[rows, 3 * heads * depth], as one projection gives all three."""
    heads, n, depth = 2, 64, 64
    packed = lp.placeholder((n, 3 * heads * depth), "bfloat16", name="P")
    q, k, v = (packed[:, x * heads * depth :][:, : heads * depth].reshape(n, heads, depth) for x in range(3))
    q, k, v = (x.transpose(1, 0, 2) for x in (q, k, v))
    func = lp.lower(hopper(lp.Schedule(lp.softmax((q @ k.transpose(0, 2, 1)) * depth**-0.5) @ v), keys=32), "cuda")[0]
    some = data((heads,), n, n, depth)
    rows = np.ascontiguousarray(np.stack(some).transpose(2, 0, 1, 3).reshape(n, -1))
    assert float(np.abs(interpret(func, [rows])["out"].astype(np.float64) - wanted(*some)).max()) < 0.03


def test_warpgroups_take_turns_with_their_products() -> None:
    s = hopper(naive((), 128, 64, 16), rows=128, keys=32, in_turns=True)
    (lowered,) = lp.lower(s, "cuda")
    turns = [x for x in statements(lowered.body) if isinstance(x, Turn)]
    assert len(turns) == 4
    some = data((), 128, 64, 16)
    assert off(lowered, some) < 0.02
    with pytest.raises(InterpretError, match="a deadlock"):
        interpret(replace(lowered, body=rewrite(lowered.body, lambda x: () if x is turns[0] else None)), some)
    (used,) = lp.compile_source(s, "sm_90a").resources.values()
    assert used.spill_stores == used.spill_loads == 0


@pytest.mark.parametrize(
    ("rows", "depth", "in_turns"), [(128, 64, True), (128, 128, True), (128, 256, False), (64, 64, False)]
)
def test_turns_are_taken_where_products_hide_no_softmax(rows: int, depth: int, in_turns: bool) -> None:
    s = hopper(wide(None, rows, 256, depth), rows=rows)
    assert any(x.name == "alternate" for step in s.trace for x in (step, *step.steps)) is in_turns
    if in_turns:
        parts = lp.predict(s, "cuda", arch="sm_90a").parts
        assert parts["instructions"] > HIDDEN * parts["tensor cores"]


def wide(score: Score | None, rows: int, keys: int, depth: int) -> lp.Schedule:
    """Attention whose scores and powers are float32, these rounded for the second product alone."""
    q, k, v = (lp.placeholder((n, depth), "bfloat16", name=x) for x, n in zip("QKV", (rows, keys, keys)))
    d, j, f = lp.reduce_axis(depth, name="d"), lp.reduce_axis(keys, name="j"), "float32"
    s = lp.compute((rows, keys), lambda x, y: lp.sum(q[x, d].astype(f) * k[y, d].astype(f), axis=d)) * depth**-0.5
    if score is not None:
        x = s
        s = lp.compute((rows, keys), lambda i, y: score(x[i, y], i, y), name="X")
    p = lp.softmax(s)
    o = lp.compute((rows, depth), lambda i, e: lp.sum(p[i, j].astype("bfloat16").astype(f) * v[j, e].astype(f), axis=j))
    return lp.Schedule(lp.compute((rows, depth), lambda *at: o[at].astype("bfloat16"), name="out"))


@pytest.mark.parametrize("size", [1.0, 100.0, 1e6])
def test_scores_of_any_size_in_few_operations(size: float) -> None:
    """A power is one product and sum, and a power of 2; and finite, where scores are 1e12."""
    s = hopper(wide(None, 64, 48, 64), keys=16)
    assert lp.text(s.func).count("exp2_16") == 4  # of the sum and of the product, before the loop and in it
    assert "exp_16" not in lp.text(s.func)
    some = data((), 64, 48, 64)
    some[:2] = [(x.astype(np.float32) * size).astype(ml_dtypes.bfloat16) for x in some[:2]]
    got = interpret(lp.lower(s, "cuda")[0], some)["out"].astype(np.float64)
    np.testing.assert_allclose(got, wanted(*some), atol=0.03)


def test_rows_that_are_masked_by_a_large_number_are_means() -> None:
    score = (lambda s, i, j: lp.where(j < i - 8, s, -1e30), lambda s, i, j: np.where(j < i - 8, s, -1e30))
    some = data((), 64, 32, 64)
    got = interpret(lp.lower(hopper(wide(score[0], 64, 32, 64), keys=16), "cuda")[0], some)["out"].astype(np.float64)
    np.testing.assert_allclose(got, wanted(*some, score=score[1]), atol=0.03)


def test_blocks_of_a_causal_mask_are_cut_by_it_once_a_row_of_them() -> None:
    """Of 384 rows and keys, not blocks of 192 keys, but of 128, as are those of rows: the loop has no mask."""
    s = hopper(wide(CAUSAL[0], 384, 384, 64))
    assert [lp.text(s.func).count(x) for x in (" <= ", "wgmma_m64n128k16")] == [1, 2]


def faulty(func: Func, fault: str) -> Func:
    """`func` with a fault in the loop over blocks: a wait that is gone or too weak, a buffer given back too early, a
    ring whose slots do not go on."""
    loop = next(s for s in statements(func.body) if isinstance(s, Loop) and s.kind == "serial" and is_overlapped(s))
    here = [*statements(loop.body)]
    older, newer = (s for s in here if isinstance(s, AsyncWait) and s.group == GROUP)
    keys, values = (s for s in here if isinstance(s, MBarrierWait))
    *_, release = (s for s in here if releases(s) and isinstance(s, If))

    def edit(s: Stmt) -> Stmt | Body | None:
        match fault:
            case "fill not waited for":
                return () if s is keys else None
            case "given back too early":
                return () if s is release else (release, s) if s is older else None
            case "older group not waited for":
                return replace(older, pending=2) if s is older else None
            case "newer group not waited for":
                return replace(newer, pending=1) if s is newer else None
            case _:  # slots start again
                return replace(values, slot=replace(values.slot, at=(Int(0),))) if s is values else None

    return replace(func, body=rewrite(func.body, edit))


def is_overlapped(loop: Loop) -> bool:
    """Whether two groups of products are under way in `loop`."""
    return any(isinstance(s, AsyncWait) and s.group == GROUP and s.pending == 1 for s in statements(loop.body))


@pytest.mark.parametrize(
    "fault",
    [
        "fill not waited for",
        "given back too early",
        "older group not waited for",
        "newer group not waited for",
        "slots",
    ],
)
def test_a_fault_in_the_lowered_nest_is_found(fault: str) -> None:
    with pytest.raises(InterpretError):
        off(faulty(lowered_to_break(), fault), data((1,), 64, 64, 64))


@cache
def lowered_to_break() -> Func:
    return lp.lower(hopper(naive((1,), 64, 64, 64), keys=16), "cuda")[0]


@pytest.mark.parametrize(
    ("rows", "keys", "depth", "dtype", "told"),
    [
        (64, 16, 64, "bfloat16", "no two blocks"),
        (64, 64, 64, "float32", "16-bit float"),
        (64, 64, 320, "bfloat16", "no block of keys"),
    ],
)
def test_what_has_no_room_is_refused(rows: int, keys: int, depth: int, dtype: str, told: str) -> None:
    with pytest.raises(lp.ScheduleError, match=told):
        hopper(naive((2,), rows, keys, depth, dtype=dtype))


def test_few_rows_odd_keys_and_columns_that_are_no_whole_pieces() -> None:
    """Tiles have zeros at their ends, and scores -inf; float16, whose powers their sum divides at the end alone."""
    some = [x.astype(np.float16) for x in data((1,), 5, 35, 72)]
    s = hopper(naive((1,), 5, 35, 72, dtype="float16"), keys=16)
    assert off(lp.lower(s, "cuda")[0], some) < 0.003
    assert lp.text(s.func).count("< 35") == 3  # of the last block, which is the first


@pytest.mark.parametrize("b", [1, 2])
def test_results_in_rows_of_heads_of_several_batches(b: int) -> None:
    """As a layer of a model has them: powers are normalized where they are multiplied, heads merged after the rows."""
    h, n, depth, f = 2, 64, 64, "float32"
    q, k, v = (lp.placeholder((b, h, n, depth), "bfloat16", name=x) for x in "QKV")
    s = (q @ k.transpose(0, 1, 3, 2)).astype(f) * depth**-0.5
    p = lp.exp(s - lp.max(s, axis=-1, keepdims=True))
    y = (p * (1.0 / lp.sum(p, axis=-1, keepdims=True))).astype("bfloat16") @ v
    merged = y.transpose(0, 2, 1, 3).reshape(b * n, h * depth).named("out")
    if b > 1:
        weights = lp.placeholder((h * depth, 128), "bfloat16", name="W")
        plan = schedules.plan(lp.Schedule((merged @ weights).named("z")), "cuda", arch="sm_90a")
        assert "product chain" in [g.how for g in plan.groups]
    alone = schedules.auto(lp.Schedule(merged), "cuda", arch="sm_90a")
    some = data((b, h), n, n, depth)
    got = interpret(lp.lower(alone, "cuda")[0], some)["out"].astype(np.float64)
    want = wanted(*some).transpose(0, 2, 1, 3).reshape(b * n, h * depth)
    assert float(np.abs(got - want).max()) < 0.03


def test_a_row_too_many_is_guarded_where_it_is_stored_alone() -> None:
    s = hopper(naive((2,), 1000, 1024, 64))
    assert str(s).count("< 1000") == 2  # in the copy of queries, which a tensor map takes, and in the store
