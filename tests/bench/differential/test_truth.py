"""The float64 results of random graphs, their bounds, and the results of tiny numbers here and in onnxruntime."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from bench.differential.cases import expected_outputs, onnx_case
from bench.differential.definitions import DEFINITIONS
from bench.differential.graphs import random_part
from bench.differential.libraries import batch_of
from bench.differential.part import OPSETS, Part
from bench.differential.truth import FACTOR, UNITS, Bounded, bounded  # noqa: E402
from bench.differential.verdict import verdict  # noqa: E402

Array = NDArray[Any]
EPS = float(np.finfo(np.float32).eps)


def _part(*operators: str, x: Array) -> Part:
    """A chain of unary operators."""
    part = Part("g0_", 18, np.random.default_rng(0))
    part.inputs["g0_x"] = x
    name = "g0_x"
    for operator in operators:
        name = part.add(operator, name)
    part.outputs = [name]
    return part


def _bounded(part: Part) -> list[Bounded]:
    results = bounded(part)
    assert results is not None
    return results


def _line(low: float, high: float, count: int = 64) -> Array:
    return np.linspace(low, high, count, dtype=np.float32)


def test_the_bound_of_one_operator_is_a_few_units_in_the_last_place() -> None:
    x = _line(-3, 3)
    (result,) = _bounded(_part("Exp", x=x))
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(result.value, exact, rtol=1e-15)
    assert np.all(result.bound >= UNITS * EPS * exact) and np.all(result.bound <= 3 * FACTOR * UNITS * EPS * exact)


def test_the_bound_follows_the_condition() -> None:
    """|d log(exp(x))| is that of x; the reciprocal of x - round(x) has a pole, and Floor of whole numbers a jump."""
    (mild,) = _bounded(_part("Exp", "Log", x=_line(1, 3)))
    assert mild.bound.max() < 40 * EPS
    (steep,) = _bounded(_part("Sin", "Reciprocal", x=np.array([1.0, np.pi], np.float32)))
    assert steep.bound[0] < 1e-5 and steep.bound[1] > 1e-6 * steep.value[1]
    (jump,) = _bounded(_part("Exp", "Floor", x=np.array([0.0, 0.5], np.float32)))
    assert jump.bound[0] >= 1 and jump.bound[1] < 1e-5


def test_verdicts() -> None:
    part = _part("Exp", x=_line(-3, 3))
    truth, (theirs,) = bounded(part), expected_outputs(part)
    assert verdict(part, [theirs], [theirs], truth, "theirs") == ("same", "")
    off = (theirs * np.float32(1 + 4e-6)).astype(np.float32)  # within 2e-5: only the bound sees it
    assert verdict(part, [off], [theirs], truth, "theirs") == ("different", "Exp")
    assert verdict(part, [theirs], [off], truth, "theirs")[0] == "explained"
    assert "theirs is farther" in verdict(part, [theirs], [off], truth, "theirs")[1]
    assert verdict(part, [off], [off], truth, "theirs")[0] == "same"  # two implementations beside the reference
    assert verdict(part, [theirs[:1]], [theirs], truth, "theirs")[0] == "different"
    assert verdict(part, [theirs], [off * 2], None, "theirs")[0] == "different"


def test_a_finite_result_of_hard_numbers_has_no_excuse() -> None:
    part = _part("Softmax", x=np.array([[1, 2, 3], [np.inf, 2, 3], [3e38, 1, 1]], np.float32))
    part.hard = True
    truth, (theirs,) = bounded(part), expected_outputs(part)
    assert truth is not None and truth[0].large
    wrong = theirs.copy()
    wrong[1] = 0  # where the exact result is NaN
    assert verdict(part, [wrong], [theirs], truth, "theirs") == ("explained", "hard numbers: Softmax")
    wrong[0, 1] += 1e-4
    assert verdict(part, [wrong], [theirs], truth, "theirs") == ("different", "Softmax")


def test_the_reference_of_lrn_is_that_of_its_definition() -> None:
    """onnxruntime and the definition agree, where ONNX's reference normalises as many channels as there are images."""
    part = Part("g0_", 13, np.random.default_rng(0))
    part.inputs["g0_x"] = np.random.default_rng(1).normal(size=(1, 5, 2, 3)).astype(np.float32) * 30
    part.outputs = [part.add("LRN", "g0_x", size=3, alpha=0.5)]
    (truth,) = _bounded(part)
    (theirs,) = expected_outputs(part)
    assert np.all(np.abs(theirs - truth.value) <= truth.bound)


