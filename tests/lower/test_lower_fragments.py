"""Instructions of a warp, lowered: the interpreter runs them lane by lane, through registers and addresses."""

# ruff: noqa: E501  (nests as they are printed)

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import loopir as lp
import loopir.intrinsics
from loopir.errors import InterpretError, LowerError, ScheduleError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Barrier, Func, InstrCall
from loopir.ir.layout.layouts import evaluate, fragment_elements
from loopir.ir.ops import INSTRUCTIONS
from loopir.ir.traverse.walk import nodes, rewrite, statements

TILES = """
def f(A: "{t}[32, 32]", B: "{t}[{b}]", C: "out float32[32, 16]"):
    for block in bind("blockIdx.x", 1):
        with alloc("{t}[32, 32]", scope="shared", layout=strided({pad}, 1)) as As, alloc("{t}[{b}]", scope="shared") as Bs:
            with alloc("float32[32, 16]", scope="fragment") as acc:
                for w in bind("warp.x", 2):
                    for l in bind("lane", 32):
                        for v in range(16):
                            As[w * 16 + l // 2, l % 2 * 16 + v] = A[w * 16 + l // 2, l % 2 * 16 + v]
                for l1 in bind("lane", 32):
                    for v1 in range(16):
                        {copy}
                for wm in bind("warp.x", 2):
                    for ki in range(2):
                        with alloc("{t}[16, 16]", scope="fragment") as a, alloc("{t}[16, 16]", scope="fragment") as b:
                            for i in range(16):
                                for k in range(16):
                                    a[i, k] = As[wm * 16 + i, ki * 16 + k]
                            for k1 in range(16):
                                for j1 in range(16):
                                    b[{to}] = {load}
                            for n in unroll(2):
                                for i2 in range(16):
                                    for j2 in range(8):
                                        for k2 in range(16):
                                            acc[wm * 16 + i2, n * 8 + j2] = sum({product}, over=(ki, k2), init=0.0)
                for we in bind("warp.x", 2):
                    for ie in range(16):
                        for je in range(16):
                            C[we * 16 + ie, je] = {out}
"""
PRODUCT = "float32(a[i2, k2]) * float32(b[k2, n * 8 + j2])"
PLAIN = {"t": "bfloat16", "b": "32, 16", "pad": 40, "product": PRODUCT, "out": "acc[we * 16 + ie, je] + 1.0"}
PLAIN |= {"copy": "Bs[l1, v1] = B[l1, v1]", "load": "Bs[ki * 16 + k1, j1]", "to": "k1, j1"}
TRANSPOSED = PLAIN | {"b": "16, 32", "copy": "Bs[v1, l1] = B[v1, l1]", "load": "Bs[j1, ki * 16 + k1]", "to": "j1, k1"}
TRANSPOSED["product"] = "float32(a[i2, k2]) * float32(b[n * 8 + j2, k2])"


def tiles(b: str = "b", **how: object) -> lp.Schedule:
    base = TRANSPOSED if b == "bt" else PLAIN
    short = {"bfloat16": "bf16", "float16": "f16"}[str(how.get("t", "bfloat16"))]
    s = lp.Schedule(lp.parse(TILES.format(**(base | how))))
    s = s.tensorize("i2", f"mma_m16n8k16_{short}{'_bt' * (b == 'bt')}")
    return s.tensorize("i", f"ldmatrix_a_{short}").tensorize("k1", f"ldmatrix_{b}_{short}")


def arguments(b: str = "b") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, (32, 32)), rng.integers(0, 9, (32, 16))
    return x, (y if b == "b" else y.T.copy()), x @ y + 1


def run(func: Func, *args: np.ndarray, seed: int = 0) -> np.ndarray:
    return interpret(func, args, domain="ring", seed=seed)["C"]


@pytest.mark.parametrize(("b", "t"), [("b", "bfloat16"), ("bt", "bfloat16"), ("b", "float16"), ("bt", "float16")])
def test_registers_and_addresses_give_the_product(b: str, t: str) -> None:
    s = tiles(b, t=t)
    x, y, expected = arguments(b)
    assert np.array_equal(run(s.func, x, y), expected)
    (lowered,) = lp.lower(s, "cuda")
    issued = {n.fn.name for n in nodes(lowered) if isinstance(n, InstrCall)}
    assert {name.partition("_")[0] for name in issued} == {"mma", "ldmatrix"}
    assert len(issued) == 3
    assert np.array_equal(run(lowered, x, y, seed=3), expected)


