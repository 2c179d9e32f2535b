"""Operators whose result's size depends on rounding or clamping, with random arguments, against onnxruntime."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mavcg.graph import Array, Graph
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx

onnx = pytest.importorskip("onnx", reason="the importer reads files by the onnx package")
onnxruntime = pytest.importorskip("onnxruntime", reason="sizes are compared with onnxruntime's")
from onnx import helper, numpy_helper  # noqa: E402

from tests.conftest import examples  # noqa: E402
from tests.mavcg.importers.one_node import save  # noqa: E402

SHORT = settings(max_examples=examples(40, 10))
F32_MAX, I64_MAX = (1 << 31) - 1, (1 << 63) - 1
NOTHING = np.zeros(0, np.float32)


def model(
    op: str, version: int, x: Array, constants: Sequence[Array | None], attrs: Mapping[str, Any], data: bool = True
) -> Any:
    """One node on x; constants: its further inputs. data: x is an input of the model, else an initializer."""
    names = [f"c{i}" if c is not None else "" for i, c in enumerate(constants)]
    node = helper.make_node(op, ["x", *names], ["y"], **attrs)
    kept = [numpy_helper.from_array(c, n) for c, n in zip(constants, names, strict=True) if c is not None]
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    inputs = [helper.make_tensor_value_info("x", dtype, x.shape)] if data else []
    kept += [] if data else [numpy_helper.from_array(x, "x")]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)


def by_onnxruntime(message: Any, x: Array) -> Array:
    """The result of onnxruntime; an example that it does not compute is left out."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(message.SerializeToString(), options, ["CPUExecutionProvider"])
        return session.run(None, {"x": x} if session.get_inputs() else {})[0]  # type: ignore[no-any-return]
    except Exception:
        assume(False)
        raise


def graph_of(message: Any, folder: Path) -> Graph:
    path = folder / "m.onnx"
    path.write_bytes(message.SerializeToString())
    return import_onnx(path)


def assert_agrees(message: Any, x: Array, folder: Path, atol: float = 0.0) -> None:
    graph, required = graph_of(message, folder), by_onnxruntime(message, x)
    assert graph.shape("y") == required.shape
    (computed,) = run(graph, *([x] if graph.inputs else []))
    np.testing.assert_allclose(computed, required, rtol=0, atol=atol)


# Resize and Upsample

FORMS = [
    ("Upsample", 7),
    ("Upsample", 9),
    ("Resize", 10),
    ("Resize", 11),
    ("Resize", 13),
    ("Resize", 18),
    ("Resize", 19),
]
COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def by_scales(op: str, version: int, x: Array, scales: Array, attrs: Mapping[str, Any]) -> Any:
    if version == 7:
        return model(op, version, x, (), {**attrs, "scales": [float(s) for s in scales]})
    inputs = (scales,) if version <= 10 else (NOTHING if version < 13 else None, scales)
    return model(op, version, x, inputs, attrs)


@st.composite
def scale(draw: st.DrawFn, length: int, least: float) -> np.float32:
    """A scale, often the f32 nearest to one that gives a whole length: the product is then just below or above it."""
    if draw(st.booleans()):
        made = draw(st.integers(max(1, int(np.ceil(least * length))), 3 * length))
        return np.float32(made) / np.float32(length)
    return np.float32(draw(st.floats(least, 3.0, width=32)))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("op", "version"), FORMS)
@SHORT
@given(data=st.data())
def test_a_resize_by_scales(tmp_path: Path, op: str, version: int, data: st.DataObject) -> None:
    least = 1.0 if op == "Upsample" else 0.25
    x = np.random.default_rng(3).standard_normal((1, 2, *data.draw(st.tuples(*[st.integers(4, 300)] * 2)))).astype("f4")
    scales = np.array([1, 1, *(data.draw(scale(n, least)) for n in x.shape[2:])], np.float32)
    attrs = {"mode": data.draw(st.sampled_from(["nearest", "linear"]))}
    if version >= 11:
        attrs["coordinate_transformation_mode"] = data.draw(st.sampled_from(COORDINATES))
        if attrs["mode"] == "nearest":
            attrs["nearest_mode"] = data.draw(st.sampled_from(ROUNDINGS))
    assert_agrees(by_scales(op, version, x, scales, attrs), x, tmp_path, atol=2e-4)


@pytest.mark.sample(4)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("length", [3, 5, 7, 10, 86])
def test_a_resize_about_the_middle(tmp_path: Path, length: int, mode: str) -> None:
    """half_pixel_symmetric: onnxruntime rounds the position once, which decides at the boundary of two neighbours."""
    x = np.random.default_rng(5).standard_normal((1, 1, length, length)).astype(np.float32)
    for factor in (0.35, 0.55, 0.6, 0.75, 1.2, 1.5, 2.3, 2.5, 3.3):
        for rounding in ROUNDINGS if mode == "nearest" else ("",):
            attrs = {"mode": mode, "coordinate_transformation_mode": "half_pixel_symmetric"}
            attrs |= {"nearest_mode": rounding} if rounding else {}
            message = by_scales("Resize", 19, x, np.array([1, 1, factor, factor], np.float32), attrs)
            assert_agrees(message, x, tmp_path, atol=0.0 if mode == "nearest" else 1e-4)


