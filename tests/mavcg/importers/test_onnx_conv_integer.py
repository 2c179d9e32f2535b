"""ConvInteger: exact sums, by no algorithm that rounds, in f32 where they fit there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.program_runner import model_runner
from mavcg.graph import Graph
from mavcg.importers.onnx_file import import_onnx
from mavcg.lowering.lower import lower_candidates
from mavcg.model_pipeline.model_request import MAX_ERROR
from mavcg.passes.graph.pipeline import optimise
from mavcg.selection.network import network_of
from mavcg.specs.kernel import Packing
from tests.kernels.conftest import host_machines

onnx = pytest.importorskip("onnx")


def conv_integer(path: Path, weights: np.ndarray, size: int, zero: int = 0) -> Path:
    """A file with one ConvInteger, padded to keep an image's size. weights: [O, C, 3, 3]; zero: of the image."""
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("ConvInteger", ["x", "w", "z"], ["y"], pads=[1, 1, 1, 1])
    constants = {"w": weights, "z": np.array(zero, np.uint8)}
    graph = onnx.helper.make_graph(
        [node], "g", [value("x", 2, [1, weights.shape[1], size, size])],
        [value("y", 6, [1, weights.shape[0], size, size])],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def expected(x: np.ndarray, weights: np.ndarray, zero: int) -> np.ndarray:
    """The sums by definition, in 64-bit whole numbers. x: [1, C, H, W]."""
    image = np.pad(x.astype(np.int64) - zero, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(image[0], (3, 3), axis=(1, 2))
    sums: np.ndarray = np.einsum("chwij,ocij->ohw", windows, weights.astype(np.int64))
    return sums[None]


def rounded_algorithms(graph: Graph) -> set[str]:
    """Names of algorithms beside the direct sum that a build may take for the convolution."""
    return {name for names in lower_candidates(graph, Packing(16), MAX_ERROR).algorithms.values() for name in names}


def test_no_algorithm_that_rounds_is_offered(tmp_path: Path) -> None:
    """Winograd's transforms were up to 3 off here."""
    graph = optimise(import_onnx(conv_integer(tmp_path / "m.onnx", np.full((64, 24, 3, 3), 200, np.uint8), 14)))
    (conv,) = [node for node in graph.nodes if node.op == "conv2d"]
    assert conv.attr("exact") and graph.types[conv.output].dtype == "f32"
    assert not {name for name in rounded_algorithms(graph) if "winograd" in name}
    assert not network_of(graph).convolutions

    rounding = conv.with_attrs(exact=False)
    plain = replace(graph, nodes=tuple(rounding if node is conv else node for node in graph.nodes))
    assert {name for name in rounded_algorithms(plain) if "winograd" in name}
    assert network_of(plain).convolutions


@pytest.mark.parametrize(("value", "dtype"), [(116, "f32"), (-128, "f64")])
@pytest.mark.parametrize("zero", [0, 255])
def test_the_largest_sums_are_exact(tmp_path: Path, value: int, dtype: str, zero: int) -> None:
    """63 channels of 116 are 63 * 9 * 116 * 255 < 2**24 <= 63 * 9 * 128 * 255."""
    rng = np.random.default_rng(zero)
    weights = np.full((5, 63, 3, 3), value, np.int8)
    weights[1] = rng.integers(-100, 100, weights[1].shape)
    path = conv_integer(tmp_path / "m.onnx", weights, 4, zero)
    (conv,) = [node for node in import_onnx(path).nodes if node.op == "conv2d"]
    assert conv.attr("exact") and import_onnx(path).types[conv.output].dtype == dtype
    x = rng.integers(0, 256, (1, 63, 4, 4)).astype(np.uint8)
    x[0, :, 1] = 255 - zero

    np.testing.assert_array_equal(model_runner(path, host_machines()[0])(x)[0], expected(x, weights, zero))
