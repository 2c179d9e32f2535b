"""Spaces of boards: points, power within a budget, the front with and without pruning, resumed; bad files."""

import json
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.accelerators.explore import board_exploration
from mavcg.accelerators.explore.board_exploration import (
    OBJECTIVES,
    BoardExploration,
    board_figures,
    explore_boards,
    network_figures,
)
from mavcg.accelerators.explore.board_predictions import (
    BoardPrediction,
    ModelWork,
    model_file_digest,
    predict_boards,
    rows_of,
)
from mavcg.accelerators.explore.board_space import BoardSpace, read_board_space
from mavcg.accelerators.explore.pareto import read_objective_words
from mavcg.accelerators.explore.store import ExplorationStore
from mavcg.errors import MavcgError
from mavcg.lab.jobs.engine import LocalEngine
from mavcg.profiles.core_power import OWN, read_core_power
from tests.conftest import examples

SMALL = """\
[board]
budget_w = 2.5
mix = [{ cortex-a55 = 4 }, { cortex-a55 = 2, cortex-a76 = 2 }, { cortex-a76 = 4 }]
max_khz = { cortex-a55 = [1200000, 1785600], cortex-a76 = [1670400, 2419200] }
l2_bytes = { cortex-a76 = [262144, 524288] }
l3_bytes = [1048576, 2097152]
memory_gb_per_s = [12.8, 25.6]
"""
WIDTHS = {"cortex-a55": 4, "cortex-a76": 8}  # f32 multiply-adds of a cycle


def space_of(folder: Path, text: str = SMALL) -> BoardSpace:
    path = folder / "boards.toml"
    path.write_text(text)
    return read_board_space(path)


