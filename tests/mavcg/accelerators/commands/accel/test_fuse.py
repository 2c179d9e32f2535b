"""`mavcg accel fuse` to the letter of the issue, in a fresh folder, on a user's own file, and on bad options."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from mavcg.cli.app import run

onnx = pytest.importorskip("onnx")


@pytest.fixture(autouse=True)
def fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def own_model(path: str) -> None:
    """Two convolutions, of which the second joins a residual, a pool, a product."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "w2"], ["b"], "second", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["b", "r"], ["s"], "sum"),
        helper.make_node("MaxPool", ["s"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w3"], ["y"], "fc"),
    ]
    graph = helper.make_graph(
        nodes,
        "own",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [weights("w1", 16, 3, 3, 3), weights("w2", 16, 16, 3, 3), weights("w3", 16 * 16 * 16, 5)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def test_fuse(capsys: pytest.CaptureFixture[str]) -> None:
    own_model("own.onnx")

    assert run(["accel", "fuse", "own.onnx", "--target", "zu2", "--svg", "graph.svg", "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["nodes"] == 4 and document["cpu_nodes"] == ["fc"]
    assert document["operations"] == 2 * 9 * 32 * 32 * 16 * (3 + 16)
    searches = {row["search"]: row for row in document["paths"]}
    assert set(searches) == {"exact", "paper", "greedy", "none"}
    assert searches["exact"]["optimal"] and searches["exact"]["cycles"] < searches["none"]["cycles"]
    by_nodes = {frozenset(one["nodes"]): one["cycles"] for one in document["embeddings"]}
    for search, groups in document["groups"].items():
        assert sum(group["cycles"] for group in groups) == pytest.approx(searches[search]["cycles"])
        assert all(by_nodes[frozenset(group["nodes"])] == group["cycles"] for group in groups)
        assert sorted(name for group in groups for name in group["nodes"]) == sorted(
            name for group in document["groups"]["none"] for name in group["nodes"]
        )
    drawing = ElementTree.parse("graph.svg").getroot()
    titles = [e.text or "" for e in drawing.iter() if e.tag.endswith("}title")]
    assert any(title.startswith("first ") for title in titles) and len(titles) == 7


def test_the_tables_show_every_search(capsys: pytest.CaptureFixture[str]) -> None:
    own_model("own.onnx")

    assert run(["accel", "fuse", "own.onnx", "--target", "zu9", "--search", "none"]) == 0
    printed = capsys.readouterr().out
    assert "own on zu9: 4 operations" in printed and "on the CPU: fc" in printed
    assert all(f" {search} " in printed for search in ("exact", "paper", "greedy", "none"))


def test_own_templates(capsys: pytest.CaptureFixture[str]) -> None:
    own_model("own.onnx")
    Path("t.toml").write_text('[template."mine"]\nnodes = { a = "eltwise", b = "max_pool" }\nedges = [["a", "b"]]\n')

    assert run(["accel", "fuse", "own.onnx", "--target", "zu2", "--templates", "t.toml", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {one["template"] for one in document["embeddings"]} == {"single", "mine", "whole"}


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["absent.onnx", "--target", "zu2"], "absent.onnx: cannot be read|absent.onnx: no .onnx"),
        (["lenet", "--target", "zu2"], "nor a built-in network"),
        (["own.onnx", "--target", "zu3"], "did you mean"),
        (["own.onnx", "--target", "zu2", "--search", "best"], "no such search"),
        (["own.onnx", "--target", "zu2", "--svg", "graph.gif"], "--svg graph.gif"),
        (["own.onnx", "--target", "zu2", "--svg", "absent/graph.svg"], "folder absent"),
        (["own.onnx", "--target", "zu2", "--templates", "absent.toml"], "absent.toml: cannot be read"),
        (["own.onnx", "--target", "zu2", "--shape", "x"], "--shape x"),
        (["squeezenet", "--target", "zu2", "--shape", "image=1x3x64x64"], "built-in network with a fixed shape"),
    ],
)
def test_bad_options_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    own_model("own.onnx")

    assert run(["accel", "fuse", *arguments]) == 2
    captured = capsys.readouterr()
    assert any(part in captured.err for part in message.split("|")) and not captured.out
    assert not list(Path().glob("graph.*"))
