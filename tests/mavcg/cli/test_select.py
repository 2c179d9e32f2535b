"""`mavcg select --instance`, run as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from mavcg.cli.app import make_app
from mavcg.cli.select import select
from mavcg.errors import MavcgError

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
        ({"nodes": {"conv1": ["x"]}}, r"nodes.conv1\[0\]: \"x\" is no cost"),
    ],
)
def test_errors_name_the_file(file: Path, change: dict[str, Any], said: str) -> None:
    file.write_text(json.dumps(INSTANCE | change))
    with pytest.raises(MavcgError, match=f"chain.json: {said}"):
        select(file)


def test_without_a_file_there_is_nothing_to_choose(file: Path) -> None:
    with pytest.raises(MavcgError, match="--instance FILE.json"):
        select()
    with pytest.raises(MavcgError, match="time limit: 0"):
        select(file, time_limit=0)


def test_importing_the_verb_imports_nothing_heavy() -> None:
    seen = subprocess.run(
        [sys.executable, "-c", "import sys, mavcg.cli.select; print('numpy' in sys.modules, 'ortools' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert seen.stdout.split() == ["False", "False"]
