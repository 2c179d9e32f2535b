"""`mavcg tune`: what is measured of a small network, stopping and going on, tables that are carried elsewhere."""

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
import typer
from onnx import TensorProto, helper

from mavcg.choose.algorithms.costs.database import Conversion
from mavcg.choose.algorithms.costs.database_file import open_db
from mavcg.choose.algorithms.costs.provider import MODELLED, Cost
from mavcg.choose.algorithms.network import network_of
from mavcg.cli.select import select
from mavcg.errors import MavcgError
from mavcg.graph.networks import network
from mavcg.hosts import host
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.lab.commands.tune import tune
from mavcg.lab.runners.bench_program import BenchProgram
from mavcg.lab.runners.open import open_runner
from mavcg.lab.runners.shell_runner import ShellRunner
from mavcg.lab.trials.run import find_machine
from mavcg.lab.tuning import measured_core, simulated, tune_network
from mavcg.lab.tuning.measured_core import ReachedCore
from mavcg.lab.tuning.state import RunControl
from mavcg.lab.tuning.tune_core import tune_on
from mavcg.lab.tuning.work_list import fastest, plan_of
from mavcg.specs.primitive import Layout, Scenario
from mavcg.toolchain.target import host_target

PRIMITIVES = [p for p in all_primitives() if p.family == "sum2d"]
NAMES = [p.name for p in PRIMITIVES]
FOREIGN = {"x86_64": "exynos9820"}.get(host_target().arch, "alder-lake")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Costs that this user measured do not count."""
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch, fake_bench: Any) -> Any:
    """Every measurement is there at once, from a program that only prints; caches are not probed either."""
    monkeypatch.setattr(host, "measured_host_board", host.host_board)
    monkeypatch.setattr(tune_network, "measured_host_board", host.host_board)

    def build(jobs: Sequence[Any], *rest: Any) -> BenchProgram:
        return BenchProgram(fake_bench.of(len(jobs)), len(jobs))

    monkeypatch.setattr(measured_core, "build_program", build)
    return fake_bench


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
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


@pytest.mark.usefixtures("at_once")
@pytest.mark.usefixtures("known_host")
def test_measures_each_convolution_once_and_goes_on(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered = answer(capsys, str(model), family="sum2d")
    (core,) = answered["cores"]
    assert (core["convolutions"], core["sizes"]) == (1, 1)
    assert answered["measured"] + answered["pruned"] == len(PRIMITIVES) + 12  # of all, and of all pairs of four layouts
    assert (answered["already"], answered["left"], answered["stopped"], core["failed"]) == (0, 0, "", [])
    # The program says that job n of each batch, the first of 8, takes 1.75 (n + 1) us.
    assert [round(each["ms"] / 1.75e-3) for each in core["costs"][:9]] == [*range(1, 9), 1]
    (best,) = core["fastest"]
    assert best["scenario"] == "4,6,6,1,3,4,1,1" and best["primitive"] in NAMES and best["kind"] == "measured"
    again = answer(capsys, str(model), family="sum2d", resume=True)
    assert (again["measured"], again["already"]) == (0, answered["measured"])
    assert answer(capsys, str(model), family="sum2d", limit_seconds=0.0)["left"] == answered["measured"]


@pytest.mark.usefixtures("at_once")
@pytest.mark.usefixtures("known_host")
def test_tables_are_carried_from_one_database_to_another(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, other = tmp_path / "costs.json", tmp_path / "other.sqlite"
    first = answer(capsys, str(model), family="sum2d", export=table)
    assert first["exported"] == 2 * first["measured"]  # warm and cold
    second = answer(capsys, import_=table, db=other)
    assert second == {"db": str(other), "imported": first["exported"]}
    third = answer(capsys, str(model), family="sum2d", db=other, limit_seconds=0.0)
    assert [each["kind"] for each in third["cores"][0]["fastest"]] == ["imported"]


@pytest.mark.usefixtures("at_once")
@pytest.mark.usefixtures("known_host")
def test_a_table_for_people(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tune(str(model), family="sum2d")
    shown = capsys.readouterr()
    assert "4,6,6,1,3,4,1,1" in shown.out and "GMAC/s" in shown.out
    assert "1 convolutions, 1 sizes of images" in shown.err


SIMULATED: dict[str, Any] = {"board": "exynos9820", "runner": "simulate", "core": ["cortex-a55"], "family": "sum2d"}


def test_simulates_a_core_of_a_board_that_is_not_here(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "costs.sqlite"
    monkeypatch.setattr(simulated, "FIRST_BATCH", 2)
    first = answer(capsys, str(model), db=db, limit_seconds=1e-9, **SIMULATED)
    assert first["measured"] == 0 and first["left"] > 12 and first["stopped"] == "limit"

    some = simulated._simulated_batch

    def stop_after_one(*rest: Any) -> Any:
        monkeypatch.setattr(simulated, "_simulated_batch", interrupt)
        return some(*rest)

    def interrupt(*rest: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(simulated, "_simulated_batch", stop_after_one)
    with pytest.raises(typer.Exit):
        tune(str(model), db=db, as_json=True, **SIMULATED)
    stopped = json.loads(capsys.readouterr().out)
    assert (stopped["measured"], stopped["left"], stopped["stopped"]) == (2, first["left"] - 2, "interrupt")
    (core,) = stopped["cores"]
    assert {each["kind"] for each in core["costs"]} == {"simulated"}
    # 4 channels of 6 x 6 and 3 x 3 filters: 5,184 multiply-accumulates, at most four a cycle, at 1.95 GHz.
    assert all(5184 / 4 / 1.95e6 < each["ms"] < 1 for each in core["costs"] if "sum2d" in each["what"])
    monkeypatch.setattr(simulated, "_simulated_batch", interrupt)
    with pytest.raises(typer.Exit):
        tune(str(model), db=db, resume=True, as_json=True, **SIMULATED)
    assert json.loads(capsys.readouterr().out)["already"] == 2


@pytest.mark.long
def test_choices_go_by_what_was_simulated(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of docs/tuning-models.md, with this user's database."""
    cores = {**SIMULATED, "family": None}
    answered = answer(capsys, str(model), **cores)
    assert answered["left"] == 0 and not answered["cores"][0]["failed"]
    (best,) = answered["cores"][0]["fastest"]
    again = answer(capsys, str(model), resume=True, **cores)
    assert (again["measured"], again["already"]) == (0, answered["measured"])

    select(str(model), board="exynos9820", core="cortex-a55", as_json=True)
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert {node["cost_is"] for node in nodes if node["primitive"] == best["primitive"]} <= {"simulated"}
    assert any(node["cost_is"] == "simulated" for node in nodes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no MODEL"),
        ({"model": "absent"}, "neither a file nor a built-in network"),
        ({"model": "absent.onnx"}, "absent.onnx"),
        ({"model": "squeezenet", "board": FOREIGN}, f"local: is .*, and {FOREIGN} is"),
        ({"model": "squeezenet", "runner": "ssh:pi@10.0.0.7"}, "its board is not named"),
        ({"model": "squeezenet", "runner": "telnet:pi", "board": "rk3588"}, "telnet:pi: is not a runner; give local"),
        ({"model": "squeezenet", "runner": "simulate"}, "--runner simulate: its board is not named"),
        ({"model": "squeezenet", "runner": "simulate", "board": "alder-lake"}, "is x86_64; only AArch64 cores"),
        ({"model": "squeezenet", "runner": "simulate", "board": "absent"}, "--board absent"),
        ({"model": "squeezenet", "runner": "simulate", "board": "rk3588", "core": ["cortex-a53"]}, "it has cortex-a55"),
        ({"model": "squeezenet", "runner": "simulate", "board": "rk3588", "threads": 2}, "tune --threads"),
        ({"model": "squeezenet", "runner": "simulate", "board": "rk3588", "foreign": ["openblas"]}, "tune --foreign"),
        ({"check": True, "runner": "simulate", "board": "rk3588"}, "uses no machine"),
        ({"model": "squeezenet", "core": ["cortex-a55"]}, "--core cortex-a55: host has no such core"),
        ({"model": "squeezenet", "check": True}, "tune MODEL: has no effect with --check"),
        ({"check": True, "board": "absent"}, "--board absent"),
        ({"model": "squeezenet", "threads": 4096}, "--threads 4096"),
        ({"threads": 2, "export": Path("x")}, "--threads"),
        ({"core": ["cortex-a55"], "export": Path("x")}, "--core"),
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
    told = Told({NAMES[0]: 4.1, NAMES[1]: 1.9, NAMES[2]: 1.0})
    plan = plan_of(network_of(network("alexnet", False)), PRIMITIVES, told)
    count = len(plan.scenarios)
    assert plan.pruned == count
    of_primitives = [job for job in plan.jobs if not isinstance(job.what, Conversion)]
    assert [job.what[1] for job in of_primitives] == [NAMES[2]] * count + [NAMES[1]] * count  # type: ignore[index]
    # Another one with conversions, of half a millisecond at most, would be taken for what takes twice as long and more.
    for ms, pruned in ((2.1, 0), (3.9, count)):
        known = Told({NAMES[0]: ms, NAMES[2]: 1.0})
        assert plan_of(network_of(network("alexnet", False)), PRIMITIVES, known).pruned == pruned
    # What the model does not know is measured, but last.
    unknown = plan_of(network_of(network("alexnet", False)), PRIMITIVES, Told({NAMES[0]: 1.0}))
    assert unknown.pruned == 0
    assert [j.what[1] for j in unknown.jobs if not isinstance(j.what, Conversion)][:count] == [NAMES[0]] * count


def test_every_scenario_of_a_network_once() -> None:
    plan = plan_of(network_of(network("vgg16", False)), PRIMITIVES, Told({}))
    assert len(plan.scenarios) == 9 and len(set(plan.scenarios)) == 9  # of VGG-16's 13 convolutions
    assert Scenario(512, 28, 28, 1, 3, 512, 1) in plan.scenarios
    assert len({job.what for job in plan.jobs}) == len(plan.jobs)


def core_of(runner: ShellRunner) -> ReachedCore:
    return ReachedCore(find_machine("host"), None, (), False, "here", runner=runner)


def test_an_interrupt_keeps_what_was_measured(model: Path, tmp_path: Path, at_once: Any) -> None:
    from mavcg.importers.load import import_model

    plan = plan_of(network_of(import_model(model, {})), PRIMITIVES, Told({}))
    told = []

    def progress(done: int, total: int, words: str) -> None:
        told.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    with open_db(tmp_path / "costs.sqlite") as database, open_runner("local") as runner:
        first = tune_on(plan, database, core_of(runner), RunControl(progress=progress))
        assert (len(first.measured), first.left, first.stopped) == (2, len(plan.jobs) - 2, "interrupt")
        assert len(database) == 4 and told == [(n, len(plan.jobs)) for n in range(3)]
        second = tune_on(plan, database, core_of(runner), RunControl(resume=True))
        assert (second.already, second.left, second.stopped) == (2, 0, "")
        assert len(database) == 2 * len(plan.jobs)
        costs = database.provider(find_machine("host").name)
        ((scenario, name, cost),) = fastest(plan, costs, PRIMITIVES)
        least = min(c.ms for p in PRIMITIVES if (c := costs.primitive(scenario, p)) is not None)
        assert name in NAMES and cost.ms == least


@pytest.mark.usefixtures("known_host")
def test_being_told_to_end_is_an_interrupt(model: Path, at_once: Any, capsys: pytest.CaptureFixture[str]) -> None:
    at_once.does("stop 2")
    before = signal.getsignal(signal.SIGTERM)

    def end() -> None:
        while not (at_once.folder / "at").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=end)
    thread.start()
    with pytest.raises(typer.Exit) as ended:
        tune(str(model), family="sum2d", as_json=True)
    thread.join()
    document = json.loads(capsys.readouterr().out)
    assert ended.value.exit_code == 130 and signal.getsignal(signal.SIGTERM) is before
    assert document["stopped"] == "interrupt" and document["measured"] <= 2  # as many as were read until then
    assert document["left"] == document["cores"][0]["left"] > 0


@pytest.mark.usefixtures("known_host")
def test_what_cannot_be_measured_is_said_and_the_rest_is_kept(
    model: Path, at_once: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    at_once.does("kill 3", "fault 5 it wrote outside", "khz 1000000")
    tune(str(model), family="fft", as_json=True)
    said = capsys.readouterr()
    document = json.loads(said.out)
    failed = document["cores"][0]["failed"]
    assert [each["why"] for each in failed][:2] == ["the program was ended by signal 9 (killed)", "it wrote outside"]
    assert document["measured"] + len(failed) + document["pruned"] >= 12 and document["left"] == 0
    assert f"{failed[0]['what']}: the program was ended" in said.err
    assert "its clock fell from 2.00 GHz to 1.00 GHz" in said.err