def test_a_warp_holds_its_part_of_a_fragment_and_no_more() -> None:
    shown: dict[str, str] = {}
    lp.lower(tiles(), "cuda", show=lambda name, func: shown.update({name: lp.text(func)}))
    assert 'alloc("float32[32, 16]", scope="fragment"' in shown["distribute_fragments"]
    assert 'alloc("float32[16, 16]", scope="fragment"' in shown["bind_threads"]
    assert 'alloc("float32[8]", scope="local") as acc' in shown["lower_fragments"]
    assert "mma_m16n8k16_bf16(acc[n * 4], a[0], b[n * 4])" in shown["tidy"]


def test_without_the_instructions_the_loops_run() -> None:
    s = tiles()
    x, y, expected = arguments()
    assert np.array_equal(s.build("llvm")(x.astype("bfloat16"), y.astype("bfloat16")), expected)


@pytest.mark.parametrize("place", range(2))
def test_a_barrier_less_is_a_race(place: int) -> None:
    (lowered,) = lp.lower(tiles(), "cuda")
    found = [s for s in statements(lowered.body) if isinstance(s, Barrier)]
    assert len(found) == 1
    x, y, _ = arguments()
    without = replace(lowered, body=rewrite(lowered.body, lambda s: () if isinstance(s, Barrier) else None))
    with pytest.raises(InterpretError, match=r"a race|nothing has written"):
        run(without, x, y, seed=place)


@pytest.mark.parametrize("name", ["ldmatrix_a_bf16", "ldmatrix_b_bf16", "mma_m16n8k16_bf16"])
@pytest.mark.parametrize("which", range(2))
def test_a_wrong_address_or_register_is_a_wrong_value(name: str, which: int) -> None:
    x, y, expected = arguments()
    (lowered,) = lp.lower(tiles(), "cuda")

    def off(s: InstrCall) -> InstrCall:
        wrong = replace(s.operands[which], at=((s.operands[which].at[0] + 8) % 16,))
        return replace(s, operands=(*s.operands[:which], wrong, *s.operands[which + 1 :]))

    body = rewrite(lowered.body, lambda s: off(s) if isinstance(s, InstrCall) and s.fn.name == name else None)
    try:
        found = run(replace(lowered, body=body), x, y)
    except InterpretError:
        return  # out of bounds, or never written
    assert not np.array_equal(found, expected)


@pytest.mark.parametrize("name", [n for n in INSTRUCTIONS if n.startswith("ldmatrix")])
def test_ldmatrix_is_what_the_manual_says(name: str) -> None:
    """Matrix n of eight rows of 16 bytes has its rows from lanes 8 n on; register n of lane t is four bytes of its row
    t // 4, or, transposed, two elements of its column (PTX ISA, ldmatrix)."""
    fn = INSTRUCTIONS[name]
    (dst, src), aim = fn.meaning.args, fn.pointers["src"]
    held = fragment_elements(dst.buffer.layout)
    each = 4 // dst.buffer.dtype.bytes
    for t, n in product(range(32), range(4 * each)):
        tile, register = divmod(n, dst.buffer.layout.registers)
        want = held[t, register] + ((8 * tile, 0) if "_bt_" in name else (0, 8 * tile))
        matrix, part = divmod(n, each)
        r, c = t // 4, t % 4 * each + part
        r, c = (c, r) if ".trans" in fn.cuda_prelude else (r, c)
        at = [evaluate(x, {"lane": 8 * matrix + r}) for x in aim.at]
        assert (at[0], at[1] + c) == tuple(want)
    assert src.buffer.scope == "shared"


def test_a_fragment_may_leave_transposed() -> None:
    s = tiles(out="acc[we * 16 + je, ie]")
    x, y, expected = arguments()
    assert np.array_equal(run(lp.lower(s, "cuda")[0], x, y)[:16], expected[:16].T - 1)


def test_what_lanes_cannot_share_is_refused() -> None:
    with pytest.raises(LowerError, match=r"-je . 15 does not go over whole tiles of 8"):
        lp.lower(tiles(out="acc[we * 16 + ie, 15 - je]"), "cuda")


def test_two_fragments_are_paired_lane_by_lane() -> None:
    source = """
def f(A: "float32[16, 8]", C: "out float32[16, 8]"):
    for w in bind("warp.x", 1):
        with alloc("float32[16, 8]", scope="fragment", layout={x}) as x, alloc("float32[16, 8]", scope="fragment", layout={y}) as y:
            for i in range(16):
                for j in range(8):
                    x[i, j] = A[i, j]
            for i in range(16):
                for j in range(8):
                    y[i, j] = x[i, j] * 2.0
            for i in range(16):
                for j in range(8):
                    C[i, j] = y[i, j]
"""
    rows = "fragment(32, 4, lambda t, v: (t // 4 + v // 2 * 8, t % 4 * 2 + v % 2))"
    columns = "fragment(32, 4, lambda t, v: (t % 16, t // 16 * 4 + v))"
    a = np.arange(128).reshape(16, 8)
    same = lp.Schedule(lp.parse(source.format(x=rows, y=rows)))
    assert np.array_equal(run(lp.lower(same, "cuda")[0], a), a * 2)
    other = lp.Schedule(lp.parse(source.format(x=rows, y=columns)))
    with pytest.raises(LowerError, match=r"lane 0, which holds register 2 of y, needs x\[0, 2\], which lane 1 holds"):
        lp.lower(other, "cuda")