@pytest.mark.parametrize(("op", "version"), FORMS)
def test_sizes_that_double_precision_misses(tmp_path: Path, op: str, version: int) -> None:
    """86 * 2.9767442 is 256 in f32 and 255.99999 in f64; 10 * 2.3 is 23 and 22.9999995."""
    x = np.arange(860, dtype=np.float32).reshape(1, 1, 86, 10)
    message = by_scales(op, version, x, np.array([1, 1, 2.9767442, 2.3], np.float32), {"mode": "nearest"})

    assert graph_of(message, tmp_path).shape("y") == (1, 1, 256, 23)
    assert_agrees(message, x, tmp_path)


@pytest.mark.parametrize("version", [18, 19])
@SHORT
@given(
    image=st.tuples(*[st.integers(1, 40)] * 2),
    sizes=st.tuples(*[st.integers(1, 60)] * 2),
    policy=st.sampled_from(["stretch", "not_larger", "not_smaller"]),
    axes=st.sampled_from([(2, 3), (3, 2)]),  # onnxruntime miscounts negative ones
)
def test_a_resize_by_sizes(
    tmp_path: Path, version: int, image: tuple[int, int], sizes: tuple[int, int], policy: str, axes: tuple[int, int]
) -> None:
    x = np.random.default_rng(4).standard_normal((1, 1, *image)).astype(np.float32)
    attrs = {"mode": "nearest", "axes": list(axes), "keep_aspect_ratio_policy": policy}
    message = model("Resize", version, x, (None, None, np.array(sizes, np.int64)), attrs)
    if all(by_onnxruntime(message, x).shape):
        assert_agrees(message, x, tmp_path)


@pytest.mark.parametrize("version", [11, 13, 19])
@SHORT
@given(image=st.tuples(*[st.integers(2, 60)] * 2), data=st.data())
def test_a_resize_of_a_region(tmp_path: Path, version: int, image: tuple[int, int], data: st.DataObject) -> None:
    x = np.random.default_rng(4).standard_normal((1, 1, *image)).astype(np.float32)
    scales = np.array([1, 1, *(data.draw(scale(n, 0.5)) for n in image)], np.float32)
    assume(any(int(np.float32(n) * s) != n for n, s in zip(image, scales[2:], strict=True)))
    starts, ends = (data.draw(st.tuples(*[st.floats(a, b, width=32)] * 2)) for a, b in ((-0.25, 0.5), (0.5, 1.25)))
    roi = np.array([0, 0, *starts, 1, 1, *ends], np.float32)
    attrs = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    message = model("Resize", version, x, (roi, scales), attrs)

    assert graph_of(message, tmp_path).shape("y") == by_onnxruntime(message, x).shape


# Slice

ENDS = st.one_of(st.integers(-9, 9), st.sampled_from([F32_MAX, -F32_MAX - 1, I64_MAX, -I64_MAX - 1]))
STEPS = st.sampled_from([1, 2, 3, -1, -2, -3, I64_MAX, -I64_MAX, F32_MAX, -F32_MAX - 1])


@pytest.mark.sample(2)
@pytest.mark.parametrize("version", [1, 10, 11, 13])
@SHORT
@example(lengths=(4, 5), starts=(-9, 1), ends=(-I64_MAX - 1, 5), steps=(-1, 1), known=False)  # one element
@example(lengths=(4, 5), starts=(3, 1), ends=(I64_MAX, 5), steps=(-1, 1), known=True)  # all, backwards
@given(
    lengths=st.tuples(*[st.integers(0, 5)] * 2),
    starts=st.tuples(ENDS, ENDS),
    ends=st.tuples(ENDS, ENDS),
    steps=st.tuples(STEPS, STEPS),
    known=st.booleans(),
)
def test_a_slice(
    tmp_path: Path,
    version: int,
    lengths: tuple[int, int],
    starts: tuple[int, int],
    ends: tuple[int, int],
    steps: tuple[int, int],
    known: bool,
) -> None:
    """By attributes and by inputs, folded and computed by the reference."""
    x = np.arange(lengths[0] * lengths[1], dtype=np.float32).reshape(lengths)
    opset = max(version, 7)
    if version < 10:
        message = model("Slice", opset, x, (), {"starts": starts, "ends": ends, "axes": [1, 0]}, not known)
    else:
        inputs = [np.array(v, np.int64) for v in (starts, ends, (1, 0), steps)]
        message = model("Slice", opset, x, inputs, {}, not known)
    assert_agrees(message, x, tmp_path)


def test_a_slice_that_starts_before_the_first_element(tmp_path: Path) -> None:
    """A start below -length is clamped to the first element, so that a negative step takes this one."""
    x = np.arange(4, dtype=np.float32)
    inputs = [np.array([v], np.int64) for v in (-9, -99, 0, -1)]
    graph = graph_of(model("Slice", 13, x, inputs, {}), tmp_path)

    assert graph.shape("y") == (1,)
    np.testing.assert_array_equal(run(graph, x)[0], [0.0])


@pytest.mark.parametrize("op", ["OneHot", "MaxPool"])
def test_results_of_a_run_are_not_counted_among_what_the_import_computes(
    op: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mavcg.importers.emitter.MOST_BYTES", 20_000)
    if op == "OneHot":
        numbers = {"x": np.arange(128)}
        known = {"depth": np.array(128), "values": np.array([0, 1], np.float32)}
        path = save(tmp_path / "m.onnx", op, numbers, [("y", "float32")], 13, known)
    else:
        image, outputs = {"x": np.zeros((1, 4, 40, 40), np.float32)}, [("y", "float32"), ("i", "int64")]
        path = save(tmp_path / "m.onnx", op, image, outputs, 13, kernel_shape=[2, 2])

    assert import_onnx(path).types["y" if op == "OneHot" else "i"].bytes > 20_000
