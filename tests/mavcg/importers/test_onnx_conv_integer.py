"""ConvInteger: exact sums, on the 8-bit numbers themselves by known weights, else by no algorithm that rounds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.program_runner import model_runner
from mavcg.choose.algorithms.network import network_of
from mavcg.choose.lowering.lower import lower_candidates
from mavcg.graph import Graph
from mavcg.importers.onnx_file import import_onnx
from mavcg.model.model_request import MAX_ERROR
from mavcg.passes.graph.pipeline import optimise
from mavcg.specs.kernel import Packing
from tests.kernels.conftest import host_machines

onnx = pytest.importorskip("onnx")


def conv_integer(path: Path, weights: np.ndarray, size: int, zero: int = 0, known: bool = True) -> Path:
    """A file with one ConvInteger, padded to keep an image's size.

    weights: [O, C, 3, 3], an input where they are not known; zero: of the image.
    """
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("ConvInteger", ["x", "w", "z"], ["y"], pads=[1, 1, 1, 1])
    constants = {"w": weights, "z": np.array(zero, np.uint8)}
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [
            value("x", 2, [1, weights.shape[1], size, size]),
            *([] if known else [value("w", 3 if weights.dtype == np.int8 else 2, weights.shape)]),
        ],
        [value("y", 6, [1, weights.shape[0], size, size])],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items() if known or name != "w"],
    )
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
    """Winograd's transforms were up to 3 off here. No file has an exact convolution of known weights any more."""
    weights = np.full((64, 24, 3, 3), 200, np.uint8)
    made = import_onnx(conv_integer(tmp_path / "m.onnx", weights, 14, known=False))
    (conv,) = [node for node in made.nodes if node.op == "conv2d"]
    assert conv.attr("exact") and made.types[conv.output].dtype == "f32"
    filters = conv.inputs[1]
    array = weights.transpose(0, 2, 3, 1).astype(np.float32)
    given = replace(
        made,
        nodes=tuple(node for node in made.nodes if node.output != filters),
        constants={**made.constants, filters: array},
    )
    graph = optimise(given)
    (conv,) = [node for node in graph.nodes if node.op == "conv2d"]
    assert conv.attr("exact") and conv.inputs[1] in graph.constants
    assert not {name for name in rounded_algorithms(graph) if "winograd" in name}
    assert not network_of(graph).convolutions

    rounding = conv.with_attrs(exact=False)
    plain = replace(graph, nodes=tuple(rounding if node is conv else node for node in graph.nodes))
    assert {name for name in rounded_algorithms(plain) if "winograd" in name}
    assert network_of(plain).convolutions


@pytest.mark.sample(3)
@pytest.mark.parametrize(("channels", "dtype"), [(28, "f32"), (29, "f64")])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("zero", [0, 255])
def test_the_largest_sums_are_exact(tmp_path: Path, channels: int, dtype: str, known: bool, zero: int) -> None:
    """28 channels are 28 * 9 * 255 * 255 < 2**24 <= 29 * 9 * 255 * 255, whatever 8-bit weights are."""
    rng = np.random.default_rng(zero)
    weights = np.full((5, channels, 3, 3), -128, np.int8)
    weights[1] = rng.integers(-100, 100, weights[1].shape)
    path = conv_integer(tmp_path / "m.onnx", weights, 4, zero, known)
    made = import_onnx(path)
    (conv,) = [node for node in made.nodes if node.op == ("iconv2d" if known else "conv2d")]
    assert made.types[conv.output].dtype == ("i32" if known else dtype) and (known or conv.attr("exact"))
    x = rng.integers(0, 256, (1, channels, 4, 4)).astype(np.uint8)
    x[0, :, 1] = 255 - zero

    got = model_runner(path, host_machines()[0])(x, *([] if known else [weights]))[0]
    np.testing.assert_array_equal(got, expected(x, weights, zero))


def random_case(rng: np.random.Generator, spatial: int) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """Arrays and attributes of some ConvInteger: groups, strides, dilations, pads or auto_pad, zero points."""
    groups = int(rng.choice([1, 1, 2, 4]))
    per_group, out = int(rng.choice([1, 1, 3, 5])), groups * int(rng.integers(1, 5))
    kernel = rng.integers(1, 4, spatial)
    attrs: dict[str, object] = {
        "group": groups,
        "strides": rng.integers(1, 3, spatial).tolist(),
        "dilations": rng.integers(1, 3, spatial).tolist(),
    }
    if rng.random() < 0.3:
        attrs["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
        attrs["dilations"] = [1] * spatial  # onnxruntime's SAME knows no others
    else:
        attrs["pads"] = rng.integers(0, 2, 2 * spatial).tolist()
    sizes = rng.integers(6, 12, spatial)
    kind = np.uint8 if rng.random() < 0.5 else np.int8
    low, high = (0, 256) if kind == np.uint8 else (-128, 128)
    arrays = {
        "x": rng.integers(0, 256, (int(rng.integers(1, 3)), groups * per_group, *sizes)).astype(np.uint8),
        "w": rng.integers(low, high, (out, per_group, *kernel)).astype(kind),
        "zx": np.array(rng.choice([0, 255, 77]), np.uint8),
    }
    if rng.random() < 0.7:
        arrays["zw"] = np.asarray(rng.integers(low, high), kind)  # onnxruntime has one for all channels only
    return arrays, attrs


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(24))
def test_random_forms_beside_onnxruntime(tmp_path: Path, seed: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(seed)
    arrays, attrs = random_case(rng, 1 if seed % 4 == 3 else 2)
    node = onnx.helper.make_node("ConvInteger", ["x", "w", "zx", *(["zw"] if "zw" in arrays else [])], ["y"], **attrs)
    value = onnx.helper.make_tensor_value_info
    constants = [onnx.numpy_helper.from_array(arrays[name], name) for name in arrays if name not in ("x", "zx")]
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [value("x", 2, arrays["x"].shape), value("zx", 2, ())],
        [value("y", 6, [None] * arrays["x"].ndim)],
        constants,
    )
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": arrays["x"], "zx": arrays["zx"]})
    got = model_runner(path, host_machines()[seed % len(host_machines())])(arrays["x"], arrays["zx"])[0]
    np.testing.assert_array_equal(got, want)


def test_a_zero_point_for_each_output_channel(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weights, zeros = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((6, 3, 3, 3), (6,)))
    path = conv_integer(tmp_path / "m.onnx", weights, 7, 9)
    model = onnx.load(path)
    model.graph.node[0].input.append("zw")
    model.graph.initializer.append(onnx.numpy_helper.from_array(zeros, "zw"))
    onnx.save(model, path)
    x = rng.integers(0, 256, (1, 3, 7, 7)).astype(np.uint8)
    want = expected(x, weights.astype(np.int64) - zeros[:, None, None, None], 9)
    np.testing.assert_array_equal(model_runner(path, host_machines()[0])(x)[0], want)
