"""Types that graphs lack: bits of inputs and outputs, casts, quantisation and constants against ml_dtypes and ONNX."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx
from mavcg.importers.onnx_narrow import NARROW, POWERS, ROUNDINGS, NarrowType

onnx = pytest.importorskip("onnx")
FLOATS = [type for type in NARROW.values() if type.is_float]
ROUNDED = [type for type in FLOATS if type.name != POWERS]
WHOLE = [type for type in NARROW.values() if not type.is_float]
node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info


def save(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: list[Any] = ()) -> Path:  # type: ignore[assignment]
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, list(constants))
    opsets = [onnx.helper.make_opsetid("", 25)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=12), path)
    return path


def cast(path: Path, source: int, target: int, x: Array, **attributes: Any) -> Array:
    """Return what a Cast between two types of TensorProto makes, by the definitions of graphs."""
    save(
        path,
        [node("Cast", ["x"], ["y"], to=target, **attributes)],
        [info("x", source, x.shape)],
        [info("y", target, None)],
    )
    return run(import_onnx(path), x)[0]


@pytest.mark.parametrize("type", FLOATS, ids=lambda type: type.name)
def test_every_pattern_is_read_as_its_number_and_written_as_its_bits(type: NarrowType, tmp_path: Path) -> None:
    bits = np.arange(1 << type.bits, dtype=np.uint16 if type.bits == 16 else np.uint8)
    want = bits.view(type.dtype).astype(np.float32)

    read = cast(tmp_path / "m.onnx", type.number, 1, bits)
    np.testing.assert_array_equal(read, want)
    assert (np.signbit(read) == np.signbit(want))[~np.isnan(want)].all()
    written = cast(tmp_path / "m.onnx", 1, type.number, want, saturate=0)
    kept = ~np.isnan(want)
    np.testing.assert_array_equal(written[kept], bits[kept])
    assert np.isnan(written[~kept].view(type.dtype).astype(np.float32)).all()


@pytest.mark.parametrize("type", ROUNDED, ids=lambda type: type.name)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20), st.booleans())
def test_casts_round_to_nearest_even(
    tmp_path_factory: pytest.TempPathFactory, type: NarrowType, numbers: list[float], saturate: bool
) -> None:
    ladder = np.arange(1 << min(type.bits, 8)).astype(np.uint8 if type.bits <= 8 else np.uint16).view(type.dtype)
    steps = np.unique(ladder.astype(np.float32)[np.isfinite(ladder.astype(np.float32))])
    ties = ((steps[1:].astype(np.float64) + steps[:-1]) / 2).astype(np.float32)
    x = np.concatenate([np.array(numbers, np.float32), ties])
    made = cast(tmp_path_factory.mktemp("cast") / "m.onnx", 1, type.number, x, saturate=int(saturate))

    have = made.view(type.dtype).astype(np.float32)
    with np.errstate(all="ignore"):
        want = x.astype(type.dtype).astype(np.float32)
        if saturate and type.name != "bfloat16":
            most = np.float32(ml_dtypes.finfo(type.dtype).max)  # type: ignore[no-untyped-call]
            want = np.where(np.isnan(x), want, np.clip(x, -most, most).astype(type.dtype).astype(np.float32))
    if type.name == "float4e2m1":
        want = np.where(np.isnan(x), 0, want)
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@given(st.lists(st.floats(width=32), max_size=20), st.booleans())
def test_casts_to_powers_of_two(
    tmp_path_factory: pytest.TempPathFactory, rounding: str, numbers: list[float], saturate: bool
) -> None:
    """Each number beside the two powers around it, in double precision; midpoints, denormal numbers, both ends."""
    powers = 2.0 ** np.array([-149, -148, -128, -127, -126, -125, -1, 0, 1, 126, 127])
    near = [powers, powers * 1.5, powers * (1.5 - 2.0**-20), powers * 1.25, powers * (2 - 2.0**-23)]
    edges = [0.0, np.inf, -np.inf, np.nan, -1.0, float(np.finfo(np.float32).max)]
    x = np.concatenate([*near, edges, numbers]).astype(np.float32)
    attributes = {"saturate": int(saturate), "round_mode": rounding}
    made = cast(tmp_path_factory.mktemp("cast") / "m.onnx", 1, NARROW[POWERS].number, x, **attributes)

    with np.errstate(all="ignore"):
        inside = np.clip(x.astype(np.float64), 2.0**-127, 2.0**127)
        below = 2.0 ** np.floor(np.log2(np.where(np.isnan(x), 1, inside)))
        above = np.where(below < inside, 2 * below, below)
        nearest = np.where(inside - below < above - inside, below, above)
        want = {"up": above, "down": below, "nearest": nearest}[rounding]
        outside = np.isnan(x) | (x < 0) | (not saturate) & (inside != x)
    codes = np.where(outside, 255, np.log2(want) + 127).astype(np.uint8)
    np.testing.assert_array_equal(made, codes)
    bits = codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    np.testing.assert_array_equal(bits[~outside], want[~outside])


def test_another_rounding_to_powers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="round_mode 'sideways'; there are up, down, nearest"):
        cast(tmp_path / "m.onnx", 1, NARROW[POWERS].number, np.ones(2, np.float32), round_mode="sideways")


@pytest.mark.parametrize("type", WHOLE, ids=lambda type: type.name)
def test_casts_of_integers_keep_the_low_bits(type: NarrowType, tmp_path: Path) -> None:
    x = np.arange(-20, 21).astype(np.float32)
    made = cast(tmp_path / "m.onnx", 1, type.number, x)

    assert made.dtype == (np.int8 if type.values == "i8" else np.uint8)
    span = 1 << type.bits
    low = -(span // 2) if type.values == "i8" else 0
    np.testing.assert_array_equal(made, (x.astype(int) - low) % span + low)
    np.testing.assert_array_equal(cast(tmp_path / "m.onnx", type.number, 1, made), made.astype(np.float32))


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "field"])
@pytest.mark.parametrize("type", NARROW.values(), ids=lambda type: type.name)
def test_constants_of_a_file(type: NarrowType, raw: bool, tmp_path: Path) -> None:
    bits = (np.arange(5) % (1 << type.bits)).astype(np.uint16 if type.bits == 16 else np.uint8)
    array = (
        bits.view(type.dtype) if type.is_float else (bits.astype(np.int8) - (type.values == "i8")).astype(type.dtype)
    )
    tensor = onnx.numpy_helper.from_array(array, "c")
    if not raw:  # the same bytes as entries of the field
        entries = np.frombuffer(tensor.raw_data, np.uint16 if type.bits == 16 else np.uint8)
        tensor.ClearField("raw_data")
        tensor.int32_data.extend(int(entry) for entry in entries)
    path = save(
        tmp_path / "m.onnx",
        [node("Cast", ["c"], ["w"], to=1), node("Add", ["x", "w"], ["y"])],
        [info("x", 1, [5])],
        [info("y", 1, [5])],
        [tensor],
    )
    np.testing.assert_array_equal(run(import_onnx(path), np.zeros(5, np.float32))[0], array.astype(np.float32))

    tensor.int32_data.append(0) if not raw else setattr(tensor, "raw_data", tensor.raw_data + b"\0")
    save(path, [node("Cast", ["c"], ["y"], to=1)], [info("x", 1, [5])], [info("y", 1, [5])], [tensor])
    with pytest.raises(
        MavcgError, match=rf"initializer %c: \d+ bytes of data where {type.name}\[5\] takes \d+; the file"
    ):
        import_onnx(path)


@pytest.mark.parametrize("type", WHOLE, ids=lambda type: type.name)
def test_quantisation_saturates_at_the_type(type: NarrowType, tmp_path: Path) -> None:
    zero = onnx.numpy_helper.from_array(np.array(1).astype(type.dtype), "zero")
    scale = onnx.numpy_helper.from_array(np.array(0.5, np.float32), "scale")
    path = save(
        tmp_path / "m.onnx",
        [
            node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
            node("Reshape", ["zero", "nothing"], ["again"]),  # the type goes through
            node("DequantizeLinear", ["q", "scale", "again"], ["y"]),
        ],
        [info("x", 1, [9])],
        [info("q", type.number, None), info("y", 1, None)],
        [zero, scale, onnx.numpy_helper.from_array(np.zeros(0, np.int64), "nothing")],
    )
    x = np.array([-100, -4, -1, -0.3, 0, 0.25, 1, 3.6, 100], np.float32)
    q, y = run(import_onnx(path), x)

    lo, hi = (-(1 << type.bits - 1), (1 << type.bits - 1) - 1) if type.values == "i8" else (0, (1 << type.bits) - 1)
    np.testing.assert_array_equal(q, np.clip(np.rint(x / 0.5) + 1, lo, hi))
    np.testing.assert_array_equal(y, (q.astype(np.float32) - 1) * 0.5)


def test_bits_of_a_type_without_that_width_are_refused(tmp_path: Path) -> None:
    opsets = [onnx.helper.make_opsetid("", 26)]
    graph = onnx.helper.make_graph(
        [node("BitCast", ["x"], ["y"], "the_node", to=7)], "g", [info("x", 10, [4])], [info("y", 7, [4])]
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=12), tmp_path / "m.onnx")
    with pytest.raises(MavcgError, match=r"node 'the_node' \(BitCast\): bits of f16 as i64; supported: f32, f64 and"):
        import_onnx(tmp_path / "m.onnx")
