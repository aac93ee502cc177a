"""Random chains of stages for the tests of placement: elementwise, stencils, strides, reversals, clamps, reductions."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

SIZES = ("n", "m")


@dataclass(frozen=True)
class Dim:
    """A dimension of `size + extra` elements."""

    size: str
    extra: int

    def __str__(self) -> str:
        return f"{self.size} + {self.extra}" if self.extra else self.size


@dataclass(frozen=True)
class Stage:
    name: str
    dims: tuple[Dim, ...]


@st.composite
def index(draw: st.DrawFn, into: Dim, loops: Sequence[tuple[str, Dim]], taps: Sequence[str] = ()) -> str:
    """An index that is inside `into`, of one of `loops`; `taps` run over 3."""
    v, over = draw(st.sampled_from(loops))
    slack = into.extra - over.extra if into.size == over.size else -1
    top = f"{into.size} + {into.extra - 1}"
    exact = ["{v}", f"{into.size} + {into.extra - 1} - {{v}}", "{v} // 2"]
    exact += [f"{{v}} + {o}" for o in range(1, slack + 1)]
    exact += [f"{{v}} + {t}" for t in taps if slack >= 2]
    clamped = [f"min(2 * {{v}}, {top})", "max({v} - 1, 0)" if slack >= 0 else f"min({{v}}, {top})", "0"]
    clamped += [f"min({{v}} + 1, {top})", f"min({{v}} % 3, {top})", f"max({top} - 2 * {{v}}, 0)"]
    clamped += [f"min(2 * {{v}} + {t}, {top})" for t in taps]
    forms = exact * 3 + clamped if slack >= 0 else clamped
    return draw(st.sampled_from(forms)).format(v=v)


@st.composite
def programs(draw: st.DrawFn, count: int = 4) -> str:
    """A program of `count` stages: the last is the output, perhaps another one, too."""
    stages = [Stage("A", (Dim("n", 6), Dim("m", 6))), Stage("W", (Dim("m", 7),))]
    out = {f"S{count - 1}"} | (
        {draw(st.sampled_from([f"S{k}" for k in range(count)]))} if draw(st.booleans()) else set()
    )
    body: list[str] = []
    for k in range(count):
        rank = draw(st.sampled_from((1, 2, 2)))
        extra = draw(st.integers(0, 2)) + 2 * (count - 1 - k) if k < count - 1 else draw(st.integers(1, 2))
        dims = tuple(Dim(size, min(extra, 6)) for size in draw(st.permutations(SIZES))[:rank])
        stage = Stage(f"S{k}", dims)
        loops = [(f"{'ij'[d]}{k}", x) for d, x in enumerate(dims)]
        body += draw(nests(stage, loops, stages))
        stages.append(stage)
    args = ", ".join(f'{s.name}: "out float32[{", ".join(map(str, s.dims))}]"' for s in stages if s.name in out)
    lines = [f'def f(n: "size", m: "size", A: "float32[n + 6, m + 6]", W: "float32[m + 7]", {args}):']
    depth = 1
    for s in stages[2:]:
        if s.name not in out:
            lines.append(f'{"    " * depth}with alloc("float32[{", ".join(map(str, s.dims))}]") as {s.name}:')
            depth += 1
    return "\n".join([*lines, *("    " * depth + line for line in body)]) + "\n"


@st.composite
def nests(draw: st.DrawFn, stage: Stage, loops: list[tuple[str, Dim]], stages: list[Stage]) -> list[str]:
    """The nest of a stage that reads one or two of `stages`, the one before it most often."""
    k = stage.name[1:]
    kind = draw(st.sampled_from(("plain", "plain", "taps", "row", "select")))
    inner = [*loops]
    taps: tuple[str, ...] = ()
    if kind == "taps":
        taps = (f"r{k}",)
    if kind == "row":
        inner = [(f"r{k}", Dim(draw(st.sampled_from(SIZES)), draw(st.integers(0, 2)))), *loops]

    def load() -> str:
        s = draw(st.sampled_from([stages[-1], stages[-1], *stages]))
        at = ", ".join(draw(index(d, inner, taps)) for d in s.dims)
        return f"{s.name}[{at}]"

    value = " + ".join(load() for _ in range(draw(st.integers(1, 3)))) + " * 2.0"
    if kind == "select":
        s = stages[-1]
        v, over = loops[0]
        at = [draw(index(d, loops)) for d in s.dims]
        size = s.dims[0]
        if size.size == over.size:
            at[0] = f"{v} - 1"
            value = f"({s.name}[{', '.join(at)}] if 1 <= {v} and {v} <= {size} else 3.0) + {value}"
    target = f"{stage.name}[{', '.join(v for v, _ in loops)}]"
    line = f"{target} = {value}"
    order = [*loops]
    if kind in ("taps", "row"):
        line = f"{target} = sum({value}, over=r{k}, init=0.0)"
        reduced = (f"r{k}", "3" if kind == "taps" else str(inner[0][1]))
        order = draw(st.permutations([*loops, reduced])) if draw(st.booleans()) else [*loops, reduced]
    return [*("    " * d + f"for {v} in range({x}):" for d, (v, x) in enumerate(order)), "    " * len(order) + line]
