"""`mavcg app simulate`, and the bounds of `mavcg app plan`, run as a user runs them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mavcg.apps.small_networks import NETWORKS, write_application

Mavcg = Callable[..., Any]
PERIODS = {
    "detector": "period_ms = 2\ndeadline_ms = 1.5",
    "recogniser": "period_ms = 5",
    "tracker": "period_ms = 1\npreemptible = false",
}


@pytest.mark.long
def test_a_simulation_keeps_the_bounds_of_the_plan(tmp_path: Path, mavcg: Mavcg) -> None:
    """In the worst case and at random; the plan has the same bounds, and the networks' memory apart."""
    pytest.importorskip("onnx")
    file = write_application(tmp_path, **PERIODS)
    words = ("app", "simulate", file, "--board", "exynos9820", "--seconds", "0.05", "--json")
    picture = tmp_path / "schedule.svg"
    for more in ((), ("--seed", "3", "--plot", picture)):
        ended = mavcg(*words, *more)
        assert ended.status == 0, ended.stderr
        document = json.loads(ended.stdout)
        bounds = {row["name"]: row["bound_ms"] for row in document["service"]["networks"]}
        for row in document["simulated"]:
            assert row["kept"] == row["jobs"] > 9 and row["late"] == row["skipped"] == 0
            assert 0 < row["worst_response_ms"] <= bounds[row["name"]]
    text = picture.read_text()
    assert all(f"{name} (" in text for name in NETWORKS) and "cluster 0" in text

    ended = mavcg("app", "plan", file, "--board", "exynos9820", "--generations", "0", "--json")
    plan = json.loads(ended.stdout)
    assert plan["service"] == document["service"] and plan["service"]["holds"] and plan["meets_constraints"]
    arenas = {network["name"]: network["arena_bytes"] for network in plan["networks"]}
    # The tracker is the most urgent, so that its own key changes nothing: all three may be live together.
    assert plan["arena_bytes"] >= sum(arenas.values())


@pytest.mark.long
def test_who_cannot_hold_is_named(tmp_path: Path, mavcg: Mavcg) -> None:
    pytest.importorskip("onnx")
    file = write_application(tmp_path, **PERIODS | {"detector": "period_ms = 2\ndeadline_ms = 0.05"})
    ended = mavcg("app", "plan", file, "--board", "exynos9820", "--generations", "0")
    assert ended.status == 0, ended.stderr
    assert "may miss their deadlines: detector; no order of priorities keeps them all" in " ".join(ended.stdout.split())


def test_what_cannot_be_simulated_is_refused(tmp_path: Path, mavcg: Mavcg) -> None:
    pytest.importorskip("onnx")
    file = write_application(tmp_path)
    words = ("app", "simulate", file, "--board", "exynos9820")
    ended = mavcg(*words)
    assert ended.status == 2 and "no network has a period; give each [[network]] period_ms" in ended.stderr
    write_application(tmp_path, **PERIODS)
    for option, value, message in (
        ("--seconds", "0", "give a time from above 0"),
        ("--seconds", "nan", "give a time from above 0"),
        ("--seconds", "1e9", "at most 1000000 are"),
        ("--margin", "-1", "is not a percentage from 0 to 1000"),
        ("--plot", str(tmp_path / "x.gif"), "pictures are .svg or .png"),
    ):
        ended = mavcg(*words, option, value)
        assert ended.status == 2 and message in " ".join(ended.stderr.split()), ended.stderr


@pytest.mark.long
def test_a_pipeline_over_a_cluster_and_an_accelerator(tmp_path: Path, mavcg: Mavcg) -> None:
    """The accelerator is shared by two networks; a library has no such stage, and the plan says so."""
    pytest.importorskip("onnx")
    stages = '["cluster {}", { accelerator = "npu", ms = 0.5 }]'
    keys = {
        name: f'period_ms = 2\npartitions = ["c:conv2d"]\nstages = {stages.replace("{}", str(number))}'
        for number, name in enumerate(("detector", "tracker"))
    }
    file = write_application(tmp_path, **keys | {"recogniser": "period_ms = 5"})
    words = ("--board", "exynos9820", "--json")
    ended = mavcg("app", "simulate", file, "--seconds", "0.1", "--plot", tmp_path / "schedule.svg", *words)
    assert ended.status == 0, ended.stderr
    document = json.loads(ended.stdout)
    rows = {row["name"]: row for row in document["service"]["networks"]}
    assert [rows[name]["processors"] for name in NETWORKS] == [
        ["cluster 0", "npu"],
        ["cluster 0"],
        ["cluster 1", "npu"],
    ]
    assert set(document["service"]["utilisation"]) == {"cluster 0", "cluster 1", "npu"}
    assert document["service"]["utilisation"]["npu"] == 0.5 and rows["detector"]["blocking_ms"] >= 0.5
    assert all(row["kept"] == row["jobs"] for row in document["simulated"])
    assert all(row["worst_response_ms"] <= rows[row["name"]]["bound_ms"] for row in document["simulated"])
    assert "npu" in (tmp_path / "schedule.svg").read_text()
    plan = json.loads(mavcg("app", "plan", file, "--generations", "0", *words).stdout)
    assert "network 'detector': stages: a library computes on CPUs alone" in plan["not_buildable"]
    assert plan["service"] == document["service"]

    write_application(
        tmp_path, **keys | {"recogniser": "period_ms = 5", "tracker": keys["tracker"].replace("1", "9", 1)}
    )
    ended = mavcg("app", "simulate", file, *words)
    assert ended.status == 2 and "network 'tracker': stages: the board has no cluster 9" in ended.stderr
    write_application(
        tmp_path,
        **keys | {"recogniser": "period_ms = 5", "tracker": keys["tracker"].replace('["c:conv2d"]', '"auto:3"')},
    )
    ended = mavcg("app", "simulate", file, *words)
    assert ended.status == 2 and "network 'tracker': stages: 2 of 3 partitions" in ended.stderr
