"""`mavcg tune`: what is measured of a small network, stopping and going on, tables that are carried elsewhere."""

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from mavcg import host
from mavcg.cli.tune import tune
from mavcg.errors import MavcgError
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.planner.networks import network
from mavcg.primitive import Layout, Scenario
from mavcg.primitive_run import find_machine
from mavcg.selection import tuning
from mavcg.selection.cost_db import Conversion, open_db
from mavcg.selection.costs import MEASURED, MODELLED, Cost
from mavcg.selection.measured import Effort
from mavcg.selection.network import network_of
from mavcg.selection.tuning import Job, fastest, plan_of, tune_plan

PRIMITIVES = [p for p in all_primitives() if p.family == "sum2d"]
NAMES = [p.name for p in PRIMITIVES]


BRIEF = Effort(5, 0.0, 0.0)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Costs that this user measured do not count."""
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def as_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every measurement gives 3 times what was predicted, at once; caches are not probed either."""
    monkeypatch.setattr(host, "measured_host_board", host.host_board)
    monkeypatch.setattr(tuning, "_measured", lambda job, machine, effort: Cost(3 * job.predicted_ms, MEASURED, 0.0, 7))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Twice the same convolution of 4 channels, 6 x 6."""
    values = {name: helper.make_tensor(name, TensorProto.FLOAT, (4, 4, 3, 3), [0.5] * 144) for name in "wv"}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["y"], name="second", pads=[1, 1, 1, 1]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 4, 6, 6)) for n in "xy"]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], list(values.values()))
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def answer(capsys: pytest.CaptureFixture[str], model: str | None = None, **options: Any) -> dict[str, Any]:
    tune(model, as_json=True, **options)
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


@pytest.mark.usefixtures("as_predicted")
def test_measures_each_convolution_once_and_goes_on(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, str(model), family="sum2d")
    assert (found["convolutions"], found["sizes"]) == (1, 1)
    assert found["measured"] + found["pruned"] == len(PRIMITIVES) + 12  # of all, and of all pairs of four layouts
    assert (found["already"], found["left"], found["stopped"]) == (0, 0, "")
    assert all(each["ms"] == 3 * each["predicted_ms"] and each["kind"] == "measured" for each in found["costs"])
    (best,) = found["fastest"]
    assert best["scenario"] == "4,6,6,1,3,4,1,1" and best["primitive"] in NAMES
    again = answer(capsys, str(model), family="sum2d", resume=True)
    assert (again["measured"], again["already"]) == (0, found["measured"])
    assert answer(capsys, str(model), family="sum2d", limit_seconds=0.0)["left"] == found["measured"]


@pytest.mark.usefixtures("as_predicted")
def test_tables_are_carried_from_one_database_to_another(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, other = tmp_path / "costs.json", tmp_path / "other.sqlite"
    first = answer(capsys, str(model), family="sum2d", export=table)
    assert first["exported"] == first["measured"]
    second = answer(capsys, import_=table, db=other)
    assert second == {"db": str(other), "imported": first["measured"]}
    third = answer(capsys, str(model), family="sum2d", db=other, limit_seconds=0.0)
    assert [each["kind"] for each in third["fastest"]] == ["imported"]


@pytest.mark.usefixtures("as_predicted")
def test_a_table_for_people(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tune(str(model), family="sum2d")
    shown = capsys.readouterr()
    assert "4,6,6,1,3,4,1,1" in shown.out and "GMAC/s" in shown.out
    assert "1 convolutions, 1 sizes of images" in shown.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no MODEL"),
        ({"model": "absent"}, "neither a file nor a built-in network"),
        ({"model": "absent.onnx"}, "absent.onnx"),
        ({"model": "squeezenet", "board": "exynos9820"}, "only `host`"),
        ({"model": "squeezenet", "family": "birds"}, "--family birds"),
        ({"model": "squeezenet", "shape": ["x=1"]}, "--shape"),
        ({"family": "fft", "export": Path("x")}, "--family"),
        ({"resume": True, "export": Path("x")}, "--resume"),
        ({"import_": Path("absent.json")}, "absent.json"),
        ({"export": Path("/no/such/folder/x.json")}, "x.json"),
    ],
)
def test_what_cannot_be_done_is_one_error(options: dict[str, Any], words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        tune(**{"model": None, **options})


class Told:
    """A model that knows what it is told of primitives, by name."""

    def __init__(self, ms: dict[str, float]) -> None:
        self.ms = ms

    def primitive(self, scenario: Scenario, primitive: Any) -> Cost | None:
        return Cost(self.ms[primitive.name], MODELLED) if primitive.name in self.ms else None

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        return Cost(c * h * w * 1e-6, MODELLED)


def test_the_model_prunes_what_is_far_worse_and_puts_the_promising_first() -> None:
    told = Told({NAMES[0]: 4.1, NAMES[1]: 4.0, NAMES[2]: 1.0})
    plan = plan_of(network_of(network("alexnet", False)), PRIMITIVES, told)
    count = len(plan.scenarios)
    assert plan.pruned == count
    of_primitives = [job for job in plan.jobs if not isinstance(job.what, Conversion)]
    assert [job.what[1] for job in of_primitives] == [NAMES[2]] * count + [NAMES[1]] * count  # type: ignore[index]
    # What the model does not know is measured, but last.
    unknown = plan_of(network_of(network("alexnet", False)), PRIMITIVES, Told({NAMES[0]: 1.0}))
    assert unknown.pruned == 0
    assert [j.what[1] for j in unknown.jobs if not isinstance(j.what, Conversion)][:count] == [NAMES[0]] * count


def test_every_scenario_of_a_network_once() -> None:
    plan = plan_of(network_of(network("vgg16", False)), PRIMITIVES, Told({}))
    assert len(plan.scenarios) == 9 and len(set(plan.scenarios)) == 9  # of VGG-16's 13 convolutions
    assert Scenario(512, 28, 28, 1, 3, 512, 1) in plan.scenarios
    assert len({job.what for job in plan.jobs}) == len(plan.jobs)


def test_an_interrupt_keeps_what_was_measured(model: Path, tmp_path: Path) -> None:
    from mavcg.importers.load import import_model

    plan = plan_of(network_of(import_model(model, {})), PRIMITIVES, Told({}))
    machine, told = find_machine("host"), []

    def progress(done: int, total: int, job: Job) -> None:
        told.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    with open_db(tmp_path / "costs.sqlite") as database:
        first = tune_plan(plan, database, machine, effort=BRIEF, progress=progress)
        assert (len(first.measured), first.left, first.stopped) == (2, len(plan.jobs) - 2, "interrupt")
        assert len(database) == 2 and told == [(n, len(plan.jobs)) for n in range(3)]
        second = tune_plan(plan, database, machine, resume=True, effort=BRIEF)
        assert (second.already, second.left, second.stopped) == (2, 0, "")
        assert len(database) == len(plan.jobs)
        costs = database.provider(machine.name)
        ((scenario, name, cost),) = fastest(plan, costs, PRIMITIVES)
        least = min(c.ms for p in PRIMITIVES if (c := costs.primitive(scenario, p)) is not None)
        assert name in NAMES and cost.ms == least
