"""`mavcg select` for several threads, within a limit of memory, and for every cluster of a board."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from mavcg.choose.algorithms.costs.database import Record
from mavcg.choose.algorithms.costs.database_file import open_db
from mavcg.choose.algorithms.costs.provider import MEASURED, Cost
from mavcg.cli.select import select
from mavcg.errors import MavcgError
from mavcg.model.reading import read_network

NETWORK = ("alexnet", "--board", "exynos9820")


@pytest.fixture(scope="module")
def app() -> typer.Typer:
    made = typer.Typer()
    made.command()(select)
    return made


def run(app: typer.Typer, *options: object) -> str:
    done = CliRunner().invoke(app, [str(option) for option in options], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def answer(app: typer.Typer, *options: object) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run(app, *NETWORK, *options, "--json"))
    return document


def test_the_interface_has_what_scripts_rely_on(app: typer.Typer) -> None:
    answered = answer(app, "--strategy", "pbqp")

    assert {"nodes", "conversions", "total_ms", "optimal", "gap", "solver_seconds"} <= set(answered)
    for node in answered["nodes"]:
        assert {"name", "primitive", "layout_in", "layout_out", "cost_ms", "cost_is"} <= set(node)
        families = node["families"]
        assert families[node["primitive"].split("_")[0]] if node["primitive"].startswith("fft") else families["im2"]
        assert min(one["cost_ms"] for one in families.values()) == node["fastest"]["cost_ms"] <= node["cost_ms"]
    assert [row["row"] for row in answered["tables"]] == ["S"]
    assert answered["tables"][0]["faster_than_sum2d"]["sum2d"] == 1
    assert answered["arena"]["bytes"] > 0 and answered["notes"] == []


@pytest.mark.long
def test_several_threads_beside_one(app: typer.Typer) -> None:
    one, two = answer(app), answer(app, "--threads", 2)

    assert (two["threads"], two["core"]) == (2, "exynos-m4")
    assert one["total_ms"] / 2 <= two["total_ms"] < one["total_ms"]
    single, several = two["tables"]
    assert (single["row"], single["threads"], several["row"], several["threads"]) == ("S", 1, "M", 2)
    assert single["ms"] == one["strategies"] and several["ms"] == two["strategies"]
    assert several["faster_than_sum2d"]["pbqp"] == pytest.approx(one["strategies"]["sum2d"] / two["total_ms"])
    said = run(app, *NETWORK, "--threads", 2)
    assert "threads 2" in said and "(S) 1 thread" in said and "compared with sum2d on one thread" in said


@pytest.mark.long
def test_a_limit_of_memory_changes_what_is_chosen(app: typer.Typer) -> None:
    free = answer(app)
    limit = free["arena"]["bytes"] - 1
    kept = answer(app, "--max-arena", limit)

    assert kept["arena"]["bytes"] <= limit
    assert kept["optimal"] is True and kept["total_ms"] > free["total_ms"]
    for options, words in (
        ({"max_arena": 1000}, "needs at least .* bytes together with the images live beside it, and the limit is 1000"),
        ({"max_arena": limit, "share_conversions": True}, "leave out --share-conversions"),
    ):
        with pytest.raises(MavcgError, match=words):
            select("alexnet", board="exynos9820", **options)


def test_every_cluster_beside_the_board(app: typer.Typer) -> None:
    answered = answer(app, "--per-cluster")
    clusters = {each["core"]: each for each in answered["clusters"]}

    assert list(clusters) == ["exynos-m4", "cortex-a75", "cortex-a55"] and answered["optimal"] is True
    for core, each in clusters.items():
        own = answer(app, "--core", core)
        assert each["own_ms"] == pytest.approx(own["total_ms"]) and each["own"]["nodes"] == own["nodes"]
        assert each["joint_ms"] >= each["own_ms"] * (1 - 1e-12)
        assert each["loss"] == pytest.approx(each["joint_ms"] / each["own_ms"] - 1, abs=1e-12)
    # No cluster's own choice for all is better in the mean than the board's.
    mean = sum(each["joint_ms"] / each["own_ms"] for each in clusters.values()) / 3
    assert 1 <= mean <= 1 + max(each["loss"] for each in clusters.values())
    for node in answered["nodes"]:
        assert [one["core"] for one in node["clusters"]] == list(clusters)
        assert set(node["suits"]) <= set(clusters)


@pytest.mark.long
def test_a_board_for_the_cores_that_are_asked_for(app: typer.Typer) -> None:
    for options, core in ((("--core", "cortex-a55"), "cortex-a55"), (("--threads", 2), "exynos-m4")):
        answered = answer(app, "--per-cluster", *options)
        own = next(each for each in answered["clusters"] if each["core"] == core)
        assert own["loss"] == pytest.approx(0, abs=1e-12) and answered["asked"].startswith(core)
        assert [node["primitive"] for node in answered["nodes"]] == [node["primitive"] for node in own["own"]["nodes"]]
    said = run(app, *NETWORK, "--per-cluster", "--threads", 2)
    assert "cortex-a55 x2 alone" in said and "best for exynos-m4, 2 threads" in said


@pytest.mark.long
def test_what_suits_one_cluster_alone_is_named(app: typer.Typer, tmp_path: Path) -> None:
    scenario = read_network("alexnet", {}).convolutions[2].scenario
    assert scenario is not None
    with open_db(tmp_path / "costs.sqlite") as db:  # far better than anything, on the big cores alone
        db.put(Record((scenario, "kn2row_acc_chw_chw"), Cost(1e-6, MEASURED), "exynos-m4", 1, 8))
    answered = answer(app, "--per-cluster", "--core", "exynos-m4", "--db", tmp_path / "costs.sqlite")
    node = answered["nodes"][2]

    assert node["primitive"] == "kn2row_acc_chw_chw" and node["suits"] == ["exynos-m4"]
    assert answered["clusters"][2]["loss"] > 0.05


@pytest.mark.long
def test_costs_of_other_kernels_are_named_and_not_used(app: typer.Typer, tmp_path: Path) -> None:
    scenario = read_network("alexnet", {}).convolutions[2].scenario
    assert scenario is not None
    with open_db(tmp_path / "costs.sqlite") as db:
        record = Record((scenario, "sum2d_scalar_chw_chw"), Cost(1e-6, MEASURED), "exynos-m4", 1, 8, kernels="0" * 12)
        db.put(record)
    answered = answer(app, "--db", tmp_path / "costs.sqlite")

    assert "1 measured or simulated costs belong to other kernels" in answered["notes"][0]
    assert {node["cost_is"] for node in answered["nodes"]} == {"modelled"}


@pytest.mark.long
def test_what_is_known_of_one_thread_helps_with_several(app: typer.Typer, tmp_path: Path) -> None:
    scenario = read_network("alexnet", {}).convolutions[2].scenario
    assert scenario is not None
    with open_db(tmp_path / "costs.sqlite") as db:
        db.put(Record((scenario, "sum2d_columns_chw_chw"), Cost(1e-3, MEASURED), "exynos-m4", 1, 8))
    one = answer(app, "--strategy", "sum2d", "--db", tmp_path / "costs.sqlite")["nodes"][2]
    two = answer(app, "--strategy", "sum2d", "--threads", 2, "--db", tmp_path / "costs.sqlite")["nodes"][2]

    assert (one["primitive"], one["cost_ms"], one["cost_is"]) == (two["primitive"], 1e-3, "measured")
    assert two["cost_is"] == "modelled" and 4e-4 < two["cost_ms"] < 6e-4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threads": 9}, "--threads 9: there are only 8 cores on exynos9820"),
        ({"threads": 0}, "--threads 0: give 1 or more"),
        ({"core": "cortex-a55,cortex-a9"}, "--core cortex-a9: exynos9820 has no such core"),
        ({"per_cluster": True, "plot": Path("x.svg")}, "leave one of them out"),
    ],
)
def test_what_cannot_be_is_one_error(options: dict[str, Any], words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        select("alexnet", board="exynos9820", **options)


@pytest.mark.parametrize("option", ["threads", "per_cluster", "max_arena"])
def test_an_instance_has_no_cores(option: str, tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="has no effect with --instance"):
        select(instance=tmp_path / "x.json", **{option: 2})
