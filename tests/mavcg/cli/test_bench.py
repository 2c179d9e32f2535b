"""`mavcg bench`: the document that scripts rely on, the table, wrong thread counts."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mavcg.cli.bench import _layers
from mavcg.runtime.application import open_network
from mavcg.runtime.random_inputs import random_inputs
from mavcg.runtime.timed_runs import parse_threads, time_runs


def test_json_is_the_interface_that_scripts_rely_on(mavcg: Any, tiny_library: Path) -> None:
    ended = mavcg("bench", tiny_library, "--threads", "1,2", "--seconds", "0", "--runs", "8", "--json")

    document = json.loads(ended.stdout)
    assert ended.status == 0 and ended.stderr == ""
    assert [row["threads"] for row in document["measured"]] == [1, 2]
    for row in document["measured"]:
        assert row["runs"] == 8
        assert 0 < row["min_ms"] <= row["median_ms"] <= row["max_ms"] and row["spread_ms"] >= 0


def test_times_of_steps_on_request(mavcg: Any, tiny_library: Path) -> None:
    options = ("--seconds", "0", "--per-layer")
    document = json.loads(mavcg("bench", tiny_library, *options, "--json").stdout)

    layers = document["measured"][0]["layers"]
    assert all(layer["ms"] >= 0 for layer in layers)
    assert "first" in {layer["name"] for layer in layers} and "conv2d" in {layer["op"] for layer in layers}
    shown = mavcg("bench", tiny_library, *options).stdout
    assert "median ms" in shown and "first" in shown and "share" in shown


def test_each_profile_follows_a_run_whose_threads_are_still_awake(tiny_library: Path) -> None:
    calls: list[str] = []
    with open_network(tiny_library, None, 1) as model:
        arrays = random_inputs(model, 0)

        class Recorded:
            states = dimensions = ()  # of the model

            def run(self, *given: Any) -> Any:
                calls.append("run")
                return model.run(*given)

            def profile(self, *given: Any) -> Any:
                calls.append("profile")
                return model.profile(*given)

        layers = _layers(tiny_library, None, Recorded(), arrays, 3)

    assert calls == ["run", "profile"] * 3
    assert [layer["op"] for layer in layers].count("conv2d") >= 1


def test_the_library_chooses(mavcg: Any, tiny_library: Path) -> None:
    """Without predictions: a thread for each CPU, but no more than ever find work."""
    options = ("--threads", "1,auto", "--seconds", "0", "--runs", "2")
    one, auto = json.loads(mavcg("bench", tiny_library, *options, "--json").stdout)["measured"]

    assert one["threads"] == 1 and "auto" not in one
    assert auto["auto"] is True and 1 <= auto["threads"] <= len(os.sched_getaffinity(0))
    assert f"{auto['threads']} (auto)" in mavcg("bench", tiny_library, *options).stdout


@pytest.mark.parametrize("threads", ["", "one", "1,,2", "1,autos", "-1", "1;2", "9999"])
def test_wrong_thread_counts(mavcg: Any, tiny_library: Path, threads: str) -> None:
    ended = mavcg("bench", tiny_library, f"--threads={threads}", "--seconds", "0")

    assert ended.status == 2 and ended.stdout == "" and len(ended.stderr.splitlines()) == 1
    assert "threads" in ended.stderr


def test_lists_of_thread_counts() -> None:
    assert parse_threads("1") == (1,)
    assert parse_threads("4,1,0") == (4, 1, 0)
    with pytest.raises(ValueError):
        parse_threads("-1")


def test_warm_runs_are_not_counted() -> None:
    calls: list[int] = []
    times = time_runs(lambda: calls.append(1), 5, 7, 0.0)

    assert (len(calls), len(times.ms)) == (12, 7)
    assert min(times.ms) <= times.median <= max(times.ms) and times.spread >= 0


def test_limits_of_layers_on_request(mavcg: Any, tiny_library: Path) -> None:
    """A convolution of 36 pixels, 5 channels, 9 taps and 4 inputs; --limit implies --per-layer."""
    options = ("--seconds", "0", "--limit")
    row = json.loads(mavcg("bench", tiny_library, *options, "--threads", "2", "--json").stdout)["measured"][0]
    limits = row["limits"]
    layers = {(layer["name"], layer["op"]): layer for layer in limits["layers"]}

    assert len(row["layers"]) >= len(layers) and limits["machine"]["threads"] == 2
    assert limits["machine"]["products_per_s"]["f32"] > 0 and limits["machine"]["memories"]
    first = layers["first", "conv2d"]
    assert first["multiply_adds"] == 36 * 5 * 9 * 4 and first["bytes"] > 4 * (36 * 4 + 36 * 5 + 5 * 9 * 4)
    for layer in limits["layers"]:
        assert layer["bound_by"] in ("arithmetic", "memory") and layer["limit_ms"] > 0
        assert layer["over"] == pytest.approx(layer["ms"] / layer["limit_ms"], rel=0.01)
    total = limits["total"]
    assert total["limit_ms"] == pytest.approx(sum(layer["limit_ms"] for layer in limits["layers"]), abs=1e-5)

    shown = mavcg("bench", tiny_library, *options).stdout
    assert "limit ms" in shown and "bound by" in shown and "GOP/s in f32" in shown and "GB/s from" in shown
    assert "layers are above 1.15 of their limits" in " ".join(shown.split())


def test_a_library_without_the_work_of_its_steps(
    mavcg: Any, tiny_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mavcg.objects import inspection

    note = inspection.network_of_library(tiny_library, None)
    assert note is not None
    old = note | {"steps": [{k: v for k, v in step.items() if k != "limit"} for step in note["steps"]]}
    monkeypatch.setattr(inspection, "network_of_library", lambda path, network: old)
    ended = mavcg("bench", tiny_library, "--limit", "--seconds", "0")

    assert ended.status == 2 and ended.stdout == "" and ended.stderr.strip().endswith("build it again")
