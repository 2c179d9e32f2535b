"""Whole files: spelling, inputs, phases, weights, and what is refused at which line."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph import Array, TensorType
from mavcg.importers.caffe_block import CaffeError
from mavcg.importers.caffe_file import import_caffe
from mavcg.importers.caffe_text import parse_prototxt
from mavcg.importers.limits import UnsupportedOp
from mavcg.importers.load import import_model

Import = Callable[..., Any]
INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } } }\n'
RELU = 'layer { name: "r" type: "ReLU" bottom: "x" top: "y" }\n'
CONV = (
    'layer { name: "l" type: "Convolution" bottom: "x" top: "y" convolution_param { num_output: 3 kernel_size: 2 } }\n'
)
OLD = """\
name: "old"
input: "x"
input_dim: 1
input_dim: 2  # channels
input_dim: 4
input_dim: 4
layers {
  name: "l" type: CONVOLUTION bottom: "x" top: "y"
  blobs_lr: 1 weight_decay: 0
  convolution_param { num_output: 3 kernel_size: 2 weight_filler { type: "gaussian" std: 0.01 } }
}
layers { name: "r" type: RELU bottom: "y" top: "y" }
"""


def blobs(seed: int = 0) -> list[Array]:
    source = np.random.default_rng(seed)
    return [source.standard_normal(shape).astype(np.float32) for shape in ((3, 2, 2, 2), (3,))]


X = np.random.default_rng(9).standard_normal((1, 2, 4, 4)).astype(np.float32)


def refusal(imported: Import, text: str, **others: Any) -> str:
    """The message, without the path of the test's folder."""
    with pytest.raises(MavcgError) as raised:
        imported(text, **others)
    assert "\n" not in str(raised.value)
    return re.sub(r"/\S*/", "", str(raised.value))


# Spelling


@pytest.mark.parametrize("double", [False, True])
def test_the_old_spelling_is_the_same_network(
    imported: Import, computed: Any, write_caffemodel: Any, double: bool
) -> None:
    old = imported(OLD, write_caffemodel({"l": blobs()}, old=True, double=double))
    new = imported(INPUT + CONV + RELU.replace('"x"', '"y"').replace('top: "y"', 'top: "y"'), {"l": blobs()})

    assert old.name == "old" and old.outputs == ("y",)
    np.testing.assert_array_equal(computed(old, X), computed(new, X))


def test_syntax_of_the_text_format() -> None:
    file = parse_prototxt(
        'name: "a" \'b\'  # a comment with { and "\n'
        "layer < top: 'x\\n\\x41\\102' ; list: [1, 2,3] , block: { e: -1.5e-3f inf: inf } > hex: 0x10 octal: 017 "
        "flag: true"
    )
    (layer,) = file.blocks("layer")

    assert file.text("name") == "ab" and layer.line == 2
    assert layer.texts("top") == ("x\nAB",) and layer.integers("list") == (1, 2, 3)
    assert layer.block("block").number("e", 0) == -0.0015 and layer.block("block").number("inf", 0) == float("inf")
    assert (file.integer("hex", 0), file.integer("octal", 0), file.boolean("flag", False)) == (16, 15, True)


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("layer {\n name: 'x'\n", 3, "the file ends within the block of line 1"),
        ("a: 1\nb 2", 2, "a colon or a block"),
        ("a:\n}", 2, "where a value of a is needed"),
        ("a: 'x\n'", 1, "is not protobuf's text format"),
        ("a: [1\n2]", 2, "a comma or ]"),
        ("}", 1, "a field's name"),
        ("a { " * 40, 1, "deeper than 16"),
        ("a: \x00", 1, "is not protobuf's text format"),
    ],
)
def test_damaged_text_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(CaffeError, match=re.escape(words)) as raised:
        parse_prototxt(text)
    assert raised.value.line == line


