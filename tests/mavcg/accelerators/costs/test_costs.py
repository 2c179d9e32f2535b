"""Providers of groups' costs: kept ones are those that were found, learned ones are near, a device's are its own."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from bench.accelerators.accel_simulated import figure_graph
from mavcg.accelerators.codegen.generate import generate_group
from mavcg.accelerators.codegen.objective import OBJECTIVES, objective_of
from mavcg.accelerators.costs.computed import DeviceGroupCosts, SimulatedGroupCosts
from mavcg.accelerators.costs.kept import GroupCostFile, KeptGroupCosts
from mavcg.accelerators.costs.learned import LearnedGroupCosts, fit_ridge
from mavcg.accelerators.costs.providers import CostRequest, group_costs
from mavcg.accelerators.fusion.costs import GroupCost, GroupCosts, ModelledGroupCosts
from mavcg.accelerators.fusion.group_shape import GraphFacts
from mavcg.accelerators.fusion.opportunities import opportunities
from mavcg.accelerators.fusion.templates import read_templates
from mavcg.accelerators.group_search import ChosenGroups, choose_groups, compare_tiles, search_path
from mavcg.accelerators.groups import FusedGroup, GroupTile
from mavcg.accelerators.host.library import write_host_sources
from mavcg.accelerators.host.runtime import DeviceDriver
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.networks import network
from mavcg.accelerators.quantise import with_fixed_radices
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.accelerators.simulator.report import energy_mj
from mavcg.accelerators.simulator.timing import map_bytes
from mavcg.accelerators.target import find_target
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.toolchain.helper_library import HelperSources, compiled_helper
from tests.mavcg.accelerators.small_network import network as small_network

ZU2 = find_target("zu2")
DRIVER = Path(__file__).with_name("driver.c")


def quiet(message: str) -> None:
    pass


@pytest.fixture(scope="module", name="graph")
def small() -> XGraph:
    return with_fixed_radices(xgraph_of(small_network(), dense_on_host=False))


@pytest.fixture(scope="module", name="squeezenet")
def squeezenet_graph() -> XGraph:
    return with_fixed_radices(xgraph_of(network("squeezenet")))


def groups_of(graph: XGraph) -> list[tuple[str, ...]]:
    facts = GraphFacts(graph)
    groups = opportunities(facts, ZU2, read_templates())
    return [tuple(sorted(one.nodes, key=facts.index_of.__getitem__)) for one in groups]


@dataclass
class MadeUpCosts:
    """Costs by a formula that the analytic model's figures decide, so that a model can learn them."""

    modelled: ModelledGroupCosts
    computed: list[tuple[str, ...]] = field(default_factory=list)

    def prepare(self, graph: XGraph, groups: Sequence[Sequence[str]], progress: Callable[[str], None]) -> None:
        self.computed += [tuple(nodes) for nodes in groups]

    def cost(self, graph: XGraph, nodes: Sequence[str]) -> GroupCost | None:
        found = self.modelled.work(graph, nodes)
        if found is None:
            return None
        cycles = found[1].cycles(ZU2)
        share = found[1].conv_cycles / cycles if cycles else 0
        return GroupCost(round(cycles * (1.1 + 0.5 * share) + 1), found[0])


def test_what_is_kept_is_what_was_found(graph: XGraph, tmp_path: Path) -> None:
    groups = groups_of(graph)[:12]
    path = tmp_path / "costs.sqlite"
    expected = [ModelledGroupCosts(ZU2).cost(graph, nodes) for nodes in groups]
    found, computed = [], []
    for _ in range(2):
        with GroupCostFile(path) as file:
            kept = KeptGroupCosts(ModelledGroupCosts(ZU2), "simulated", ZU2, file)
            kept.prepare(graph, groups, quiet)
            found.append([kept.cost(graph, nodes) for nodes in groups])
            computed.append(kept.computed)

    assert found == [expected, expected]
    assert 0 < computed[0] <= len(groups) and computed[1] == 0


def test_another_target_or_provider_has_other_costs(graph: XGraph, tmp_path: Path) -> None:
    (nodes, *_) = groups_of(graph)
    slower = replace(ZU2, name="slower", ddr_gb_per_s=1.0)
    with GroupCostFile(tmp_path / "costs.sqlite") as file:
        costs = [
            KeptGroupCosts(ModelledGroupCosts(target), provider, target, file)
            for target, provider in ((ZU2, "simulated"), (slower, "simulated"), (ZU2, "device"), (ZU2, "simulated"))
        ]
        found = [each.cost(graph, nodes) for each in costs]

    assert [each.computed for each in costs] == [1, 1, 1, 0]
    assert found[0] == found[2] == found[3] != found[1]


def test_groups_that_cannot_run_are_kept_too(graph: XGraph, tmp_path: Path) -> None:
    tiny = replace(ZU2, input_bytes=1024, output_bytes=1024, weight_bytes=1024, banks=1)
    nodes = max(groups_of(graph), key=len)
    for computed in (1, 0):
        with GroupCostFile(tmp_path / "costs.sqlite") as file:
            kept = KeptGroupCosts(ModelledGroupCosts(tiny), "simulated", tiny, file)
            assert kept.cost(graph, nodes) is None
            assert kept.computed == computed


