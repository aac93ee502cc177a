"""Kernels as operators of torch, by torch.library: what torch.compile, autograd and export see as one operation.

The registered shapes and types come from the kernel's signature, so that torch traces it without running anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from loopir.loading import load
from loopir.runtime.arrays import Signature
from loopir.shapes import Given, sizes_of

if TYPE_CHECKING:
    from loopir.runtime.call import Kernel


def register_torch_operator(kernel: Kernel, name: str, backward: Callable[..., Any] | None) -> Any:
    """Register `kernel` as the operator `name`, and give it; see `Kernel.as_torch_op`."""
    torch: Any = load("torch")
    signature = kernel.signature
    namespace, _, plain = name.partition("::")
    if not namespace.isidentifier() or not plain.isidentifier():
        raise ValueError(f'as_torch_op: {name!r} is no name of an operator; it is "namespace::name"')
    if hasattr(getattr(torch.ops, namespace), plain):
        raise ValueError(f"as_torch_op: there is an operator {name!r} already; choose another name")
    hidden = _unknown_sizes(signature)
    if hidden:
        raise ValueError(
            f"as_torch_op: no input of {signature.name} has the size {hidden[0]}, and operators take tensors"
        )
    written = [a.name for a in signature.args if a.access == "inout"]
    if written and signature.outputs:
        raise ValueError(f"as_torch_op: {signature.name} writes {written[0]} and gives results; an operator does one")

    def run(*args: Any) -> Any:
        given = [x.detach() if x.requires_grad else x for x in args]
        inputs = zip(signature.inputs, given, strict=True)
        return kernel(*(x if a.access == "inout" else x.contiguous() for a, x in inputs))

    made = torch.library.custom_op(name, run, mutates_args=written, schema=_schema(signature))
    made.register_fake(lambda *args: _shaped(signature, args))
    if not written:
        made.register_autograd(_derivative(signature, name, backward), setup_context=_keep_for_backward)
    return made


def _schema(signature: Signature) -> str:
    marks = [f"(a{n}!)" if a.access == "inout" else "" for n, a in enumerate(signature.inputs)]
    listed = ", ".join(f"Tensor{mark} {a.name}" for mark, a in zip(marks, signature.inputs, strict=True))
    results = ["Tensor"] * len(signature.outputs)
    return f"({listed}) -> {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}"


def _unknown_sizes(signature: Signature) -> list[str]:
    """Sizes of which no input has a dimension."""
    terms = {name for a in signature.inputs for d in a.dims if d is not None for name in d.terms}
    return [n for n in signature.sizes if n not in terms]


def _shaped(signature: Signature, args: Sequence[Any]) -> Any:
    """Tensors without elements, in the shapes and types that a call gives."""
    torch: Any = load("torch")
    pairs = [(d, n) for a, x in zip(signature.inputs, args, strict=True) for d, n in zip(a.dims, x.shape, strict=True)]
    plain = {d.text: n for d, n in pairs if d is not None}
    if all(n in plain for n in signature.sizes):
        sizes = [plain[n] for n in signature.sizes]
    else:
        given = [Given(a.name, a.dims, tuple(map(int, x.shape))) for a, x in zip(signature.inputs, args, strict=True)]
        found = sizes_of(given, {})
        sizes = [found[n] for n in signature.sizes]
    shapes = dict(zip((a.name for a in signature.args), signature.shapes(*sizes), strict=True))
    made = tuple(args[0].new_empty(shapes[a.name], dtype=getattr(torch, a.dtype)) for a in signature.outputs)
    return made[0] if len(made) == 1 else made or None


def _keep_for_backward(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _derivative(signature: Signature, name: str, backward: Callable[..., Any] | None) -> Callable[..., Any]:
    """What autograd calls: `backward` with the gradients of the results, then the inputs."""
    if backward is None:

        def refuse(ctx: Any, *gradients: Any) -> Any:
            raise RuntimeError(
                f"{name} has no gradient, as kernels are not derived; as_torch_op(..., backward=) takes one"
            )

        return refuse
    as_op = getattr(backward, "as_torch_op", None)
    called = as_op(f"{name}_backward") if as_op is not None else backward

    def derive(ctx: Any, *gradients: Any) -> Any:
        return called(*gradients, *ctx.saved_tensors)

    return derive
