"""Libraries that compute in f16: AArch64's in an emulator, against the f32 graph in double precision."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mavcg.graph.reference import run as run_graph
from mavcg.importers.load import import_model
from mavcg.model.model import build_model
from mavcg.model.model_request import ModelRequest
from mavcg.model.precision import precision_json
from mavcg.model.report import show_note
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.model.stages import plan_model
from mavcg.passes.graph.pipeline import optimise
from tests.machine import needs_qemu_and_libc

onnx = pytest.importorskip("onnx")
from tests.mavcg.model.half_libraries import emulate, image, link, network  # noqa: E402

MIDRS = {"cortex-a55": 0x412FD050, "cortex-a75": 0x413FD0A0, "exynos-m4": 0x531F0030}


CORES = ("cortex-a55", "cortex-a75", "exynos-m4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("half")
    network(folder / "road.onnx")
    return folder


def request_of(model: Path, library: Path, precision: str | None) -> ModelRequest:
    """For the cores of an Exynos 9820, on which every layer has one algorithm; without the machine passes."""
    options = ModelOptions(cores=CORES, tune="off", precision=precision)
    return make_model_request(model, str(library), options)[0]


@pytest.fixture(scope="module")
def note(folder: Path) -> Mapping[str, Any]:
    return build_model(request_of(folder / "road.onnx", folder / "libroad.so", "f16")).note


def test_layers_are_in_half_and_weights_and_arena_are_halved(folder: Path, note: Mapping[str, Any]) -> None:
    single = plan_model(request_of(folder / "road.onnx", folder / "libsingle.so", None), "road", lambda message: None)
    assert precision_json(single, "f32")["layers"].keys() == note["precision"]["layers"].keys()
    assert note["precision"]["requested"] == "f16" and set(note["precision"]["layers"].values()) == {"f16"}
    assert note["operators"]["cast"] == 2  # of the input and of the output
    assert note["arena_bytes"] == single.program.arena_bytes // 2
    assert note["weight_bytes"] < 0.65 * single.program.constants_bytes  # biases stay f32
    assert [tensor["type"] for tensor in (*note["inputs"], *note["outputs"])] == ["f32[1,3,32,32]", "f32[1,10]"]
    assert {step["primitive"] for step in note["steps"] if step["op"] == "conv2d"} == {
        "implicit_gemm_hwc_hwc",
        "implicit_depthwise_hwc_hwc",
    }
    lines = io.StringIO()
    show_note({**note, "code_bytes": 0}, Console(file=lines, width=200))
    assert "precision f16: 14 of 14 layers in f16, error 0.0" in lines.getvalue()
    assert all("fullfp16" in needs for needs in note["extensions"].values()) and "generic" in note["extensions"]


def test_files_of_half_numbers_have_no_conversions_at_all(folder: Path) -> None:
    model = network(folder / "half.onnx", np.float16)
    plan = plan_model(request_of(model, folder / "libhalf.so", "f16"), "half", lambda message: None)
    assert not any(node.op == "cast" for node in plan.graph.nodes)
    assert {str(tensor.type) for tensor in (*plan.program.inputs, *plan.program.outputs)} == {
        "f16[1,3,32,32]",
        "f16[1,10]",
    }


@needs_qemu_and_libc
def test_results_are_near_the_exact_ones_and_the_same_on_every_core(folder: Path, note: Mapping[str, Any]) -> None:
    link(folder)
    (folder / "inputs.bin").write_bytes(image().tobytes())
    (wanted,) = run_graph(optimise(import_model(folder / "road.onnx", {})), image(), wide=True)
    found: dict[str, bytes] = {}
    for name, cpu in {"generic": "max", **{core: f"max,midr={midr:#x}" for core, midr in MIDRS.items()}}.items():
        done = emulate(folder, cpu, threads=1 + len(found) % 2)
        assert name in done.stderr
        found[name] = (folder / "outputs.bin").read_bytes()
    assert len(set(found.values())) == 1
    error = np.abs(np.frombuffer(found["generic"], np.float32).reshape(1, 10) - wanted).max() / np.abs(wanted).max()
    assert 1e-6 < error < 5e-3
    assert error / 4 < note["precision"]["measured_error"] < error * 4  # on other inputs
    assert note["precision"]["overflows"] == [] and note["precision"]["max_error"] is None


@needs_qemu_and_libc
def test_a_machine_without_half_precision_is_refused(folder: Path, note: Mapping[str, Any]) -> None:
    """Whatever its register says of the core: the kernel does not offer FEAT_FP16."""
    link(folder)
    (folder / "inputs.bin").write_bytes(image().tobytes())
    refused = emulate(folder, "cortex-a53,midr=0x412fd050", check=False)
    assert refused.returncode == 3 and "MAVCG_OK" in refused.stderr


def test_a_core_without_half_precision_is_named(folder: Path, capfd: Any) -> None:
    from mavcg.cli.app import run

    words = ["build", str(folder / "road.onnx"), "-o", str(folder / "libno.so"), "--precision", "f16"]
    assert run([*words, "--cores", "cortex-a55,cortex-a53,cortex-a72"]) == 2
    assert "--precision f16: cortex-a53, cortex-a72 have no arithmetic of half precision" in capfd.readouterr().err
    assert run([*words[:-1], "f8", "--cores", "cortex-a55"]) == 2
    assert "--precision f8: give f32, f16, bf16 or auto" in capfd.readouterr().err
    assert not (folder / "libno.so").exists()