def test_an_operand_held_otherwise_is_refused_by_lane_and_register() -> None:
    columns = "layout=fragment(32, 4, lambda t, v: (t % 16, t // 16 * 4 + v))) as acc"
    source = TILES.format(**PLAIN).replace('scope="fragment") as acc', f'scope="fragment", {columns}')
    error = lp.Schedule(lp.parse(source)).why("tensorize", "i2", "mma_m16n8k16_bf16")
    assert isinstance(error, ScheduleError)
    assert "register 2 of lane 0 holds (0, 2), and not (8, 0)" in str(error)


def test_unaligned_rows_are_refused() -> None:
    s = lp.Schedule(lp.parse(TILES.format(**(PLAIN | {"pad": 36})))).tensorize("i2", "mma_m16n8k16_bf16")
    assert "8 elements along dimension 1 are not known to lie together, at a multiple of 16 bytes" in str(
        s.why("tensorize", "i", "ldmatrix_a_bf16")
    )


def test_registers_that_another_thread_needs_are_refused() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[64]", C: "out float32[64]"):
    for b in bind("blockIdx.x", 1):
        with alloc("float32[64]", scope="local") as x:
            for i in bind("threadIdx.x", 64):
                x[i] = A[i]
            for j in bind("threadIdx.x", 64):
                C[j] = x[j]
""")
    )
    assert np.array_equal(run(lp.lower(s, "cuda")[0], np.arange(64)), np.arange(64))
    shown: dict[str, str] = {}
    lp.lower(s, "cuda", show=lambda name, func: shown.update({name: lp.text(func)}))
    assert 'alloc("float32[1]", scope="local") as x' in shown["bind_threads"]
    other = lp.Schedule(lp.parse(lp.text(s.func).replace("x[j]", "x[63 - j]")))
    with pytest.raises(LowerError, match=r'x is local memory, and .* in another thread; give it scope "shared"'):
        lp.lower(other, "cuda")


def test_an_instruction_of_a_warp_stands_under_no_lane() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "bfloat16[2, 16, 16]", C: "out bfloat16[2, 16, 16]"):
    for b in bind("blockIdx.x", 1):
        with alloc("bfloat16[2, 16, 16]", scope="shared") as x:
            for l in bind("lane", 2):
                for v in range(16):
                    for u in range(16):
                        x[l, v, u] = A[l, v, u]
            for l1 in bind("lane", 2):
                with alloc("bfloat16[16, 16]", scope="fragment") as a:
                    for i in range(16):
                        for k in range(16):
                            a[i, k] = x[l1, i, k]
""")
    )
    with pytest.raises(LowerError, match="ldmatrix_a_bf16 is issued by a warp together, and it stands in a loop bound"):
        lp.lower(s.tensorize("i", "ldmatrix_a_bf16"), "cuda")


LEFT_OF_SUMS = """
def f(A: "float32[16, {n}]", B: "out bfloat16[16, {n}]"):
    for block in bind("blockIdx.x", 1):
        with alloc("float32[16, {n}]", scope="fragment", layout={C}) as S, alloc("bfloat16[16, {n}]", scope="fragment", layout={A16}) as P:
            for i in range(16):
                for j in range({n}):
                    S[i, j] = A[i, j]
            for i1 in range(16):
                for j1 in range({n}):
                    P[i1, j1] = bfloat16(S[i1, j1] * 2.0)
            for i2 in range(16):
                for j2 in range({n}):
                    B[i2, j2] = P[i2, j2]
"""


@pytest.mark.parametrize("n", [16, 48])
def test_a_left_operand_of_the_sums_that_the_same_lanes_hold(n: int) -> None:
    """Registers of one tile of 16 x 16 are those of two tiles of 16 x 8."""
    func = lp.parse(LEFT_OF_SUMS.format(n=n, C=loopir.intrinsics.nvidia.mma.C, A16=loopir.intrinsics.nvidia.mma.A16))
    x = np.arange(16 * n, dtype=np.float32).reshape(16, n) % 64
    got = interpret(lp.lower(lp.Schedule(func), "cuda")[0], [x])["B"]
    assert np.array_equal(got.astype(np.float32), 2 * x)
