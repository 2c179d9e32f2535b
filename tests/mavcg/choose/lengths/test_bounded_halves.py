"""Images of any height and width in half precision: near onnxruntime's values, with the bits of kernels of one size."""

import json
from functools import partial
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

import mavcg as package
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.counts import Dimension
from mavcg.model.precision import half_graph
from tests.kernels.conv.half_cases import X86
from tests.mavcg.cli.in_process import build_in

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Images  # noqa: E402
from tests.mavcg.choose.lengths.bounded_run import lowered_for_lengths, optimised, results_of_lengths  # noqa: E402
from tests.mavcg.choose.lengths.bounded_windows import pyramid_of_features  # noqa: E402

LENGTHS = [(9, 9), (10, 13), (40, 41), (39, 10), (17, 16)]
HAS_F16 = bool(llvm.get_host_cpu_features().get("avx512fp16"))


def in_half(dtype: str, graph: Graph) -> Graph:
    return half_graph(optimised(graph), dtype=dtype)


def write(net: Images) -> None:
    """Windows of more terms than a block of f16 has, a depthwise one, and two levels of features."""
    net.conv(40, 3, 3, strides=[2, 2], auto_pad="SAME_UPPER")
    net.conv(24, 3, 3, pads=[1, 1, 1, 1])
    net.conv(24, 3, 3, group=24, pads=[1, 1, 1, 1])
    net.pool("MaxPool", 3, 3, strides=[1, 1], pads=[1, 1, 1, 1])
    pyramid_of_features(net, mode="linear")


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.long
def test_windows_of_images(tmp_path: Path, dtype: str) -> None:
    if dtype == "f16" and not HAS_F16:
        pytest.skip("this machine has no arithmetic of f16")
    net = Images(1, 3, "height", "width")
    write(net)
    path = net.save(tmp_path / "m.onnx")
    rng = np.random.default_rng(3)
    inputs = {each: {"x": rng.standard_normal((1, 3, *each)).astype(np.float32)} for each in LENGTHS}
    dimensions = [Dimension("height", 9, 40), Dimension("width", 9, 41)]
    machine = X86 if dtype == "f16" else None
    made = results_of_lengths(path, {"x": net.shape}, dimensions, inputs, LENGTHS[:4], partial(in_half, dtype), machine)
    reference = onnxruntime.InferenceSession(str(path))
    for each, (ours, fixed) in made.items():
        assert ours == (fixed or ours), f"the bits of {each}"
        (want,) = reference.run(None, inputs[each])
        near = np.frombuffer(ours[0], np.float32).reshape(want.shape)
        assert np.abs(near - want).max() <= 0.05 * np.abs(want).max()


def test_products_along_a_length_stay_f32(tmp_path: Path) -> None:
    """Rows, columns and terms of products of computed matrices follow from the run; a layer of weights is f16."""
    node, info, rng = onnx.helper.make_node, onnx.helper.make_tensor_value_info, np.random.default_rng(4)
    nodes = [
        node("MatMul", ["x", "w"], ["dense"], name="dense"),
        node("Transpose", ["dense"], ["turned"], perm=[0, 2, 1]),
        node("MatMul", ["dense", "turned"], ["all"], name="all"),
        node("Tanh", ["all"], ["scores"]),
        node("MatMul", ["scores", "dense"], ["y"], name="mixed"),
    ]
    weights = onnx.numpy_helper.from_array(rng.standard_normal((19, 24)).astype(np.float32) / 8, "w")
    made = onnx.helper.make_graph(nodes, "g", [info("x", 1, [1, "n", 19])], [info("y", 1, None)], [weights])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(made, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    options = ("m.onnx", "--shape=x=1x1..26x19", "--precision=f16", "--tune=off", "-o", "libm.so", "--json")
    document = json.loads(build_in(tmp_path, *options, "--cores=cortex-a55"))
    layers = document["precision"]["layers"]
    assert {name: layers[name] for name in ("dense", "all", "mixed")} == {"dense": "f16", "all": "f32", "mixed": "f32"}
    if not HAS_F16:
        return
    build_in(tmp_path, *options, "--board=host")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    with package.load(tmp_path / "libm.so", threads=2) as library:
        for length in (26, 1, 2, 25, 7):
            x = rng.standard_normal((1, length, 19)).astype(np.float32)
            (want,) = session.run(None, {"x": x})
            assert np.abs(library.run(x)[0] - want).max() <= 0.02 * np.abs(want).max()


def test_images_that_are_as_wide_as_a_window_are_refused(tmp_path: Path) -> None:
    """In such an image rows of taps continue each other, and sums of f16 would be cut at other terms."""
    net = Images(1, 3, "height", "width")
    net.conv(8, 3, 3)
    path = net.save(tmp_path / "m.onnx")
    with pytest.raises(MavcgError, match="no kernel of it .* takes all lengths"):
        lowered_for_lengths(
            path, {"x": net.shape}, [Dimension("height", 3, 9), Dimension("width", 3, 9)], partial(in_half, "f16")
        )
    lowered_for_lengths(
        path, {"x": net.shape}, [Dimension("height", 3, 9), Dimension("width", 4, 9)], partial(in_half, "f16")
    )
