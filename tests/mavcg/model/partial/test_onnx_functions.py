"""A partial build of a file that defines functions: they are counted before they are expanded."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.importers.limits import DEEPEST
from mavcg.importers.onnx_functions import without_functions
from mavcg.model.partial.onnx_nodes import read_support
from tests.mavcg.cli.in_process import build_in
from tests.mavcg.importers.small_onnx_files import ZERO, doubled, in_branches, save

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
IMPORTS = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("d", 1)]


def with_functions(path: Path) -> None:
    """Two calls of a function: a convolution, a sequence, which mavcg has not, and a rectifier."""
    first = onnx.helper.make_tensor("first", 7, [], [0])
    nodes = [
        node("Conv", ["v", "u"], ["a"], pads=[1, 1, 1, 1]),
        node("SequenceConstruct", ["a"], ["s"]),
        node("Constant", [], ["zero"], value=first),
        node("SequenceAt", ["s", "zero"], ["b"]),
        node("Relu", ["b"], ["o"]),
    ]
    function = onnx.helper.make_function("d", "block", ["v", "u"], ["o"], nodes, IMPORTS)
    calls = [node("block", ["x", "w1"], ["m"], domain="d"), node("block", ["m", "w2"], ["y"], domain="d")]
    rng = np.random.default_rng(3)
    shapes = {"w1": (4, 3, 3, 3), "w2": (4, 4, 3, 3)}
    weights = [onnx.numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    graph = onnx.helper.make_graph(calls, "g", [value("x", 1, [1, 3, 8, 8])], [value("y", 1, [1, 4, 8, 8])], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=IMPORTS, functions=[function], ir_version=8), path)


@pytest.mark.long
def test_subgraphs_in_functions_are_built(tmp_path: Path, cores: tuple[str, str]) -> None:
    with_functions(tmp_path / "m.onnx")
    build_in(tmp_path, "m.onnx", "--partial", "--min-share", "0", "--cores", cores[1], "-o", "libm.so")
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(tmp_path / "libm.so"))
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)

    (have,) = onnxruntime.InferenceSession(str(tmp_path / "m.mavcg.onnx"), options).run(None, {"x": x})
    (want,) = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x})
    assert np.abs(have - want).max() <= 1e-5 * np.abs(want).max()
    ours = [n.op_type for n in onnx.load(tmp_path / "m.mavcg.onnx").graph.node if n.domain == "mavcg"]
    assert len(ours) == 3  # a convolution, a rectifier with the next convolution, a rectifier


def test_each_node_of_a_function_is_tried(tmp_path: Path) -> None:
    with_functions(tmp_path / "m.onnx")
    support = read_support(tmp_path / "m.onnx", {})
    assert [n.node.op_type for n in support.nodes if not n.why] == ["Conv", "Constant", "Relu"] * 2


def test_functions_that_double_are_counted_before_they_are_expanded(tmp_path: Path) -> None:
    path = save(tmp_path / "f.onnx", [node("f24", ["c"], ["s"], domain="d")], ZERO, doubled(25))
    with pytest.raises(MavcgError, match=r"f.onnx: function d.f24: its calls make more than 200000 nodes"):
        read_support(path, {})


def test_calls_in_branches_count(tmp_path: Path) -> None:
    path = save(tmp_path / "f.onnx", [node("f14", ["c"], ["s"], domain="d")], ZERO, in_branches(15, 8))
    with pytest.raises(MavcgError, match=r"f.onnx: function d.f14: its calls make more than 200000 nodes"):
        read_support(path, {})


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_the_count_is_no_less_than_what_onnx_makes(calls: int, tmp_path: Path) -> None:
    """The limit at the number of nodes itself, and at one less."""
    path = save(tmp_path / "f.onnx", [node("f3", ["c"], ["s"], domain="d")], ZERO, in_branches(4, calls))
    model: Any = onnx.load(path)
    counted = next(most for most in range(1, 500) if not _is_refused(model, most))
    made = without_functions(model, DEEPEST, counted)

    nodes, left = 0, list(made.graph.node)
    while left:
        nodes += 1
        left += [inner for a in left.pop().attribute if a.HasField("g") for inner in a.g.node]
    assert not made.functions and nodes <= counted <= nodes + sum(calls**i for i in range(4))  # calls themselves


def _is_refused(model: Any, most: int) -> bool:
    try:
        without_functions(model, DEEPEST, most)
    except MavcgError:
        return True
    return False


def test_a_function_that_calls_itself_is_named(tmp_path: Path) -> None:
    function = onnx.helper.make_function("d", "f", ["v"], ["y"], [node("f", ["v"], ["y"], domain="d")], IMPORTS)
    path = save(tmp_path / "f.onnx", [node("f", ["c"], ["s"], domain="d")], ZERO, [function])
    with pytest.raises(MavcgError, match=r"f.onnx: the functions that it defines cannot be expanded"):
        read_support(path, {})