def predictor(macs: int) -> Any:
    """Predictions at a part of the peak of the cores at work that grows with caches and memory, 40 % at most."""

    def predict(tasks: Sequence[BoardPrediction]) -> tuple[str, ...]:
        texts = []
        for task in tasks:
            rate, cores, rows = 0.0, dict[str, int](), []
            part = 0.2 + (task.board.memory_gb_per_s or 0) / 256 + (task.board.l3_bytes or 0) / 2**25
            for cluster in sorted(task.board.clusters, key=lambda c: c.core, reverse=True):
                part += (cluster.l2_bytes or 0) / 2**25
                for count in range(1, len(cluster.cpus) + 1):
                    cores = {**cores, cluster.core: count}
                    rate += (cluster.max_khz or 0) * 1e3 * WIDTHS[cluster.core]
                    rows.append([cores, 1e3 * macs / (part * rate)])
            texts.append(json.dumps(rows))
        return tuple(texts)

    return predict


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Two networks whose predictions cost nothing."""
    monkeypatch.setattr(board_exploration, "predict_boards", predictor(50_000_000))
    monkeypatch.setattr(board_exploration, "model_work", lambda model, board, shapes: ModelWork(50_000_000, 4))
    for name in ("a", "b"):
        (tmp_path / f"{name}.onnx").write_text(name)
    return {name: str(tmp_path / f"{name}.onnx") for name in ("a", "b")}


def explored(
    space: BoardSpace,
    models: dict[str, str],
    path: Path | None = None,
    prune: bool = True,
    objectives: str = "latency,energy,power",
) -> BoardExploration:
    with ExplorationStore(path) as store:
        words = read_objective_words(objectives, tuple(models), OBJECTIVES)
        return explore_boards(space, models, words, LocalEngine(), store, prune)


def test_points_are_of_their_own_cores(tmp_path: Path) -> None:
    points = list(space_of(tmp_path).boards())
    assert len(points) == 2 * 4 + 2 * 2 * 2 * 4 + 2 * 2 * 4
    first, last = points[0], points[-1]

    assert first.values == {
        "mix": {"cortex-a55": 4},
        "max_khz": {"cortex-a55": 1200000},
        "l3_bytes": 1048576,
        "memory_gb_per_s": 12.8,
    }
    (cluster,) = last.board.clusters
    assert (cluster.core, cluster.cpus) == ("cortex-a76", (0, 1, 2, 3))
    assert (cluster.max_khz, cluster.l2_bytes) == (2419200, 524288)
    assert (last.board.l3_bytes, last.board.memory_gb_per_s) == (2097152, 25.6)
    assert board_figures(last) == {"cores": 4, "cache": 4 * 524288 + 2097152, "bandwidth": 25.6}
    assert last.milliwatts == {"cortex-a76": 845.2}


def test_the_space_of_the_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs/exploring.md").read_text()
    (text,) = re.findall(r"```toml\n# boards.toml: 90 boards\n(.*?)```", page, re.DOTALL)
    space = space_of(tmp_path, text)
    assert sum(1 for _ in space.boards()) == 90 and space.assumed == () and space.budget_w == 3.0


def test_published_power_and_what_is_assumed(tmp_path: Path) -> None:
    a76 = read_core_power()["cortex-a76"]
    assert "freqbench" in a76.source and a76.milliwatts(2419200) == 845.2
    (low_khz, low_mw), (high_khz, high_mw) = a76.khz_mw[3:5]
    assert a76.milliwatts((low_khz + high_khz) // 2) == pytest.approx((low_mw + high_mw) / 2)
    assert a76.milliwatts(2 * 2419200) == pytest.approx(8 * 845.2) and not a76.is_measured(2 * 2419200)

    text = "[board]\nmix = { cortex-a725 = 2, cortex-a76 = 1 }\n"
    assumed = space_of(tmp_path, text + "max_khz = { cortex-a725 = 2000000, cortex-a76 = 3000000 }\n").assumed
    assert any(words.startswith("cortex-a725: its power is not published: that of a cortex-") for words in assumed)
    assert any("cortex-a76: its power at 3 GHz is outside the measured range" in words for words in assumed)


def test_threads_are_the_fastest_within_the_budget(tmp_path: Path) -> None:
    point = list(space_of(tmp_path).boards())[-1]
    rows = tuple(({"cortex-a76": count}, 10.0 / count) for count in (1, 2, 3, 4))

    whole = network_figures(point, rows, None)
    assert whole is not None and (whole["latency"], whole["threads"]) == (0.0025, 4)
    assert whole["power"] == pytest.approx(3.3808) and whole["energy"] == pytest.approx(3.3808 * 0.0025)
    within = network_figures(point, rows, 2.0)
    assert within is not None and within["threads"] == 2 and within["power"] == pytest.approx(1.6904)
    assert network_figures(point, rows, 0.5) is None


@pytest.mark.parametrize("objectives", ["latency,energy,power", "latency:a,power", "latency,cache,cores", "energy"])
def test_the_front_is_that_of_all_points(tmp_path: Path, fake: dict[str, str], objectives: str) -> None:
    space = space_of(tmp_path)
    pruned = explored(space, fake, objectives=objectives)
    whole = explored(space, fake, prune=False, objectives=objectives)
    values = {i: whole.values(i) for i in whole.figures}
    front = [
        i
        for i, own in values.items()
        if not any((other <= own).all() and (other < own).any() for other in values.values())
    ]

    assert list(whole.front) == sorted(front) == list(pruned.front) and whole.states.count("pruned") == 0
    assert {i: pruned.figures[i] for i in pruned.front} == {i: whole.figures[i] for i in pruned.front}
    assert all(of["power"] <= 2.5 for by in whole.figures.values() for of in by.values())


@pytest.mark.long
@settings(max_examples=examples(60, 15))
@given(st.floats(0.05, 6), st.integers(10**6, 10**10), st.sampled_from(["latency,power", "energy,cores", "latency"]))
def test_pruning_leaves_the_front(
    tmp_path_factory: pytest.TempPathFactory, budget: float, macs: int, objectives: str
) -> None:
    folder = tmp_path_factory.mktemp("space")
    (folder / "a.onnx").write_text("a")
    models = {"a": str(folder / "a.onnx")}
    space = space_of(folder, SMALL.replace("budget_w = 2.5", f"budget_w = {budget}"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(board_exploration, "predict_boards", predictor(macs))
        patched.setattr(board_exploration, "model_work", lambda model, board, shapes: ModelWork(macs, 4))
        pruned, whole = (explored(space, models, None, prune, objectives) for prune in (True, False))
    assert pruned.front == whole.front
    assert whole.states.count("infeasible") + whole.states.count("planned") == len(whole.points)


def test_points_are_pruned_by_the_budget_and_by_bounds(tmp_path: Path, fake: dict[str, str]) -> None:
    little = space_of(tmp_path, SMALL.replace("budget_w = 2.5", "budget_w = 0.13"))
    exploration = explored(little, fake)
    within = [point.values["max_khz"].get("cortex-a55") == 1200000 for point in exploration.points]
    assert [state != "pruned" for state in exploration.states] == within and exploration.front
    slow = "max_khz = { cortex-a55 = [100000, 1785600], cortex-a76 = [1670400, 2419200] }"
    text = SMALL.replace("max_khz = { cortex-a55 = [1200000, 1785600], cortex-a76 = [1670400, 2419200] }", slow)
    bounded = explored(space_of(tmp_path, text.replace("budget_w = 2.5\n", "")), fake, objectives="latency")
    assert 0 < bounded.states.count("pruned") <= 4  # four A55 at 100 MHz cannot reach four A76, whatever they do


def test_it_goes_on_from_its_file(tmp_path: Path, fake: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    space, path, whole = space_of(tmp_path), tmp_path / "boards.sqlite", predictor(50_000_000)
    calls: list[int] = []

    def interrupt(tasks: Sequence[BoardPrediction]) -> tuple[str, ...]:
        if len(calls) == 30:
            raise KeyboardInterrupt
        calls.append(len(tasks))
        found: tuple[str, ...] = whole(tasks)
        return found

    monkeypatch.setattr(board_exploration, "predict_boards", interrupt)
    with pytest.raises(KeyboardInterrupt):
        explored(space, fake, path)
    monkeypatch.setattr(board_exploration, "predict_boards", whole)
    resumed, fresh = explored(space, fake, path), explored(space, fake)
    assert resumed.computed == fresh.computed - 30 and resumed.figures == fresh.figures
    assert explored(space, fake, path).computed == 0
    with sqlite3.connect(path) as database:
        (count,) = database.execute("SELECT count(*) FROM points WHERE front").fetchone()
    assert count == len(fresh.front)


def test_the_verb(mavcg: Any, tmp_path: Path, fake: dict[str, str]) -> None:
    space_of(tmp_path)
    words = ("explore", fake["a"], fake["b"], "--space", tmp_path / "boards.toml", "--workers", "0")
    done = mavcg(*words, "--json", "--plot", tmp_path / "front.svg")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)

    assert {"points", "planned", "pruned", "front", "seconds"} <= set(document) and document["points"] == 56
    assert document["planned"] + document["pruned"] == 56 and set(document["front"][0]) == {"point", "metrics"}
    assert set(document["power_sources"]) == {"cortex-a55", "cortex-a76"} and (tmp_path / "front.svg").stat().st_size
    shown = mavcg(*words)
    assert shown.status == 0 and "boards are on the front of latency, energy, power" in shown.stdout
    assert "vector code draws more" in shown.stdout.replace("\n", " ")
    none = mavcg(*words, "--objective", "speed")
    assert none.status == 2 and "'speed' is not an objective of boards" in none.stderr


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("[{ cortex-a55 = 4 }, ", "[{ cortex-a99 = 4 }, ", "board.mix[0]: cortex-a99 is not a known core of aarch64"),
        ("[{ cortex-a55 = 4 }, ", "[{ haswell = 4 }, ", "board.mix[0]: haswell is not a known core of aarch64"),
        ("[{ cortex-a55 = 4 }, ", "[{ cortex-a55 = 0 }, ", "board.mix[0].cortex-a55: 0 is not a whole number"),
        ("[{ cortex-a55 = 4 }, ", "[7, ", "board.mix[0]: 7 is not a table of cores"),
        ("[{ cortex-a55 = 4 }, ", "[{ cortex-a76 = 4 }, ", 'board.mix[2]: {"cortex-a76": 4} is given twice'),
        ("budget_w = 2.5", "budget_w = -1", "board.budget_w: -1 is not a power in watts"),
        ("budget_w = 2.5", "budget = 1", "board.budget: no such key"),
        ("cortex-a55 = [1200000, 1785600], ", "", "board.max_khz.cortex-a55: missing"),
        ("[1200000, 1785600]", "[1200, 1785600]", "board.max_khz.cortex-a55: 1200 is not a whole number of kHz"),
        ("[1200000, 1785600]", "[]", "board.max_khz.cortex-a55: has no values"),
        ("l2_bytes = { cortex-a76", "l2_bytes = { cortex-x1", "board.l2_bytes.cortex-x1: no such key"),
        ("l2_bytes = { cortex-a76 = [262144, 524288] }", "l2_bytes = 3", "board.l2_bytes: 3 is not a table of cores"),
        ("[1048576, 2097152]", "[1048576, 1048576]", "board.l3_bytes: 1048576 is given twice"),
        ("[12.8, 25.6]", "[12.8, -1]", "board.memory_gb_per_s: -1 is not a number"),
        ("budget_w = 2.5", 'power = "none.toml"', "none.toml: cannot be read"),
        ("budget_w = 2.5", 'target = "vax"', "board.target: "),
    ],
)
def test_bad_files_are_refused_with_a_reason(tmp_path: Path, before: str, after: str, words: str) -> None:
    assert before in SMALL
    with pytest.raises(MavcgError) as error:
        space_of(tmp_path, SMALL.replace(before, after))
    assert words in str(error.value) and str(error.value).startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cortex-a55 = 3", "cortex-a55: 3 is not a table"),
        ('[cortex-a55]\nsource = "x"', "cortex-a55.khz_mw: missing; give it as [[1800000, 320.5]"),
        ('[cortex-a55]\nsource = "x"\nkhz_mw = [[1, 2, 3]]', "khz_mw[0]: [1, 2, 3] is not a clock with its power"),
        ('[cortex-a55]\nsource = "x"\nkhz_mw = [[1000, 50], [2000, 40]]', "clocks and powers do not both rise"),
        ("[cortex-a55]\nkhz_mw = [[1000, 50]]", "cortex-a55.source: no source"),
    ],
)
def test_bad_tables_of_power_are_refused_with_a_reason(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "power.toml").write_text(text + "\n")
    with pytest.raises(MavcgError) as error:
        read_core_power(tmp_path / "power.toml")
    assert words in str(error.value)


def test_our_power_is_of_cores_that_there_are() -> None:
    assert set(read_core_power(OWN)) <= {path.stem for path in (OWN.parents[1] / "cores").glob("*.toml")}


@pytest.mark.long
def test_a_prediction_is_that_of_estimate(mavcg: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a board's own file and as a point of a space: the same milliseconds."""
    model = tmp_path / "tiny.onnx"
    weights = onnx.numpy_helper.from_array(np.ones((8, 4, 3, 3), np.float32), "w")
    ends = [onnx.helper.make_tensor_value_info(n, 1, s) for n, s in (("x", (1, 4, 12, 12)), ("y", (1, 8, 10, 10)))]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weights]
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), model)
    text = (
        "[board]\nmix = { cortex-a55 = 2, cortex-a76 = 2 }\nmax_khz = { cortex-a55 = 1800000, cortex-a76 = 2200000 }\n"
    )
    space = space_of(tmp_path, text + "l3_bytes = 1048576\nmemory_gb_per_s = 12.8\n")
    (point,) = space.boards()
    tasks = (BoardPrediction(str(model), model_file_digest(str(model)), point.board),)
    (rows,) = map(rows_of, predict_boards(tasks))
    profiles = tmp_path / "profiles" / "boards"
    profiles.mkdir(parents=True)
    fact = '{{ value = {}, source = "a test" }}'.format
    (profiles / "mine.toml").write_text(
        'name = "mine"\nsoc = "s"\ntarget = "aarch64-linux-gnu.2.17"\nsource = "a test"\n'
        f"l3_bytes = {fact(1048576)}\nmemory_gb_per_s = {fact(12.8)}\n"
        f'[[clusters]]\ncore = "cortex-a55"\ncpus = "0-1"\nmax_khz = {fact(1800000)}\n'
        f'[[clusters]]\ncore = "cortex-a76"\ncpus = "2-3"\nmax_khz = {fact(2200000)}\n'
    )
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path / "profiles"))
    for threads in (1, 4):
        done = mavcg("estimate", model, "--board", "mine", "--threads", str(threads), "--json")
        assert done.status == 0, done.stderr
        by_threads = json.loads(done.stdout)["by_threads"]
        assert rows[threads - 1][1] == pytest.approx(by_threads[str(threads)], abs=1e-6)
    result = explored(space, {"tiny": str(model)})
    assert result.front == (0,) and np.isfinite(result.figures[0]["tiny"]["energy"])
