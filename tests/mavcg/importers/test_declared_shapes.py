"""Shapes that a file declares for its tensors: those that its operators contradict are refused, unless ignored."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.importers.declared_shapes import DeclaredShapeError, GivenShapes
from mavcg.importers.load import import_model
from mavcg.model.partial.onnx_nodes import read_support

onnx = pytest.importorskip("onnx", reason="the importer reads files by the onnx package")
from onnx import helper, numpy_helper  # noqa: E402

Dims = Sequence[int | str | None]


def info(name: str, dims: Dims | None) -> Any:
    return helper.make_tensor_value_info(name, 1, dims)


def written(
    folder: Path,
    x: Dims,
    middle: Dims | None,
    y: Dims | None,
    nodes: Sequence[Any] | None = None,
    constants: Sequence[Any] = (),
) -> Path:
    """A file of x -> MaxPool -> middle -> Relu -> y, whose tensors are declared as these."""
    nodes = nodes or [
        helper.make_node("MaxPool", ["x"], ["middle"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Relu", ["middle"], ["y"], "last"),
    ]
    infos = [info("middle", middle)] if middle is not None else []
    graph = helper.make_graph(nodes, "g", [info("x", x)], [info("y", y)], list(constants), value_info=infos)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


X, GOOD, BAD = (1, 3, 8, 8), (1, 3, 4, 4), (1, 3, 5, 4)


@pytest.mark.parametrize(
    ("middle", "y"),
    [(GOOD, GOOD), (None, None), ((1, "c", None, 4), ("n", "c", "h", "w")), ((0, 3, 4, 4), GOOD), (GOOD, None)],
)
def test_shapes_that_are_declared_right(tmp_path: Path, middle: Dims | None, y: Dims | None) -> None:
    """Free dimensions match every length, and so does the 0 that some exporters write for an unknown one."""
    assert import_model(written(tmp_path, X, middle, y), {}).shape("y") == GOOD


@pytest.mark.parametrize(
    ("middle", "y", "words"),
    [
        (BAD, None, r"node 'pool' \(MaxPool\): the shape of %middle is 1x3x4x4, but the file declares 1x3x5x4;"),
        (None, BAD, r"node 'last' \(Relu\): the shape of %y is 1x3x4x4, but the file declares 1x3x5x4;"),
        (("n", 3, 5, None), None, r"declares \?x3x5x\?; correct the file, or build with --ignore-declared-shapes"),
        (None, (1, 3, 16), "declares 1x3x16;"),
        (None, (), "declares that of a scalar;"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, middle: Dims | None, y: Dims | None, words: str) -> None:
    path = written(tmp_path, X, middle, y)

    with pytest.raises(DeclaredShapeError, match=words) as refused:
        import_model(path, {})
    assert str(refused.value).startswith(f"{path}: ") and "\n" not in str(refused.value)
    assert import_model(path, GivenShapes(ignore_declared=True)).shape("y") == GOOD


def test_the_resize_whose_size_was_taken_for_another(tmp_path: Path) -> None:
    """The file declares 256 rows, which the scale gives in f32; a reader that computes 255 would be refused here."""
    scales = numpy_helper.from_array(np.array([1, 1, 2.9767442, 1], np.float32), "scales")
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["y"], "grow")]

    assert import_model(written(tmp_path, (1, 1, 86, 2), None, (1, 1, 256, 2), nodes, [scales]), {})
    with pytest.raises(DeclaredShapeError, match=r"node 'grow' \(Resize\): the shape of %y is 1x1x256x2"):
        import_model(written(tmp_path, (1, 1, 86, 2), None, (1, 1, 255, 2), nodes, [scales]), {})


def test_shapes_for_other_lengths_of_free_dimensions(tmp_path: Path) -> None:
    """With free inputs a shape without free dimensions may be that of an earlier run; its neighbour's 5 cannot be."""
    stale = written(tmp_path, ("n", 3, "h", 8), (1, 3, 112, 4), (1, 3, 112, 4))
    assert import_model(stale, {"x": (2, 3, 8, 8)}).shape("y") == (2, 3, 4, 4)

    wrong = written(tmp_path, ("n", 3, "h", 8), ("n", 3, "k", 5), None)
    with pytest.raises(DeclaredShapeError, match=r"the shape of %middle is 2x3x4x4, but the file declares \?x3x\?x5"):
        import_model(wrong, {"x": (2, 3, 8, 8)})


def test_branches_and_initializers_declare_shapes_too(tmp_path: Path) -> None:
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "then", [], [info("z", (1, 3, 9, 8))])
    condition = numpy_helper.from_array(np.array(True), "condition")
    node = helper.make_node("If", ["condition"], ["y"], then_branch=branch, else_branch=branch)
    with pytest.raises(DeclaredShapeError, match=r"node 'z' \(Relu\): the shape of %z is 1x3x8x8"):
        import_model(written(tmp_path, X, None, None, [node], [condition]), {})

    weights = numpy_helper.from_array(np.ones((1, 3, 8, 8), np.float32), "w")
    path = written(tmp_path, X, None, X, [helper.make_node("Add", ["x", "w"], ["y"])], [weights])
    model = onnx.load(path)
    model.graph.input.append(info("w", (3, 8, 8)))
    onnx.save(model, path)
    with pytest.raises(DeclaredShapeError, match="the graph: the shape of initializer %w is 1x3x8x8"):
        import_model(path, {})


def test_partial_builds_refuse_them_too(tmp_path: Path) -> None:
    path = written(tmp_path, X, BAD, None)

    with pytest.raises(DeclaredShapeError, match=r"node 'pool' \(MaxPool\): the shape of %middle"):
        read_support(path, {})
    support = read_support(path, GivenShapes(ignore_declared=True))
    assert [node.why for node in support.nodes] == ["", ""]


def test_shapes_given_as_a_mapping_are_compared(tmp_path: Path) -> None:
    """A plain mapping, as Python programs give it, is not a way around."""
    with pytest.raises(MavcgError, match="--ignore-declared-shapes"):
        import_model(written(tmp_path, X, BAD, None), {"x": X})
    assert GivenShapes({"x": X}, True) == {"x": X}
