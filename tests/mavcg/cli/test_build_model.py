"""`mavcg build MODEL` as a user meets it: the report, files beside the library, one line for all that is wrong."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg import load
from mavcg.cli.build_model import assume_machine
from mavcg.model.dump import STAGES
from mavcg.objects.elf import exported_symbols, function_symbols, open_elf, protection


def refused(ended: Any, here: Path, *words: str) -> None:
    """Exit status 2, one line on stderr with these words, nothing on stdout, nothing written."""
    assert ended.status == 2 and ended.stdout == ""
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("mavcg")] or [ended.stderr]
    for word in words:
        assert word in line
    assert [path.name for path in here.iterdir() if path.suffix in (".so", ".h", ".pc", ".cmake")] == []


@pytest.fixture
def report(tiny_library: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((tiny_library.parent / "build.json").read_text())
    return document


def test_json_has_what_scripts_rely_on(report: dict[str, Any], tiny_library: Path, cores: tuple[str, str]) -> None:
    for key in ("seconds", "arena_bytes", "arena_lower_bound_bytes", "weight_bytes", "code_bytes"):
        assert report[key] > 0
    assert report["arena_lower_bound_bytes"] <= report["arena_bytes"]
    assert report["memory"] == {
        "arena_bytes": report["arena_bytes"],
        "state_bytes": 0,
        "scratch_bytes_per_thread": load(tiny_library).scratch_bytes,
        "weights_bytes": report["weight_bytes"],
    }
    assert report["operators"]["conv2d"] == 1 and report["operators"]["relu"] == 1
    assert report["versions"] == ["generic", cores[1]]
    assert report["library_bytes"] == tiny_library.stat().st_size > report["loaded_bytes"]
    assert report["loaded_bytes"] == report["weight_bytes"] + report["code_bytes"]
    # 5 channels of 36 weights and a bias, in panels of at least 8 channels.
    assert report["weight_bytes"] >= (8 * 36 + 5) * 4
    assert report["inputs"] == [{"name": "image", "type": "f32[1,4,6,6]"}, {"name": "other", "type": "f32[2,3]"}]
    assert [t["name"] for t in report["outputs"]] == ["y", "z"]
    assert {Path(f).name for f in report["files"]} == {
        "libtiny.so",
        "tiny.h",
        "tiny.hpp",
        "tiny.pc",
        "tinyConfig.cmake",
    }
    assert all(Path(f).is_file() for f in report["files"])


def test_only_the_model_s_functions_are_exported(tiny_library: Path) -> None:
    names = exported_symbols(tiny_library)

    assert "mavcg_model_tiny_run" in names and "mavcg_model_api" in names
    assert all(name.startswith(("mavcg_model_tiny_", "mavcg_model_api")) for name in names)


def test_the_same_model_gives_the_same_bytes(
    mavcg: Any,
    tiny_onnx: Path,
    tiny_library: Path,
    cores: tuple[str, str],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MAVCG_CACHE", "off")  # all is compiled anew
    ended = mavcg("build", tiny_onnx, "--cores", cores[1], "--threads", "2", "-o", "libtiny.so")

    assert ended.status == 0
    assert "for a context of one thread: arena " in ended.stdout and " per thread" in ended.stdout
    assert "libtiny.so for " in ended.stdout and f"generic, {cores[1]}" in ended.stdout
    assert (here / "libtiny.so").read_bytes() == tiny_library.read_bytes()
    assert (here / "tiny.h").read_text() == (tiny_library.parent / "tiny.h").read_text()


def test_the_output_is_named_by_the_model_and_shapes_fill_free_dimensions(
    mavcg: Any, tiny_onnx: Path, here: Path
) -> None:
    shutil.copy(tiny_onnx, here / "7 segments.onnx")
    ended = mavcg("build", here / "7 segments.onnx", "--cores", "generic", "--shape", "image=2x4x6x6", "--json")

    document = json.loads(ended.stdout)
    assert document["inputs"][0]["type"] == "f32[2,4,6,6]"
    assert (here / "libm_7_segments.so").is_file() and document["versions"] == ["generic"]


@pytest.mark.long
def test_stages_are_dumped_on_request(mavcg: Any, tiny_onnx: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_DUMP", "import,ways")
    ended = mavcg("build", tiny_onnx, "--cores", "generic", "--json")

    assert json.loads(ended.stdout)["operators"]  # the dump is not in it
    assert "// import" in ended.stderr and "conv2d" in ended.stderr
    assert "MAVCG_DUMP=ways: is now called algorithms" in ended.stderr and "// algorithms" in ended.stderr


def test_every_stage_is_dumped_and_a_name_that_is_none_is_said(
    mavcg: Any, tiny_onnx: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt name printed nothing, without a word."""
    others = ("legalised", "plan_phases", "place_states")  # of boards, --max-arena and --state
    stages = [stage for stage in STAGES if stage not in others]
    monkeypatch.setenv("MAVCG_DUMP", ",".join([*stages, "pack_wieghts"]))
    ended = mavcg("build", tiny_onnx, "--cores", "generic")

    assert ended.status == 0
    printed = [line.removeprefix("// ") for line in ended.stderr.splitlines() if line.startswith("// ")]
    assert [stage for stage in printed if stage in stages] == stages
    assert "MAVCG_DUMP=pack_wieghts: no stage or pass has this name" in ended.stderr and "fold_pads" in ended.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--shape", "image=2x4"], ["image"]),
        (["--shape", "image=2,4,6,6"], ["--shape image=2:", "1x3x224x224"]),
        (["--shape", "=1x2"], ["--shape =1x2"]),
        (["--shape", "nobody=1x4x6x6"], ["nobody", "image"]),
        (["--shape", "image=1x4x6x6", "--shape", "image=2x4x6x6"], ["twice"]),
        (["--threads", "-1"], ["--threads -1", "1 to 256"]),
        (["--threads", "0"], ["--threads 0", "1 to 256"]),
        (["--threads", "257"], ["--threads 257"]),
        (["--target", "aarch64-macos"], ["macos"]),
        (["--target", "nonsense"], ["nonsense"]),
        (["-o", "lib.o"], ["lib.o", ".so"]),
        (["-o", "folder.so"], ["folder.so", "folder"]),
        (["-o", "missing/lib.so"], ["missing", "folder"]),
        (["--hot", "dot"], ["--hot", "programs"]),
        (["--source", "a.c"], ["--source", "programs"]),
        (["--profile", "p.json"], ["--profile", "programs"]),
        (["--board", "nowhere"], ["nowhere"]),
        (["--cores", "cortex-a5"], ["cortex-a5"]),
        (["--tune", "sometimes"], ["sometimes"]),
    ],
)
def test_bad_options_are_refused_with_a_reason(
    mavcg: Any, tiny_onnx: Path, here: Path, options: list[str], words: list[str]
) -> None:
    (here / "folder.so").mkdir()
    with_cores = [] if {"--board", "--cores"} & set(options) else ["--cores", "generic"]
    ended = mavcg("build", tiny_onnx, *with_cores, *options)
    (here / "folder.so").rmdir()

    refused(ended, here, *words)


