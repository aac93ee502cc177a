"""Judge the PyTorch backend by torch's own samples of its operators, in float32: right, fell back, or wrong.

    python -m loopir.testing.torch_ops                   some samples of each operator
    python -m loopir.testing.torch_ops --samples 1000    all of them
    python -m loopir.testing.torch_ops add softmax       these operators alone

The samples are those of `torch.testing._internal`, which torch tests its own backends by. A sample is right if a kernel
was made for a part of it at least, and its results are eager's.
"""

from __future__ import annotations

import argparse
import sys
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from loopir.loading import load

RTOL, ATOL = 1e-5, 1e-5
RANDOM = ("dropout", "rand", "normal", "bernoulli", "multinomial", "uniform", "cauchy", "exponential", "geometric",
          "empty", "new_empty", "rrelu", "fractional_max_pool", "resize_", "svd_lowrank", "pca_lowrank")  # fmt: skip
"""Parts of the names of operators whose results are drawn, or not defined."""


@dataclass
class Tally:
    """How the samples ended, and of those that are wrong what was wrong."""

    ends: Counter[str] = field(default_factory=Counter[str])
    by_operator: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    wrong: list[str] = field(default_factory=list[str])

    def add(self, name: str, end: str, note: str = "") -> None:
        self.ends[end] += 1
        self.by_operator.setdefault(name, Counter())[end] += 1
        if end == "wrong":
            self.wrong.append(f"{name}: {note}")

    def __str__(self) -> str:
        claimed = sum(1 for c in self.by_operator.values() if c["right"])
        ends = ", ".join(f"{self.ends[end]} {end}" for end in ("right", "fell back", "wrong"))
        first = f"{len(self.by_operator)} operators, {claimed} of them claimed; {self.ends.total()} samples: {ends}"
        return "\n".join([first, *self.wrong])


def operators() -> list[Any]:
    """torch's list of operators with samples; they import a package for tests that nothing here needs."""
    if "expecttest" not in sys.modules:
        try:
            load("expecttest")
        except ModuleNotFoundError:
            stub: Any = types.ModuleType("expecttest")
            stub.TestCase, stub.assert_expected_inline = unittest.TestCase, None
            sys.modules["expecttest"] = stub
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load("torch.testing._internal.common_methods_invocations").op_db


def judge(names: Sequence[str] = (), samples: int = 3) -> Tally:
    """Run up to `samples` float32 samples of each operator, or of those called `names`."""
    torch: Any = load("torch")
    tally = Tally()
    for op in operators():
        if (names and op.name not in names) or torch.float32 not in op.dtypes:
            continue
        if any(part in op.name for part in RANDOM):
            continue
        full = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        for sample in _some(op, samples):
            tally.add(full, *_judged(op, sample))
    return tally


def _some(op: Any, most: int) -> Iterator[Any]:
    """Samples from all over an operator's list."""
    torch: Any = load("torch")
    torch.manual_seed(0)
    try:
        found = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))
    except Exception:  # a sample that needs a package which is not there
        return
    step = max(1, len(found) // most)
    yield from found[::step][:most]


def _judged(op: Any, sample: Any) -> tuple[str, str]:
    """How one sample ends."""
    torch: Any = load("torch")
    frontend: Any = load("loopir.frontend.torch.compiling")
    report: Any = load("loopir.frontend.torch.report")

    def call(given: Any, args: Any, kwargs: Any) -> Any:
        return op(given, *args, **kwargs)

    def copied() -> Any:
        return torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.detach().clone(), (
            sample.input, sample.args, sample.kwargs))  # fmt: skip

    compiler = partial(frontend.compile_graph, scheduled=False)
    compiled = load("functorch.compile").aot_function(
        call, fw_compiler=compiler, decompositions=frontend.decompositions(), inference_compiler=compiler
    )
    report.take_report(True)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            torch.manual_seed(0)
            expected = call(*copied())
        except Exception:  # torch itself does not run it here
            return "fell back", ""
        try:
            torch.manual_seed(0)
            got = compiled(*copied())
        except Exception as error:
            made = report.take_report()
            if made.kernels == 0 and made.graphs == 0:  # torch's own tracing does not take it
                return "fell back", ""
            return "wrong", f"{type(error).__name__}: {str(error)[:200]}"
        made = report.take_report()
        if not made.kernels:
            return "fell back", made.failures[0] if made.failures else ""
        try:
            torch.testing.assert_close(got, expected, rtol=RTOL, atol=ATOL, equal_nan=True)
        except AssertionError as error:
            return "wrong", f"{' '.join(str(error).split())[:300]} {dict(made.compiled)}"
    return "right", ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=3)
    options = parser.parse_args(arguments)
    tally = judge(options.names, options.samples)
    print(tally)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