def test_files_that_are_something_else(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database" * 100)
    with pytest.raises(MavcgError, match="text: .*name another file"):
        GroupCostFile(tmp_path / "text")
    with sqlite3.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE birds (name TEXT)")
    with pytest.raises(MavcgError, match="other: is another application's database; name another file"):
        GroupCostFile(tmp_path / "other")
    with pytest.raises(MavcgError, match="name another file of groups"):
        GroupCostFile(tmp_path / "nowhere" / "costs.sqlite")


def test_a_damaged_tile_is_said(tmp_path: Path) -> None:
    with GroupCostFile(tmp_path / "costs.sqlite") as file:
        file.put("simulated", [("k", GroupCost(3.0, GroupTile(1, 2, 3, 4)))])
    with sqlite3.connect(tmp_path / "costs.sqlite") as raw:
        raw.execute("UPDATE group_costs SET tile = replace(tile, '2', '-2')")
    words = "is not a tile; delete the file"
    with GroupCostFile(tmp_path / "costs.sqlite") as file, pytest.raises(MavcgError, match=words):
        file.get("k", "simulated")


def test_cycles_that_are_no_number_are_said(tmp_path: Path) -> None:
    with GroupCostFile(tmp_path / "costs.sqlite") as file:
        file.put("simulated", [("k", GroupCost(3.0, GroupTile(1, 2, 3, 4)))])
    with sqlite3.connect(tmp_path / "costs.sqlite") as raw:
        raw.execute("UPDATE group_costs SET cycles = 'many'")
    with GroupCostFile(tmp_path / "costs.sqlite") as file, pytest.raises(MavcgError, match="delete it, or name"):
        file.get("k", "simulated")


def test_ridge_error_is_that_of_samples_left_out() -> None:
    """The closed form against fits without each sample, at the same penalty and standardisation."""
    random = np.random.default_rng(0)
    x = random.standard_normal((40, 6))
    y = x @ np.array([0.3, -0.2, 0.1, 0, 0, 0]) + 0.05 * random.standard_normal(40)
    fitted = fit_ridge(x, y)
    z = (x - fitted.mean) / fitted.scale
    errors = {}
    for penalty in (1e-4, 1e-3, 1e-2, 1e-1, 1.0):
        left_out = []
        for i in range(len(x)):
            rest = np.arange(len(x)) != i
            center, mean = z[rest].mean(axis=0), y[rest].mean()
            a = z[rest] - center
            w = np.linalg.solve(a.T @ a + penalty * len(x) * np.eye(6), a.T @ (y[rest] - mean))
            left_out.append(abs(np.expm1((z[i] - center) @ w + mean - y[i])))
        errors[penalty] = np.mean(left_out)

    assert fitted.error == pytest.approx(min(errors.values()), rel=0.02)
    assert np.abs(fitted.predict(x) - y).mean() < 0.1


@pytest.mark.long
def test_learned_costs_are_near(squeezenet: XGraph) -> None:
    truth = MadeUpCosts(ModelledGroupCosts(ZU2))
    learned, groups = LearnedGroupCosts(ZU2, truth), groups_of(squeezenet)
    learned.prepare(squeezenet, groups, quiet)
    computed = set(truth.computed)
    errors = [
        abs(predicted.cost / exact.cost - 1)
        for nodes in groups
        if nodes not in computed
        and (predicted := learned.cost(squeezenet, nodes)) is not None
        and (exact := truth.cost(squeezenet, nodes)) is not None
    ]

    assert 0 < learned.predicted_groups <= len(errors)
    assert np.mean(errors) < 0.02
    assert learned.models[0].error == pytest.approx(float(np.mean(errors)), abs=0.02)


@pytest.mark.long
def test_learned_paths_are_of_exact_costs(squeezenet: XGraph) -> None:
    """What the search chooses is known exactly in the end, and near to the best."""
    truth = MadeUpCosts(ModelledGroupCosts(ZU2))
    best = search_path(squeezenet, ZU2, "exact", quiet, MadeUpCosts(ModelledGroupCosts(ZU2))).plan("exact")

    planned = search_path(squeezenet, ZU2, "exact", quiet, LearnedGroupCosts(ZU2, truth)).plan("exact")

    exact = [truth.cost(squeezenet, group.nodes) for group in planned.groups]
    assert [group.cost for group in planned.groups] == [cost and cost.cost for cost in exact]
    assert best.cost <= planned.cost <= 1.02 * best.cost


def test_the_better_tile_is_taken(graph: XGraph) -> None:
    chosen = choose_groups(graph, ZU2, "none", quiet)

    assert chosen.tiles
    costs = {group.nodes: group for group in chosen.groups}
    for one in chosen.tiles:
        assert costs[one.nodes].cost == min(one.paper, one.searched)
    worse = [replace(group, tile=replace(group.tile, out_ch=8, rows=1, columns=1)) for group in chosen.groups]
    again = compare_tiles(graph, ChosenGroups(tuple(worse), 0), ZU2, quiet)
    taken = {group.nodes: group for group in again.groups}
    assert any(one.paper < one.searched for one in again.tiles)
    for one in again.tiles:
        program, _ = generate_group(graph, taken[one.nodes], ZU2)
        assert simulate(program).cycles == taken[one.nodes].cost == min(one.paper, one.searched)


@pytest.fixture(scope="module", name="driver")
def device_driver(tmp_path_factory: pytest.TempPathFactory) -> DeviceDriver:
    """The simulated device as a driver, whose cycles are the bytes of a job's code."""
    folder = tmp_path_factory.mktemp("driver")
    files = [*write_host_sources(folder), DRIVER]
    flags = ("-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{folder}")
    library = compiled_helper(folder, HelperSources("driver", files, flags, "a driver"))
    return DeviceDriver(library, "7")


def test_costs_count_bytes_or_energy() -> None:
    """The 5 x 5 convolution of DNNVM's figure 7: the fastest tile loads its weights again and again."""
    figure, nodes = figure_graph(7), ("conv",)
    moved, energies = [], []
    for objective in OBJECTIVES:
        cost = SimulatedGroupCosts(ZU2, objective).cost(figure, nodes)
        assert cost is not None
        program, _ = generate_group(figure, FusedGroup(nodes, "t", cost.tile), ZU2)
        time = simulate(program)
        code = 4 * sum(one.form.words for one in program.instructions)
        weights = sum(-(-one["words"] * 144 // 64) * 64 for one in program.instructions if "words" in one.values)
        maps = sum(map_bytes(one, 64) for one in program.instructions if one.form.name in ("load.map", "save.map"))
        moved.append(code + weights + maps)
        energies.append(energy_mj(program, time))
        counted = {"time": time.cycles, "bytes": moved[-1], "energy": 1e9 * energies[-1]}
        assert cost.cost == pytest.approx(counted[objective], abs=0.1)

    assert moved[1] == moved[2] < moved[0] / 2
    assert energies[1] == energies[2] < energies[0]


@pytest.mark.long
def test_a_device_says_its_cycles(graph: XGraph, driver: DeviceDriver) -> None:
    costs = DeviceGroupCosts(ZU2, driver, runs=1)
    (nodes, *_) = [nodes for nodes in groups_of(graph) if len(nodes) == 2]

    cost = costs.cost(graph, nodes)

    assert cost is not None
    program, _ = generate_group(graph, FusedGroup(nodes, "t", cost.tile), ZU2)
    assert cost.cost == 7 + 4 * sum(one.form.words for one in program.instructions) + (1 << 33)


def test_a_device_that_counts_no_cycles(graph: XGraph, tmp_path: Path, driver: DeviceDriver) -> None:
    (nodes, *_) = groups_of(graph)
    with pytest.raises(MavcgError, match="the simulated device: does not count cycles"):
        DeviceGroupCosts(ZU2, None).cost(graph, nodes)
    with pytest.raises(MavcgError, match="no device of this number: x"):
        DeviceGroupCosts(ZU2, replace(driver, argument="x")).cost(graph, nodes)
    (tmp_path / "no.so").write_bytes(b"no library")
    with pytest.raises(MavcgError, match=r"no\.so: not a driver as in mavcg_accel_driver\.h"):
        DeviceGroupCosts(ZU2, DeviceDriver(tmp_path / "no.so")).cost(graph, nodes)


def test_requests(graph: XGraph, tmp_path: Path, driver: DeviceDriver) -> None:
    (nodes, *_) = groups_of(graph)

    def provide(*request: object) -> GroupCost | None:
        with group_costs(CostRequest(*request), ZU2) as costs:  # type: ignore[arg-type]
            provider: GroupCosts = costs
            provider.prepare(graph, [nodes], quiet)
            return provider.cost(graph, nodes)

    with pytest.raises(MavcgError, match="--objective bytes: --costs model knows times only; give --costs simulated"):
        provide("model", None, None, "bytes")
    with pytest.raises(MavcgError, match="--objective speed: no such objective; known: time, bytes, energy"):
        objective_of("speed")
    assert provide("model") == ModelledGroupCosts(ZU2).cost(graph, nodes)
    exact = SimulatedGroupCosts(ZU2).cost(graph, nodes)
    assert provide("simulated", tmp_path / "c") == provide("learned", tmp_path / "c") == exact
    of_device = provide("device", tmp_path / "c", f"{driver.library}:7")
    assert of_device is not None and of_device.cost > 1 << 33
    for request, wrong in (
        (("magic",), "--costs magic: no such provider; known: model"),
        (("device",), "--costs device: needs --driver"),
        (("simulated", None, "x.so"), "--costs device: needs --driver"),
        (("model", tmp_path / "c"), "modelled costs are not stored"),
        (("device", None, "lost.so:1"), "--driver lost.so:1: there is no file lost.so"),
    ):
        with pytest.raises(MavcgError, match=wrong):
            provide(*request)
