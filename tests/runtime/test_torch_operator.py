"""Kernels as operators of torch: traced, derived, and refused in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

import loopir as lp

torch: Any = pytest.importorskip("torch", reason="torch is not installed")


def doubled(count: Any, name: str = "y") -> Any:
    x = lp.placeholder((count,), "float32", name="x")
    return lp.Schedule((x * 2.0).named(name)).build("llvm")


def test_a_kernel_is_an_operator_with_a_gradient() -> None:
    n = lp.symbol("n")
    g, x = (lp.placeholder((n,), "float32", name=name) for name in ("g", "x"))  # in the order of the call
    back = lp.Schedule((g * lp.cos(x)).named("dx")).build("llvm")
    op = lp.Schedule(lp.sin(x).named("y")).build("llvm").as_torch_op("loopir_test::sine", backward=back)
    leaf = torch.linspace(0, 1, 5, requires_grad=True)
    made = torch.compile(lambda x: op(x) + 1, backend="eager", fullgraph=True)(leaf)
    made.sum().backward()
    torch.testing.assert_close(made, leaf.detach().sin() + 1)
    torch.testing.assert_close(leaf.grad, leaf.detach().cos())
    strided = torch.arange(8.0)[::2]
    torch.testing.assert_close(torch.ops.loopir_test.sine(strided), strided.sin())
    torch.library.opcheck(op, (torch.ones(3),), test_utils=("test_schema", "test_faketensor"))


def test_arguments_that_are_written() -> None:
    add_one = lp.parse(
        """
def add_one(n: "size", a: "inout float32[n]"):
    for i in range(n):
        a[i] = a[i] + 1.0
"""
    )
    op = lp.Schedule(add_one).build("llvm").as_torch_op("loopir_test::add_one")
    x = torch.zeros(3)
    op(x)
    assert x.tolist() == [1, 1, 1]


def test_what_cannot_be_an_operator_is_refused() -> None:
    kernel = doubled(4)
    op = kernel.as_torch_op("loopir_test::double")
    with pytest.raises(RuntimeError, match="loopir_test::double has no gradient, as kernels are not derived"):
        op(torch.ones(4, requires_grad=True)).sum().backward()
    with pytest.raises(ValueError, match="there is an operator 'loopir_test::double' already"):
        kernel.as_torch_op("loopir_test::double")
    with pytest.raises(ValueError, match='"namespace::name"'):
        kernel.as_torch_op("double")
    n = lp.symbol("n")
    hidden = lp.Schedule(lp.full((n,), 1.0, "float32").named("y")).build("llvm")
    with pytest.raises(ValueError, match=r"no input of .* has the size n"):
        hidden.as_torch_op("loopir_test::hidden")
