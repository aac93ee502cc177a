"""Time models in PyTorch by loopir's backend, beside eager mode and Inductor, in one run, on the CPU or a GPU.

    python benchmarks/torch_compile.py                    all models, at batches of 1 and 16
    python benchmarks/torch_compile.py --device cuda --dtype bfloat16
    python benchmarks/torch_compile.py MLP DLRM --batches 1
    python benchmarks/torch_compile.py --train            a forward and a backward pass, to the gradients of all weights
    python benchmarks/torch_compile.py --no-inductor      where there is no C++ compiler

Each row has the median milliseconds of each, taken in turns, the largest difference from eager's result (with `--train`
of the gradients, each over the largest number of its weight's), and the seconds to the first result. Above 1 in the
last column loopir is faster than Inductor. A row is named and not counted where no kernel could be made of a piece, so
that torch ran it.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch_models

import loopir as lp
from loopir.frontend.torch import backend

IDLE, CALLS = 0.03, 5
"""Seconds before each turn, in which the threads of another library go to sleep that spin after its calls, and would
take a core from the next one's; and the calls of a turn, after one that is not counted."""


def medians(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Median milliseconds of each call: rounds in which each has its turn, until the seconds are over."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(taken.values()))) < 3:
        for name, call in calls.items():
            time.sleep(IDLE)
            call()
            for _ in range(CALLS):
                start = time.perf_counter()
                call()
                taken[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(ms) for name, ms in taken.items()}


def waited(run: Callable[..., Any], inputs: Sequence[Any]) -> Callable[[], None]:
    """A call that returns when the device is done with it."""

    def call() -> None:
        run(*inputs)
        if inputs[0].is_cuda:
            torch.cuda.synchronize()

    return call


def trained(model: torch.nn.Module, run: Callable[..., Any]) -> Callable[..., list[torch.Tensor]]:
    """A call of `run`, which is `model` as it is compiled, and of its gradients by all weights, of its mean square."""
    weights = [x for x in model.parameters() if x.requires_grad]

    def call(*inputs: Any) -> list[torch.Tensor]:
        loss = run(*inputs).float().square().mean()
        return list(torch.autograd.grad(loss, weights))

    return call


def difference(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], relative: bool) -> float:
    """The largest difference of two lists of tensors, each over the largest number of its own if it is `relative`."""
    pairs = [(x.float(), y.float()) for x, y in zip(got, expected, strict=True)]
    return max(((x - y).abs().max() / (y.abs().max() if relative else 1.0)).item() for x, y in pairs)


def measured(case: torch_models.Case, batch: int, options: argparse.Namespace) -> dict[str, float]:
    """The times of one model at one batch."""

    def whole(run: Callable[..., Any]) -> Callable[..., Sequence[torch.Tensor]]:
        return trained(model, run) if options.train else lambda *given: [run(*given)]

    torch.manual_seed(0)
    torch._dynamo.reset()
    dtype = getattr(torch, options.dtype)
    model = case.model().to(options.device, dtype)
    model.train(options.train)
    given = (x.to(options.device) for x in case.inputs(batch))
    inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in given)
    expected = whole(model)(*inputs)
    calls: dict[str, Callable[[], Any]] = {"eager": waited(whole(model), inputs)}
    row, failed = dict[str, float](), len(lp.torch_report().failures)
    backends: dict[str, Any] = {"loopir": backend} | ({} if options.no_inductor else {"inductor": "inductor"})
    for name, used in backends.items():
        compiled = whole(torch.compile(model, backend=used, dynamic=False))
        start = time.perf_counter()
        got = compiled(*inputs)
        row[f"{name} first"] = time.perf_counter() - start
        if name == "loopir":
            row["kept"] = float(len(lp.torch_report().failures) - failed)
        row[f"{name} off"] = difference(got, expected, options.train)
        calls[name] = waited(compiled, inputs)
    return row | medians(calls, options.seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--train", action="store_true", help="time gradients, too")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    where = "cuda" if options.device == "cuda" else "llvm"
    machine = f"{lp.describe_target(where)}, {options.dtype}, {options.threads} threads of torch's"
    print(f"torch {torch.__version__}, {machine}")
    print(f"{'model':20}{'batch':>6}{'eager':>9}{'inductor':>10}{'loopir':>9}  ms"
          f"{'off':>9}{'first s':>9}{'inductor':>10}{'ratio':>8}")  # fmt: skip
    ratios: list[float] = []
    with torch.set_grad_enabled(options.train):
        for case in torch_models.cases(small=False):
            if options.models and case.name not in options.models:
                continue
            for batch in options.batches:
                row = measured(case, batch, options)
                nan = float("nan")
                other = row.get("inductor", nan)
                ratio = other / row["loopir"]
                ratios += [] if row["kept"] else [ratio]
                print(f"{case.name:20}{batch:6}{row['eager']:9.3f}{other:10.3f}{row['loopir']:9.3f}    "
                      f"{row['loopir off']:9.1e}{row['loopir first']:9.2f}{row.get('inductor first', nan):10.2f}"
                      f"{ratio:8.3f}{'  torch ran pieces of it: not counted' if row['kept'] else ''}",
                      flush=True)  # fmt: skip
    if ratios:
        print(f"geometric mean over inductor: {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    print(lp.torch_report())


if __name__ == "__main__":
    main()
