"""`--foreign` of tune, select and build: what is measured, offered, told and refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from mavcg.choose.algorithms.costs.database import Record
from mavcg.choose.algorithms.costs.database_file import open_db
from mavcg.choose.algorithms.costs.provider import MEASURED, Cost
from mavcg.choose.algorithms.select_workers import board_of, label_of, workers_of
from mavcg.cli.app import make_app
from mavcg.hosts.foreign_library import find_foreign
from mavcg.kernels.primitives.foreign_gemm import foreign_primitives
from mavcg.kernels.primitives.registry import find_primitive
from mavcg.lab.trials.run import find_machine
from mavcg.model.reading import read_network
from mavcg.runtime.machines import block_of
from mavcg.specs.foreign_library import ForeignLibrary
from tests.kernels.primitives.foreign_libraries import built_library

onnx = pytest.importorskip("onnx")
DEFAULT = find_primitive("implicit_gemm_hwc_hwc")


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs that this user measured do not count."""
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "kept"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ForeignLibrary:
    return find_foreign(f"small={built_library(tmp_path_factory.mktemp('cblas'))}")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions, 3x3 and 1x1."""
    rng, helper = np.random.default_rng(0), onnx.helper
    weights = {"a": (8, 4, 3, 3), "b": (8, 8, 1, 1)}
    made = [onnx.numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in weights.items()]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["y"], name="first", pads=[1] * 4),
        helper.make_node("Conv", ["y", "b"], ["z"], name="second"),
    ]
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, (1, c, 9, 9)) for n, c in (("x", 4), ("z", 8))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], made)
    path = tmp_path_factory.mktemp("model") / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def app() -> typer.Typer:
    return make_app()


def run(app: typer.Typer, *words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def database(path: Path, model: Path, library: ForeignLibrary, foreign_ms: float, default: bool = True) -> Path:
    """Costs of the second convolution by the library, and of both by the engine's default."""
    core, block = label_of(workers_of(board_of("host"))), block_of(find_machine("host"))
    by_library = foreign_primitives(library)[0]
    with open_db(path) as costs:
        for node in read_network(str(model), {}).convolutions:
            assert node.scenario is not None
            if default:
                costs.put(Record((node.scenario, DEFAULT.name), Cost(1.0, MEASURED, 0.0, 9), core, 1, block))
            if node.scenario.k == 1:
                cost = Cost(foreign_ms, MEASURED, 0.5 * foreign_ms, 9)
                costs.put(Record((node.scenario, by_library.name), cost, core, 1, block))
    return path


def selected(app: typer.Typer, model: Path, library: ForeignLibrary, costs: Path) -> Any:
    words = ("--foreign", f"{library.name}={library.path}", "--db", costs)
    done = run(app, "select", model, "--board", "host", *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_it_is_taken_where_it_was_measured_to_win(
    app: typer.Typer, model: Path, library: ForeignLibrary, tmp_path: Path
) -> None:
    selection = selected(app, model, library, database(tmp_path / "costs", model, library, 1e-9))["foreign"]
    assert [each["path"] for each in selection["libraries"]] == [library.path]
    assert len(selection["measured"]) == 1 and list(selection["taken"]) == selection["measured"]
    assert selection["taken"][selection["measured"][0]] == foreign_primitives(library)[0].name
    assert selection["with_ms"] < selection["without_ms"] and selection["gain"] > 0


@pytest.mark.long
def test_it_is_not_taken_where_it_loses(app: typer.Typer, model: Path, library: ForeignLibrary, tmp_path: Path) -> None:
    selection = selected(app, model, library, database(tmp_path / "costs", model, library, 1e3))["foreign"]
    assert len(selection["measured"]) == 1 and selection["taken"] == {}
    assert selection["with_ms"] == selection["without_ms"] and selection["gain"] == 0


def test_it_is_not_offered_where_only_it_was_measured(
    app: typer.Typer, model: Path, library: ForeignLibrary, tmp_path: Path
) -> None:
    selection = selected(app, model, library, database(tmp_path / "costs", model, library, 1e-9, default=False))[
        "foreign"
    ]
    assert selection["measured"] == [] and selection["taken"] == {}


def test_without_the_flag_nothing_is_foreign(
    app: typer.Typer, model: Path, library: ForeignLibrary, tmp_path: Path
) -> None:
    costs = database(tmp_path / "costs", model, library, 1e-9)
    document = json.loads(run(app, "select", model, "--board", "host", "--db", costs, "--json").stdout)
    assert document["foreign"] is None and "family:foreign" not in document["strategies"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("select", "alexnet", "--board", "rk3588"), "is a library of this machine and cannot be used for rk3588"),
        (("select", "alexnet", "--board", "host", "--batch", "2"), "cannot be used with --per-cluster"),
        (
            ("tune", "alexnet", "--board", "rk3588", "--runner", "adb"),
            "is a library of this machine and cannot be used",
        ),
        (("tune", "--export", "x.json"), "tune --foreign: is only for the measurement of a MODEL"),
        (("build", "net.onnx", "--board", "host"), "calls no other library"),
    ],
)
def test_it_is_refused(app: typer.Typer, library: ForeignLibrary, words: tuple[str, ...], why: str) -> None:
    done = run(app, *words, "--foreign", f"small={library.path}")
    assert why in str(done.exception) and "--foreign" in str(done.exception)


@pytest.mark.parametrize("verb", ["select", "tune"])
def test_a_path_that_is_not_there(app: typer.Typer, verb: str) -> None:
    done = run(app, verb, "alexnet", "--board", "host", "--foreign", "openblas=/nowhere.so")
    assert "there is no file /nowhere.so" in str(done.exception)


@pytest.mark.long
def test_what_is_tuned_is_offered(app: typer.Typer, model: Path, library: ForeignLibrary, tmp_path: Path) -> None:
    flag, costs = f"small={library.path}", tmp_path / "costs"
    done = run(app, "tune", model, "--family", "implicit", "--foreign", flag, "--db", costs, "--json")
    assert done.exit_code == 0, done.output
    selection = selected(app, model, library, costs)
    assert len(selection["foreign"]["measured"]) == 2
    assert selection["strategies"]["family:foreign"] > 0
