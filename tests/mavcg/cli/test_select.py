"""`mavcg select`, of networks and of bare instances, run as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from mavcg.choose.algorithms.costs.database import Record, compiler_version
from mavcg.choose.algorithms.costs.database_file import open_db
from mavcg.choose.algorithms.costs.provider import MEASURED, Cost
from mavcg.cli.app import make_app
from mavcg.cli.select import select
from mavcg.errors import MavcgError
from mavcg.model.reading import read_network

INSTANCE = {
    "nodes": {"conv1": [8, 6, 10], "conv2": [17, 19, 14], "conv3": [20, 17, "inf"]},
    "edges": [
        {"from": "conv1", "to": "conv2", "costs": [[0, 3, 5], [6, 0, 5], [1, 5, 0]]},
        {"from": "conv2", "to": "conv3", "costs": [[0, 3, 5], [6, 0, 5], ["inf", 5, 0]]},
    ],
}


@pytest.fixture
def app() -> typer.Typer:
    """The command line, with the verb even where it is not registered yet."""
    app = make_app()
    if not any(command.callback is select for command in app.registered_commands):
        app.command()(select)
    return app


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs that this user measured do not count."""
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "kept"))


def run(app: typer.Typer, *arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["select", *map(str, arguments)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "chain.json").write_text(json.dumps(INSTANCE))
    return tmp_path / "chain.json"


def test_json_has_what_scripts_rely_on(app: typer.Typer, file: Path) -> None:
    done = run(app, "--instance", file, "--json")
    answer = json.loads(done.stdout)

    assert done.exit_code == 0
    assert answer["choice"] == {"conv1": 1, "conv2": 1, "conv3": 1}
    assert answer["cost"] == 6 + 19 + 17
    assert answer["optimal"] is True and answer["gap"] == 0
    assert answer["lower_bound"] == answer["cost"] and answer["solver_seconds"] >= 0
    assert answer["counts"]["r1"] == 2 and answer["counts"]["branches"] == 0


def test_people_see_each_node_and_the_proof(app: typer.Typer, file: Path) -> None:
    said = run(app, "--instance", file).stdout
    rows = [line.split() for line in said.splitlines()]

    assert ["conv2", "1", "3", "19", "0"] in rows
    assert "cost 42, optimal" in said and "r1 2" in said


def test_a_limit_of_time_is_kept_and_its_gap_shown(app: typer.Typer, tmp_path: Path) -> None:
    names = [f"n{i}" for i in range(16)]
    costs = [[(7 * i * i + 5 * j * j + 3 * i * j) % 11 for j in range(8)] for i in range(8)]
    edges = [
        {"from": a, "to": b, "costs": [row[k:] + row[:k] for row in costs]}
        for k, (a, b) in enumerate((a, b) for a in names for b in names if a < b)
    ]
    (tmp_path / "clique.json").write_text(json.dumps({"nodes": {n: [0] * 8 for n in names}, "edges": edges}))

    answer = json.loads(run(app, "--instance", tmp_path / "clique.json", "--time-limit", "0.05", "--json").stdout)
    assert not answer["optimal"] and 0 < answer["gap"] <= 1 and answer["lower_bound"] < answer["cost"]
    assert "gap" in run(app, "--instance", tmp_path / "clique.json", "--time-limit", "0.05").stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"nodes": {"conv1": ["inf"]}, "edges": []}, "node 'conv1': all of its alternatives are infinite"),
        ({"nodes": {"conv1": ["x"]}}, r"nodes.conv1\[0\]: \"x\" is not a cost"),
    ],
)
def test_errors_name_the_file(file: Path, change: dict[str, Any], said: str) -> None:
    file.write_text(json.dumps(INSTANCE | change))
    with pytest.raises(MavcgError, match=f"chain.json: {said}"):
        select(instance=file)


def test_without_a_file_there_is_nothing_to_choose(file: Path) -> None:
    with pytest.raises(MavcgError, match="--instance FILE.json"):
        select()
    with pytest.raises(MavcgError, match="time limit: 0"):
        select(instance=file, time_limit=0)


def test_a_network_is_selected_for_a_board(app: typer.Typer, tmp_path: Path) -> None:
    picture = tmp_path / "bars.svg"
    done = run(app, "alexnet", "--board", "exynos9820", "--json", "--plot", picture)
    answer = json.loads(done.stdout)

    assert done.exit_code == 0
    assert [node["name"] for node in answer["nodes"]] == ["conv1", "conv2", "conv3", "conv4", "conv5"]
    assert answer["core"] == "exynos-m4" and answer["strategy"] == "pbqp"
    assert {node["cost_is"] for node in answer["nodes"]} == {"modelled"}
    assert answer["optimal"] is True and answer["gap"] == 0 and answer["solver_seconds"] >= 0
    paid = [one["cost_ms"] for one in (*answer["nodes"], *answer["conversions"])]
    assert answer["total_ms"] == pytest.approx(sum(paid))
    assert answer["strategies"]["pbqp"] == answer["total_ms"]
    assert {"local", "sum2d", "family:winograd", "family:im2"} <= set(answer["strategies"])
    assert all(ms is None or ms >= answer["total_ms"] * (1 - 1e-12) for ms in answer["strategies"].values())
    assert "family:winograd" in picture.read_text() and "modelled" in picture.read_text()


