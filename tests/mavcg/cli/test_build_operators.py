"""`mavcg build --operators` lists the operators of models."""

import json
from pathlib import Path

from mavcg.importers.operators import operators_page
from tests.mavcg.cli.in_process import build_in


def test_operators_are_listed_by_format(tmp_path: Path) -> None:

    document = json.loads(build_in(tmp_path, "--operators", "--json"))

    assert set(document) == {
        "onnx",
        "onnx com.microsoft",
        "onnx ai.onnx.ml",
        "onnx ai.onnx.preview.training",
        "tflite",
        "caffe",
    }
    assert {"name": "TopK", "known_at_build": [], "kind": "run"} in document["onnx"]
    assert {"name": "Reshape", "known_at_build": ["shape"], "kind": "partly"} in document["onnx"]
    assert {"name": "CONV_2D", "known_at_build": [], "kind": "run"} in document["tflite"]
    assert build_in(tmp_path, "--operators").split() == operators_page().split()
