"""Weights of few bits in blocks with scales, against onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx
from tests.conftest import examples
from tests.mavcg.importers.one_node import assert_agrees, save

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
F, MICROSOFT = "float32", "com.microsoft"
NONE = np.zeros(0, np.float32)
SEEDS = st.integers(0, 1 << 20)
X = np.zeros((2, 3, 12), np.float32)


def floats(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


@settings(max_examples=examples(40, 8))
@given(
    st.sampled_from(
        [
            (2, "none"),
            (2, "packed"),
            (2, "floats"),
            (4, "none"),
            (4, "packed"),
            (4, "floats"),
            (8, "none"),
            (8, "packed"),
        ]
    ),
    st.sampled_from([0, 1, 4]),
    st.booleans(),
    SEEDS,
)
def test_products_with_few_bits(
    tmp_path_factory: Any, form: tuple[int, str], level: int, with_bias: bool, seed: int
) -> None:
    bits, zeros = form
    random = np.random.default_rng(seed)
    block, depth, width = int(random.choice([16, 32])), int(random.integers(17, 90)), int(random.integers(1, 9))
    blocks = -(-depth // block)
    known = {
        "B": random.integers(0, 256, (width, blocks, block * bits // 8)).astype(np.uint8),
        "scales": random.uniform(0.01, 0.1, (width, blocks)).astype(F),
    }
    if zeros == "packed":
        known["zeros"] = random.integers(0, 256, (width, -(-blocks * bits // 8))).astype(np.uint8)
    elif zeros == "floats":
        known["zeros"] = random.uniform(0, 1 << bits, (width, blocks)).astype(F)
    if with_bias:
        known |= {"no zeros": NONE} if zeros == "none" else {}
        known |= {"no group": NONE, "bias": floats(random, width)}
    x = floats(random, 2, 3, depth)
    path = tmp_path_factory.mktemp("bits") / "m.onnx"
    attributes: dict[str, Any] = {
        "K": depth,
        "N": width,
        "bits": bits,
        "block_size": block,
        "accuracy_level": level,
    }
    save(path, "MatMulNBits", {"x": x}, [("y", F)], 17, known, MICROSOFT, **attributes)

    assert_agrees(path, x, tolerance=2e-5)
    (node,) = (node for node in import_onnx(path).nodes if node.op != "reshape")
    quantised = level == 4 and zeros != "floats" and (bits, block) != (2, 16)
    assert node.op == "block_matmul" and node.attr("quantize") == quantised


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rows_of_a_packed_table(tmp_path: Path, bits: int, zeros: bool) -> None:
    random = np.random.default_rng(bits)
    known = {"data": random.integers(0, 256, (9, 48 * bits // 8)).astype(np.uint8)}
    scales = floats(random, 9, 3)
    after: dict[str, np.ndarray] = {"scales": scales}
    if zeros:
        after["zeros"] = random.integers(0, 256, (9, -(-3 * bits // 8))).astype(np.uint8)
    indices = np.array([[8, 0], [3, 3]], np.int64)
    attributes = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    path = table(tmp_path, known, indices, after, attributes)

    assert_agrees(path, indices)
    assert {node.op for node in import_onnx(path).nodes} >= {"gather", "expand_blocks"}


def table(
    folder: Path,
    data: dict[str, np.ndarray],
    indices: np.ndarray,
    others: dict[str, np.ndarray],
    attributes: dict[str, Any],
    type: int = 0,
) -> Path:
    """A model of a GatherBlockQuantized. type: of data, a TensorProto.DataType; 0: that of its array."""
    helper = onnx.helper
    node = helper.make_node(
        "GatherBlockQuantized", ["data", "i", *others], ["y"], "the_node", domain=MICROSOFT, **attributes
    )
    known = [onnx.numpy_helper.from_array(array, name) for name, array in others.items()]
    array = data["data"]
    known.append(
        helper.make_tensor("data", type, array.shape, array.reshape(-1))
        if type
        else onnx.numpy_helper.from_array(array, "data")
    )
    info = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [info("i", 7, indices.shape)], [info("y", 1, None)], known)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


@pytest.mark.parametrize("signed", [False, True])
def test_rows_of_a_table_of_four_bits(tmp_path: Path, signed: bool) -> None:
    """Numbers of int4 and uint4, whose zero point is 0."""
    random = np.random.default_rng(4)
    low = -8 if signed else 0
    data = {"data": random.integers(low, low + 16, (5, 64))}
    others = {"scales": floats(random, 5, 4)}
    indices = np.array([4, 0, 1], np.int64)
    proto = onnx.TensorProto.INT4 if signed else onnx.TensorProto.UINT4
    path = table(tmp_path, data, indices, others, {"block_size": 16}, proto)

    assert_agrees(path, indices)


@settings(max_examples=examples(24, 6))
@given(st.sampled_from(["INT2", "UINT2", "INT4", "UINT4", "INT8", "UINT8"]), st.booleans(), st.booleans(), SEEDS)
def test_dequantised_weights_stay_packed(tmp_path_factory: Any, type: str, zeros: bool, whole: bool, seed: int) -> None:
    """DequantizeLinear by blocks along the depth of a product."""
    random = np.random.default_rng(seed)
    bits, block = int(type[-1]), 16
    depth, width = 48 if whole else 41, 6
    low = 0 if type[0] == "U" else -(1 << (bits - 1))
    helper, number = onnx.helper, getattr(onnx.TensorProto, type)
    shape = (-(-depth // block), width)
    w = random.integers(low, low + (1 << bits), (depth, width))
    points = random.integers(low, low + (1 << bits), shape)
    known = [
        helper.make_tensor("w", number, w.shape, w.reshape(-1)),
        onnx.numpy_helper.from_array(floats(random, *shape), "s"),
        helper.make_tensor("z", number, shape, points.reshape(-1)),
    ]
    names = ["w", "s", "z"][: 3 if zeros else 2]
    nodes = [
        helper.make_node("DequantizeLinear", names, ["d"], "real", axis=0, block_size=block),
        helper.make_node("MatMul", ["x", "d"], ["y"], "the_node"),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info("x", 1, (2, 3, depth))], [info("y", 1, None)], known[: len(names)])
    path = tmp_path_factory.mktemp("blocks") / "m.onnx"
    version = 25 if bits == 2 else 21
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10), path)
    x = floats(random, 2, 3, depth)

    options = onnxruntime.SessionOptions()  # optimised, it quantises x, which the file does not say
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (expected,) = onnxruntime.InferenceSession(path, options).run(None, {"x": x})
    np.testing.assert_allclose(run(import_onnx(path), x)[0], expected, 2e-5, 2e-5 * np.abs(expected).max())
    (node,) = (node for node in import_onnx(path).nodes if node.op != "reshape")
    assert node.op == "block_matmul" and node.attr("bits") <= bits and not node.attr("quantize")


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"bits": 3}, "bits 3"),
        ({"block_size": 24}, "block_size 24"),
        ({"N": 5}, r"B \[4, 1, 8\] and 4 scales for 5 x 1"),
    ],
)
def test_bad_products_with_few_bits(tmp_path: Path, attributes: dict[str, Any], problem: str) -> None:
    known: dict[str, np.ndarray] = {"B": np.zeros((4, 1, 8), np.uint8), "s": np.ones(4, np.float32)}
    all_attributes: dict[str, Any] = {"K": 12, "N": 4, "bits": 4, "block_size": 16} | attributes
    save(tmp_path / "m.onnx", "MatMulNBits", {"x": X}, [("y", F)], 17, known, MICROSOFT, **all_attributes)
    with pytest.raises(MavcgError, match=rf"node 'the_node' \(com.microsoft.MatMulNBits\): .*{problem}"):
        import_onnx(tmp_path / "m.onnx")


def test_a_table_that_may_be_read_in_two_ways_is_refused(tmp_path: Path) -> None:
    known = {"data": np.ones((5, 8), np.uint8)}
    path = table(tmp_path, known, np.zeros(1, np.int64), {"scales": np.ones((5, 1), F)}, {"block_size": 16})
    with pytest.raises(MavcgError, match="node 'the_node' .*uint4 data of a single block"):
        import_onnx(path)


def test_constants_of_four_bits_of_another_size_are_refused(tmp_path: Path) -> None:
    path = table(
        tmp_path, {"data": np.zeros((5, 16), np.int64)}, np.zeros(1, np.int64), {"scales": np.ones((5, 1), F)}, {}, 22
    )
    model = onnx.load(path)
    (data,) = (tensor for tensor in model.graph.initializer if tensor.name == "data")
    data.raw_data = b"1234"
    data.ClearField("int32_data")
    onnx.save(model, path)
    with pytest.raises(MavcgError, match=r"4 bytes of data where int4\[5, 16\] takes 40"):
        import_onnx(path)
