"""`mavcg plan --emit-cuda` and `--check-cuda`, run as a user runs them."""

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "cache"))


def test_emit_and_check_a_layer(mavcg: Any, here: Path) -> None:
    emit = mavcg(
        "plan", "squeezenet", "--accelerator", "jetson-tx2", "--layer", "fire2_squeeze", "--emit-cuda", "d", "--json"
    )
    assert emit.status == 0, emit.stderr
    (kernel,) = json.loads(emit.stdout)["kernels"]
    assert {"layer", "file", "shared_bytes", "registers", "threads", "blocks"} <= set(kernel)
    assert kernel["layer"] == "fire2_squeeze" and (here / "d" / kernel["file"]).is_file()
    assert (here / "d" / "CMakeLists.txt").is_file() and 0 < kernel["shared_bytes"] <= 49152

    check = mavcg("plan", "--check-cuda", "d", "--json")
    assert check.status == 0, check.stderr
    document = json.loads(check.stdout)
    assert (document["kernels"], document["mismatches"]) == (1, 0)

    # A kernel that somebody spoiled is found: status 2, and the layer's name.
    source = here / "d" / kernel["file"]
    source.write_text(source.read_text().replace("ACTIVATION = NO_ACTIVATION", "ACTIVATION = RELU"))
    check = mavcg("plan", "--check-cuda", "d", "--json")
    assert check.status == 2 and "fire2_squeeze" in check.stderr
    assert json.loads(check.stdout)["mismatches"] > 0


def test_a_gpu_is_a_board_of_the_planner(mavcg: Any, here: Path) -> None:
    done = mavcg("plan", "squeezenet", "--board", "jetson-tx2", "--json")

    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(document["layers"]) == 26
    for layer in document["layers"]:
        tile = layer["tile"]
        assert 4 * tile["oc"] * tile["oh"] * tile["ow"] <= 65536  # sums in registers
        assert 4 * tile["oc"] * tile["ic"] * layer["loops"]["kh"] * layer["loops"]["kw"] <= 24576


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vgg16", "--board", "jetson-tx3", "--emit-cuda", "d"), "jetson-tx3"),
        (("vgg16", "--board", "h100", "--emit-cuda", "d", "--cuda-type", "f8"), "f32, f16, i8"),
        (("vgg16", "--board", "h100", "--cuda-type", "f16"), "--emit-cuda"),
        (("vgg16", "--board", "h100", "--layer", "fc8", "--emit-cuda", "full"), "other files"),
        (("--check-cuda", "nothing"), "kernels.json"),
        (("--check-cuda", "full"), "kernels.json"),
        (("vgg16", "--check-cuda", "full"), "leave out MODEL"),
    ],
)
def test_bad_input_is_refused_with_a_reason(arguments: tuple[str, ...], message: str, mavcg: Any, here: Path) -> None:
    (here / "full").mkdir()
    (here / "full" / "mine.txt").write_text("mine")

    done = mavcg("plan", *arguments)

    assert done.status == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert not (here / "d").exists()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 1}', '{"format": 1, "kernels": [{}]}', '{"format": 1, "kernels": [7]}', "[" * 5000]
)
def test_a_spoiled_index_is_refused(text: str, mavcg: Any, here: Path) -> None:
    (here / "d").mkdir()
    (here / "d" / "kernels.json").write_text(text)

    done = mavcg("plan", "--check-cuda", "d")

    assert done.status == 2 and "kernels.json" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.long
def test_an_accelerators_plan_as_cuda(mavcg: Any, here: Path) -> None:
    """The paper's mode: memories as device buffers, as many bytes copied as the plan's commands say."""
    layer = ("--layer", "conv5")
    emit = mavcg("plan", "alexnet", "--accelerator", "setup-a", "--halo", *layer, "--emit-cuda", "d", "--json")
    assert emit.status == 0, emit.stderr
    (kernel,) = json.loads(emit.stdout)["kernels"]
    assert {"layer", "file", "shared_bytes", "registers", "threads", "blocks"} <= set(kernel)
    source = (here / "d" / kernel["file"]).read_text()
    assert "/* LOAD IN_MEM_0 INPUT_0 */" in source and "plan_allocate(262144)" in source

    check = mavcg("plan", "--check-cuda", "d", "--json")
    assert check.status == 0, check.stderr
    assert json.loads(check.stdout)["mismatches"] == 0

    # A command left out is found.
    (here / "d" / kernel["file"]).write_text(source.replace("    load(wt_mem_0", "    if (0) load(wt_mem_0", 1))
    assert mavcg("plan", "--check-cuda", "d").status == 2
