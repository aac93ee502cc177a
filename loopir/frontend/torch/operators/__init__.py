"""The table of ATen operators, in files by what they are about. Importing this package fills the table."""

from loopir.frontend.torch.operators import creation, elementwise, indexing, movement, neural, products, reductions

__all__ = ["creation", "elementwise", "indexing", "movement", "neural", "products", "reductions"]
