"""Spaces of accelerators with an instruction set: against each target built by itself; bounds, going on, bad input."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.accelerators.build import BuiltProgram, ProgramRequest, build_program
from mavcg.accelerators.explore.pareto import pareto_front, read_objective_words
from mavcg.accelerators.explore.store import ExplorationStore
from mavcg.accelerators.explore.target_exploration import (
    OBJECTIVES,
    TargetExploration,
    explore_targets,
)
from mavcg.accelerators.explore.target_space import read_target_space
from mavcg.accelerators.target import IsaTarget
from mavcg.errors import MavcgError
from mavcg.lab.jobs.engine import LocalEngine

SPACE = """[target]
base = "zu2"
oc_parallel = [4, 12]
rows_parallel = [1, 4]
input_bytes = [512, 262144]
ddr_gb_per_s = [0.25, 2.9]
frequency_mhz = 330
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Two small networks as files: convolutions, one of them with a sum."""
    onnx = pytest.importorskip("onnx")
    folder, found = tmp_path_factory.mktemp("models"), {}
    for name, channels, with_sum in (("first", 16, True), ("second", 24, False)):
        random = np.random.default_rng(len(name))
        shapes = {"w1": (channels, 3, 3, 3), "w2": (channels, channels, 3, 3), "w3": (channels, channels, 1, 1)}
        weights = {key: random.standard_normal(shape).astype(np.float32) / 6 for key, shape in shapes.items()}
        node = onnx.helper.make_node
        nodes = [
            node("Conv", ["image", "w1"], ["a"], pads=[1, 1, 1, 1]),
            node("Relu", ["a"], ["b"]),
            node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]),
            node("Conv", ["c", "w3"], ["y" if not with_sum else "d"]),
            *([node("Add", ["d", "b"], ["y"])] if with_sum else []),
        ]
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            nodes,
            name,
            [value("image", 1, [1, 3, 16, 20])],
            [value("y", 1, [1, channels, 16, 20])],
            [onnx.numpy_helper.from_array(array, key) for key, array in weights.items()],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
        onnx.save(model, folder / f"{name}.onnx")
        found[name] = str(folder / f"{name}.onnx")
    return found


def built_program(model: str, target: IsaTarget) -> BuiltProgram:
    return build_program(ProgramRequest(model, target, "none"), lambda words: None)


def explored(
    folder: Path,
    models: Mapping[str, str],
    objectives: str,
    prune: bool = True,
    store: ExplorationStore | None = None,
    text: str = SPACE,
) -> TargetExploration:
    (folder / "space.toml").write_text(text)
    space = read_target_space(folder / "space.toml")
    words = read_objective_words(objectives, tuple(models), OBJECTIVES)
    with store or ExplorationStore(None) as kept:
        return explore_targets(space, models, words, LocalEngine(), kept, prune)


@pytest.mark.parametrize("search", ["none", "greedy"])
def test_a_target_on_which_a_node_does_not_fit_is_infeasible(
    tmp_path: Path, models: Mapping[str, str], search: str
) -> None:
    text = f'[target]\nbase = "zu2"\nweight_bytes = [288, 196608]\nsearch = "{search}"\n'

    small, large = explored(tmp_path, {"first": models["first"]}, "latency", prune=False, text=text).states

    assert small == "infeasible" and large != "infeasible"


@pytest.mark.long
def test_every_target_is_as_built_by_itself(tmp_path: Path, models: Mapping[str, str]) -> None:
    whole = explored(tmp_path, models, "latency,macs,memory", prune=False)
    values = {}
    for number, target in enumerate(whole.space.targets()):
        try:
            built = {n: built_program(m, target) for n, m in models.items()}
        except MavcgError as error:
            assert "does not fit on chip" in str(error) and whole.states[number] == "infeasible"
            continue
        for name, of in built.items():
            assert whole.figures[number][name]["latency"] == of.time.cycles / target.frequency_mhz / 1e6
            assert whole.figures[number][name]["traffic"] == of.time.ddr_bytes
        latency = sum(of.time.cycles for of in built.values()) / target.frequency_mhz / 1e6
        values[number] = [latency, target.macs_per_cycle, target.on_chip_bytes]
    assert len(whole.states) == 16 and len(values) == len(whole.figures) > 8
    expected = [list(values)[i] for i in pareto_front(np.array(list(values.values()))).tolist()]
    assert list(whole.front) == expected


@pytest.mark.long
@pytest.mark.parametrize(
    ("objectives", "text"),
    [
        ("latency,macs,memory", SPACE.replace("rows_parallel = [1, 4]", "rows_parallel = 4")),
        *(
            pytest.param(objectives, SPACE, marks=pytest.mark.long)
            for objectives in ("latency,macs,memory", "latency:first,latency:second", "energy,bandwidth,traffic")
        ),
    ],
)
def test_the_front_with_bounds_is_the_front_of_all(
    tmp_path: Path, models: Mapping[str, str], objectives: str, text: str
) -> None:
    path = tmp_path / "kept.sqlite"
    pruned = explored(tmp_path, models, objectives, store=ExplorationStore(path), text=text)
    whole = explored(tmp_path, models, objectives, prune=False, store=ExplorationStore(path), text=text)
    again = explored(tmp_path, models, objectives, store=ExplorationStore(path), text=text)

    assert pruned.front == whole.front == again.front and again.computed == 0
    assert whole.computed + pruned.computed == 2 * len(whole.states) and len(whole.states) >= 8
    target = list(whole.space.targets())[last := max(whole.figures)]
    alone = built_program(models["first"], target)
    assert whole.figures[last]["first"]["latency"] == alone.time.cycles / target.frequency_mhz / 1e6
    for number, metrics in whole.metrics.items():  # what the bounds say is never more than what a program takes
        target = list(whole.space.targets())[number]
        assert metrics["latency"] * target.macs_per_cycle * target.frequency_mhz * 1e6 >= sum(
            16 * 20 * macs for macs in (16 * 27 + 16 * 144 + 256, 24 * 27 + 24 * 216 + 576)
        )


def test_another_file_at_the_same_path(tmp_path: Path, models: Mapping[str, str]) -> None:
    class ChangingEngine(LocalEngine):
        def run(self, work: Any, items: Sequence[Any], most: int, found: Any) -> None:
            shutil.copy(models["first"], mine)
            super().run(work, items, most, found)

    mine = tmp_path / "mine.onnx"
    shutil.copy(models["second"], mine)
    (tmp_path / "space.toml").write_text(SPACE)
    with ExplorationStore(None) as store, pytest.raises(MavcgError, match="mine.onnx: differs from the file"):
        space = read_target_space(tmp_path / "space.toml")
        explore_targets(space, {"mine": str(mine)}, ("latency",), ChangingEngine(), store)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('base = "zu2"', 'base = "zu3"', "no such target"),
        ('base = "zu2"', "", "target.base: missing"),
        ("[4, 12]", "[4, 0]", "target.oc_parallel: 0 is not a whole number of output channels a cycle from 1"),
        ("[4, 12]", "[]", "target.oc_parallel: has no values"),
        ("[4, 12]", "[4, 4]", "target.oc_parallel: 4 is given twice"),
        ("[4, 12]", "[4, 8192]", "8192 is not a whole number"),
        ("[512, 262144]", "[516]", "input_bytes: 516 bytes do not divide into 8 banks"),
        ("= 330", "= 0", "target.frequency_mhz: 0 is not a number of MHz"),
        ("[0.25, 2.9]", '"fast"', 'target.ddr_gb_per_s: "fast" is not a number'),
        ("rows_parallel", "row_parallel", "target.row_parallel: no such key"),
        ("frequency_mhz = 330", 'search = "best"', 'target.search: "best" is not known; give one of none'),
        ("[target]", "target = 1\n[other]", "other: no such key"),
    ],
)
def test_impossible_spaces_are_refused_with_a_reason(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "space.toml"
    assert old in SPACE
    path.write_text(SPACE.replace(old, new))
    with pytest.raises(MavcgError) as error:
        read_target_space(path)

    assert message in str(error.value)


@pytest.mark.parametrize("text", ["speed", "macs:first", "latency:third", "latency,latency", "area"])
def test_objectives_that_are_none(text: str) -> None:
    with pytest.raises(MavcgError, match="--objective"):
        read_objective_words(text, ("first", "second"), OBJECTIVES)


@pytest.mark.long
def test_the_verb(mavcg: Any, here: Path, models: Mapping[str, str]) -> None:
    (here / "space.toml").write_text(SPACE.replace("[0.25, 2.9]", "2.9").replace("[512, 262144]", "262144"))
    words = ("explore", models["first"], models["second"], "--space", "space.toml", "--workers", "0", "-o", "t.sqlite")
    document = json.loads(mavcg(*words, "--json").stdout)

    assert document["points"] == 4 == document["planned"] + document["pruned"] and document["front"]
    assert set(document["front"][0]["point"]) == {"base", *(line.split()[0] for line in SPACE.splitlines()[2:])}
    table = mavcg(*words, "--plot", "front.svg")
    assert (
        table.status == 0
        and "on the front of latency, macs, memory" in table.stdout
        and "0 simulations" in table.stdout
    )
    assert (here / "front.svg").stat().st_size > 1000
    refused = mavcg(*words, "--paper-variant")
    assert refused.status == 2 and "--paper-variant: is for spaces with [accelerator]" in refused.stderr
