"""Read ONNX files: the model, its tensors, and data beside it. Whatever is wrong with a file is one sentence.

Nothing in a file is executed, and no path that it names leads outside its own folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, numpy_helper

from loopir.errors import ModelError
from loopir.ir import dtypes
from loopir.ir.dtypes import Array, DType

OPSETS = {"": range(1, 29), "ai.onnx.ml": range(1, 6), "ai.onnx.preview.training": range(1, 2)}
"""The versions of operators that are known, by domain; "ai.onnx" is another name of the first."""

DTYPES: dict[int, DType] = {
    TensorProto.FLOAT: dtypes.float32, TensorProto.DOUBLE: dtypes.float64, TensorProto.FLOAT16: dtypes.float16,
    TensorProto.BFLOAT16: dtypes.bfloat16, TensorProto.FLOAT8E4M3FN: dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E5M2: dtypes.float8_e5m2, TensorProto.BOOL: dtypes.bool_, TensorProto.INT8: dtypes.int8,
    TensorProto.INT16: dtypes.int16, TensorProto.INT32: dtypes.int32, TensorProto.INT64: dtypes.int64,
    TensorProto.UINT8: dtypes.uint8, TensorProto.UINT16: dtypes.uint16, TensorProto.UINT32: dtypes.uint32,
    TensorProto.UINT64: dtypes.uint64,
}  # fmt: skip


def dtype_of(number: int, what: str) -> DType:
    """The element type that ONNX numbers so; ModelError for one that loopir does not have."""
    found = DTYPES.get(number)
    if found is None:
        known = number in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(number) if known else f"number {number}"
        has = ", ".join(t.name for t in DTYPES.values())
        raise ModelError(f"{what} is of the type {name}, and loopir has {has}; convert the model to one of these")
    return found


def read_model(source: Any) -> tuple[onnx.ModelProto, Path | None]:
    """The model in a file, in bytes, or as given, and the folder that its external data is in."""
    if isinstance(source, onnx.ModelProto):
        return source, None
    folder = None
    if isinstance(source, bytes):
        data, what = source, "these bytes"
    else:
        if not isinstance(source, str | PathLike):
            raise TypeError(f"from_onnx reads a path, bytes or an onnx.ModelProto, not a {type(source).__name__}")
        path = Path(cast("str | PathLike[str]", source))
        what, folder = str(path), path.resolve().parent
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise ModelError(
            f"{what} is no ONNX model, or is not complete: its {len(data)} bytes cannot be decoded; export it again"
        ) from None
    if not model.HasField("graph") or not model.opset_import:
        raise ModelError(f"{what} is no ONNX model, or is not complete: it has no graph, or names no version of ONNX")
    return model, folder


def opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """By domain the version of its operators; ModelError for one that is newer than what is known."""
    found = {domain_of(x): x.version for x in imports}
    for domain, version in found.items():
        if domain in OPSETS and version not in OPSETS[domain]:
            newest = OPSETS[domain].stop - 1
            raise ModelError(
                f"the model is of version {version} of the operators of {domain or 'ai.onnx'}, and versions up to "
                f"{newest} are known; export it for version {newest}"
            )
    return found


def domain_of(x: Any) -> str:
    """The domain of a node or an import, with one name for ONNX's own."""
    return "" if x.domain == "ai.onnx" else x.domain


def read_tensor(t: TensorProto, folder: Path | None) -> Array:
    """The elements of a tensor in a model, its external data included."""
    what = f"the tensor {t.name!r}"
    t_dtype = dtype_of(t.data_type, what)
    if any(d < 0 for d in t.dims):
        raise ModelError(f"{what} has the shape {tuple(t.dims)}; sizes are at least 0")
    if t.data_location == TensorProto.EXTERNAL:
        raw = _external(t, folder, what)
        return _from_bytes(raw, t_dtype, tuple(t.dims), what)
    if t.HasField("raw_data"):
        return _from_bytes(t.raw_data, t_dtype, tuple(t.dims), what)
    try:
        array = numpy_helper.to_array(t)
    except (ValueError, TypeError) as error:
        raise ModelError(f"{what} cannot be read: {error}") from None
    return np.asarray(array).astype(t_dtype.numpy, copy=False).reshape(tuple(t.dims))


def _from_bytes(raw: bytes, t: DType, shape: tuple[int, ...], what: str) -> Array:
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if len(raw) != count * t.bytes:
        raise ModelError(f"{what} is {t}{list(shape)}, {count * t.bytes} bytes, and has {len(raw)}; it is not complete")
    little = t.numpy if t.numpy.itemsize == 1 or t.name in ml_dtypes.__dict__ else t.numpy.newbyteorder("<")
    return np.frombuffer(raw, little).astype(t.numpy, copy=True).reshape(shape)


def _external(t: TensorProto, folder: Path | None, what: str) -> bytes:
    """The bytes of a tensor that another file holds, which is in the model's folder or below it."""
    told = {x.key: x.value for x in t.external_data}
    location = told.get("location", "")
    if folder is None:
        raise ModelError(f"{what} is in the file {location!r}, and a model in memory has no folder; give its path")
    path = (folder / location).resolve()
    if not location or not path.is_relative_to(folder):
        raise ModelError(
            f"{what} is in the file {location!r}, outside of the model's folder {folder}; nothing is read from there"
        )
    try:
        start, length = int(told.get("offset", "0")), int(told.get("length", "-1"))
        with path.open("rb") as file:
            file.seek(start)
            raw = file.read(length if length >= 0 else -1)
    except (OSError, ValueError, OverflowError) as error:
        raise ModelError(f"{what} is in the file {location!r}, which cannot be read: {error}") from None
    if length >= 0 and len(raw) != length:
        raise ModelError(f"{what} is {length} bytes from byte {start} of {location!r}, which ends before")
    return raw


def attributes(node: onnx.NodeProto, folder: Path | None) -> dict[str, Any]:
    """The attributes of a node: numbers, strings, lists, arrays, and graphs as they are."""
    return {a.name: _attribute(a, folder) for a in node.attribute}


def _attribute(a: onnx.AttributeProto, folder: Path | None) -> Any:
    kind = onnx.AttributeProto
    match a.type:
        case kind.FLOAT:
            return a.f
        case kind.INT:
            return a.i
        case kind.STRING:
            return a.s.decode("utf-8", "replace")
        case kind.FLOATS:
            return list(a.floats)
        case kind.INTS:
            return list(a.ints)
        case kind.STRINGS:
            return [s.decode("utf-8", "replace") for s in a.strings]
        case kind.TENSOR:
            return read_tensor(a.t, folder)
        case kind.GRAPH:
            return a.g
        case _:
            raise ModelError(
                f"the attribute {a.name!r} is of the type {kind.AttributeType.Name(a.type)}, which is not "
                "supported; numbers, strings, tensors, graphs and lists of the first two are"
            )
