"""The measured front: variants of networks by the points' schedules, and `mavcg app plan --measure`, run by a user."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mavcg.apps.application import Application, Cnn, DataEdge, Layer, RowWindow, sequential
from mavcg.apps.application_file import read_application_file
from mavcg.apps.measured_front import front_variants
from mavcg.apps.plan import plan_application
from mavcg.apps.search import Constraints, GeneticLimits
from mavcg.apps.throughput import LayerTime
from tests.mavcg.apps.small_networks import NETWORKS, write_application

Mavcg = Callable[..., Any]


def chain(name: str) -> Cnn:
    """Three convolutions of 16 rows."""
    layers = tuple(Layer(f"l{i}", "conv", 16, RowWindow(3, 1, 1)) for i in range(3))
    edges = (DataEdge("l0", "l1", 160, 16), DataEdge("l1", "l2", 160, 16))
    return Cnn(name, layers, edges)


def test_points_share_the_variants_that_they_have_in_common(tmp_path: Path) -> None:
    """A network layer by layer is the one of app.toml; another has a schedule; no two variants are alike."""
    pytest.importorskip("onnx")
    file = read_application_file(write_application(tmp_path))
    cnns = tuple(chain(entry.name) for entry in file.networks)
    times = {(cnn.name, layer.name): LayerTime((1.0,), 1, (0.1,)) for cnn in cnns for layer in cnn.layers}
    app = Application(cnns, tuple(map(sequential, cnns)))
    planned = plan_application(app, times, Constraints(None, {}), GeneticLimits(8, 2))
    variants, points = front_variants(file, planned)

    assert len(points) == len(planned.front) > 1
    for own, entry in zip(variants, file.networks, strict=True):
        assert [each.name for each in own] == [f"{entry.name}_{number}" for number in range(len(own))]
        assert len({str(each.schedules) for each in own}) == len(own)
    for numbers, point in zip(points, planned.front, strict=True):
        for own, number, cnn in zip(variants, numbers, cnns, strict=True):
            by_parts = any(point.phases[(cnn.name, layer.name)] > 1 for layer in cnn.layers)
            assert bool(own[number].schedules) == by_parts


def test_what_cannot_be_measured_is_refused(tmp_path: Path, mavcg: Mavcg) -> None:
    pytest.importorskip("onnx")
    file = write_application(tmp_path, tracker='partitions = ["c"]')
    ended = mavcg("app", "plan", file, "--board", "exynos9820", "--measure")
    assert ended.status == 2 and "--measure: runs on this machine, not on exynos9820; give --board host" in ended.stderr
    ended = mavcg("app", "plan", file, "--board", "host", "--plot-front", tmp_path / "front.gif")
    assert ended.status == 2 and "--plot-front" in ended.stderr and ".svg or .png" in ended.stderr
    ended = mavcg("app", "plan", file, "--board", "host", "--measure")
    assert ended.status == 2 and "network 'tracker': --measure runs schedules, and a pipeline has none" in ended.stderr


@pytest.mark.long
def test_every_point_is_built_and_run(tmp_path: Path, mavcg: Mavcg) -> None:
    pytest.importorskip("onnx")
    file = write_application(tmp_path)
    options = ("--board", "host", "--generations", "2")
    ended = mavcg("app", "plan", file, *options, "--measure", "--plot-front", tmp_path / "front.svg", "--json")
    assert ended.status == 0, ended.stderr
    plan = json.loads(ended.stdout)
    assert len(plan["front"]) > 1 and f"round 9 of 9: {len(NETWORKS)}" not in ended.stderr
    for point in plan["front"]:
        measured = point["measured"]
        assert [network["name"] for network in measured["networks"]] == list(point["throughput"]) == list(NETWORKS)
        assert all(network["runs"] >= 9 and network["median_ms"] > 0 for network in measured["networks"])
        assert measured["arena_bytes"] < 2 * point["bytes"]
    first, last = plan["front"][0], plan["front"][-1]
    assert first["measured"]["arena_bytes"] < last["measured"]["arena_bytes"] == plan["peak_bytes"]
    assert (tmp_path / "front.svg").read_text().startswith("<?xml")

    # What a point's schedules promise, a library with them has.
    keys = {name: f"schedule = {json.dumps(first['schedules'][name])}" for name in NETWORKS}
    write_application(tmp_path, **keys)
    ended = mavcg("app", "build", file, "-o", tmp_path / "libapp.so", "--board", "host", "--json")
    assert ended.status == 0, ended.stderr
    assert json.loads(ended.stdout)["memory"]["peak_bytes"] == first["measured"]["arena_bytes"]
