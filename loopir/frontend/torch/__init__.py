"""Programs of PyTorch: the backend `torch.compile(model, backend="loopir")`."""

from loopir.frontend.torch.compiling import backend
from loopir.frontend.torch.report import Report

__all__ = ["Report", "backend"]
