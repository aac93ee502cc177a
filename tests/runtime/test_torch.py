"""Tensors of torch itself on a CPU, where it is installed: what is taken, and that what has no memory is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import loopir as lp

torch: Any = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(scope="module")
def kernel() -> Any:
    x = lp.placeholder((lp.symbol("n", min=0),), "float32", name="x")
    return lp.Schedule((x + 1.0).named("y")).build("llvm")


def freed(count: int = 100, left: int = 0, *, view: bool = False) -> Any:
    t = torch.ones(count)
    seen = t[count // 2 :] if view else t
    t.untyped_storage().resize_(left)
    return seen


def fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(4)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "fake": (fake, "x is a FakeTensor, which has no memory of its own"),
    "freed": (freed, r"x of shape \(100,\) takes 400 bytes, and its storage has 0: it was freed or resized"),
    "freed in part": (lambda: freed(left=396), "its storage has 396"),
    "a view of what was freed": (lambda: freed(view=True), "takes 200 bytes, and its storage has 0"),
    "meta": (lambda: torch.ones(4, device="meta"), "x is on torch's meta device, which has no memory"),
    "sparse": (lambda: torch.ones(4).to_sparse(), "x is sparse"),
    "a gradient": (lambda: torch.ones(4, requires_grad=True), r"pass x\.detach\(\)"),
    "another type": (lambda: torch.ones(4, dtype=torch.float64), "x holds float64, and the kernel takes float32"),
    "quantized": (lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8), "x holds qint8"),
    "no tensor": (lambda: torch.float32, "x is a dtype; a kernel takes arrays"),
    "a size": (lambda: torch.Size([4]), "x is a Size; a kernel takes arrays"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_what_has_no_memory_or_another_is_refused_and_the_next_call_works(kernel: Any, name: str) -> None:
    make, message = REFUSED[name]
    for _ in range(2):
        with pytest.raises((TypeError, ValueError), match=message):
            kernel(make())
        assert kernel(torch.ones(3)).tolist() == [2, 2, 2]


def test_an_output_that_was_freed_is_refused(kernel: Any) -> None:
    with pytest.raises(ValueError, match=r"y of shape .* its storage has 0"):
        kernel(torch.ones(100), out=(freed(),))


def test_inside_a_transformation_of_torchs_it_is_refused(kernel: Any) -> None:
    with pytest.raises(TypeError, match=r"x: torch tells no address of its memory|x is a"):
        torch.func.vmap(kernel)(torch.ones(3, 4))


def test_a_subclass_and_a_view_that_hold_their_elements_are_taken(kernel: Any) -> None:
    class Own(torch.Tensor):
        pass

    assert kernel(torch.ones(4).as_subclass(Own)).tolist() == [2] * 4
    assert kernel(torch.arange(6, dtype=torch.float32)[2:5]).tolist() == [3, 4, 5]
    assert kernel(torch.ones(0)).tolist() == []
    assert kernel(torch.nn.Parameter(torch.ones(2), requires_grad=False)).tolist() == [2, 2]


def test_calls_like_earlier_ones_take_the_short_way(kernel: Any) -> None:
    """Of both libraries in turn, with results of the caller's too; what is unusual is refused as before."""
    k = lp.Schedule((lp.placeholder((3,), "float32", name="x") + 1.0).named("y")).build("llvm")
    x, out = torch.ones(3), torch.zeros(3)
    a = x.numpy().copy()
    for _ in range(2):
        assert torch.equal(k(x), x + 1)
        assert (k(a) == 2).all()
        k(x, out=(out,))
    assert torch.equal(out, x + 1)
    assert k._plans.ready((x,), None) is not None
    assert k._plans.ready((a,), None) is not None
    leaf = torch.ones(3, requires_grad=True)
    for odd in (leaf, torch.ones(6)[::2], freed(3), torch.ones(4)):
        assert k._plans.ready((odd,), None) is None
    assert k._plans.ready((x,), (x,)) is None
    with pytest.raises(TypeError, match="x requires a gradient"):
        k(leaf)
