"""Networks of a library as periodic jobs on this machine: preempted ones keep their bits; who cannot hold is named."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.apps.service.measured import MeasuredTimes, measured_tasks, own_times_ns, served_json, served_schedule
from mavcg.apps.service.periodic_keys import Periodic
from mavcg.errors import MavcgError
from mavcg.runtime.application import load_application
from mavcg.runtime.service import PeriodicNetwork, ServedJob
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig
from tests.mavcg.apps.small_networks import NETWORKS, image, write_application

Mavcg = Callable[..., Any]
MS = 1_000_000
PERIODS = {
    "detector": "period_ms = 400",
    "recogniser": "period_ms = 300\npreemptible = false",
    "tracker": "period_ms = 200\ndeadline_ms = 150",
}


def build(folder: Path, mavcg: Mavcg, **keys: str) -> Path:
    pytest.importorskip("onnx")
    library = folder / "libapp.so"
    ended = mavcg("app", "build", write_application(folder, **keys), "-o", library, "--board", "host")
    assert ended.status == 0, ended.stderr
    return library


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
def test_preempted_jobs_have_the_bits_of_runs(tmp_path: Path, mavcg: Mavcg, threads: int) -> None:
    """A job of each of two networks, between whose steps jobs of the third run, until both were preempted."""
    with load_application(
        build(tmp_path, mavcg, **PERIODS | {"recogniser": "period_ms = 300"}), threads
    ) as application:
        expected = {name: application[name].run(image(name))[0] for name in NETWORKS}
        made = {name: np.zeros_like(expected[name]) for name in NETWORKS}
        preempted = dict.fromkeys(NETWORKS, 0)
        for turn in range(200):
            served = application.serve(
                [
                    PeriodicNetwork(
                        "detector", 9000 * MS, 9000 * MS, 1 + turn % 2, True, [image("detector")], [made["detector"]]
                    ),
                    PeriodicNetwork(
                        "recogniser",
                        9000 * MS,
                        9000 * MS,
                        2 - turn % 2,
                        True,
                        [image("recogniser")],
                        [made["recogniser"]],
                    ),
                    PeriodicNetwork("tracker", 60_000, 9000 * MS, 3, True, [image("tracker")], [made["tracker"]]),
                ],
                0.001,
            )
            assert len(served) == 1 + 1 + 17 and not any(job.skipped for job in served)
            for job in served:
                preempted[job.network] += job.preemptions
                assert job.release_ns <= job.begin_ns < job.end_ns
            for name in NETWORKS:
                assert np.array_equal(made[name].view(np.uint32), expected[name].view(np.uint32))
                made[name][:] = 0
            if preempted["detector"] and preempted["recogniser"]:
                break
        assert preempted["detector"] and preempted["recogniser"] and not preempted["tracker"]


@pytest.mark.long
def test_a_service_is_admitted_and_run(tmp_path: Path, mavcg: Mavcg) -> None:
    """Long periods hold even on a machine with other work; the counts, the note and the picture agree."""
    library = build(tmp_path, mavcg, **PERIODS)
    described = json.loads(mavcg("inspect", library, "--json").stdout)
    assert described["networks"][1]["periodic"] == {
        "period_ms": 300.0,
        "deadline_ms": 300.0,
        "priority": 2,
        "preemptible": False,
    }
    words = ("app", "serve", library, "--seconds", "1", "--measure-seconds", "0.2")
    ended = mavcg(*words, "--force", "--plot", tmp_path / "run.svg", "--json")
    assert ended.status == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert document["deadlines"] == sum(row["jobs"] for row in document["served"]) == 3 + 4 + 5
    for row in document["served"]:
        assert row["jobs"] == row["kept"] + row["late"] + row["skipped"] and row["measured"]["runs"] >= 1
    assert document["service"]["times"] == "measured" and (tmp_path / "run.svg").stat().st_size > 1000
    ended = mavcg(*words, "--margin", "1000", "--threads", "0")
    assert ended.status in (0, 2)  # other work decides


@pytest.mark.long
def test_who_cannot_hold_is_named_before_anything_runs(tmp_path: Path, mavcg: Mavcg) -> None:
    library = build(tmp_path, mavcg, **PERIODS | {"tracker": "period_ms = 200\ndeadline_ms = 0.001"})
    ended = mavcg("app", "serve", library, "--measure-seconds", "0.2")
    assert ended.status == 2 and "tracker may miss deadlines by the measured times" in " ".join(ended.stderr.split())

    without = build(tmp_path, mavcg)
    ended = mavcg("app", "serve", without)
    assert ended.status == 2 and "has no networks with periods; give each [[network]]" in ended.stderr
    with load_application(without) as application:
        rows = [
            PeriodicNetwork(name, MS, MS, number, True, [image(name)])
            for number, name in enumerate(("detector", "tracker"))
        ]
        with pytest.raises(MavcgError, match="must not share its memory; build the library with these periods"):
            application.serve(rows, 0.01)
        with pytest.raises(MavcgError, match="has no network 'other'"):
            application.serve([PeriodicNetwork("other", MS, MS, 1, True, [])], 0.01)


@pytest.mark.long
def test_a_program_in_c(tmp_path: Path, mavcg: Mavcg) -> None:
    library = build(tmp_path, mavcg, **PERIODS)
    program = tmp_path / "use_service"
    flags = ["-target", host_target().zig_name, "-O2", *PLAIN_CODE_FLAGS, "-Wall", "-Wextra", "-Werror", "-pthread"]
    source = Path(__file__).parent / "use_service.c"
    run_zig("cc", [*flags, f"-I{tmp_path}", str(source), f"-L{tmp_path}", "-lapp", "-o", str(program)], "compiling")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.long
def test_a_plan_measures_the_times_of_its_service(tmp_path: Path, mavcg: Mavcg) -> None:
    pytest.importorskip("onnx")
    file = write_application(tmp_path, **PERIODS)
    ended = mavcg("app", "plan", file, "--board", "host", "--generations", "0", "--measure", "--json")
    assert ended.status == 0, ended.stderr
    service = json.loads(ended.stdout)["service"]
    assert service["times"] == "measured" and set(service["utilisation"]) == {"cpu"}
    assert all(row["longest_section_ms"] <= row["worst_ms"] for row in service["networks"])

    ended = mavcg("app", "simulate", file, "--board", "host", "--measure", "--seconds", "2", "--json")
    assert ended.status == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert document["service"]["times"] == "measured"
    assert [row["jobs"] for row in document["simulated"]] == [5, 7, 10]
    ended = mavcg("app", "simulate", file, "--board", "exynos9820", "--measure")
    assert ended.status == 2 and "--measure: runs on this machine, not on exynos9820" in ended.stderr


def test_times_become_sections_and_a_notice() -> None:
    """A run is cut into its longest sections; margins are added to all."""
    times = {"a": MeasuredTimes(9, 1000, 300, 50)}
    (task,) = measured_tasks({"a": Periodic(9999, 9999, 1, True)}, times, 0.1)
    assert task.stages[0].sections == (330, 330, 330, 110) and task.jitter_ns == 55
    (whole,) = measured_tasks({"a": Periodic(9999, 9999, 1, False)}, times, 0.0)
    assert whole.stages[0].sections == (1000,)


def test_a_run_is_drawn_from_its_jobs() -> None:
    """Job b preempts a twice."""
    periods = {"a": Periodic(100, 100, 1, True), "b": Periodic(20, 3, 2, True)}

    def job(name: str, number: int, release: int, begin: int, end: int) -> ServedJob:
        return ServedJob(name, number, begin == end, release, begin, end, 5, 0)

    jobs = [job("b", 0, 10, 11, 15), job("b", 1, 30, 30, 32), job("b", 2, 50, 0, 0), job("a", 0, 0, 0, 40)]
    schedule = served_schedule(periods, jobs)
    assert [(each.task, each.begin_ns, each.end_ns) for each in schedule.slices] == [
        ("a", 0, 11),
        ("b", 11, 15),
        ("a", 15, 30),
        ("b", 30, 32),
        ("a", 32, 40),
    ]
    assert [each.kept for each in schedule.jobs] == [True, False, True, False]
    assert own_times_ns(jobs) == {("a", 0): 34, ("b", 0): 4, ("b", 1): 2}
    times = {name: MeasuredTimes(9, 3, 2, 1) for name in periods}
    rows = served_json(measured_tasks(periods, times, 0.0), jobs, times)
    assert [(row["kept"], row["late"], row["skipped"], row["beyond_times"]) for row in rows] == [
        (1, 0, 0, 1),
        (1, 1, 1, 1),
    ]
