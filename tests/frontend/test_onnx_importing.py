"""Graphs of ONNX as programs: names, sizes, functions, what is missing, and inputs whose values decide shapes."""

from typing import Any

import numpy as np
import pytest

import loopir as lp

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

F, I = TensorProto.FLOAT, TensorProto.INT64  # noqa: E741


def model(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], held: Any = (), **more: Any) -> Any:
    infos = [helper.make_tensor_value_info(k, t, shape) for k, (t, shape) in inputs.items()]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info(k, F, None) for k in outputs], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), *more.pop("domains", ())], **more)


def run(program: Any, *args: Any) -> Any:
    return lp.Schedule(program).build("interpret")(*program.arguments(*args))


def test_named_sizes_are_symbols_and_one_program_serves_them_all() -> None:
    m = model(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Gather", ["s", "zero"], ["n"]),
            helper.make_node("Concat", ["n", "rest"], ["to"], axis=0),
            helper.make_node("Reshape", ["x", "to"], ["y"]),
        ],
        {"x": (F, ["batch", 2, 3])},
        ["y"],
        [helper.make_tensor("zero", I, [1], [0]), helper.make_tensor("rest", I, [1], [6])],
    )
    program = lp.from_onnx(m)
    assert [str(d) for d in program.outputs["y"].shape] == ["batch", "6"]
    for n in (1, 4):
        x = np.arange(n * 6, dtype=np.float32).reshape(n, 2, 3)
        assert np.array_equal(run(program, x), x.reshape(n, 6))
    assert lp.from_onnx(m, batch=4).outputs["y"].shape == (4, 6)
    with pytest.raises(lp.ModelError, match="a size 'bach' is given, and the model's are batch"):
        lp.from_onnx(m, bach=4)


def test_names_become_identifiers() -> None:
    m = model([helper.make_node("Neg", ["/in:0"], ["out.1"])], {"/in:0": (F, [2]), "lambda": (F, [1])}, ["out.1"])
    program = lp.from_onnx(m)
    assert run(program, np.ones(2, np.float32), np.ones(1, np.float32)).tolist() == [-1, -1]


def test_all_operators_that_are_missing_are_listed() -> None:
    nodes = [helper.make_node(op, ["x"], [f"y{k}"]) for k, op in enumerate(("Unique", "Relu", "NonZero", "Unique"))]
    with pytest.raises(lp.ModelError, match=r"does not have: NonZero, Unique \(2 times\)") as caught:
        lp.from_onnx(model(nodes, {"x": (F, [2])}, ["y1"]))
    assert caught.value.missing == ("NonZero", "Unique")


def test_an_input_that_decides_a_shape_is_asked_for() -> None:
    m = model([helper.make_node("Reshape", ["x", "to"], ["y"])], {"x": (F, [6]), "to": (I, [2])}, ["y"])
    with pytest.raises(lp.ModelError, match=r"come from to; give them: lp.from_onnx") as caught:
        lp.from_onnx(m)
    assert caught.value.needs == ("to",)
    program = lp.from_onnx(m, values={"to": np.array([2, 3])})
    assert list(program.inputs) == ["x"]
    assert program.outputs["y"].shape == (2, 3)


def test_functions_of_the_model_are_called_with_their_attributes() -> None:
    body = helper.make_function(
        "own", "Scaled", ["a"], ["b"], [helper.make_node("LeakyRelu", ["a"], ["b"])], [helper.make_opsetid("", 18)],
        ["slope"],
    )  # fmt: skip
    body.node[0].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    nodes = [helper.make_node("Scaled", ["x"], ["y"], domain="own", slope=0.5)]
    m = model(nodes, {"x": (F, [2])}, ["y"], functions=[body], domains=[helper.make_opsetid("own", 1)])
    assert run(lp.from_onnx(m), np.array([-2, 2], np.float32)).tolist() == [-1, 2]


def test_a_function_that_calls_itself_is_refused() -> None:
    own = [helper.make_node("Loop", ["a"], ["b"], domain="own")]
    body = helper.make_function("own", "Loop", ["a"], ["b"], own, [helper.make_opsetid("own", 1)])
    m = model(
        [helper.make_node("Loop", ["x"], ["y"], domain="own")],
        {"x": (F, [2])},
        ["y"],
        functions=[body],
        domains=[helper.make_opsetid("own", 1)],
    )
    with pytest.raises(lp.ModelError, match="perhaps in a circle"):
        lp.from_onnx(m)


def test_a_model_is_not_changed_by_reading_it() -> None:
    m = model([helper.make_node("Celu", ["x"], ["y"])], {"x": (F, [2])}, ["y"])
    before = m.SerializeToString()
    lp.from_onnx(m)
    assert m.SerializeToString() == before


def test_a_node_that_reads_what_nothing_makes_is_refused() -> None:
    with pytest.raises(lp.ModelError, match="reads 'z', which nothing before it makes"):
        lp.from_onnx(model([helper.make_node("Neg", ["z"], ["y"], name="n")], {"x": (F, [2])}, ["y"]))


WHOLE = ("int8", "int32", "int64", "uint8", "uint64")


def pairs(dtype: str, others: Any) -> Any:
    ends = np.iinfo(dtype)
    numbers = sorted({ends.min, ends.min + 1, max(ends.min, -7), max(ends.min, -1), 0, 1, 3, 7, ends.max})
    others = np.array([n for n in numbers if n], dtype) if others is None else others
    return (x.ravel().copy() for x in np.meshgrid(np.array(numbers, dtype), others))


def of_integers(name: str, a: Any, b: Any, **attributes: Any) -> list[Any]:
    given = {n: (helper.np_dtype_to_tensor_dtype(x.dtype), [len(a)]) for n, x in (("a", a), ("b", b))}
    program = lp.from_onnx(model([helper.make_node(name, ["a", "b"], ["y"], **attributes)], given, ["y"]))
    return [lp.Schedule(program).build(target)(*program.arguments(a, b)).tolist() for target in ("interpret", "llvm")]


@pytest.mark.parametrize("dtype", WHOLE)
def test_the_ends_of_integers_are_divided_as_in_c(dtype: str) -> None:
    a, b = pairs(dtype, None)
    exact = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    rest = [x - q * y for x, q, y in zip(a.tolist(), exact, b.tolist(), strict=True)]
    wrapped = np.array(exact, object) - [2 * (q > np.iinfo(dtype).max) * q for q in exact]  # -2^(bits - 1) by -1
    assert of_integers("Div", a, b) == [wrapped.tolist()] * 2
    assert of_integers("Mod", a, b, fmod=1) == [rest] * 2


@pytest.mark.parametrize("dtype", WHOLE)
def test_powers_of_integers_are_exact_and_wrap(dtype: str) -> None:
    exponents = dict(zip(WHOLE, ("int64", "int32", "uint8", "int32", "int64"), strict=True))[dtype]
    a, b = pairs(dtype, np.array([0, 1, 2, 5, 31, 39, 40, 64, 127], exponents))
    least, bits = int(np.iinfo(dtype).min), np.iinfo(dtype).bits
    exact = [(x**y - least) % 2**bits + least for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert of_integers("Pow", a, b) == [exact] * 2
    if dtype[0] == exponents[0] == "i":
        below = np.array([-1, -2, -3, -1, -1], exponents)
        assert of_integers("Pow", np.array([1, -1, -1, 2, 7], dtype), below) == [[1, 1, -1, 0, 0]] * 2
