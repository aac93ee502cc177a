"""`python -m loopir demo`: the main job on real input, checked at every step.

A two-layer network classifies the 1,797 handwritten digits that scikit-learn ships; each layer is one loopir
program (matmul + bias + relu, matmul + bias + softmax), with weights that NumPy trains in seconds. Then two
elementwise chains run on millions of floats. Every result is compared with float64.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import loopir as lp
from loopir import schedules
from loopir.requirements import missing

HIDDEN = 48


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the closing table: what was checked, the figure, and the bound it has to keep."""

    what: str
    figure: float
    bound: float

    @property
    def passed(self) -> bool:
        return bool(self.figure <= self.bound)  # False for NaN, too


# ---------------------------------------------------------------- the programs


def hidden_layer() -> Any:
    """relu(X @ W1 + b1) for any number of images n: X (n, 64), W1 (64, 48), b1 (48,), all float32."""
    n = lp.symbol("n")
    X = lp.placeholder((n, 64), "float32", name="X")
    W = lp.placeholder((64, HIDDEN), "float32", name="W1")
    b = lp.placeholder((HIDDEN,), "float32", name="b1")
    k = lp.reduce_axis(64, name="k")
    S = lp.compute((n, HIDDEN), lambda i, j: lp.sum(X[i, k] * W[k, j], axis=k), name="S")
    return lp.compute((n, HIDDEN), lambda i, j: lp.maximum(S[i, j] + b[j], 0.0), name="H")


def output_layer() -> Any:
    """softmax(H @ W2 + b2) row by row: H (n, 48), W2 (48, 10), b2 (10,), all float32."""
    n = lp.symbol("n")
    H = lp.placeholder((n, HIDDEN), "float32", name="H")
    W = lp.placeholder((HIDDEN, 10), "float32", name="W2")
    b = lp.placeholder((10,), "float32", name="b2")
    k, c, d = (lp.reduce_axis(size, name=name) for size, name in ((HIDDEN, "k"), (10, "c"), (10, "d")))
    Z = lp.compute((n, 10), lambda i, j: lp.sum(H[i, k] * W[k, j], axis=k), name="Z")
    M = lp.compute((n,), lambda i: lp.max(Z[i, c] + b[c], axis=c), name="M")
    E = lp.compute((n, 10), lambda i, j: lp.exp(Z[i, j] + b[j] - M[i]), name="E")
    T = lp.compute((n,), lambda i: lp.sum(E[i, d], axis=d), name="T")
    return lp.compute((n, 10), lambda i, j: E[i, j] / T[i], name="P")


