"""A pipelined network as its user has it: partitions in app.toml, frames pushed and popped in Python and in C."""

import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg
from mavcg.errors import MavcgError
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig
from tests.mavcg.apps.small_networks import write_network
from tests.mavcg.apps.test_library import QUICK

HERE = Path(__file__).parent
Mavcg = Callable[..., Any]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libapp.so of a pipeline of three stages, and the same network by rows in its memory."""
    from mavcg.cli.app import run

    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("pipeline")
    write_network(folder / "net.onnx", 8, 24, 0)
    (folder / "app.toml").write_text(
        '[[network]]\nname = "backbone"\nfile = "net.onnx"\npartitions = ["a", "c"]\n'
        '[[network]]\nname = "other"\nfile = "net.onnx"\n'
        'schedule = "transpose:transpose, [a:conv2d, a:conv2d, c:conv2d] x 12, y, y:reshape"\n'
    )
    assert run(["app", "build", str(folder / "app.toml"), "-o", str(folder / "libapp.so"), *QUICK]) == 0
    return folder


def frames(count: int) -> list[Any]:
    return [np.random.default_rng(seed).standard_normal((1, 3, 24, 24)).astype(np.float32) for seed in range(count)]


@pytest.mark.parametrize("cpus", [None, [{0}, {0, 1}, {1}], [{0, 1}] * 3])
def test_frames_have_the_bits_of_a_run(built: Path, cpus: Any) -> None:
    """Every frame, in order, with any CPUs and threads; the network by rows of its schedule computes the same."""
    given = None if cpus is None else {"backbone": cpus}
    with mavcg.load_application(built / "libapp.so", threads=2, stages=given) as app:
        pipeline = app.pipeline("backbone")
        images = frames(40)
        right = [app["other"].run(x)[0].tobytes() for x in images]
        assert [app["backbone"].run(x)[0].tobytes() for x in images[:3]] == right[:3]
        assert [y.tobytes() for (y,) in pipeline.map(images)] == right
        assert [y.tobytes() for (y,) in pipeline.map([x] for x in images)] == right
        assert pipeline.stages == 3
        assert cpus is None or pipeline.threads[1] == len(cpus[1])


def test_pushed_by_one_thread_and_popped_by_another(built: Path) -> None:
    images, popped = frames(60), list[bytes]()
    with mavcg.load_application(built / "libapp.so") as app:
        right = [app["other"].run(x)[0].tobytes() for x in images]
        pipeline = app.pipeline("backbone")

        def pop_all() -> None:
            for _ in images:
                outputs = pipeline.pop()
                assert outputs is not None
                popped.append(outputs[0].tobytes())

        consumer = threading.Thread(target=pop_all)
        consumer.start()
        for x in images:
            assert pipeline.push(x)
        consumer.join()
    assert popped == right


def test_a_full_pipeline_waits_and_says_so(built: Path) -> None:
    (x,) = frames(1)
    with mavcg.load_application(built / "libapp.so") as app:
        pipeline = app.pipeline("backbone")
        assert pipeline.pop(timeout=0) is None and pipeline.pop(timeout=0.01) is None
        assert [pipeline.push(x, timeout=0) for _ in range(7)] == [True] * 6 + [False]
        assert not pipeline.push(x, timeout=0.01)
        outputs = [pipeline.pop()]
        assert pipeline.push(x, timeout=0)
        outputs += [pipeline.pop() for _ in range(6)]
        assert len({None if out is None else out[0].tobytes() for out in outputs}) == 1 and outputs[0] is not None
        assert pipeline.pop(timeout=0) is None


def test_turns_cancel_and_errors(built: Path) -> None:
    """Other networks run when all frames are complete, popped or not; frames that are cancelled say so."""
    (x,) = frames(1)
    with mavcg.load_application(built / "libapp.so") as app:
        pipeline = app.pipeline("backbone")
        for _ in range(3):
            pipeline.push(x)
        outputs = [pipeline.pop() for _ in range(2)]
        while True:  # the third is on its way: the memory is taken until it is complete
            try:
                (right,) = app["other"].run(x)
                break
            except MavcgError as error:
                assert "in the same memory" in str(error)
        outputs.append(pipeline.pop())
        assert all(out is not None and np.array_equal(out[0], right) for out in outputs)

        for _ in range(6):
            pipeline.push(x)
        pipeline.cancel()
        assert pipeline.pop(timeout=0) is None
        assert [np.array_equal(y, right) for (y,) in pipeline.map([x] * 3)] == [True] * 3
        with pytest.raises(MavcgError, match=r"shape \[2\], the model takes"):
            pipeline.push(np.zeros(2, np.float32))
        next(pipeline.map([x] * 5))  # what is not taken is cancelled
        with pytest.raises(MavcgError, match="'other' is not a pipeline; build it with partitions"):
            app.pipeline("other")
        pipeline.push(x)
    with pytest.raises(MavcgError, match="the application is closed"):
        pipeline.push(x)


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ({"backbone": [{0}]}, "1 sets of CPUs for 'backbone', which has 3 stages"),
        ({"nobody": [{0}]}, "has no network 'nobody'; there are backbone, other"),
        ({"backbone": [{0}, set(), {0}]}, "'backbone', stage 1: set\\(\\) is not a list of CPU numbers"),
    ],
)
def test_places_that_are_wrong(built: Path, stages: Any, words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        mavcg.load_application(built / "libapp.so", stages=stages)


def test_in_c(built: Path) -> None:
    (x,) = frames(1)
    (built / "x.in").write_bytes(x.tobytes())
    program = built / "use_pipeline"
    flags = ["-target", host_target().zig_name, "-O2", *PLAIN_CODE_FLAGS, "-Wall", "-Wextra", "-Werror", "-pthread"]
    run_zig(
        "cc",
        [*flags, f"-I{built}", str(HERE / "use_pipeline.c"), f"-L{built}", "-lapp", "-o", str(program)],
        "compiling a program",
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(built)}
    done = subprocess.run([program], cwd=built, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    with mavcg.load_application(built / "libapp.so") as app:
        assert (built / "x.out").read_bytes() == app["other"].run(x)[0].tobytes()


def test_inspect_shows_partitions(built: Path, mavcg: Mavcg) -> None:
    ended = mavcg("inspect", built / "libapp.so")
    assert ended.status == 0 and "pipeline backbone" in ended.stdout and "backbone.2" in ended.stdout, ended.stderr
    note = json.loads(mavcg("inspect", built / "libapp.so", "--json").stdout)["networks"][0]
    pipeline = note["pipeline"]
    assert [stage["first_step"] for stage in pipeline["stages"]][0] == 0
    assert sum(stage["steps"] for stage in pipeline["stages"]) == len(note["steps"])
    assert pipeline["ring_bytes"] == sum(ring["bytes"] * ring["copies"] for ring in pipeline["rings"]) > 0


def test_bench_compares_the_pipeline_with_single_runs(built: Path, mavcg: Mavcg) -> None:
    words = ("--seconds", "0.02", "--runs", "1")
    ended = mavcg("bench", built / "libapp.so", "--network", "backbone", *words, "--json")
    assert ended.status == 0, ended.stderr
    made = json.loads(ended.stdout)["pipeline"]
    assert made["pipelined"]["stages"] == 3 and len(made["single"]) == sum(made["pipelined"]["threads"])
    assert made["ratio"] > 0 and all(row["per_second"] > 0 for row in made["single"])
    ended = mavcg("bench", built / "libapp.so", "--network", "backbone", *words)
    assert ended.status == 0 and "pipeline of 3 stages" in ended.stdout and "times the frames" in ended.stdout
    assert "pipeline" not in json.loads(
        mavcg("bench", built / "libapp.so", "--network", "other", *words, "--json").stdout
    )
