"""MatMulInteger: exact sums, on the 8-bit numbers themselves where one matrix is known."""

from pathlib import Path

import numpy as np
import pytest

from bench.program_runner import model_runner
from mavcg.importers.onnx_file import import_onnx
from tests.kernels.conftest import host_machines

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

ELEMENTS = {np.dtype(np.uint8): 2, np.dtype(np.int8): 3}


def matmul_integer(path: Path, constants: dict[str, np.ndarray], inputs: dict[str, np.ndarray], out: list[int]) -> Path:
    """A file with one MatMulInteger of a, b and zero points za, zb, if there are any. out: shape of the result."""
    names = [name if name in constants or name in inputs else "" for name in ("a", "b", "za", "zb")]
    while not names[-1]:
        names.pop()
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMulInteger", names, ["y"])],
        "g",
        [value(name, ELEMENTS[a.dtype], a.shape) for name, a in inputs.items()],
        [value("y", 6, out)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.sample(2)
@pytest.mark.parametrize("terms", [515, 516, 70000])
@pytest.mark.parametrize("zero", [0, 255])
def test_the_largest_sums_are_exact(tmp_path: Path, terms: int, zero: int) -> None:
    """Activations as far from their zero point as can be; sums below 2**24, above, and above 2**31."""
    rng = np.random.default_rng(terms)
    weights = np.full((terms, 20), -128, np.int8)
    weights[:, 1], weights[-1] = rng.integers(-128, 128, terms), 1
    a = np.full((3, terms), 255 - zero, np.uint8)
    a[1], a[2] = rng.integers(0, 256, terms), 255
    path = matmul_integer(tmp_path / "m.onnx", {"b": weights, "za": np.array(zero, np.uint8)}, {"a": a}, [3, 20])
    (product,) = [node for node in import_onnx(path).nodes if node.op == "imatmul"]
    assert import_onnx(path).types[product.output].dtype == "i32"
    want = (a.astype(np.int64) - zero) @ weights.astype(np.int64)
    assert (np.abs(want).max() >= 1 << 31) == (terms == 70000)
    np.testing.assert_array_equal(model_runner(path, host_machines()[0])(a)[0], want.astype(np.int32))


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("a", "b", "za", "zb", "op"),
    [
        ((5, 9), (9, 4), (), (), "imatmul"),
        ((5, 9), (9, 4), (), (4,), "imatmul"),  # a zero point a column
        ((9,), (9, 4), (1,), None, "imatmul"),
        ((2, 3, 5, 9), (9, 4), None, (1,), "imatmul"),
        ((5, 9), (9,), (), (), "matmul"),
        ((2, 5, 9), (2, 9, 4), (), (), "matmul"),  # several matrices
    ],
)
@pytest.mark.parametrize("kinds", ["uu", "ui", "ii"])
def test_zero_points_and_shapes(
    tmp_path: Path,
    a: tuple[int, ...],
    b: tuple[int, ...],
    za: tuple[int, ...] | None,
    zb: tuple[int, ...] | None,
    op: str,
    kinds: str,
) -> None:
    """Results equal NumPy's sums in 64 bits, and onnxruntime's where it has the operator."""
    rng = np.random.default_rng(len(a) + 10 * len(b))
    # Of 7 bits beside u8: onnxruntime's sums of two products of full ones saturate on x86 without VNNI.
    least = -64 if kinds == "ui" else -128
    types = {"u": (np.uint8, 0, 256), "i": (np.int8, least, -least)}

    def numbers(kind: str, shape: tuple[int, ...]) -> np.ndarray:
        dtype, low, high = types[kind]
        return np.asarray(rng.integers(low, high, shape), dtype)

    left, right = numbers(kinds[0], a), numbers(kinds[1], b)
    constants = {"b": right}
    constants |= {"za": numbers(kinds[0], za)} if za is not None else {}
    constants |= {"zb": numbers(kinds[1], zb)} if zb is not None else {}
    wide = [array.astype(np.int64) - constants.get(zero, np.int8(0)) for array, zero in ((left, "za"), (right, "zb"))]
    want = np.matmul(*wide)
    path = matmul_integer(tmp_path / "m.onnx", constants, {"a": left}, list(want.shape))
    assert op in [node.op for node in import_onnx(path).nodes]
    np.testing.assert_array_equal(model_runner(path, host_machines()[0])(left)[0], want)
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:  # some combinations of types it does not have
        assert "NOT_IMPLEMENTED" in str(error) or "NotImplemented" in str(error)  # noqa: PT017
        return
    np.testing.assert_array_equal(session.run(None, {"a": left})[0], want)


def test_a_zero_point_of_each_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 256, (4, 21)).astype(np.uint8), rng.integers(-128, 128, (21, 6)).astype(np.int8)
    inputs = {"a": a, "za": np.array(200, np.uint8)}
    run = model_runner(matmul_integer(tmp_path / "m.onnx", {"b": b}, inputs, [4, 6]), host_machines()[0])
    for zero in (0, 1, 200, 255):
        want = (a.astype(np.int64) - zero) @ b.astype(np.int64)
        np.testing.assert_array_equal(run(a, np.array(zero, np.uint8))[0], want)