def gelu_chain() -> Any:
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), one stage, float32."""
    x = lp.placeholder((lp.symbol("n"),), "float32", name="x")
    return (x * 0.5 * (1.0 + lp.tanh(x * 0.7978845608028654 + x * x * x * 0.035677408136300125))).named("gelu")


def sin_cos() -> Any:
    """sin^2 + cos^2, which is 1 up to rounding, float32."""
    x = lp.placeholder((lp.symbol("n"),), "float32", name="x")
    return (lp.sin(x) * lp.sin(x) + lp.cos(x) * lp.cos(x)).named("one")


# ---------------------------------------------------------------- the same in NumPy


def numpy_gelu(x: NDArray[Any]) -> NDArray[Any]:
    return x * 0.5 * (1.0 + np.tanh(x * 0.7978845608028654 + x * x * x * 0.035677408136300125))


def numpy_sin_cos(x: NDArray[Any]) -> NDArray[Any]:
    return np.sin(x) * np.sin(x) + np.cos(x) * np.cos(x)


def numpy_hidden(X: NDArray[Any], W: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return np.maximum(X @ W + b, 0.0)


def numpy_output(H: NDArray[Any], W: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    z = H @ W + b
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def train(X: NDArray[Any], labels: NDArray[Any], steps: int = 400) -> tuple[NDArray[Any], ...]:
    """Weights of the network by full-batch Adam (Kingma and Ba 2015) on the cross-entropy; float32."""
    rng = np.random.default_rng(0)
    params = [
        rng.standard_normal((64, HIDDEN)) * 0.18, np.zeros(HIDDEN),
        rng.standard_normal((HIDDEN, 10)) * 0.2, np.zeros(10),
    ]  # fmt: skip
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in params]
    target = np.eye(10)[labels]
    for step in range(1, steps + 1):
        W1, b1, W2, b2 = params
        hidden = numpy_hidden(X, W1, b1)
        dz = (numpy_output(hidden, W2, b2) - target) / len(X)
        dh = (dz @ W2.T) * (hidden > 0)
        gradients = (X.T @ dh, dh.sum(axis=0), hidden.T @ dz, dz.sum(axis=0))
        for p, g, (m, v) in zip(params, gradients, moments, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            p -= 0.01 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    W1, b1, W2, b2 = (p.astype(np.float32) for p in params)
    return W1, b1, W2, b2


# ---------------------------------------------------------------- the run


def median_ms(fn: Callable[[], Any], repeats: int) -> float:
    """Median milliseconds of `repeats` calls of `fn`, after one to warm up."""
    fn()
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3


def scheduled(title: str, expression: Any, target: str) -> Any:
    """Print the nest of `expression` before and after `schedules.auto`; the kernel that was built."""
    before = lp.Schedule(expression)
    after = schedules.auto(before, target)
    print(f"\n=== {title}\n--- as written\n{before}\n--- scheduled for {target}\n{after}\n--- by\n{after.script()}")
    return after.build(target)


def timings(
    name: str, kernel: Any, inputs: tuple[NDArray[Any], ...], numpy_fn: Callable[..., NDArray[Any]], where: str
) -> None:
    ours = kernel.time(*inputs) * 1e3
    theirs = median_ms(lambda: numpy_fn(*inputs), 3)
    print(f"{name}: loopir {ours:.3f} ms {where}, NumPy {theirs:.3f} ms, {theirs / ours:.1f} x")


def digits(target: str, where: str) -> list[Check]:
    """Classify the digits with both layers as kernels; the checks."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"the digits are scikit-learn's; {missing(error)}", name=error.name) from None

    data: Any = load_digits()
    X = (np.asarray(data.data) / 16.0).astype(np.float32)
    labels = np.asarray(data.target)
    start = time.perf_counter()
    W1, b1, W2, b2 = train(X.astype(np.float64), labels)
    print(f"{len(X)} digits; weights trained by NumPy in {time.perf_counter() - start:.1f} s")
    first = scheduled("hidden layer: matmul + bias + relu", hidden_layer(), target)
    second = scheduled("output layer: matmul + bias + softmax", output_layer(), target)
    hidden = first(X, W1, b1)
    probabilities = second(hidden, W2, b2)
    reference = numpy_output(numpy_hidden(*(a.astype(np.float64) for a in (X, W1, b1))), *(
        a.astype(np.float64) for a in (W2, b2)
    ))  # fmt: skip
    timings("hidden layer", first, (X, W1, b1), numpy_hidden, where)
    timings("output layer", second, (hidden, W2, b2), numpy_output, where)
    ours, theirs = ((p.argmax(axis=1) == labels).mean() for p in (probabilities, numpy_output(
        numpy_hidden(X, W1, b1), W2, b2
    )))  # fmt: skip
    print(f"accuracy: loopir {ours:.4f}, NumPy {theirs:.4f}")
    return [
        Check("digits: accuracy differs from NumPy's by", abs(float(ours - theirs)), 0.0),
        Check("digits: 1 - accuracy", 1.0 - float(ours), 0.05),
        Check("digits: max |probability - float64|", float(np.abs(probabilities - reference).max()), 2e-5),
        Check("digits: max |row sum - 1|", float(np.abs(probabilities.sum(axis=1) - 1).max()), 2e-6),
    ]


def chains(target: str, elements: int, where: str) -> list[Check]:
    """The two elementwise chains on `elements` floats; the checks."""
    x = np.random.default_rng(1).standard_normal(elements, dtype=np.float32) * 4
    exact = x.astype(np.float64)
    gelu = scheduled("gelu chain", gelu_chain(), target)
    error = np.abs(gelu(x) - numpy_gelu(exact)) / (1.0 + np.abs(exact))
    timings(f"gelu, {elements} floats", gelu, (x,), numpy_gelu, where)
    one = scheduled("sin^2 + cos^2", sin_cos(), target)
    deviation = np.abs(one(x) - 1.0)
    timings(f"sin^2 + cos^2, {elements} floats", one, (x,), numpy_sin_cos, where)
    return [
        Check("gelu: max |error against float64| / (1 + |x|)", float(error.max()), 1e-6),
        Check("sin^2 + cos^2: max |value - 1|", float(deviation.max()), 1e-6),
    ]


def main(target: str = "auto", elements: int = 1 << 24) -> int:
    """Run the demo on `target`; 0 if every check passed, else 1."""
    target = lp.resolve_target(target)
    where = "on the GPU with its copies counted apart" if target == "cuda" else "on the CPU"
    checks = digits(target, where) + chains(target, elements, where)
    print("\n=== checks")
    for c in checks:
        print(f"{'ok  ' if c.passed else 'FAIL'} {c.what} {c.figure:.3g} (at most {c.bound:g})")
    failed = sum(not c.passed for c in checks)
    print(f"{len(checks) - failed} of {len(checks)} checks passed on {target}")
    return 1 if failed else 0