def test_other_strategies_and_cores_say_how_far_they_are_from_the_optimum(app: typer.Typer) -> None:
    options = ("alexnet", "--board", "exynos9820", "--core", "cortex-a55", "--json")
    best = json.loads(run(app, *options).stdout)
    plain = json.loads(run(app, *options, "--strategy", "sum2d").stdout)

    assert plain["core"] == "cortex-a55" and plain["strategies"] == best["strategies"]
    assert plain["total_ms"] == best["strategies"]["sum2d"] > best["total_ms"]
    assert not plain["optimal"]
    assert plain["gap"] == pytest.approx(1 - best["total_ms"] / plain["total_ms"])
    assert {node["primitive"].partition("_")[0] for node in plain["nodes"]} == {"sum2d"}


@pytest.mark.long
def test_a_limit_of_error_keeps_winograd_out(app: typer.Typer) -> None:
    options = ("vgg16", "--board", "exynos9820", "--json")
    free = json.loads(run(app, *options).stdout)
    exact = json.loads(run(app, *options, "--max-error", "1e-5", "--share-conversions").stdout)

    assert any(node["primitive"].startswith("winograd_2d_f4") for node in free["nodes"])
    assert not any("_f4" in node["primitive"] or "_f6" in node["primitive"] for node in exact["nodes"])
    assert exact["total_ms"] > free["total_ms"]


@pytest.mark.long
def test_measured_costs_go_before_modelled_ones(app: typer.Typer, tmp_path: Path) -> None:
    network = read_network("alexnet", {})
    scenario = network.convolutions[2].scenario
    assert scenario is not None
    chosen = "sum2d_scalar_chw_chw"
    with open_db(tmp_path / "costs.sqlite") as db:
        db.put(Record((scenario, chosen), Cost(1e-6, MEASURED, 1e-7, 5), "exynos-m4", 1, 8, compiler_version()))
    done = run(app, "alexnet", "--board", "exynos9820", "--db", tmp_path / "costs.sqlite", "--json")
    node = json.loads(done.stdout)["nodes"][2]

    assert (node["primitive"], node["cost_is"], node["cost_ms"]) == (chosen, "measured", 1e-6)


def test_people_see_what_was_chosen_and_what_else_it_could_have_been(app: typer.Typer) -> None:
    said = run(app, "alexnet", "--board", "exynos9820").stdout

    assert "costs of nodes: modelled 5" in said and "96,27,27,1,5,256,2,2" in said
    assert "optimal by these costs" in said and "family:winograd" in said and "faster than sum2d" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "alexnet"}, "select alexnet: no board is named; name a --board"),
        ({"model": "alexnet", "board": "exynos9820", "core": "cortex-a57"}, "--core cortex-a57: exynos9820 has no"),
        ({"model": "alexnet", "board": "exynos9820", "strategy": "best"}, "--strategy best: unknown strategy"),
        ({"model": "alexnet", "board": "exynos9820", "max_error": -1.0}, "--max-error -1.0: give 0 or more"),
        ({"model": "alexnet", "board": "exynos9820", "max_error": float("nan")}, "--max-error nan: give 0 or more"),
        ({"model": "alexnet", "board": "exynos9820", "max_error": 1e-9}, "none of [0-9]+ primitives is within the"),
        ({"model": "alexnet", "board": "exynos9820", "db": Path("no.sqlite")}, "--db no.sqlite: does not exist"),
        ({"model": "alexnet", "board": "exynos9820", "plot": Path("a.gif")}, "--plot a.gif: pictures are .svg or .png"),
        ({"model": "lenet", "board": "exynos9820"}, "lenet: is neither a file nor a built-in network"),
        ({"model": "alexnet", "board": "exynos9820", "shape": ["x=1x2"]}, "--shape: alexnet is a built-in network"),
        ({"model": "alexnet", "instance": Path("a.json")}, "MODEL: has no effect with --instance"),
    ],
)
def test_what_cannot_be_asked_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(MavcgError, match=said):
        select(**options)


def test_importing_the_verb_imports_nothing_heavy() -> None:
    seen = subprocess.run(
        [sys.executable, "-c", "import sys, mavcg.cli.select; print('numpy' in sys.modules, 'ortools' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.split() == ["False", "False"]
