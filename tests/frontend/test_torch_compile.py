"""torch.compile with loopir's backend: models, gradients, training, and whatever else eager mode takes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import loopir as lp

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
import torch_models as models  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402

from loopir.frontend.torch import backend, compiling, piece, translate  # noqa: E402
from loopir.frontend.torch.report import Report  # noqa: E402
from loopir.frontend.torch.row import OPERATORS, Unsupported  # noqa: E402
from loopir.frontend.torch.values import SizeTable, dtype_name  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    lp.torch_report(reset=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that wait for one another are slow on a busy machine
    yield
    torch.set_num_threads(threads)
    torch._dynamo.reset()


def unscheduled(gm: Any, inputs: Any) -> Any:
    """The backend with kernels as they are written, which are compiled in a fraction of the time."""
    compiler = partial(compiling.compile_graph, scheduled=False)
    return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler,
                        decompositions=compiling.decompositions())(gm, inputs)  # fmt: skip


def compiled(fn: Any, **options: Any) -> Any:
    return torch.compile(fn, backend=unscheduled, **options)


CASES = {c.name: c for c in models.cases(small=True)}


@pytest.mark.parametrize("name", ["LLaMA layer", "DLRM", "ResNet-18"])
def test_outputs_and_gradients_are_eagers(name: str) -> None:
    model, inputs = CASES[name].model(), CASES[name].inputs(2)
    other = copy.deepcopy(model)
    expected, got = model(*inputs), compiled(other)(*inputs)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    expected.square().mean().backward()
    got.square().mean().backward()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-4, atol=1e-4)
    assert lp.torch_report().kernels >= 2
    assert not lp.torch_report().failures


def test_training_descends_like_eager() -> None:
    """100 steps of a language model on text of a few words, drawn here."""
    words = ["loop ", "nest ", "tile ", "fuse "]
    text = "".join(words[n] for n in torch.randint(0, len(words), (400,)).tolist())
    letters = sorted(set(text))
    codes = torch.tensor([letters.index(c) for c in text])
    model = models.Language(len(letters), 16, 2, 4)
    other = copy.deepcopy(model)
    fast = compiled(other)
    losses: list[list[float]] = [[], []]
    for side, call, parameters in ((0, model, model), (1, fast, other)):
        step = torch.optim.SGD(parameters.parameters(), lr=0.5)
        draws = torch.Generator().manual_seed(1)
        for _ in range(100):
            at = torch.randint(0, len(codes) - 5, (4,), generator=draws)[:, None] + torch.arange(5)
            loss = torch.nn.functional.cross_entropy(call(codes[at[:, :4]]).flatten(0, 1), codes[at[:, 1:]].flatten())
            step.zero_grad()
            loss.backward()
            step.step()
            losses[side].append(loss.item())
    assert losses[1][-1] < 0.7 * losses[1][0]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def test_the_backend_schedules_and_is_found_by_name() -> None:
    model, x = models.Mlp(16, 32, 2), torch.randn(4, 16)
    with torch.no_grad():
        got = torch.compile(model, backend=backend)(x)
        torch.testing.assert_close(got, model(x), rtol=1e-4, atol=1e-5)
    report = lp.torch_report()
    assert (report.graphs, report.kernels) == (1, 1)
    assert "aten.addmm.default" in report.compiled
    if "loopir" in torch._dynamo.list_backends():
        assert torch._dynamo.lookup_backend("loopir") is backend


def in_place(a: Any) -> Any:
    b = a + 1
    b[0] = 3
    a.add_(b.mul_(2))
    return b, a.t(), b.t()


def views(a: Any) -> Any:
    return a.t(), (a + 1).t(), (a * 2)[:, 1:], a[0].expand(4, 4), (a @ a).permute(1, 0)


def broken(a: Any) -> Any:
    b = a * 2
    torch._dynamo.graph_break()
    return b.exp() if a.sum() > 0 else b - 1


SHARED = torch.arange(8.0) / 8
EIGHTHS = (torch.arange(16).reshape(4, 4) % 7 - 3).bfloat16() / 8
"""Products and sums of these are exact in bfloat16, so that what follows them is rounded once."""
FINE: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "in place": (in_place, [(torch.ones(4, 4),)]),
    "views": (views, [(torch.randn(4, 4),)]),
    "graph breaks": (broken, [(torch.ones(3),), (-torch.ones(3),)]),
    "strides": (lambda a: a.exp() + 1, [(torch.randn(4, 6).t(),), (torch.randn(4, 6)[:, ::2],)]),
    "shared storage": (lambda a, b: (a.mul_(2), b + a), [(SHARED[:4], SHARED[2:6])]),
    "no elements": (lambda a: (a.exp().sum(), a * 2), [(torch.randn(0, 4),)]),
    "narrow floats": (lambda a: torch.nn.functional.gelu(a @ a), [(EIGHTHS,)]),
    "doubles": (lambda a: a.softmax(-1), [(torch.randn(4, 4, dtype=torch.float64),)]),
    "integers": (lambda a: (a * 3 + 1.5, a // 2, a % 3, a.sum(), a > 1), [(torch.arange(-5, 7),)]),
    "bools": (lambda a: (a & ~a, a.any(), a + 1), [(torch.tensor([True, False]),)]),
    "complex numbers": (lambda a: (a + 1j).abs(), [(torch.randn(3),)]),
    "no tensors": (lambda n: torch.arange(n) * 2, [(5,)]),
}


@pytest.mark.parametrize("what", FINE)
def test_whatever_eager_takes(what: str) -> None:
    fn, calls = FINE[what]
    fast = compiled(fn)
    for given in calls:
        mine, theirs = copy.deepcopy(given), copy.deepcopy(given)  # keeps what shares storage
        got, expected = fast(*mine), fn(*theirs)
        for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, expected)), strict=True):
            narrow = b.dtype == torch.bfloat16  # one unit in the last place, by which two roundings may differ
            torch.testing.assert_close(a, b, rtol=2**-7 if narrow else 1e-5, atol=0 if narrow else 1e-5)
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a, b)
    assert not lp.torch_report().failures


def test_sizes_that_change_are_symbols() -> None:
    fn = lambda a, b: torch.cat([a @ a.T, b]).softmax(-1)[1:].sum(0)  # noqa: E731
    fast = compiled(fn, dynamic=True)
    for n in (4, 7, 9):
        a, b = torch.randn(n, 8), torch.randn(3, n)
        torch.testing.assert_close(fast(a, b), fn(a, b), rtol=1e-4, atol=1e-5)
    assert lp.torch_report().graphs == 1


def test_a_size_that_no_tensor_of_a_piece_has_as_it_is() -> None:
    """What has s // 2 elements is made by torch; then a kernel finds s in the graph, and its call is told of it."""

    def halves(x: Any) -> Any:
        y = torch.sort(x.exp()[: x.shape[0] // 2]).values
        return torch.relu(y) * x.shape[0]

    def last(x: Any) -> Any:  # the gradient's kernel has s // 2 elements, and no size of its own
        return torch.sort(torch.relu(torch.sort(x[: x.shape[0] // 2]).values)).values.sum()

    for fn in (halves, last):
        fast = compiled(fn, dynamic=True)
        for n in (8, 11, 8):
            x = torch.randn(n, requires_grad=True)
            y = x.detach().clone().requires_grad_()
            expected, got = fn(x), fast(y)
            torch.testing.assert_close(got, expected)
            expected.sum().backward()
            got.sum().backward()
            torch.testing.assert_close(y.grad, x.grad)
    assert not lp.torch_report().failures


def test_numbers_that_are_made_of_sizes() -> None:
    """What batch norm divides by, and scales the variance with."""
    norm = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3, 2), torch.nn.BatchNorm2d(3), torch.nn.ReLU())
    other = copy.deepcopy(norm)
    fast = compiled(other, dynamic=True)
    for n in (9, 6):
        x = torch.randn(2, 2, n, n, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        expected, got = norm(x), fast(y)
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
        expected.square().sum().backward()
        got.square().sum().backward()
        torch.testing.assert_close(y.grad, x.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(other[1].running_var, norm[1].running_var)
    assert not lp.torch_report().failures
    assert {op for op, _ in lp.torch_report().left} == {"aten.convolution_backward.default"}


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # of torch's own optimizers
def test_a_step_of_an_optimizer_is_compiled() -> None:
    mine, theirs = ([torch.nn.Parameter(torch.arange(n) / n) for n in (4, 6)] for _ in range(2))
    made = [torch.optim.AdamW(p, lr=0.1, foreach=True) for p in (mine, theirs)]
    fast = compiled(lambda: made[0].step())
    for n in range(3):
        for x in (*mine, *theirs):
            x.grad = torch.linspace(-1, n + 1, len(x))
        fast()
        made[1].step()
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    assert not lp.torch_report().failures
    assert not lp.torch_report().left


def test_attention_of_sizes_that_change_lies_as_torchs_does() -> None:
    """Its result is permuted in memory, so that heads are joined by a view."""

    def joined(x: Any, mask: Any) -> Any:
        heads = x.view(*x.shape[:2], 2, 4).transpose(1, 2)
        made = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)
        return made.transpose(1, 2).reshape(x.shape)

    fast, mask = compiled(joined, dynamic=True), torch.ones(5, 5, dtype=torch.bool).tril()
    for n in (4, 3):
        x = torch.randn(n, 5, 8)
        torch.testing.assert_close(fast(x, mask), joined(x, mask), rtol=1e-4, atol=1e-5)
    assert not lp.torch_report().failures


def test_strides_may_differ_from_what_an_operator_says() -> None:
    """As those of attention's gradients on a GPU."""

    @torch.library.custom_op("loopir_tests::turned", mutates_args=())
    def turned(x: torch.Tensor) -> torch.Tensor:
        return (x + 1.0).t().contiguous().t()

    @turned.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    def fn(x: torch.Tensor) -> Any:
        y = turned(x * 2.0)
        return y.view(-1), (y * 3.0).view(2, -1)

    x = torch.randn(4, 6)
    y = 2.0 * x + 1.0
    flat, tripled = compiled(fn)(x)
    assert torch.equal(flat, y.reshape(-1))
    assert torch.equal(tripled, (3.0 * y).reshape(2, -1))


def test_buffers_are_updated() -> None:
    norm = torch.nn.BatchNorm1d(3)
    other = copy.deepcopy(norm)
    x = torch.randn(5, 3)
    torch.testing.assert_close(compiled(other)(x), norm(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(other.running_var, norm.running_var)
    assert other.num_batches_tracked == 1


def test_repeated_calls_skip_checks_and_see_memory_that_is_gone() -> None:
    fast, w = compiled(lambda a, w: (a @ w).exp()), torch.nn.Parameter(torch.randn(4, 4))
    with torch.no_grad():
        for _ in range(3):
            a = torch.randn(3, 4)
            torch.testing.assert_close(fast(a, w), (a @ w).exp(), rtol=1e-5, atol=1e-5)
        w.untyped_storage().resize_(0)
        with pytest.raises(ValueError, match="it was freed or resized"):
            fast(a, w)


def test_scatters_and_masks_are_compiled() -> None:
    at, other = torch.tensor([0, 4, 4, 1]), torch.tensor([2, -1, -1, 0])
    x, new, wide = torch.randn(5, 3), torch.randn(4, 3), torch.randn(5, 4)
    queries, mask = torch.randn(2, 2, 4, 8), torch.rand(2, 1, 4, 4) > 0.5
    mask[0, 0, 1] = False  # a row that is masked as a whole
    fns = [
        lambda: x.scatter_add(0, torch.tensor([[4, 0], [4, 2]]), new),
        lambda: x.scatter_reduce(1, torch.tensor([[2], [0], [2]]), new, "amax"),
        lambda: x.scatter_reduce(0, at[:, None].expand(4, 3), new, "mean"),
        lambda: x.scatter_reduce(0, at[:, None].expand(4, 3), new, "mean", include_self=False),
        lambda: x.scatter_reduce(0, at[:, None].expand(4, 3), new, "amin", include_self=False),
        lambda: x.index_add(0, at, new, alpha=2),
        lambda: wide.index_add(1, at[3:], x[:, :1]),
        lambda: x.index_put((at, other), torch.tensor(1.5), accumulate=True),
        lambda: x.index_put((at.reshape(2, 2),), new.reshape(2, 2, 3), accumulate=True),
        lambda: torch.nn.functional.scaled_dot_product_attention(queries, queries, queries, attn_mask=mask),
        lambda: torch.nn.functional.group_norm(queries.transpose(1, 2), 2, torch.arange(4.0)),
        lambda: torch.nn.functional.normalize(x, dim=-1),
        lambda: x.scatter(1, torch.tensor([[2], [0], [2], [1], [1]]), 2.5),
        lambda: x.scatter(0, at[None, :3], new),
        lambda: x.scatter(1, torch.tensor([[2, 2], [0, 1]]), 7.0),
        lambda: (x.roll(2), x.roll((1, -2), (0, 1)))[1],
    ]
    got, expected = compiled(lambda: [fn() for fn in fns])(), [fn() for fn in fns]
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    assert not lp.torch_report().failures
    assert not lp.torch_report().left
    with pytest.raises(IndexError, match="scatter: an index is outside of a dimension of size 5"):
        compiled(lambda: x.scatter_add(0, at[:, None] + 1, new))()


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_the_least_integer_is_divided(dtype: str) -> None:
    ends = torch.iinfo(getattr(torch, dtype))
    x = torch.tensor([ends.min, ends.min + 1, -7, -1, 0, 5, ends.max], dtype=getattr(torch, dtype))
    fns = [partial(torch.div, x, by, rounding_mode=mode) for by in (3, -3) for mode in ("trunc", "floor")]
    fns += [partial(fn, x, by) for by in (3, -3) for fn in (torch.fmod, torch.remainder)]
    torch.testing.assert_close(compiled(lambda: [fn() for fn in fns])(), [fn() for fn in fns])
    assert not lp.torch_report().left


def exact(a: Any, b: Any) -> list[Any]:
    """Functions that look at signs, or at the exact remainder."""
    modes = [torch.div(a, b, rounding_mode=mode) for mode in ("floor", "trunc")]
    return [*modes, torch.remainder(a, b), torch.fmod(a, b), torch.copysign(a, b), torch.signbit(b), torch.hypot(a, b),
            torch.nextafter(a, b), a.cumprod(0), *torch.topk(a, 3)]  # fmt: skip


def special_functions(a: Any, _: Any) -> list[Any]:
    names = ("erfc", "digamma", "gammaln", "i0", "i0e", "i1", "i1e", "erfcx", "log_ndtr", "entr", "sinc", "psi")
    return [getattr(torch.special, name)(a) for name in names] + [torch.erfinv(a * 0.1)]


@pytest.mark.parametrize("fn", [exact, special_functions])
def test_functions_of_floats(fn: Any) -> None:
    a = torch.tensor([-3.0, -0.7, 0.3, 1.0, 2.5, 9.0]) + (0.0 if fn is exact else 0.05)
    b = torch.tensor([0.7, -0.7, -0.1, 0.5, -2.5, 2.0])
    torch.testing.assert_close(compiled(fn)(a, b), fn(a, b))
    assert not lp.torch_report().left


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_nan_has_the_sign_zero_and_each_type_its_next_numbers(name: str) -> None:
    ends = torch.tensor([math.nan, 0.0, -0.0, 1.0, -2.0, math.inf, -math.inf], dtype=getattr(torch, name))
    x, to = torch.meshgrid(ends, ends, indexing="ij")
    fn = lambda x, to: (x.sign(), torch.nextafter(x, to))  # noqa: E731
    for a, b in zip(compiled(fn)(x, to), fn(x, to), strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    assert not lp.torch_report().left


def test_images_are_sampled_at_the_places_of_a_grid() -> None:
    x, grid = torch.randn(1, 2, 3, 4), torch.rand(1, 2, 2, 2) * 3 - 1.5
    fn = lambda x, at: torch.nn.functional.grid_sample(x, at, padding_mode="border", align_corners=False)  # noqa: E731
    torch.testing.assert_close(compiled(fn)(x, grid), fn(x, grid))
    assert not lp.torch_report().left


def test_random_numbers_are_torchs_own() -> None:
    fn = lambda a: torch.nn.functional.dropout(a.exp(), 0.5)  # noqa: E731
    torch.manual_seed(1)
    expected = fn(torch.ones(64))
    torch.manual_seed(1)
    torch.testing.assert_close(compiled(fn)(torch.ones(64)), expected)
    ((operator, reason),) = lp.torch_report().left
    assert (operator, reason) == ("aten.native_dropout.default", "no row")


def test_an_index_outside_raises() -> None:
    fn = compiled(lambda w, i: torch.nn.functional.embedding(i, w) * 2)
    w = torch.randn(4, 3)
    torch.testing.assert_close(fn(w, torch.tensor([1, 3])), w[[1, 3]] * 2)
    with pytest.raises(IndexError, match="an index is outside of a dimension of size 4"):
        fn(w, torch.tensor([1, 9]))


def test_a_piece_that_fails_stays_with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no memory")

    monkeypatch.setattr(piece, "build", failing)
    x = torch.ones(3)
    torch.testing.assert_close(compiled(torch.exp)(x), x.exp())
    assert lp.torch_report().failures == ["RuntimeError: no memory"]
    assert "a piece as a whole: RuntimeError: no memory" in str(lp.torch_report())


def test_a_report_counts() -> None:
    report = Report(graphs=1)
    report.count("aten.mm.default", None)
    report.count("aten.view.default", "", light=True)
    report.count("aten.sort.default", "no row")
    assert str(report).splitlines() == [
        "1 graphs, 0 kernels: 1 calls compiled, 1 views and constants, 1 calls left to torch",
        "     1 aten.sort.default: no row",
    ]


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("name", ["flash", "efficient", "cudnn"])
def test_attention_as_torch_names_it_on_a_gpu(name: str, groups: int) -> None:
    q, k, v = torch.randn(2, 4, 3, 8), torch.randn(2, groups, 5, 8), torch.randn(2, groups, 5, 8)
    given = [lp.placeholder(tuple(x.shape), "float32", name=n) for x, n in zip((q, k, v), "qkv")]
    row = OPERATORS[f"aten._scaled_dot_product_{name}_attention.default"].make
    bias: tuple[Any, ...] = () if name == "flash" else (None, False)
    (out,) = row((None,), *given, *bias, 0.0, True, scale=0.5)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, scale=0.5, enable_gqa=groups < 4
    )  # fmt: skip
    torch.testing.assert_close(lp.Schedule(out).build("llvm")(q, k, v), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(Unsupported, match="dropout"):
        row((None,), *given, *bias, 0.1, True)


def test_types_and_sizes() -> None:
    assert dtype_name(torch.bfloat16) == "bfloat16"
    with pytest.raises(Unsupported, match=r"elements of torch\.complex64"):
        dtype_name(torch.complex64)
    assert SizeTable().convert(4) == 4
    with pytest.raises(Unsupported, match="a size 'n'"):
        SizeTable().convert("n")


def test_dense_orders() -> None:
    assert translate.dense_order(torch.ones(2, 3).t()) == (1, 0)
    assert translate.dense_order(torch.ones(2, 3)[:, ::2]) == (0, 1)
    assert translate.dense_order(torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)) == (0, 2, 3, 1)


def test_rows_are_of_operators_that_torch_has() -> None:
    def there(name: str) -> bool:
        space, packet, overload = name.split(".")
        return hasattr(getattr(getattr(torch.ops, space), packet, None), overload)

    assert not [name for name in OPERATORS if not there(name)]
