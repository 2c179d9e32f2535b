"""A branch that an input decides, and what docs/models.md says to do about it, to the letter."""

import re
from pathlib import Path

import numpy as np
import pytest

from mavcg.graph.reference import run
from mavcg.importers.limits import NeedsConstant
from mavcg.importers.onnx_file import import_onnx

onnx = pytest.importorskip("onnx")
PAGE = Path(__file__).parents[3] / "docs" / "models.md"


def make_model(path: Path) -> None:
    """Relu where sr is 16000, else the negative."""
    node, value, graph = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.helper.make_graph
    branches = {
        name: graph([node(op, ["input"], [name])], name, [], [value(name, 1, None)])
        for name, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    nodes = [node("Equal", ["sr", "rate"], ["fast"]), node("If", ["fast"], ["output"], **branches)]
    inputs = [value("input", 1, [1, 4]), value("sr", 7, [])]
    rate = onnx.helper.make_tensor("rate", 7, [], [16000])
    made = graph(nodes, "g", inputs, [value("output", 1, [1, 4])], [rate])
    onnx.save(onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 16)], ir_version=8), path)


def test_the_page_fixes_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_model(Path("silero_vad.onnx"))
    with pytest.raises(NeedsConstant, match=r"its condition is known only when the model runs; .* Branches\)"):
        import_onnx(Path("silero_vad.onnx"))
    (section,) = re.findall(r"^\*\*Branches\.\*\*.*?```python\n(.*?)```", PAGE.read_text(), re.M | re.S)
    exec(section, {})
    graph = import_onnx(Path("silero_vad_16k.onnx"))

    x = np.array([[-2, -1, 0, 3]], np.float32)
    assert graph.inputs == ("input",)
    np.testing.assert_array_equal(run(graph, x)[0], np.maximum(x, 0))
