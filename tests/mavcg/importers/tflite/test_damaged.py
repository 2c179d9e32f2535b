"""Damaged and unsupported files: one clear line each, never a crash."""

import random
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.importers.limits import UnsupportedOp
from mavcg.importers.tflite_file import import_tflite
from tests.mavcg.importers.tflite.conftest import Writer
from tests.mavcg.importers.tflite.control_flow_models import branches, counted_loop

CONV = {"options": "Conv2DOptions", "padding": 0, "strideH": 1, "strideW": 1}
NUMBERS = (0, 1, 2, 255, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x10000, 0x40000000)


def refused(check: Any, data: bytes, *words: str, kind: type[MavcgError] = MavcgError, **shapes: Any) -> str:
    with pytest.raises(kind) as caught:
        check.load(data, shapes)
    text = str(caught.value)
    assert text.startswith(f"{check.path}: ") and "\n" not in text
    for word in words:
        assert word in text, text
    return text


def small(m: Any) -> bytes:
    """A bit of everything: 8-bit and real convolutions, moves, lists in options and in constants."""
    x = m.input((1, 6, 6, 2), "i8", 0.05, 3)
    scales = np.linspace(0.01, 0.02, 4)
    w = m.constant(np.arange(72).reshape(4, 3, 3, 2), "i8", scales, 0, 0)
    y = m.op("CONV_2D", [x, w, m.constant([1, 2, 3, 4])], ("i8", 0.5, 0), **CONV, fusedActivationFunction=3)
    padded = m.op("PAD", [y, m.constant(np.array([[0, 0], [1, 1], [0, 2], [0, 0]], np.int32))], ("i8", 0.5, 0))
    real = m.op("DEQUANTIZE", [padded])
    half = m.op("DEQUANTIZE", [m.constant(np.ones((1, 3, 3, 4), np.float16))])
    deep = m.op(
        "DEPTHWISE_CONV_2D",
        [real, half, m.constant(np.zeros(4))],
        options="DepthwiseConv2DOptions",
        padding=0,
        strideH=2,
        strideW=2,
        depthMultiplier=1,
    )
    shape = m.op("SHAPE", [deep], "i32", "ShapeOptions", outType=2)
    size = m.op("STRIDED_SLICE", [shape, *map(m.constant, ([1], [3], [1]))], "i32", "StridedSliceOptions")
    double = m.op("ADD", [size, size], "i32", "AddOptions")
    large = m.op("RESIZE_BILINEAR", [deep, double], "f32", "ResizeBilinearOptions")
    flat = m.op("RESHAPE", [large], options="ReshapeOptions", newShape=[1, -1])
    tiled = m.op("TILE", [flat, m.constant([2, 1])])
    return bytes(m.bytes(m.op("SOFTMAX", [tiled], options="SoftmaxOptions", beta=2.0), y))


def test_small_is_sound(writer: Any, check: Any) -> None:
    check.agrees(small(writer))


@pytest.mark.parametrize("data", [b"", b"TFL3", b"\x10\0\0\0TFL3", b"PK\x03\x04" * 40, b"\0" * 4096])
def test_no_tflite_file(check: Any, data: bytes) -> None:
    refused(check, data)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="cannot be read"):
        import_tflite(tmp_path / "none.tflite")
    with pytest.raises(MavcgError, match="cannot be read"):
        import_tflite(tmp_path)


def test_every_shorter_file_is_refused_or_lacks_nothing(writer: Any, check: Any) -> None:
    data = small(writer)
    refused_ones = 0
    for length in range(0, len(data), 37):
        try:
            check.load(data[:length])
        except MavcgError:
            refused_ones += 1
    assert refused_ones >= len(range(0, len(data), 37)) - 1


def mutated(data: bytes, source: random.Random) -> bytes:
    if source.random() < 0.05:
        return data[: source.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 4, 8))):
        at = source.randrange(len(changed))
        if source.random() < 0.5:
            changed[at] = source.choice(
                (0, 1, 255, 128, changed[at] ^ (1 << source.randrange(8)), source.randrange(256))
            )
        else:
            at = min(at & ~3, len(changed) - 4)
            changed[at : at + 4] = struct.pack("<I", source.choice((*NUMBERS, len(changed), source.randrange(1 << 32))))
    return bytes(changed)