def test_cores_of_another_architecture(mavcg: Any, tiny_onnx: Path, here: Path, cores: tuple[str, str]) -> None:
    other = "haswell" if cores[0].startswith("cortex") else "cortex-a55"

    refused(mavcg("build", tiny_onnx, "--cores", f"{cores[0]},{other}"), here, other)
    refused(mavcg("build", tiny_onnx, "--cores", "cortex-a55", "--target", "x86_64-linux-gnu"), here, "cortex-a55")


def test_a_model_without_cores_is_built_for_this_machine(mavcg: Any, tiny_onnx: Path, here: Path) -> None:
    done = mavcg("build", tiny_onnx, "-o", "libm.so")
    assert done.status == 0 and "no cores are named: built for this machine (--board host)" in done.stderr, done.stderr
    assert (here / "libm.so").is_file()


def test_options_of_models_without_a_model(mavcg: Any, here: Path) -> None:
    refused(mavcg("build", "--source", "a.c", "--shape", "x=1"), here, "--shape", "models")
    refused(mavcg("build", "--source", "a.c", "--threads", "2"), here, "--threads", "models")


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.onnx", None), ("a.onnx", b""), ("a.onnx", b"nonsense" * 9), ("a.tflite", b"nonsense" * 9), ("a.tflite", b"")],
)
def test_files_that_are_no_models(mavcg: Any, here: Path, name: str, content: bytes | None) -> None:
    if content is not None:
        (here / name).write_bytes(content)

    refused(mavcg("build", here / name, "--cores", "generic"), here, name)


def test_what_kernels_lack_is_said_with_the_file(mavcg: Any, here: Path) -> None:
    onnx = pytest.importorskip("onnx")
    double, helper = onnx.TensorProto.DOUBLE, onnx.helper
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="up")
    values = [helper.make_tensor_value_info(n, double, d) for n, d in (("x", [1, 1, 3, 3]), ("y", [1, 1, 4, 4]))]
    weights = helper.make_tensor("w", double, [1, 1, 2, 2], [1.0] * 4)
    graph = helper.make_graph([node], "doubles", values[:1], values[1:], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), here / "doubles.onnx")

    refused(mavcg("build", here / "doubles.onnx", "--cores", "generic"), here, "doubles.onnx: node 'up'", "f64")


def test_folders_and_files_without_permission(mavcg: Any, here: Path) -> None:
    (here / "model.onnx").mkdir()

    refused(mavcg("build", here / "model.onnx", "--cores", "generic"), here, "model.onnx", "folder")


