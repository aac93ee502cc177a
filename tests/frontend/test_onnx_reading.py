"""Files of ONNX that are not what they should be: each is refused with a sentence, and nothing outside is read."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402


def model(external: str | None = None, elem_type: int = TensorProto.FLOAT) -> "onnx.ModelProto":
    """y = x + w, with w in another file if told."""
    w = helper.make_tensor("w", TensorProto.FLOAT, [3], np.arange(3, dtype=np.float32).tobytes(), raw=True)
    if external is not None:
        w.ClearField("raw_data")
        w.data_location = TensorProto.EXTERNAL
        w.external_data.add(key="location", value=external)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", elem_type, [3])],
        [helper.make_tensor_value_info("y", elem_type, [3])],
        [w],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@settings(deadline=None)
@given(end=st.integers(0, 400))
def test_a_truncated_file_is_refused_or_whole(end: int) -> None:
    data = model().SerializeToString()
    if end >= len(data):
        lp.from_onnx(data)
        return
    with pytest.raises(lp.ModelError):
        lp.from_onnx(data[:end])


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", ""])
def test_data_outside_of_the_folder_is_not_read(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(12))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "m.onnx").write_bytes(model(location).SerializeToString())
    with pytest.raises(lp.ModelError, match=r"outside of the model's folder|cannot be read"):
        lp.from_onnx(folder / "m.onnx")


def test_a_link_that_leads_outside_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(12))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    (folder / "m.onnx").write_bytes(model("w.bin").SerializeToString())
    with pytest.raises(lp.ModelError, match=r"outside of the model's folder"):
        lp.from_onnx(folder / "m.onnx")


def test_external_data_in_the_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.array([1, 2, 3], np.float32).tobytes())
    (tmp_path / "m.onnx").write_bytes(model("w.bin").SerializeToString())
    program = lp.from_onnx(tmp_path / "m.onnx")
    made = lp.Schedule(program).build("interpret")(*program.arguments(np.ones(3, np.float32)))
    assert made.tolist() == [2, 3, 4]


def test_external_data_that_ends_early_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    (tmp_path / "m.onnx").write_bytes(model("w.bin").SerializeToString())
    with pytest.raises(lp.ModelError, match=r"is 12|12 bytes, and has 8"):
        lp.from_onnx(tmp_path / "m.onnx")


def test_a_type_that_is_not_had_is_named() -> None:
    with pytest.raises(lp.ModelError, match="the input 'x' is of the type STRING, and loopir has float32"):
        lp.from_onnx(model(elem_type=TensorProto.STRING))


def test_a_version_that_is_too_new_is_named() -> None:
    newer = model()
    newer.opset_import[0].version = 1000
    with pytest.raises(lp.ModelError, match=r"version 1000 of the operators of ai.onnx"):
        lp.from_onnx(newer)


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(lp.ModelError, match="cannot be read: No such file"):
        lp.from_onnx(tmp_path / "none.onnx")