def survives(check: Any, data: bytes, seed: int, count: int) -> None:
    source = random.Random(seed)
    built = 0
    for _ in range(count):
        try:
            check.path.write_bytes(mutated(data, source))
            import_tflite(check.path)
            built += 1
        except MavcgError as error:
            assert "\n" not in str(error)
    assert 0 < built < count


def test_mutated_files_are_built_or_refused(writer: Any, check: Any) -> None:
    survives(check, small(writer), 1, 500)


@pytest.mark.long
def test_many_mutated_files_are_built_or_refused(writer: Any, check: Any) -> None:
    survives(check, small(writer), 2, 20_000)


@pytest.mark.long
def test_mutated_control_flow_is_built_or_refused(check: Any) -> None:
    survives(check, counted_loop(Writer()), 3, 3_000)
    survives(check, branches(lambda w: w.constant(np.array(True)))[0], 4, 3_000)


def test_unknown_operators_are_named_with_what_there_is(writer: Any, check: Any) -> None:
    y = writer.op("MATRIX_DIAG", [writer.input((4,))])
    refused(check, writer.bytes(y), "node '0:", "(MATRIX_DIAG)", "not supported; `mavcg build --op", kind=UnsupportedOp)


def test_outputs_that_are_missing_are_counted(writer: Any, check: Any) -> None:
    y = writer.op("TOPK_V2", [writer.input((4,)), writer.constant(2)])
    refused(check, writer.bytes(y), "(TOPK_V2): 1 outputs; the values and their places are needed")


def test_custom_operators_are_named(writer: Any, check: Any) -> None:
    y = writer.op("CUSTOM", [writer.input((4,))])
    writer.model.operatorCodes[0].customCode = "TFLite_Detection_PostProcess"
    refused(check, writer.bytes(y), "(CUSTOM TFLite_Detection_PostProcess)", "`mavcg build --op", kind=UnsupportedOp)


def test_operators_that_no_output_needs_do_not_matter(writer: Any, check: Any) -> None:
    x = writer.input((4,))
    writer.op("CUSTOM", [x])
    assert [n.op for n in check.load(writer.bytes(writer.op("NEG", [x]))).nodes] == ["neg"]


def test_control_flow(writer: Any, check: Any) -> None:
    y = writer.op("IF", [writer.input((1,), "bool")])
    refused(check, writer.bytes(y), "(IF): runs subgraph 0, which the file does not have; the file is damaged")


def test_of_several_subgraphs_the_first_is_the_model(writer: Any, check: Any) -> None:
    """LiteRT starts with the first subgraph too; others may be bodies of control flow, or further signatures."""
    y = writer.op("NEG", [writer.input((4,))])
    writer.body(lambda body: [body.op("EXP", [body.input((2,))])])
    graph = check.agrees(writer.bytes(y))
    assert [node.op for node in graph.nodes] == ["neg"]


