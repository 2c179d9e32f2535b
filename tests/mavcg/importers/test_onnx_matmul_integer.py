"""MatMulInteger by known weights: exact in f32 where the weights are small enough, in 32 bits beyond."""

from pathlib import Path

import numpy as np
import pytest

from bench.program_runner import model_runner
from mavcg.importers.onnx_file import import_onnx
from tests.kernels.conftest import host_machines

onnx = pytest.importorskip("onnx")


@pytest.mark.parametrize(("terms", "dtype"), [(515, "f32"), (516, "i32")])
@pytest.mark.parametrize("zero", [0, 255])
def test_the_largest_sums_are_exact(tmp_path: Path, terms: int, dtype: str, zero: int) -> None:
    """Activations as far from their zero point as can be; sums up to the last below 2**24, and above."""
    rng = np.random.default_rng(terms)
    weights = np.full((terms, 20), -128, np.int8)
    weights[:, 1], weights[-1] = rng.integers(-128, 128, terms), 1
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("MatMulInteger", ["a", "b", "z"], ["y"])
    constants = {"b": weights, "z": np.array(zero, np.uint8)}
    graph = onnx.helper.make_graph(
        [node], "g", [value("a", 2, [3, terms])], [value("y", 6, [3, 20])],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    a = np.full((3, terms), 255 - zero, np.uint8)
    a[1], a[2] = rng.integers(0, 256, terms), 255

    made = import_onnx(path)
    (product,) = [node for node in made.nodes if node.op == "matmul"]
    assert made.types[product.output].dtype == dtype
    want = (a.astype(np.int64) - zero) @ weights.astype(np.int64)
    assert (np.abs(weights.astype(int)).sum(0).max() * 255 < 1 << 24) == (dtype == "f32")
    np.testing.assert_array_equal(model_runner(path, host_machines()[0])(a)[0], want)
