"""Explorations against every point planned by itself; the front with and without bounds; going on where one ended."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.accelerators.explore.exploration import PRUNED, explore
from mavcg.accelerators.explore.objectives import read_objectives
from mavcg.accelerators.explore.pareto import pareto_front
from mavcg.accelerators.explore.store import ExplorationStore
from mavcg.accelerators.explore.workload import at_precision, workload_of
from mavcg.accelerators.plans.request import PlanRequest, plan_network
from mavcg.accelerators.plans.space import NoTiling
from mavcg.cost.layer import ConvLayer
from mavcg.errors import MavcgError
from mavcg.lab.jobs.engine import LocalEngine
from mavcg.profiles.accelerators import accelerator_of
from tests.conftest import examples
from tests.mavcg.accelerators.explore.spaces import NETWORKS, WIDE, explored, space_of

MEMORIES = ("[1, 1, 1]", "[2, 4, 1]", "[4, 2, 4]", "[16, 16, 16]", "[3]", "[12]", "[64]", "[8, 8, 1]")
ARRAYS = ("[1, 1]", "[4, 4]", "[8, 2]", "[16, 16]", "[64, 3]")
MAPPINGS = ('[["IC"], ["OC"]]', '[["OW"], ["OC"]]', '[["OH"], ["KH"]]', '[["KW"], ["IC"]]')
OBJECTIVES = ("latency,area,energy", "latency:first,latency:second,area", "traffic,area", "energy", "latency,bandwidth")


def planned_alone(point: Mapping[str, Any], network: tuple[ConvLayer, ...]) -> tuple[float, int] | None:
    """Seconds and off-chip bytes by `mavcg plan` on a point as an accelerator's file."""
    machine = accelerator_of(Path("point"), {k: v for k, v in point.items() if k != "precision"})
    layers = [at_precision(layer, point.get("precision", "")) for layer in network]
    try:
        plan = plan_network(layers, machine, PlanRequest(metric="latency", keep=False), "point")
    except NoTiling:
        return None
    return plan.latency_seconds, plan.traffic.total_bytes


spaces = st.fixed_dictionaries(
    {
        "mem_size": st.lists(st.sampled_from(MEMORIES), min_size=1, max_size=5, unique=True),
        "pe_len": st.lists(st.sampled_from(ARRAYS), min_size=1, max_size=3, unique=True),
        "pe_mapping": st.lists(st.sampled_from(MAPPINGS), min_size=1, max_size=3, unique=True),
        "bandwidth": st.lists(st.sampled_from(["0.5", "4", "64"]), min_size=1, unique=True),
        "frequency": st.lists(st.sampled_from(["0.2", "1"]), min_size=1, unique=True),
        "precision": st.lists(st.sampled_from(['"f32"', '"f16"', '"i8"']), min_size=1, unique=True),
    }
)


@pytest.mark.long
@settings(max_examples=examples(15, 5))
@given(spaces, st.sampled_from(OBJECTIVES))
def test_the_front_with_bounds_is_the_front_of_all(
    tmp_path: Path, keys: Mapping[str, list[str]], objectives: str
) -> None:
    space = space_of(tmp_path, keys)
    pruned, whole = explored(space, objectives), explored(space, objectives, prune=False)

    assert whole.count(PRUNED) == 0 and whole.planned_points == space.points == pruned.planned_points + pruned.count(
        PRUNED
    )
    assert pruned.front == whole.front
    assert [pruned.figures(n) for n in pruned.front] == [whole.figures(n) for n in whole.front]


@settings(max_examples=3)
@given(spaces)
def test_every_point_is_as_planned_by_itself(tmp_path: Path, keys: Mapping[str, list[str]]) -> None:
    space = space_of(tmp_path, keys)
    whole = explored(space, "latency,traffic,area", prune=False)
    values: dict[int, list[float]] = {}
    for number in range(space.points):
        point = space.point(number)
        alone = {name: planned_alone(point, network) for name, network in NETWORKS.items()}
        if None in alone.values():
            assert whole.states[number // space.rates] == "infeasible"
            continue
        figures_of_list = whole.figures(number)
        for name, of in alone.items():
            assert of is not None
            assert figures_of_list.networks[name]["latency"] == pytest.approx(of[0], rel=1e-12)
            assert figures_of_list.networks[name]["traffic"] == of[1]
        values[number] = [figures_of_list.figures[key] for key in ("latency", "traffic", "area")]
    expected = [list(values)[i] for i in pareto_front(np.array(list(values.values())).reshape(-1, 3)).tolist()]
    assert list(whole.front) == expected


def test_bounds_leave_points_out(tmp_path: Path) -> None:
    space = space_of(tmp_path, WIDE)
    pruned, whole = explored(space, "latency,area"), explored(space, "latency,area", prune=False)

    assert pruned.count(PRUNED) > space.points // 10 and pruned.searches < whole.searches
    assert pruned.front == whole.front


def test_an_interrupted_exploration_goes_on(tmp_path: Path) -> None:
    class Interrupted(LocalEngine):
        def run(self, work: Any, items: Any, most: int, found: Any) -> None:
            super().run(work, items[: len(items) // 2], most, found)
            raise KeyboardInterrupt

    space, path = space_of(tmp_path, WIDE), tmp_path / "kept.sqlite"
    workload = workload_of(NETWORKS)
    objectives = read_objectives("latency,area", workload.networks)
    with ExplorationStore(path) as store, pytest.raises(KeyboardInterrupt):
        explore(space, workload, objectives, Interrupted(), store)
    with ExplorationStore(path) as store:
        kept = len(store.tilings())
    assert kept

    alone = explored(space, "latency,area")
    resumed = explored(space, "latency,area", store=ExplorationStore(path))
    assert resumed.searches == alone.searches - kept
    assert (resumed.front, resumed.states) == (alone.front, alone.states)
    again = explored(space, "latency,area", store=ExplorationStore(path))
    assert again.searches == 0 and again.front == alone.front


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    store = ExplorationStore(tmp_path / "small.sqlite")
    store._connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(
        MavcgError,
        match=r"small\.sqlite: cannot be used as a database of explorations \(the disk is full.*make room.*is kept",
    ):
        explored(space_of(tmp_path, WIDE), "latency,area", prune=False, store=store)

    resumed = explored(space_of(tmp_path, WIDE), "latency,area", store=ExplorationStore(tmp_path / "small.sqlite"))
    assert resumed.front == explored(space_of(tmp_path, WIDE), "latency,area").front


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    import sqlite3

    other, text = tmp_path / "other.sqlite", tmp_path / "text.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    text.write_text("no database at all, but long enough to look like something" * 20)
    before = other.read_bytes(), text.read_bytes()
    with pytest.raises(MavcgError, match="is another application's database; name another file for -o"):
        ExplorationStore(other)
    with pytest.raises(MavcgError, match="is not a database"):
        ExplorationStore(text)
    with pytest.raises(MavcgError, match="cannot be used"):
        ExplorationStore(tmp_path / "no" / "folder.sqlite")
    assert before == (other.read_bytes(), text.read_bytes())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latency,aera", "'aera' is not an objective of accelerators; did you mean area?"),
        ("latency,latency", "latency appears twice"),
        ("latency:third", "network 'third' is not explored; choose one of first, second"),
        ("area:first", "area is the same for all networks"),
        ("", "'' is not an objective"),
    ],
)
def test_objectives_that_are_none(text: str, message: str) -> None:
    with pytest.raises(MavcgError, match=message.replace("?", r"\?")):
        read_objectives(text, tuple(NETWORKS))