@given(st.text(alphabet="ab12{}<>[]:;,\"'#\n .\\-", max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse_prototxt(text)
    except CaffeError as error:
        assert 1 <= error.line <= text.count("\n") + 1


# Inputs


def test_an_input_takes_another_shape(imported: Import) -> None:
    graph = imported(INPUT + RELU, shapes={"x": (2, 2, 9, 9)})

    assert graph.types["x"] == TensorType("f32", (2, 2, 9, 9)) and graph.shape("y") == (2, 2, 9, 9)
    assert "the file has 4 dimensions" in refusal(imported, INPUT + RELU, shapes={"x": (2, 2)})
    assert "no such input; inputs are x" in refusal(imported, INPUT + RELU, shapes={"z": (2, 2)})


def test_input_shape_and_several_inputs(imported: Import) -> None:
    text = """input: "a" input: "b" input_shape { dim: 2 dim: 3 } input_shape { dim: 2 dim: 5 }
layer { name: "c" type: "Concat" bottom: "a" bottom: "b" top: "c" }"""

    graph = imported(text)
    assert graph.inputs == ("a", "b") and graph.shape("c") == (2, 8)


TRAINING = """\
layer { name: "d" type: "Data" top: "x" top: "label" include { phase: TRAIN } }
layer { name: "d" type: "Data" top: "x" top: "label" include { phase: TEST } transform_param { crop_size: 4 } }
layer { name: "only_training" type: "Dropout" bottom: "x" top: "x" exclude { phase: TEST } }
layer { name: "staged" type: "Dropout" bottom: "x" top: "x" include { stage: "deploy" } }
"""


def test_layers_of_training_are_left_out(imported: Import) -> None:
    assert "input 'x' has no shape; give it, as --shape x=1x3x224x224" in refusal(imported, TRAINING + RELU)
    graph = imported(TRAINING + RELU, shapes={"x": (1, 2, 4, 4)})
    assert graph.inputs == ("x",) and [node.op for node in graph.nodes] == ["relu"]


# Blobs and outputs


def test_a_layer_may_write_its_bottom(imported: Import, computed: Any) -> None:
    graph = imported(INPUT + RELU.replace('top: "y"', 'top: "x"'))

    assert graph.inputs == ("x",) and len(graph.outputs) == 1
    np.testing.assert_array_equal(computed(graph, X)[0], np.maximum(X, 0))


def test_every_blob_that_nothing_reads_is_an_output(imported: Import) -> None:
    second = 'layer { name: "s" type: "TanH" bottom: "x" top: "z" }'

    assert imported(INPUT + RELU + second).outputs == ("y", "z")


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "net.prototxt:1: it has no layer"),
        ('a: "b"', "it begins with a"),
        (INPUT, "net.prototxt: the file has no outputs"),
        (RELU, "net.prototxt:1: layer 'r' (ReLU): its bottom 'x' is not the top of an earlier layer"),
        (INPUT + RELU + RELU, "net.prototxt:3: layer 'r' (ReLU): its top 'y' is already made by another layer"),
        (
            INPUT + "\n" + RELU.replace("ReLU", "Permute"),
            "net.prototxt:3: layer 'r' (Permute): this layer is not supported",
        ),
        (INPUT + RELU.replace("ReLU", "SoftmaxWithLoss"), "is for training; give the network's deploy prototxt"),
        (INPUT + 'layer { name: "r" bottom: "x" }', "net.prototxt:2: layer 'r' has no type"),
        (INPUT + RELU.replace("top", "tpo"), "net.prototxt:2: layer 'r' (ReLU): a layer has no field 'tpo'"),
        (INPUT + RELU + "layers { type: RELU }", "layers of both spellings"),
        ("layers { layer { } }", "upgrade_net_proto_text"),
        (INPUT + CONV.replace("kernel_size", "kernle_size"), "convolution_param: field 'kernle_size' is not supported"),
        (INPUT + CONV.replace("num_output: 3", "num_output: 3.5"), "num_output is '3.5'; a whole number"),
        (INPUT + CONV.replace("num_output: 3", "num_output: 3 num_output: 4"), "num_output is given twice"),
        (INPUT + CONV.replace("kernel_size: 2", "kernel_size: 9"), "net.prototxt:2: "),
        (INPUT + CONV.replace("kernel_size: 2", "kernel_size: 2 group: 2"), "2 input and 3 output channels in 2"),
        (INPUT.replace("dim: 2", "dim: 0") + RELU, "each must be at least 1"),
        ('input: "x" input_dim: 3\n' + RELU, "1 input_dim for 1 inputs"),
    ],
)
def test_what_makes_no_sense_is_refused(imported: Import, text: str, words: str) -> None:
    assert words in refusal(imported, text, blobs={"l": blobs()})


