"""`mavcg accel targets`, `match` and `path` as scripts use them, in a fresh folder, and on bad files."""

import json
from pathlib import Path
from typing import Any

import pytest

from mavcg.cli.app import run


@pytest.fixture(autouse=True)
def fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["accel", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_match(capsys: pytest.CaptureFixture[str]) -> None:
    graph = {
        "nodes": {"c1": "conv", "p1": "pool", "c2": "conv", "c3": "conv", "p2": "pool"},
        "edges": [["c1", "p1"], ["p1", "c2"], ["p1", "c3"], ["c3", "p2"]],
    }
    Path("G.json").write_text(json.dumps(graph))
    Path("T.json").write_text('{"nodes": {"c": "conv", "p": "pool"}, "edges": [["c", "p"]]}')

    output_text = printed(capsys, "match", "--graph", "G.json", "--template", "T.json", "--json")

    assert sorted(output_text) == [["c1", "p1"], ["c3", "p2"]]
    assert run(["accel", "match", "--graph", "G.json", "--template", "T.json"]) == 0
    assert capsys.readouterr().out.endswith("2 embeddings\n")
    Path("T.json").write_text('{"nodes": {"p": "pool", "c": "conv", "d": "conv"}, "edges": [["p", "c"], ["p", "d"]]}')
    assert run(["accel", "match", "--graph", "G.json", "--template", "T.json"]) == 0
    assert capsys.readouterr().out.endswith("1 embedding\n")


def test_path(capsys: pytest.CaptureFixture[str]) -> None:
    groups = [{"nodes": ["a"], "cost": 2}, {"nodes": ["b"], "cost": 2}, {"nodes": ["a", "b"], "cost": 3.5}]
    instance = {"groups": groups, "edges": [["a", "b"]]}
    Path("I.json").write_text(json.dumps(instance))

    assert printed(capsys, "path", "--instance", "I.json", "--json") == {
        "chosen": [2],
        "cost": 3.5,
        "optimal": True,
    }
    assert printed(capsys, "path", "--instance", "I.json", "--search", "none", "--json")["chosen"] == [0, 1]
    for search in ("exact", "paper", "greedy", "none"):
        assert run(["accel", "path", "--instance", "I.json", "--search", search]) == 0
    assert "cost 3.5, optimal" in capsys.readouterr().out


def test_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert {row["name"] for row in printed(capsys, "targets", "--json")} >= {"zu2", "zu9"}
    assert printed(capsys, "targets", "zu2", "--json")["macs_per_cycle"] == 576
    for arguments in (["targets"], ["targets", "zu9"]):
        assert run(["accel", *arguments]) == 0
    assert "AMD DS925" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"nodes": [], "edges": []}',
        '{"nodes": {"a": 1}, "edges": []}',
        "[" * 100_000,
        '{"nodes": {"a": "x"}, "edges": [["a"]]}',
        '{"nodes": {"a": "x"}, "edges": [["a", "b"]]}',
        '{"nodes": {"a": "x"}, "edges": [["a", "a"], ["a", "a"]]}',
        '{"nodes": {"a": "x"}, "edges": {}}',
        '{"nodes": {"a": "x"}, "edges": [["a", 1]]}',
        '{"nodes": {"a": "x"}, "edges": [], "more": 1}',
    ],
)
def test_wrong_graphs_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("G.json").write_text(text)

    assert run(["accel", "match", "--graph", "G.json", "--template", "G.json", "--json"]) == 2
    captured = capsys.readouterr()
    assert "G.json: " in captured.err and not captured.out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        '{"groups": [], "edges": [["a", "b"]]}',
        '{"groups": [{"nodes": ["a"]}], "edges": []}',
        '{"groups": [{"nodes": [], "cost": 1}], "edges": []}',
        '{"groups": [{"nodes": ["a"], "cost": NaN}], "edges": []}',
        '{"groups": [{"nodes": ["a"], "cost": true}], "edges": []}',
        '{"groups": 3, "edges": []}',
        '{"groups": [{"nodes": ["a", "a"], "cost": 1}], "edges": []}',
        '{"groups": [{"nodes": ["a", "b"], "cost": 1}], "edges": [["a", "b"], ["b", "a"]]}',
    ],
)
def test_wrong_instances_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("I.json").write_text(text)

    assert run(["accel", "path", "--instance", "I.json", "--json"]) == 2
    captured = capsys.readouterr()
    assert "I.json: " in captured.err and not captured.out


def test_unknown_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("I.json").write_text('{"groups": [], "edges": []}')

    assert run(["accel", "path", "--instance", "I.json", "--search", "best"]) == 2
    assert run(["accel", "path", "--instance", "absent.json"]) == 2
    assert run(["accel", "targets", "zu3"]) == 2
    captured = capsys.readouterr().err
    assert "exact, paper" in captured and "absent.json: cannot be read" in captured and "did you mean" in captured
    assert printed(capsys, "path", "--instance", "I.json", "--json")["chosen"] == []
