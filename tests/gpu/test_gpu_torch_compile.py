"""torch.compile with loopir's backend on a GPU: gradients, where torch's own kernels read what ours wrote."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning"),  # of what torch.compile loads
]
KINDS = ["CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "causal"), [(128, True), (77, False)])
def test_gradients_of_attention_are_those_of_eager(torch: Any, kind: str, rows: int, causal: bool) -> None:
    """Torch's derivative takes the logarithms of sums that our kernel wrote, of rows that are no whole warps, too."""
    backend = pytest.importorskip("loopir.frontend.torch").backend
    attention = torch.nn.attention
    torch.manual_seed(0)
    given = [torch.randn(2, 4, rows, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]

    def attended(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def gradients(run: Any) -> list[Any]:
        out = run(*given)
        return [out.detach(), *torch.autograd.grad(out.float().square().sum(), given)]

    torch._dynamo.reset()
    try:
        with attention.sdpa_kernel([getattr(attention.SDPBackend, kind)]):
            expected = gradients(attended)
            found = gradients(torch.compile(attended, backend=backend, dynamic=False))
    except RuntimeError as error:
        if "No available kernel" not in str(error):
            raise
        pytest.skip(f"this torch has no {kind}")
    finally:
        torch._dynamo.reset()
    for x, y in zip(found, expected, strict=True):
        assert float((x.float() - y.float()).abs().max()) <= 0.02 * float(y.float().abs().max())


@pytest.mark.parametrize("precision", ["highest", "high"])
@pytest.mark.parametrize("rounded", [False, True])
def test_float32_is_multiplied_in_tf32_where_torch_allows_it(torch: Any, precision: str, rounded: bool) -> None:
    """Convolutions by one setting, products of matrices by another: to float32's accuracy where both say no."""
    backend = pytest.importorskip("loopir.frontend.torch").backend
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.manual_seed(0)
    conv, linear = torch.nn.Conv2d(16, 32, 3, padding=1).cuda(), torch.nn.Linear(32 * 64, 48).cuda()
    x = torch.randn(8, 16, 8, 8, device="cuda")

    def model(x: Any) -> Any:
        return linear(conv(x).relu().flatten(1))

    try:
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.allow_tf32 = rounded
        torch._dynamo.reset()
        with torch.no_grad():
            found = torch.compile(model, backend=backend)(x).double()
            exact = torch.nn.functional.linear(
                torch.nn.functional.conv2d(x.double(), conv.weight.double(), conv.bias.double(), padding=1)
                .relu()
                .flatten(1),
                linear.weight.double(),
                linear.bias.double(),
            )
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
    off = float((found - exact).abs().max() / exact.abs().max())
    any_rounded = rounded or precision == "high"
    assert off < (5e-3 if any_rounded else 1e-5)
    assert (off > 1e-6) or not any_rounded