def test_a_number_of_which_no_digit_is_determined() -> None:
    """The tangent of half precision's 20000 is anything, for its neighbours are 16 apart; that of 0.5 is not."""
    (result,) = _bounded(_part("Tan", "Identity", x=np.array([0.5, 0.5, 0.5, 20000.0], np.float16)))
    assert np.all(result.bound[:3] < 0.1)
    (result,) = _bounded(_part("Softplus", "Tan", x=np.array([0.5, 0.5, 0.5, 20000.0], np.float16)))
    assert np.all(result.bound[:3] < 0.1) and result.bound[3] == np.inf


def test_a_graph_that_rounding_takes_out_of_range_has_no_bound() -> None:
    """The sum rounds to an index that there is, or, a unit above, to the length."""
    part = Part("g0_", 18, np.random.default_rng(0))
    part.inputs["g0_x"] = np.nextafter(np.full(40, 4, np.float32), np.float32(0))
    part.inputs["g0_data"] = np.arange(4, dtype=np.float32)
    at = part.add("Cast", part.add("Exp", part.add("Log", "g0_x")), to=7)
    part.outputs = [part.add("Gather", "g0_data", at)]

    assert bounded(part) is None


def test_both_directions_of_an_error_are_tried() -> None:
    """The error function of 2.7 in half precision is 1 or the number below it: its ceiling is 1 either way; that of
    -2.7 is -1 or -0."""
    part = _part("Erf", "Ceil", x=np.full(40, -2.7, np.float16))
    (result,) = _bounded(part)
    assert np.all(result.bound >= 1)


def test_the_bound_of_a_resized_image_follows_its_neighbours() -> None:
    part = Part("g0_", 13, np.random.default_rng(0))
    image = np.zeros((1, 1, 4, 12), np.float32)
    image[0, 0, 0, 0] = 1e7
    part.inputs |= {"g0_x": image, "g0_s": np.array([1, 1, 1.7, 1.7], np.float32)}
    part.outputs = [part.add("Resize", "g0_x", "", "g0_s", mode="cubic")]
    (result,) = _bounded(part)
    assert result.bound[0, 0, 0, 2] > 1 and result.bound[0, 0, 0, -1] < 1e-30


def test_the_reference_of_a_window_with_nan_is_nan() -> None:
    part = _part(x=np.array([[[1, np.nan, 3, 4, 5]]], np.float32))
    part.outputs = [part.add("MaxPool", "g0_x", kernel_shape=[2])]
    (truth,) = _bounded(part)
    np.testing.assert_array_equal(truth.value, [[[np.nan, np.nan, 4, 5]]])


def test_a_sigmoid_beside_dynamic_quantization_has_an_absolute_error() -> None:
    """onnxruntime's rational function gives 0 here, as mavcg does in networks with DynamicQuantizeLinear."""
    x = np.array([-19, 2], np.float32)
    (alone,) = _bounded(_part("Sigmoid", x=x))
    part = _part("Sigmoid", x=x)
    part.outputs += part.add("DynamicQuantizeLinear", part.outputs[0], outputs=3)
    beside, *_ = _bounded(part)
    assert alone.bound[0] < 0.1 * alone.value[0] < alone.value[0] < beside.bound[0] < 40 * EPS


