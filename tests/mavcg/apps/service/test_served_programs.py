"""Networks on a simulated accelerator in a service: bits of runs alone, faults of the device, the page's example."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.accelerators.host.library import write_host_library, write_host_sources
from mavcg.accelerators.host.runtime import DeviceProgram
from mavcg.accelerators.image.elf_file import read_elf, write_elf
from mavcg.apps.service.periodic_keys import Periodic
from mavcg.apps.service.program_entry import AcceleratedEntry
from mavcg.apps.service.program_file import programs_memory_json
from mavcg.apps.service.response_times import response_bounds
from mavcg.apps.service.served_programs import PartTimes, beyond_parts, program_tasks
from mavcg.cli.app import run
from mavcg.errors import MavcgError
from mavcg.objects.inspection import model_of
from mavcg.runtime.accelerated import AcceleratedProgram
from mavcg.runtime.application import LoadedApplication, load_application
from mavcg.runtime.declared import ffi
from mavcg.runtime.service import AcceleratedNetwork, PeriodicNetwork
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig
from tests.mavcg.apps.small_networks import write_network

Mavcg = Callable[..., Any]
MS = 1_000_000
PAGE = Path(__file__).parents[4] / "docs" / "applications.md"
SHAPE = (2, 3, 24, 24)  # a batch, as of two cameras


def write_segmented(path: Path) -> None:
    """Write two convolutions with a softmax by channels between them, which is the CPU's, and one at the end."""
    import onnx
    from onnx import helper, numpy_helper

    numbers = np.random.default_rng(5)
    weights = {
        "w0": numbers.standard_normal((8, 3, 3, 3)).astype(np.float32) * np.float32(0.3),
        "w1": numbers.standard_normal((8, 8, 3, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Softmax", ["a"], ["b"], axis=1),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Softmax", ["c"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "segmented",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [SHAPE[0], 8, 12, 12])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library of one network, a program of two segments and CPU parts, and the host side."""
    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("served-programs")
    write_network(folder / "tracker.onnx", 8, 48, 0)
    (folder / "app.toml").write_text('[[network]]\nname = "tracker"\nfile = "tracker.onnx"\nperiod_ms = 100\n')
    write_segmented(folder / "segmented.onnx")
    write_host_library(folder / "libaccel.so")
    for words in (
        ("app", "build", folder / "app.toml", "--board", "host", "-o", folder / "libapp.so"),
        ("accel", "build", folder / "segmented.onnx", "--target", "small", "--board", "host", "-o", folder / "p.elf"),
        ("accel", "validate", folder / "p.elf", "--model", folder / "segmented.onnx"),
    ):
        assert run([str(word) for word in words]) == 0
    return folder


@pytest.fixture
def application(built: Path) -> Iterator[LoadedApplication]:
    with load_application(built / "libapp.so") as loaded:
        yield loaded


def image(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


@pytest.mark.long
def test_a_served_program_has_the_bits_of_the_program_alone(built: Path, application: LoadedApplication) -> None:
    """Several jobs under way, and a network of the library that is preempted meanwhile; parts are timed."""
    with DeviceProgram(built / "p.elf") as alone:
        expected = [alone.run({"x": image(seed)})["y"] for seed in range(2)]
    tracked = np.random.default_rng(9).standard_normal((1, 3, 48, 48)).astype(np.float32)
    (wanted,) = application["tracker"].run(tracked)
    made, other = [np.zeros_like(array) for array in expected], np.zeros_like(wanted)
    open_program = AcceleratedProgram
    with open_program(built / "libaccel.so", built / "p.elf", 3, 1) as first:
        with open_program(built / "libaccel.so", built / "p.elf", 1, 1) as second:
            assert first.inputs == (SHAPE,) and len(first.segment_ns) == 2 and min(first.segment_ns) > 0
            jobs = application.serve(
                [PeriodicNetwork("tracker", 50_000, 9000 * MS, 1, True, [tracked], [other])],
                0.0005,
                [
                    AcceleratedNetwork(
                        program, 0, PeriodicNetwork(f"p{n}", 100_000, 9000 * MS, 2 + n, False, [image(n)], [made[n]])
                    )
                    for n, program in enumerate((first, second))
                ],
            )
            times = (first.take_part_ns(), first.take_part_ns())
    assert [sum(job.network == name for job in jobs) for name in ("tracker", "p0", "p1")] == [10, 5, 5]
    least = sum(first.segment_ns)
    assert all(job.end_ns - job.begin_ns > least for job in jobs if job.network != "tracker")
    assert len(times[0]) == 3 and min(times[0]) > 0 and times[1] == (0, 0, 0)
    for result, reference in zip([*made, other], [*expected, wanted], strict=True):
        assert np.array_equal(result.view(np.uint32), reference.view(np.uint32))


@pytest.mark.long
def test_a_device_that_stops_ends_the_service_with_its_text(built: Path, application: LoadedApplication) -> None:
    program = read_elf(built / "p.elf")
    broken = replace(program, instructions=tuple(one for one in program.instructions if one.form.name != "load.map"))
    write_elf(replace(broken, segments=program.segments), built / "broken.elf")
    jobs = PeriodicNetwork("p", 100_000, 9000 * MS, 2, False, [image(0)])
    with AcceleratedProgram(built / "libaccel.so", built / "broken.elf", 2, 1) as opened:
        for _ in range(2):  # the context can be used again
            with pytest.raises(MavcgError, match=r"p: the device stopped at .*instruction \d+"):
                application.serve([], 0.001, [AcceleratedNetwork(opened, 0, jobs)])
        assert opened.message.startswith("the device stopped at")
        rows = ffi.new("mavcg_accelerated[]", 1)
        opened.fill(rows[0], 0)  # as each service begins: where another network stops it, this one has no text
        assert opened.message == ""
    with AcceleratedProgram(built / "libaccel.so", built / "p.elf", 1, 1) as opened:
        for names in (("p", "p"), ("tracker",)):  # of two programs, and of a program and the library's network
            equal = [AcceleratedNetwork(opened, 0, replace(jobs, name=name)) for name in names]
            with pytest.raises(MavcgError, match=f"'{names[0]}' is the name of two networks"):
                application.serve([], 0.001, equal)
        with pytest.raises(MavcgError, match=r"inputs have the shapes \[2\]; give \[2, 3, 24, 24\]"):
            wrong = replace(jobs, inputs=[np.zeros(2, np.float32)])
            application.serve([], 0.001, [AcceleratedNetwork(opened, 0, wrong)])
    with pytest.raises(MavcgError, match="make it by mavcg accel host --library"):
        AcceleratedProgram(built / "libapp.so", built / "p.elf", 1, 1)
    write_elf(replace(program, segments=tuple(replace(s, cycles=0) for s in program.segments)), built / "old.elf")
    with pytest.raises(MavcgError, match="old.elf: has no simulated times; build it again"):
        AcceleratedProgram(built / "libaccel.so", built / "old.elf", 1, 1)


@pytest.mark.long
def test_a_programs_memory_has_the_libraries_of_its_parts(built: Path) -> None:
    notes = [model_of(built / name) for name in read_elf(built / "p.elf").libraries]
    assert len(notes) == 2
    (row,) = programs_memory_json([AcceleratedEntry("p", built / "p.elf", "npu", Periodic(10, 20, 1, False))])

    assert row["parts_arena_bytes"] == 2 * sum(note["arena_bytes"] for note in notes if note) > 0  # of two jobs
    assert row["parts_weights_bytes"] == sum(note["weight_bytes"] for note in notes if note)


@pytest.mark.long
def test_a_program_in_c(built: Path, tmp_path: Path) -> None:
    """Stops, statuses and bad arguments."""
    write_host_sources(tmp_path)
    program, target = tmp_path / "use", host_target().zig_name
    flags = ["-target", target, "-O2", *PLAIN_CODE_FLAGS, "-Wall", "-Wextra", "-Werror", "-pthread", "-D_GNU_SOURCE"]
    folders = [f"-I{built}", f"-I{tmp_path}", f"-L{built}"]
    source = Path(__file__).parent / "use_accelerated.c"
    run_zig("cc", [*flags, *folders, str(source), "-lapp", "-laccel", "-o", str(program)], "compiling")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(built)}
    command = [program, built / "p.elf"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.long
def test_the_page_to_the_letter(tmp_path: Path, mavcg: Mavcg, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    section = PAGE.read_text().split("### A network on an accelerator")[1].split("###")[0]
    indented = [re.findall(r"(?m)^    (.*)$|^$", block) for block in re.findall(r"(?m)(?:^    .*\n|^\n)+", section)]
    toml, commands = ("\n".join(lines) for lines in [own for own in indented if any(own)][:2])
    assert "program =" in toml and commands.count("mavcg ") == 4
    monkeypatch.chdir(tmp_path)
    write_network(Path("tracker.onnx"), 8, 48, 0)
    write_network(Path("classifier.onnx"), 16, 64, 1)
    Path("app.toml").write_text(toml)
    lines = [line.split("#")[0].split() for line in commands.splitlines() if line.strip()]
    for words in lines[:3]:
        ended = mavcg(*words[1:])
        assert ended.status == 0, ended.stderr
    ended = mavcg(*lines[3][1:], "--measure-seconds", "0.5", "--force", "--json")
    assert ended.status == 0, ended.stderr
    document = json.loads(ended.stdout)
    tracker, classifier = document["served"]
    assert (tracker["jobs"], classifier["jobs"]) == (10, 4) and document["deadlines"] == 14
    assert set(document["service"]["utilisation"]) == {"cpu", "npu"}
    assert document["service"]["networks"][1]["processors"] == ["cpu", "npu", "cpu"]
    assert len(classifier["measured"]["worst_parts_ms"]) == 2 and len(classifier["measured"]["segments_ms"]) == 1
    segment = classifier["measured"]["segments_ms"]
    for verb in ("plan", "simulate"):
        ended = mavcg("app", verb, "app.toml", "--board", "host")
        assert ended.status == 2 and "'classifier': parts_ms: missing; give" in " ".join(ended.stderr.split())
    given = json.dumps(classifier["measured"]["worst_parts_ms"])
    Path("app.toml").write_text(f"{toml}\nparts_ms = {given}\n")
    for verb, more in (("plan", ("--generations", "0")), ("simulate", ("--seconds", "2"))):
        ended = mavcg("app", verb, "app.toml", "--board", "host", "--json", *more)
        assert ended.status == 0, ended.stderr
        made = json.loads(ended.stdout)
        row = next(own for own in made["service"]["networks"] if own["name"] == "classifier")
        assert row["processors"] == ["cluster 0", "npu", "cluster 0"]
        worst = 1.2 * sum(classifier["measured"]["worst_parts_ms"]) + sum(segment)
        assert row["worst_ms"] == pytest.approx(worst, rel=1e-3) and row["bound_ms"] >= row["worst_ms"]
        if verb == "plan":
            (own,) = made["programs"]
            program = read_elf(Path("classifier.elf"))
            assert own["segments_ms"] == segment and own["features_bytes"] == program.feature_bytes
            assert own["parameters_bytes"] == len(program.parameters) and own["parts_arena_bytes"] == 0  # no CPU nodes
        else:
            jobs = next(own for own in made["simulated"] if own["name"] == "classifier")
            assert jobs["kept"] == jobs["jobs"] == 2 and row["worst_ms"] <= jobs["worst_response_ms"] <= row["bound_ms"]
    ended = mavcg("app", "serve", "libapp.so")
    assert ended.status == 2 and "give --accelerator-host LIB.so" in " ".join(ended.stderr.split())


def test_parts_and_segments_become_stages() -> None:
    """Margins are added to what is measured, and the notice to parts after a segment; the bound is that of stages."""
    entry = AcceleratedEntry("a", Path("a.elf"), "npu", Periodic(1000, 2500, 1, False))
    assert entry.slots == 3
    (task,) = program_tasks([entry], {"a": PartTimes(9, (100, 50), (700,))}, 10, 0.2, "cpu")
    assert [(stage.processor, stage.sections) for stage in task.stages] == [
        ("cpu", (120,)),
        ("npu", (700,)),
        ("cpu", (72,)),
    ]
    (bound,) = response_bounds([task])
    assert task.jitter_ns == 12 and bound.bound_ns is not None and bound.bound_ns >= 12 + 120 + 700 + 72
    assert beyond_parts(task, (120, 73)) == 1 and beyond_parts(task, (10, 10)) == 0