def test_a_loop_that_the_run_counts_needs_one_whole_plan(mavcg: Any, here: Path) -> None:
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node(
        "Loop",
        ["n", "c", "x"],
        ["y"],
        name="the_loop",
        body=onnx.helper.make_graph(
            [onnx.helper.make_node("Identity", [n], [m]) for n, m in (("cc", "co"), ("xx", "xo"))],
            "b",
            [value("i", 7, []), value("cc", 9, []), value("xx", 1, [2])],
            [value("co", 9, []), value("xo", 1, [2])],
        ),
    )
    graph = onnx.helper.make_graph(
        [node], "g", [value("n", 7, []), value("c", 9, []), value("x", 1, [2])], [value("y", 1, [2])]
    )
    onnx.save(onnx.helper.make_model(graph), here / "loop.onnx")

    tight = mavcg("build", here / "loop.onnx", "--cores", "generic", "--max-arena", "1MB")

    refused(tight, here, "the_loop", "Loop", "known only")


def test_the_librarys_results_are_onnxruntimes(tiny_library: Path, tiny_onnx: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    from mavcg.runtime.loading import load

    rng = np.random.default_rng(0)
    image, other = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 4, 6, 6), (2, 3)))
    wanted = ort.InferenceSession(str(tiny_onnx)).run(None, {"image": image, "other": other})
    with load(tiny_library) as model:
        output = model.run(image, other)

    for ours, theirs in zip(output, wanted, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()


def test_inspect_shows_operators_kernels_layouts_tiles_versions_and_bytes(
    mavcg: Any, tiny_library: Path, report: dict[str, Any], cores: tuple[str, str]
) -> None:
    document = json.loads(mavcg("inspect", tiny_library, "--json").stdout)

    for key in (
        "operators",
        "versions",
        "inputs",
        "outputs",
        "weight_bytes",
        "arena_bytes",
        "arena_lower_bound_bytes",
        "code_bytes",
        "loaded_bytes",
    ):
        assert document[key] == report[key]
    assert 0 < document["code_bytes"] == document["loaded_bytes"] - document["weight_bytes"]
    sizes = dict(function_symbols(tiny_library))
    for step in document["steps"]:
        kernel = document["kernels"][step["kernel"]]
        for label in ("generic", cores[1]):
            assert kernel["versions"][label]["bytes"] == sizes[f"{step['kernel']}.{label}"] > 0
    (convolution,) = [k for name, k in document["kernels"].items() if name.startswith("conv2d")]
    assert convolution["layout"].startswith("NHWC") and convolution["weights"].startswith("panels of ")
    for version in convolution["versions"].values():
        assert all(tile.split("x")[0].isdigit() for tile in version["tiles"]) and version["tiles"]

    shown = mavcg("inspect", tiny_library).stdout
    for word in ("model tiny", "conv2d", "weights", "arena", cores[1], "NHWC", "first", "bytes of code and tiles"):
        assert word in shown


@pytest.mark.long
def test_threads_can_be_left_to_the_prediction(mavcg: Any, tiny_onnx: Path, here: Path) -> None:
    ended = mavcg("build", tiny_onnx, "--board", "exynos9820", "--threads", "auto", "--json")

    assert ended.status == 0, ended.stderr
    plans = json.loads(ended.stdout)["thread_plans"]
    assert [plan["threads"] for plan in plans] == list(range(1, 9))
    # A model as small as this one is done before a second thread has begun.
    assert min(plans, key=lambda plan: plan["relative_time"])["threads"] == 1
    assert plans[0]["cores"] == ["exynos-m4"]


@pytest.mark.long
def test_a_stripped_model_library_runs_and_is_inspected(
    mavcg: Any, tiny_onnx: Path, cores: tuple[str, str], here: Path
) -> None:
    assert mavcg("build", tiny_onnx, "--cores", cores[1], "--strip", "-o", "libbare.so").status == 0
    assert open_elf(here / "libbare.so").get_section_by_name(".symtab") is None
    inspected = mavcg("inspect", here / "libbare.so", "--json")
    assert inspected.status == 0 and json.loads(inspected.stdout)["protection"] == protection(here / "libbare.so") != []
    with load(here / "libbare.so") as model:
        assert model.inputs


@pytest.mark.parametrize(
    ("board", "cores", "target", "assumed", "said"),
    [
        (None, (), None, ("host", ()), "no cores are named: built for this machine (--board host)"),
        (None, (), "aarch64-linux-android", (None, ("generic",)), "one generic version for aarch64-linux-android"),
        ("rk3588", (), "aarch64-linux-android", ("rk3588", ()), ""),
        (None, ("cortex-a55",), None, (None, ("cortex-a55",)), ""),
    ],
)
def test_the_machine_of_a_build_that_names_none(
    board: str | None, cores: tuple[str, ...], target: str | None, assumed: tuple[Any, Any], said: str
) -> None:
    *machine, sentence = assume_machine(board, cores, target)
    assert tuple(machine) == assumed and (said in sentence if said else not sentence)
