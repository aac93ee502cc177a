"""Read an ONNX model as tensor expressions: each node in turn, by its row in the table of operators.

An operator without a row is what ONNX itself defines it by, where it does. Shapes are inferred by the expressions, for
all sizes at once; what shapes are made of is worked out on the way (`folding`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto

from loopir.errors import ExprError, ModelError
from loopir.frontend.identifiers import Names
from loopir.frontend.onnx.folding import fold
from loopir.frontend.onnx.node import OPERATORS, Node
from loopir.frontend.onnx.reading import DTYPES, attributes, domain_of, dtype_of, opsets, read_tensor
from loopir.frontend.onnx.values import Array, Value, constant, is_symbolic, placeholders
from loopir.interp.interpret import interpret
from loopir.ir import dtypes
from loopir.tensor.index import IndexExpr, symbol
from loopir.tensor.nest import to_func
from loopir.tensor.tensor import Tensor, placeholder

NUMBERS = {t: n for n, t in DTYPES.items()}
MAX_NESTING = 64
"""Functions that call one another, and graphs in graphs, before that is taken for a circle."""


@dataclass(frozen=True, slots=True)
class Around:
    """What holds for the nodes of one graph or function body: versions, attributes that it was called with, depth."""

    versions: Mapping[str, int]
    attributes: Mapping[str, AttributeProto]
    depth: int = 0


class Importer:
    """Reads one model; `inputs` and `outputs` are its tensors then, and `stored` its arrays by placeholder."""

    def __init__(
        self, model: onnx.ModelProto, folder: Path | None, sizes: Mapping[str, int], values: Mapping[str, Any]
    ) -> None:
        self.model, self.folder, self.sizes, self.values = model, folder, dict(sizes), dict(values)
        self.functions = {(domain_of(f), f.name): f for f in model.functions}
        self.names = Names()
        self.stored: dict[str, Array] = {}
        self.symbols: dict[str, Any] = {}
        self.inputs: dict[str, Tensor] = {}
        self.outputs: dict[str, Value] = {}

    def go(self) -> None:
        """Read the graph. ModelError where that cannot be, before anything is kept."""
        versions = opsets(self.model.opset_import)
        graph = self.model.graph
        self._require_operators(versions)
        env: dict[str, Value] = {t.name: read_tensor(t, self.folder) for t in graph.initializer}
        if graph.sparse_initializer:
            raise ModelError("the model has sparse tensors, which are not supported; export it with dense ones")
        names = [i.name for i in graph.input]
        for name in self.values:
            if name not in names:
                raise ModelError(f"a value is given for {name!r}, and the model's inputs are {', '.join(names)}")
        for info in graph.input:
            if info.name in self.values:
                env[info.name] = self._given(info)
            elif info.name not in env:
                env[info.name] = self._input(info)
        unknown = [s for s in self.sizes if s not in self.symbols]
        if unknown:
            raise ModelError(f"a size {unknown[0]!r} is given, and the model's are {', '.join(self.symbols) or 'none'}")
        self.run(graph.node, env, Around(versions, {}))
        for info in graph.output:
            if info.name not in env:
                raise ModelError(f"the output {info.name!r} is made by no node; the model is not well-formed")
            self.outputs[info.name] = env[info.name]

    # ------------------------------------------------------------ inputs

    def _given(self, info: onnx.ValueInfoProto) -> Value:
        value = self.values[info.name]
        if isinstance(value, list) or value is None:
            return value
        array = np.asarray(value)
        if info.type.HasField("tensor_type"):
            t = dtype_of(info.type.tensor_type.elem_type, f"the input {info.name!r}")
            if array.dtype != t.numpy and not (isinstance(value, int | float | list | tuple)):
                raise ModelError(f"the value given for {info.name!r} is {array.dtype}, and the input is {t}")
            array = array.astype(t.numpy, copy=False)
        return array

    def _input(self, info: onnx.ValueInfoProto) -> Tensor:
        what = f"the input {info.name!r}"
        if not info.type.HasField("tensor_type"):
            kind = info.type.WhichOneof("value")
            raise ModelError(f"{what} is a {kind}, and kernels take tensors; give its value", needs=[info.name])
        tensor = info.type.tensor_type
        t = dtype_of(tensor.elem_type, what)
        if not tensor.HasField("shape"):
            raise ModelError(f"{what} has no number of dimensions; give its value", needs=[info.name])
        name = self.identifier(info.name, "x")
        shape = [self._dimension(d, f"{name}_{n}") for n, d in enumerate(tensor.shape.dim)]
        made = placeholder(shape, t, name=name)
        self.inputs[info.name] = made
        return made

    def _dimension(self, d: Any, default: str) -> Any:
        if d.HasField("dim_value"):
            if d.dim_value < 0:
                raise ModelError(f"a size of the model is {d.dim_value}; sizes are at least 0")
            return d.dim_value
        told = d.dim_param or default
        if told not in self.symbols:
            given = self.sizes.get(told)
            name = self.identifier(told, "n")
            self.symbols[told] = symbol(name) if given is None else given
        return self.symbols[told]

    def identifier(self, name: str, default: str) -> str:
        """`name` as a kernel may call it, unlike all others."""
        return self.names.identifier(name, default)

    # ------------------------------------------------------------ values

    def tensor(self, value: Value, what: str) -> Tensor:
        """A value as an expression."""
        if isinstance(value, Tensor):
            return value
        if isinstance(value, np.ndarray):
            return constant(value, self._store)
        raise ModelError(f"{what} is a sequence, or left out, where a tensor is meant; that is not supported")

    def _store(self, x: Array) -> Tensor:
        name = self.identifier("constant", "c")
        self.stored[name] = x
        return placeholder(x.shape, dtypes.dtype(x.dtype), name=name)

    def known(self, value: Value, what: str) -> Array:
        """The elements of a value that no input decides: worked out by the interpreter, where it is an expression."""
        if isinstance(value, np.ndarray):
            return value
        if not isinstance(value, Tensor):
            raise ModelError(f"{what}, a sequence or left out, where a tensor is meant; that is not supported")
        read = {s.name for s in placeholders(value)}
        needs = [name for name, x in self.inputs.items() if x.name in read]
        if needs:
            raise ModelError(
                f"{what}, whose values are known only at a call, as they come from {' and '.join(needs)}; give them: "
                f"lp.from_onnx(model, values={{{needs[0]!r}: ...}})",
                needs=needs,
            )
        if any(isinstance(d, IndexExpr) for d in value.shape) or value.symbols:
            raise ModelError(f"{what}, whose values depend on sizes that are known only at the call; give the sizes")
        func = to_func([value])
        arrays = {a.buffer.name: self.stored[a.buffer.name] for a in func.args if a.access == "in"}
        return next(iter(interpret(func, arrays).values()))

    # ------------------------------------------------------------ nodes

    def run(self, nodes: Sequence[onnx.NodeProto], env: dict[str, Value], around: Around) -> None:
        """Read `nodes`, in order, into `env`."""
        if around.depth > MAX_NESTING:
            raise ModelError(
                f"the model's functions or graphs are nested more than {MAX_NESTING} deep, perhaps in a circle"
            )
        for node in nodes:
            results = self._node(node, env, around)
            for name, value in zip(node.output, results, strict=False):
                if name:
                    env[name] = value

    def _node(self, proto: onnx.NodeProto, env: dict[str, Value], around: Around) -> Sequence[Value]:
        for name in proto.input:
            if name and name not in env:
                raise ModelError(f"{proto.op_type} {proto.name!r} reads {name!r}, which nothing before it makes")
        inputs = [env[name] if name else None for name in proto.input]
        proto = _with_attributes(proto, around.attributes)
        domain = domain_of(proto)
        function = self.functions.get((domain, proto.op_type))
        if function is not None:
            return self._call(function, proto, inputs, around)
        version = around.versions.get(domain, 1)
        used = {k for k, name in enumerate(proto.output) if name}
        node = Node(proto.op_type, proto.name, version, inputs, attributes(proto, self.folder), len(proto.output),
                    _Scope(self, env, around), used)  # fmt: skip
        try:
            folded = fold(node) if not domain else None
            if folded is not None:
                return [folded]
            row = OPERATORS.get((domain, proto.op_type))
            if row is not None:
                made = row(node)
                return made if isinstance(made, tuple) else [made]
            return self._defined(proto, inputs, version, around)
        except (ExprError, TypeError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"{node.what}: {error}") from error

    def _defined(self, proto: onnx.NodeProto, inputs: Sequence[Value], version: int, around: Around) -> Sequence[Value]:
        """A node by ONNX's own definition of its operator."""
        node = onnx.NodeProto()
        node.CopyFrom(proto)
        body = _definition(node, [self._type(x) for x in inputs], version)
        if body is None:
            raise ModelError(f"{proto.op_type} is not supported", missing=[proto.op_type])
        return self._call(body, node, inputs, around)

    def _call(
        self, function: FunctionProto, proto: onnx.NodeProto, inputs: Sequence[Value], around: Around
    ) -> Sequence[Value]:
        given = {a.name: a for a in function.attribute_proto} | {a.name: a for a in proto.attribute}
        inner: dict[str, Value] = dict.fromkeys(function.input)
        inner |= dict(zip(function.input, inputs, strict=False))
        versions = {**around.versions, **opsets(function.opset_import)}
        self.run(function.node, inner, Around(versions, given, around.depth + 1))
        return [inner.get(name) for name in function.output]

    def _type(self, x: Value) -> onnx.TypeProto:
        if isinstance(x, list):
            first = self._type(x[0]) if x else onnx.TypeProto()
            return onnx.helper.make_sequence_type_proto(first)
        if x is None:
            return onnx.TypeProto()
        t = dtypes.int64 if is_symbolic(x) else dtypes.dtype(x.dtype)
        shape = [d if isinstance(d, int) else None for d in x.shape]
        return onnx.helper.make_tensor_type_proto(NUMBERS[t], shape)

    # ------------------------------------------------------------ what is there

    def _require_operators(self, versions: Mapping[str, int]) -> None:
        """ModelError with the list of all operators that are missing, if one is."""
        found = Counter(
            f"{domain}.{op}" if domain else op
            for domain, op in self._operators(self.model.graph.node, versions)
            if not self._has(domain, op, versions)
        )
        if found:
            listed = ", ".join(f"{op} ({count} times)" if count > 1 else op for op, count in sorted(found.items()))
            raise ModelError(
                f"the model has operators that loopir does not have: {listed}; cut it into parts without them, or "
                "write them as functions of the model (onnx.helper.make_function)",
                missing=sorted(found),
            )

    def _operators(self, nodes: Any, versions: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        seen: set[tuple[str, str]] = set()
        stack = list(nodes)
        while stack:
            node = stack.pop()
            key = (domain_of(node), node.op_type)
            if key in self.functions:
                if key not in seen:
                    stack += self.functions[key].node
            else:
                yield key
            seen.add(key)
            for a in node.attribute:
                stack += [*a.g.node, *(x for g in a.graphs for x in g.node)]

    def _has(self, domain: str, op: str, versions: Mapping[str, int]) -> bool:
        if (domain, op) in OPERATORS:
            return True
        try:
            schema: Any = onnx.defs.get_schema(op, versions.get(domain, 1), domain)
        except onnx.defs.SchemaError:
            return False
        return bool(schema.function_opset_versions or schema.context_dependent_function_opset_versions)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The graph around a node, for its row."""

    importer: Importer
    env: dict[str, Value]
    around: Around

    def tensor(self, value: Value, what: str) -> Tensor:
        return self.importer.tensor(value, what)

    def known(self, value: Value, what: str) -> Array:
        return self.importer.known(value, what)

    def subgraph(self, graph: onnx.GraphProto, inputs: Sequence[Value]) -> list[Value]:
        """The outputs of a graph in this one, which sees what is around it."""
        env = dict(self.env)
        env |= {t.name: read_tensor(t, self.importer.folder) for t in graph.initializer}
        env |= {i.name: x for i, x in zip(graph.input, inputs, strict=False)}
        around = Around(self.around.versions, self.around.attributes, self.around.depth + 1)
        self.importer.run(graph.node, env, around)
        return [env[o.name] for o in graph.output]


def _with_attributes(proto: onnx.NodeProto, given: Mapping[str, AttributeProto]) -> onnx.NodeProto:
    """`proto` with the attributes in place that refer to those its function was called with."""
    if not any(a.ref_attr_name for a in proto.attribute):
        return proto
    made = onnx.NodeProto()
    made.CopyFrom(proto)
    del made.attribute[:]
    for a in proto.attribute:
        if not a.ref_attr_name:
            made.attribute.append(a)
        elif a.ref_attr_name in given:
            named = AttributeProto()
            named.CopyFrom(given[a.ref_attr_name])
            named.name = a.name
            made.attribute.append(named)
    return made


def _definition(proto: onnx.NodeProto, types: Sequence[onnx.TypeProto], version: int) -> FunctionProto | None:
    """ONNX's definition of a node by other operators; None if there is none. The node gets its default attributes."""
    try:
        schema: Any = onnx.defs.get_schema(proto.op_type, version, domain_of(proto))
    except onnx.defs.SchemaError:
        return None
    there = {a.name for a in proto.attribute}
    proto.attribute.extend(
        a.default_value for name, a in schema.attributes.items() if name not in there and a.default_value.name
    )
    body = FunctionProto()
    if schema.function_opset_versions:
        fitting = [v for v in schema.function_opset_versions if v <= version] or schema.function_opset_versions[:1]
        body.ParseFromString(schema.get_function_with_opset_version(fitting[-1]))
        return body
    if schema.context_dependent_function_opset_versions:
        every = schema.context_dependent_function_opset_versions
        fitting = [v for v in every if v <= version] or every[:1]
        spelt = schema.get_context_dependent_function_with_opset_version(
            fitting[-1], proto.SerializeToString(), [t.SerializeToString() for t in types]
        )
        body.ParseFromString(spelt)
        return body if body.node else None
    return None
