"""A report as a picture: the roofline of the GPU, and where each kernel stands under it. Drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loopir.errors import TargetError
from loopir.requirements import install_extra
from loopir.show.units import seconds

if TYPE_CHECKING:
    from loopir.show.report import KernelReport, Report


def plot(report: Report, ax: Any = None) -> Any:
    """Draw the roofline of `report` into `ax`, axes of matplotlib, or into a figure of its own; the axes.

    Across, operations for each byte of memory that a kernel moves; up, operations a second at the time predicted. The
    roofs are the rates of memory, of the L2 cache, of single lanes and of tensor cores. TargetError if there is no
    matplotlib, with what to install.
    """
    if ax is None:
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise TargetError(
                f"the picture is left out, as matplotlib is not installed: {install_extra('plot')}; "
                "print(report) has the numbers"
            ) from None
        ax = Figure(figsize=(7, 4.5), layout="constrained").subplots()
    gpu = report.gpu
    lanes = 2.0 * gpu.processors * gpu.clock * gpu.lanes
    points = [(k, *_operations_per_byte(k)) for k in report.kernels]
    fastest = max(t.warpgroup or t.warp for t in gpu.tensor if t.dtype == "float16")
    low = min([0.1, *(x / 3 for _, x, y in points if x > 0)])
    high = max([1e3, *(x * 3 for _, x, _ in points)])
    across = np.geomspace(low, high, 200)
    for rate, name, style in ((gpu.copy_bandwidth, "memory", "-"), (gpu.l2_bandwidth, "L2 cache", "--")):
        ax.plot(across, np.minimum(rate * across, fastest), style, color="0.3", lw=1.2, label=name)
    for rate, name in ((lanes, "single lanes"), (fastest, "tensor cores")):
        ax.axhline(rate, color="0.6", lw=0.8, ls=":")
        ax.annotate(name, (high, rate), ha="right", va="bottom", fontsize=8, color="0.4")
    for n, (kernel, x, y) in enumerate(points):
        if x > 0 and y > 0:
            told = f"{kernel.work.name}: {seconds(kernel.total)}, bound by {kernel.bound}"
            ax.plot([x], [y], "o", color=f"C{n}", label=told)
    ax.set(xscale="log", yscale="log", xlabel="operations a byte of memory", ylabel="operations a second")
    ax.set_title(f"{gpu.name}, {seconds(report.seconds)} predicted")
    ax.legend(fontsize=8, loc="lower right")
    ax.grid(True, which="major", lw=0.3)
    return ax


def _operations_per_byte(kernel: KernelReport) -> tuple[float, float]:
    """Operations per byte moved, and per second."""
    moved = kernel.moved
    return kernel.operations / max(1.0, moved), kernel.operations * kernel.times / max(1e-12, kernel.total)
