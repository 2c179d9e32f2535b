"""Files of a few hundred bytes that ask for much: refused, or left to each run, within a few seconds and gigabytes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.importers.load import import_model
from mavcg.importers.onnx_graph import Walker
from tests.mavcg.importers.bounds import check_bounds

onnx = pytest.importorskip("onnx")
from tests.mavcg.importers.small_onnx_files import FILES, ZERO, doubled, in_branches, node, save  # noqa: E402

HEAVY = ("sorts", "ranges", "ScatterND", "CumSum")  # seconds, within the bounds


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in HEAVY)) for name in FILES])
def test_a_small_file_is_built_or_refused_soon(name: str, tmp_path: Path) -> None:
    nodes, constants = FILES[name]()
    path = save(tmp_path / "small.onnx", nodes, constants)
    assert path.stat().st_size < 6000
    check_bounds(path)


def test_functions_that_double_are_counted_before_they_are_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the letter: 25 functions that each call the one before twice, 2^25 nodes."""
    path = save(
        tmp_path / "f.onnx", [node("f24", ["c"], ["s"], domain="d")], {"c": np.zeros((), np.float32)}, doubled(25)
    )
    assert path.stat().st_size < 2500
    walked: list[object] = []
    monkeypatch.setattr(Walker, "node_results", lambda *words: walked.append(words))

    with pytest.raises(MavcgError, match=r"f.onnx: function d.f24: its calls make more than 200000 nodes"):
        import_model(path, {})

    assert not walked


@pytest.mark.long
def test_calls_in_branches_are_counted_after_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8^14 calls in 4 kB, of which the counts before expansion know nothing: the branch not taken has one node."""
    path = save(tmp_path / "f.onnx", [node("f14", ["c"], ["s"], domain="d")], ZERO, in_branches(15, 8))
    assert path.stat().st_size < 6000
    monkeypatch.setattr("mavcg.importers.onnx_graph.MOST_NODES", 20_000)
    walked: list[object] = []
    results = Walker.node_results

    def counted(*words: Any) -> Any:
        walked.append(words)
        return results(*words)

    monkeypatch.setattr(Walker, "node_results", counted)

    with pytest.raises(MavcgError, match=r"function d.f\d: its calls make more than 20000 nodes"):
        import_model(path, {})

    assert len(walked) <= 20_000 / 2  # when the first of 8 equal calls has been expanded


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_few_calls_in_branches_are_taken(calls: int, tmp_path: Path) -> None:
    path = save(tmp_path / "f.onnx", [node("f2", ["c"], ["s"], domain="d")], ZERO, in_branches(3, calls))
    assert import_model(path, {}).outputs


@pytest.mark.parametrize("calls", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 4])
def test_counts_are_those_of_expanded_functions(count: int, calls: int, tmp_path: Path) -> None:
    made = doubled(count, calls)
    path = save(
        tmp_path / "f.onnx", [node(f"f{count - 1}", ["c"], ["s"], domain="d")], {"c": np.zeros((), np.float32)}, made
    )
    walkers: list[Walker] = []

    class Kept(Walker):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            walkers.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mavcg.importers.onnx_file.Walker", Kept)
        import_model(path, {})

    key = ("d", f"f{count - 1}")
    assert walkers[0].count == 2 + walkers[0].function_nodes[key]  # the call of the function, and the addition


def test_a_function_that_calls_itself_is_named(tmp_path: Path) -> None:
    imports = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("d", 1)]
    for times, reason in ((1, "does a function call itself"), (2, "function d.f: its calls make more than 200000")):
        nodes = [node("f", ["v"], [f"w{i}"], domain="d") for i in range(times)]
        nodes.append(node("Sum", [f"w{i}" for i in range(times)], ["y"]))
        function = onnx.helper.make_function("d", "f", ["v"], ["y"], nodes, imports)
        path = save(
            tmp_path / "f.onnx", [node("f", ["c"], ["s"], domain="d")], {"c": np.zeros(1, np.float32)}, [function]
        )
        with pytest.raises(MavcgError, match=reason):
            import_model(path, {})