def test_the_reference_of_log_softmax_is_finite_far_below_the_largest() -> None:
    x = np.array([[1e15, 2, 1e15]], np.float64)
    (result,) = _bounded(_part("LogSoftmax", x=x))
    np.testing.assert_allclose(result.value, [[-np.log(2), 2 - 1e15, -np.log(2)]], rtol=1e-15)


def test_any_place_is_right_in_a_window_with_nan() -> None:
    x = np.array([[[1, np.nan, 3, 2, 5, 4]]], np.float32)
    part = _part(x=x)
    part.outputs = part.add("MaxPool", "g0_x", outputs=2, kernel_shape=[2], strides=[2])
    part.outputs.append(part.add("Transpose", part.outputs[1], perm=[2, 1, 0]))
    values, places, moved = _bounded(part)
    np.testing.assert_array_equal(values.value, [[[np.nan, 3, 5]]])
    np.testing.assert_array_equal(places.value[..., 1:], [[[2, 4]]])
    np.testing.assert_array_equal(places.bound, [[[np.inf, 0, 0]]])
    np.testing.assert_array_equal(moved.bound, [[[np.inf]], [[0]], [[0]]])


@pytest.mark.parametrize(
    ("rule", "scales"),
    [("align_corners", (1.7, 1.3)), ("pytorch_half_pixel", (0.39, 1.3)), ("pytorch_half_pixel", (0.2, 0.33))],
)
def test_a_resize_goes_by_the_length_of_the_result(rule: str, scales: tuple[float, float]) -> None:
    """0.39 of 5 rows are one row, the first, which is not where half a pixel of 1.95 rows lies."""
    part = Part("g0_", 13, np.random.default_rng(0))
    image = np.random.default_rng(1).normal(size=(1, 2, 5, 6)).astype(np.float32)
    part.inputs |= {"g0_x": image, "g0_s": np.array([1, 1, *scales], np.float32)}
    part.outputs = [part.add("Resize", "g0_x", "", "g0_s", mode="linear", coordinate_transformation_mode=rule)]
    (truth,), (theirs,) = _bounded(part), expected_outputs(part)
    assert np.all(np.abs(theirs - truth.value) <= truth.bound)