def test_subgraphs_without_number(writer: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mavcg.importers.tflite_parse.MOST_COMPARED", 3)
    y = writer.op("NEG", [writer.input((4,))])
    writer.model.subgraphs = [writer.graph] * 3
    refused(check, writer.bytes(y), "more than 3 tensors")


def test_state(writer: Any, check: Any) -> None:
    state = writer.tensor((4,), name="memory")
    writer.graph.tensors[state].isVariable = True
    y = writer.op("ADD", [writer.input((4,)), state], options="AddOptions")
    refused(check, writer.bytes(y), "'memory'", "without state", kind=UnsupportedOp)


def test_types_that_graphs_do_not_have(writer: Any, check: Any) -> None:
    x = writer.input((4,), name="text")
    writer.graph.tensors[x].type = 5
    refused(check, writer.bytes(writer.op("NEG", [x])), "'text'", "type string; supported: f32", kind=UnsupportedOp)


def test_16_bit_activations(writer: Any, check: Any) -> None:
    y = writer.op("NEG", [writer.input((4,), "i16", 0.5)], ("i16", 0.5))
    refused(check, writer.bytes(y), "16-bit", "8-bit", kind=UnsupportedOp)


def test_constants_whose_bytes_do_not_fit(writer: Any, check: Any) -> None:
    x = writer.input((4,))
    c = writer.constant(np.zeros(4))
    writer.graph.tensors[c].shape = [2**31 - 1, 2**31 - 1, 2**31 - 1]
    refused(check, writer.bytes(writer.op("MUL", [x, c], options="MulOptions")), "takes", "its buffer has 16")


def test_too_large_inputs(writer: Any, check: Any) -> None:
    y = writer.op("NEG", [writer.input((2**31 - 1,) * 4, name="x")])
    refused(check, writer.bytes(y), "input 'x'", "at most")


@pytest.mark.parametrize("times", [(2**31 - 1, 2**31 - 1), (-1, 2)])
def test_too_large_results(writer: Any, check: Any, times: Any) -> None:
    y = writer.op("TILE", [writer.input((3, 3)), writer.constant(list(times))])
    refused(check, writer.bytes(y), "(TILE)", "a result of shape")


def test_reading_before_making(writer: Any, check: Any) -> None:
    x = writer.input((4,))
    y = writer.op("ADD", [x, writer.tensor((4,), name="later")], options="AddOptions")
    refused(check, writer.bytes(y), "'later'", "an earlier operator's result")


def test_a_cycle(writer: Any, check: Any) -> None:
    y = writer.op("ADD", [writer.input((4,)), 2], options="AddOptions")
    z = writer.op("NEG", [y])
    assert z == 2
    refused(check, writer.bytes(z), "an earlier operator's result")


def test_options_that_are_missing(writer: Any, check: Any) -> None:
    y = writer.op("CONV_2D", [writer.input((1, 4, 4, 1)), writer.constant(np.zeros((1, 1, 1, 1))), -1])
    refused(check, writer.bytes(y), "(CONV_2D)", "option StrideH is missing")


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"strideH": 0}, "StrideH"),
        ({"strideW": -3}, "StrideW"),
        ({"padding": 2}, "padding 2"),
        ({"dilationHFactor": 0}, "DilationHFactor"),
        ({"fusedActivationFunction": 5}, "activation 5"),
    ],
)
def test_options_that_make_no_sense(writer: Any, check: Any, fields: Any, word: str) -> None:
    weights = writer.constant(np.zeros((1, 1, 1, 1)))
    y = writer.op("CONV_2D", [writer.input((1, 4, 4, 1)), weights, -1], **(CONV | fields))
    refused(check, writer.bytes(y), "(CONV_2D)", word)


@pytest.mark.parametrize("scale", [[0.1, 0.2], [np.nan], [-1.0], [0.0], [np.inf]])
def test_scales_that_make_no_sense(writer: Any, check: Any, scale: Any) -> None:
    refused(check, writer.bytes(writer.op("RELU", [writer.input((1, 3), "i8", scale)], ("i8", 1.0))), "scale")


def test_a_zero_point_outside_of_its_type(writer: Any, check: Any) -> None:
    refused(check, writer.bytes(writer.op("RELU", [writer.input((1, 3), "i8", 0.1, 128)], ("i8", 1.0))), "zero point")


def test_shapes_known_only_at_run_time(writer: Any, check: Any) -> None:
    y = writer.op("RESHAPE", [writer.input((6,)), writer.input((2,), "i32")], options="ReshapeOptions")
    refused(check, writer.bytes(y), "(RESHAPE)", "known only when the model runs")


def test_what_a_file_says_of_a_type_must_hold(writer: Any, check: Any) -> None:
    refused(check, writer.bytes(writer.op("NEG", [writer.input((6,))], "i32")), "f32[6]", "is int32")


def test_a_newer_version_of_the_format(writer: Any, check: Any) -> None:
    writer.model.version = 4
    refused(check, writer.bytes(writer.op("NEG", [writer.input((6,))])), "version 4 of the format")


def test_the_extra_is_named_where_it_is_missing(writer: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tflite", None)
    refused(check, writer.bytes(writer.op("NEG", [writer.input((6,))])), "pip install mavcg[models]")