def test_an_unknown_layer_is_of_its_own_kind_of_error(imported: Import) -> None:
    with pytest.raises(UnsupportedOp):
        imported(INPUT + RELU.replace("ReLU", "PriorBox"))


# Weights


def test_weights_that_are_not_there(imported: Import, tmp_path: Path) -> None:
    assert imported(INPUT + RELU).outputs == ("y",)  # nothing in it needs weights
    message = refusal(imported, INPUT + CONV)
    assert "net.prototxt:2: layer 'l' (Convolution): needs weights, and net.caffemodel is not there" in message
    assert "--weights FILE" in message
    with pytest.raises(MavcgError, match="other.caffemodel: cannot be read"):
        import_model(tmp_path / "net.prototxt", {}, tmp_path / "other.caffemodel")


def test_weights_by_another_name(imported: Import, tmp_path: Path, write_caffemodel: Any) -> None:
    (tmp_path / "trained.bin").write_bytes(write_caffemodel({"l": blobs()}))
    (tmp_path / "net.prototxt").write_text(INPUT + CONV)

    assert import_model(tmp_path / "net.prototxt", {}, tmp_path / "trained.bin").shape("y") == (1, 3, 3, 3)
    with pytest.raises(MavcgError, match="holds weights alone"):
        (tmp_path / "w.caffemodel").write_bytes(b"x")
        import_model(tmp_path / "w.caffemodel", {})


@pytest.mark.parametrize(
    "weights, words",
    [
        ({}, "net.caffemodel: is empty"),
        ({"other": blobs()}, "its weights is blob 0, and net.caffemodel has 0 blobs of this layer"),
        ({"l": blobs()[:1]}, "its bias is blob 1, and net.caffemodel has 1 blobs"),
        ({"l": [blobs()[0][:2], blobs()[1]]}, "has the shape [2, 2, 2, 2] where [3, 2, 2, 2] is needed"),
        (b"\x89HDF\r\n\x1a\n", "is HDF5"),
        (b"no protobuf", "is not a .caffemodel, or is damaged"),
        (b"\x0a\x01n", "has no layers"),
    ],
)
def test_weights_that_do_not_fit(imported: Import, weights: Any, words: str) -> None:
    assert words in refusal(imported, INPUT + CONV, blobs=weights or b"")


def test_numbers_that_are_not_packed(imported: Import, write_unpacked: Any) -> None:
    assert "not packed as Caffe writes them" in refusal(imported, INPUT + CONV, blobs=write_unpacked(blobs()[0]))


def test_a_layer_twice(imported: Import, write_caffemodel: Any) -> None:
    data = write_caffemodel({"l": blobs()})

    assert "two layers are called 'l'" in refusal(imported, INPUT + CONV, blobs=data + data)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_files_are_refused_or_read(tmp_path: Path, write_caffemodel: Any, seed: int) -> None:
    source = np.random.default_rng(seed)
    files = [
        bytearray((INPUT + CONV + RELU.replace('"y"', '"z"')).encode()),
        bytearray(write_caffemodel({"l": blobs()})),
    ]
    damaged = files[seed % 2]
    for _ in range(1 + seed % 3):
        damaged[source.integers(len(damaged))] = source.integers(256)
    if seed % 5 == 0:
        del damaged[source.integers(len(damaged)) :]
    path = tmp_path / "net.prototxt"
    path.write_bytes(files[0])
    path.with_suffix(".caffemodel").write_bytes(files[1])
    try:
        import_caffe(path)
    except MavcgError as error:
        assert "\n" not in str(error) and "net." in str(error)
