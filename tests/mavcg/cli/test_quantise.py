"""`mavcg quantise` as a user meets it: files, JSON, picture, refusals; a built model beside onnxruntime."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from mavcg.model.quantise import quantise as pipeline
from mavcg.runtime.loading import load
from tests.mavcg.model.quantise.networks import WEIGHTED, predict, write_network, write_samples


@pytest.fixture
def files(here: Path) -> Path:
    write_network(here)
    write_samples(here)
    return here


def test_the_report_names_layers_and_points(mavcg: Any, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "predictor", lambda *_: predict)
    command = ("quantise", "network.onnx", "--inputs", "samples", "--board", "rk3588", "--mixtures", "0")
    done = mavcg(*command, "-o", "m.onnx", "--plot", "front.svg", "--json")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert [layer["name"] for layer in document["layers"]] == list(WEIGHTED)
    chosen = document["points"][document["chosen"]]
    assert chosen["layers"] == [layer["name"] for layer in document["layers"] if layer["int8"]] and chosen["on_front"]
    assert document["output"] == "m.onnx" and document["board"] == "rk3588" and document["samples"] == 4
    assert any(node.op_type == "QuantizeLinear" for node in onnx.load(files / "m.onnx").graph.node)
    assert ET.parse(files / "front.svg").getroot().tag.endswith("svg")
    printed = mavcg(*command)
    assert printed.status == 0 and "depthwise" in printed.stdout and "chosen" in printed.stdout
    refused = mavcg(*command, "-o", "n.onnx", "--max-error", "1e-9")
    assert refused.status == 2 and "the least error" in refused.stderr and not (files / "n.onnx").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("net.tflite",), "ONNX files are quantised here"),
        (("net.prototxt",), "convert it to ONNX first"),
        (("network.onnx", "-o", "m.so"), "ends in .onnx"),
        (("network.onnx", "-o", "none/m.onnx"), "its folder does not exist"),
        (("network.onnx", "--max-error", "-1"), "give 0 or more"),
        (("network.onnx", "--max-error", "0.1", "--point", "1"), "leave one of them out"),
        (("network.onnx", "--plot", "f.pdf"), "pictures are .svg or .png"),
        (("network.onnx", "--board", "none"), "none"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_a_reason(
    mavcg: Any, files: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = mavcg(
        "quantise", *arguments, "--inputs", "samples", *(() if "--board" in arguments else ("--board", "rk3588"))
    )
    assert done.status == 2 and words in done.stderr


@pytest.mark.long
def test_a_quantised_model_is_built_and_computes_what_its_file_says(mavcg: Any, files: Path) -> None:
    done = mavcg("quantise", "network.onnx", "--inputs", "samples", "--board", "rk3588", "-o", "m.onnx", "--json")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert all(layer["f32_ms"] > 0 and layer["int8_ms"] > 0 for layer in document["layers"])
    built = mavcg("build", "m.onnx", "--board", "host", "-o", "libm.so")
    assert built.status == 0, built.stderr
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession("m.onnx", options)
    with load(files / "libm.so") as model:
        for path in sorted((files / "samples").iterdir()):
            image = np.load(path)
            (wanted,), (found,) = session.run(None, {"x": image}), model.run(image)
            assert np.allclose(found, wanted, atol=0.02)