@pytest.mark.long
def test_a_kernel_with_a_wrong_constant_is_flagged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One coefficient of the polynomial of exp, off by 2e-4 of itself: 1e-5 of the result at most."""
    from mavcg.kernels.builder import float_math

    parts = {n: random_part(6, n, 13) for n in range(3000)}
    numbers = [n for n, p in parts.items() if p.operators == ["Exp"] and p.dtype == np.float32 and not p.hard][:3]
    assert {result.status for result in batch_of(OPSETS.index(13), 6, numbers, tmp_path)} == {"same"}
    tail = list(float_math._EXP_TAIL)
    monkeypatch.setattr(float_math, "_EXP_TAIL", [tail[0] * (1 + 2e-4), *tail[1:]])
    assert "different" in {result.status for result in batch_of(OPSETS.index(13), 6, numbers, tmp_path)}


TINY = -np.array(
    [1e-45, 3e-45, 1e-41, 1e-39, 1.1e-38, 1.2e-38, 1e-37, 1e-30, 1e-20, 1e-10, 2e-8, 1e-7, 1e-5, 1e-3], np.float32
)
FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "Elu": DEFINITIONS["Elu"],
    "Celu": DEFINITIONS["Celu"],
    "Selu": DEFINITIONS["Selu"],
    "Tanh": np.tanh,
    "Sin": np.sin,
    "Tan": np.tan,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Erf": lambda x: 2 / np.sqrt(np.pi) * x * (1 - x * x / 3 + x**4 / 10),
    "LeakyRelu": lambda x: np.where(x < 0, np.float64(np.float32(0.01)) * x, x),
    "Mish": DEFINITIONS["Mish"],
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
}


def _errors(have: Array, truth: Array) -> Array:
    """Units in the last place of f32, of the denormal grid where the result is denormal."""
    return np.abs(have.astype(np.float64) - truth) / np.spacing(np.abs(truth.astype(np.float32))).astype(np.float64)


def test_onnxruntime_on_tiny_negative_numbers() -> None:
    """Elu, Celu and Selu are exp(x) - 1 there: 0 for every x above -2^-25, normal numbers too. Tanh loses denormal bits
    and is 0 for the last two denormal numbers. The other odd or one-sided functions are right."""
    for operator, function in FUNCTIONS.items():
        (have,) = expected_outputs(_part(operator, x=TINY))
        truth = function(TINY.astype(np.float64))
        if operator in ("Elu", "Celu", "Selu"):
            assert np.array_equal(have == 0, TINY > -(2.0**-25)), operator
            assert np.max(_errors(have, truth)) > 1e6
        elif operator == "Tanh":
            assert np.array_equal(have == 0, TINY > -4e-45)
            assert 8 < np.max(_errors(have, truth)) < 1000 and np.max(_errors(have, truth)[TINY < -1e-7]) < 4
        else:
            assert np.max(_errors(have, truth)) < 4, operator


def test_kernels_on_tiny_negative_numbers(tmp_path: Path) -> None:
    """Elu, Celu, Selu and Tanh here: within 4 units in the last place of the float64 result, for all of them."""
    from bench.differential.libraries import build_plainly
    from bench.differential.memory import run_guarded
    from bench.differential.part import model_of

    parts = [_part(operator, x=TINY) for operator in ("Elu", "Celu", "Selu", "Tanh")]
    for number, part in enumerate(parts):
        part.outputs = [f"y{number}"]
        part.nodes[0].input[0], part.nodes[0].output[0], part.nodes[0].name = f"x{number}", f"y{number}", f"n{number}"
        part.inputs = {f"x{number}": TINY}
    (tmp_path / "tiny.onnx").write_bytes(model_of(parts).SerializeToString())
    build_plainly(tmp_path / "tiny.onnx", tmp_path / "libtiny.so", (), None)
    case = onnx_case(0, 0, 17)
    case.inputs = {f"x{number}": TINY for number in range(4)}
    for part, have in zip(parts, run_guarded(tmp_path / "libtiny.so", case.inputs, at_end=True), strict=True):
        truth = FUNCTIONS[part.operators[0]](TINY.astype(np.float64))
        assert np.max(_errors(have, truth)) < 4, part.operators


def test_litert_clamps_infinities_of_operators_with_a_fused_activation() -> None:
    pytest.importorskip("ai_edge_litert")
    from bench.differential.tflite_part import TfliteMaker, TflitePart
    from bench.differential.tflite_verdict import litert, tflite_verdict

    part = TflitePart("g0_", hard=True)
    maker = TfliteMaker(part, np.random.default_rng(0))
    maker.operator("MUL", [maker.input((3,)), maker.input((3,))], options="MulOptions")
    a, b = part.inputs
    part.inputs |= {a: np.array([np.inf, -np.inf, 2], np.float32), b: np.array([2, 3, 4], np.float32)}
    (theirs,) = litert(part)
    most = np.finfo(np.float32).max
    assert theirs.tolist() == [most, -most, 8]
    assert "clamps" in tflite_verdict(part, [part.inputs[a] * part.inputs[b]], [theirs])[1]
    assert tflite_verdict(part, [np.array([np.inf, np.inf, 8], np.float32)], [theirs])[0] == "different"


def test_a_softmax_may_give_zero_below_the_normal_range_only() -> None:
    (result,) = _bounded(_part("Softmax", "Identity", x=np.array([[0.0, -90.0, -80.0]], np.float32)))
    below, above = result.value[0, 1:]
    assert 0 < below < np.finfo(np.float32).tiny < above
    assert result.bound[0, 1] >= below
    assert result.bound[0, 2] < above / 100
