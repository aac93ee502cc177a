"""Products of float32 in TF32 on a GPU, where torch's settings allow it; here on the CPU, which is told so."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from loopir.frontend.torch import translate  # noqa: E402
from loopir.frontend.torch.translate import rounded_products  # noqa: E402

GPU: Any = SimpleNamespace(device=torch.device("cuda"), dtype=torch.float32)


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    torch._dynamo.reset()
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]
    torch._dynamo.reset()


@pytest.mark.parametrize("conv", [True, False])
@pytest.mark.parametrize(("precision", "matmul"), [("highest", False), ("high", True)])
def test_settings_are_those_of_torch(precision: str, matmul: bool, conv: bool) -> None:
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = conv
    assert rounded_products(GPU) == {name for name, on in (("matmul", matmul), ("conv", conv)) if on}
    for other in ({"device": torch.device("cpu")}, {"dtype": torch.bfloat16}):
        fake: Any = SimpleNamespace(**(vars(GPU) | other))
        assert not rounded_products(fake)


@pytest.mark.parametrize("which", ["matmul", "conv"])
def test_factors_are_rounded_where_they_are_multiplied(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch rounds them: to numbers of 11 bits, which are multiplied exactly and summed in float32."""
    monkeypatch.setattr(translate, "rounded_products", lambda fake: frozenset({which}))
    torch.manual_seed(0)
    conv, linear = torch.nn.Conv2d(3, 5, 3, padding=1), torch.nn.Linear(5 * 16, 7)
    x = torch.randn(2, 3, 4, 4)

    def model(x: Any, conv: Any, linear: Any) -> Any:
        return linear(conv(x).relu().flatten(1))

    def rounded(t: Any) -> Any:
        bits = t.float().view(torch.int32) + (1 << 12)
        return (bits & -(1 << 13)).view(torch.float32).double()

    def exact(f: Any, layer: Any, x: Any, name: str, **options: Any) -> Any:
        x, w = (rounded(t) if name == which else t.double() for t in (x, layer.weight))
        return f(x, w, layer.bias.double(), **options)

    with torch.no_grad():
        found = torch.compile(model, backend="loopir")(x, conv, linear).double()
        hidden = exact(torch.nn.functional.conv2d, conv, x, "conv", padding=1).relu().flatten(1)
        want = exact(torch.nn.functional.linear, linear, hidden, "matmul")
        plain = model(x.double(), conv.double(), linear.double())
    assert float((found - want).abs().max()) < 1e-6 < float((found - plain).abs().max())
