"""Libraries that compute in bf16, on this machine and in an emulator, against the f32 graph in double precision."""

import platform
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mavcg
from mavcg.choose.plan import Plan
from mavcg.graph.reference import run as run_graph
from mavcg.importers.load import import_model
from mavcg.kernels.conv.spec import Conv2d
from mavcg.model.model import build_model
from mavcg.model.precision import layer_precisions, precision_json, precision_words
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.model.stages import plan_model
from mavcg.passes.graph.pipeline import optimise
from tests.machine import needs_qemu_and_libc
from tests.mavcg.model.half_libraries import emulate, image, link, network

onnx = pytest.importorskip("onnx")

Array = NDArray[Any]
MIDRS = {"cortex-a53": 0x410FD034, "cortex-a72": 0x410FD083}  # neither has f16 or bf16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bf16")
    network(folder / "road.onnx")
    return folder


def planned(model: Path, precision: str | None, cores: tuple[str, ...] = tuple(MIDRS)) -> Plan:
    options = ModelOptions(cores=cores, tune="off", precision=precision)
    request, _ = make_model_request(model, str(model.parent / "libplanned.so"), options)
    return plan_model(request, "road", lambda message: None)


def relative_error(computed: Array, wanted: Array) -> float:
    return float(np.abs(computed - wanted).max() / np.abs(wanted).max())


def exact(model: Path) -> Array:
    (wanted,) = run_graph(optimise(import_model(model, {})), image(), wide=True)
    return wanted


def test_layers_are_in_bf16_and_weights_and_arena_are_halved(folder: Path) -> None:
    plan, single = (planned(folder / "road.onnx", precision) for precision in ("bf16", None))
    document = precision_json(plan, "bf16")
    assert document["layers"].keys() == layer_precisions(single).keys() and document["max_error"] is None
    assert set(document["layers"].values()) == {"bf16"} and not document["overflows"]
    assert sum(node.op == "cast" for node in plan.graph.nodes) == 2  # of the input and of the output
    assert plan.program.arena_bytes == single.program.arena_bytes // 2
    assert plan.program.constants_bytes < 0.65 * single.program.constants_bytes  # biases stay f32
    assert [str(tensor.type) for tensor in plan.program.inputs] == ["f32[1,3,32,32]"]
    assert precision_words(document).startswith("bf16: 14 of 14 layers in bf16, error 0.0")
    (computed,) = run_graph(plan.graph, image())
    assert 1e-4 < relative_error(computed, exact(folder / "road.onnx")) < 3e-2


def test_files_of_f16_keep_their_inputs_and_outputs(folder: Path) -> None:
    plan = planned(network(folder / "half.onnx", np.float16), "bf16")
    assert {str(plan.graph.types[name]) for name in (*plan.graph.inputs, *plan.graph.outputs)} == {
        "f16[1,3,32,32]",
        "f16[1,10]",
    }
    others = {name for name, dtype in layer_precisions(plan).items() if dtype != "bf16"}
    assert others == {"x.2"}  # the input is moved before its conversion


@pytest.mark.long
def test_a_library_computes_in_bf16(folder: Path) -> None:
    model, library = folder / "road.onnx", folder / "libhost.so"
    request, _ = make_model_request(model, str(library), ModelOptions(board="host", precision="bf16", tune="off"))
    note = build_model(request).note
    with mavcg.load(library) as built:
        (found,) = built.run(image())
    error = relative_error(found, exact(model))
    assert 1e-4 < error < 3e-2
    assert error / 4 < note["precision"]["measured_error"] < error * 4  # on other inputs
    (modelled,) = run_graph(planned(model, "bf16").graph, image())
    assert relative_error(found, modelled) < error  # they differ in few roundings


@pytest.mark.long
@needs_qemu_and_libc
def test_results_are_the_same_bits_on_cores_without_bf16(folder: Path) -> None:
    options = ModelOptions(cores=tuple(MIDRS), tune="off", precision="bf16")
    request, _ = make_model_request(folder / "road.onnx", str(folder / "libroad.so"), options)
    assert build_model(request).note["extensions"] == {"generic": [], "cortex-a53": [], "cortex-a72": []}
    link(folder)
    (folder / "inputs.bin").write_bytes(image().tobytes())
    found: list[bytes] = []
    for name, midr in {"generic": 0, **MIDRS}.items():
        cpu = f"cortex-a53,midr={midr:#x}" if midr else "cortex-a57"
        assert name in emulate(folder, cpu, threads=1 + len(found) % 2).stderr
        found.append((folder / "outputs.bin").read_bytes())
    assert len(set(found)) == 1
    computed = np.frombuffer(found[0], np.float32).reshape(1, 10)
    assert relative_error(computed, exact(folder / "road.onnx")) < 3e-2


SNAPDRAGON = {"cortex-a510": 0x410FD460, "cortex-a710": 0x410FD470, "cortex-x2": 0x410FD480}


def test_boards_whose_cores_all_have_bf16_multiply_matrices(folder: Path) -> None:
    def terms(cores: tuple[str, ...]) -> list[int]:
        specs = planned(folder / "road.onnx", "bf16", cores).specs
        return [spec.terms for spec in specs if isinstance(spec, Conv2d)]

    # The first layer has three channels, and the last one 49.
    assert sorted(terms(tuple(SNAPDRAGON))) == [1, 1, 4]
    assert set(terms((*SNAPDRAGON, "cortex-a76"))) == {1}


@pytest.mark.long
@needs_qemu_and_libc
def test_results_are_the_same_bits_with_and_without_bfmmla(folder: Path) -> None:
    """Also where the kernel hides bf16 and i8mm from an X2."""
    options = ModelOptions(cores=tuple(SNAPDRAGON), tune="off", precision="bf16")
    request, _ = make_model_request(folder / "road.onnx", str(folder / "libroad.so"), options)
    extensions = build_model(request).note["extensions"]
    assert extensions["generic"] == [] and all("bf16" in extensions[core] for core in SNAPDRAGON)
    link(folder)
    (folder / "inputs.bin").write_bytes(image().tobytes())
    found: list[bytes] = []
    cpus = {core: f"max,midr={midr:#x}" for core, midr in SNAPDRAGON.items()}
    hidden = {"cortex-x2-noi8mm": f"cortex-a76,midr={SNAPDRAGON['cortex-x2']:#x}"}  # its version without them
    for name, cpu in {**cpus, **hidden}.items():
        assert name in emulate(folder, cpu, threads=1 + len(found) % 2).stderr
        found.append((folder / "outputs.bin").read_bytes())
    assert len(set(found)) == 1
    computed = np.frombuffer(found[0], np.float32).reshape(1, 10)
    assert relative_error(computed, exact(folder / "road.onnx")) < 3e-2


@pytest.mark.long
@pytest.mark.skipif(platform.machine() != "x86_64", reason="libraries for x86-64 run on x86-64")
def test_results_are_the_same_bits_with_and_without_tiles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each version that this machine can run; another one's name in the map leaves the generic version."""
    library = folder / "libtiles.so"
    options = ModelOptions(cores=("sapphirerapids",), tune="off", precision="bf16")
    request, _ = make_model_request(folder / "road.onnx", str(library), options)
    extensions = build_model(request).note["extensions"]
    assert "amx-bf16" in extensions["sapphirerapids"] and extensions["generic"] == []
    assert not any(name.startswith("amx") for name in extensions["sapphirerapids-noamx"])
    found: list[Array] = []
    for name in extensions:
        monkeypatch.setenv("MAVCG_CPU_MAP", f"*={name}")
        with mavcg.load(shutil.copy(library, folder / f"lib{name}.so")) as built:
            found += built.run(image())
    assert len(found) == len(extensions) and len({array.tobytes() for array in found}) == 1
    assert relative_error(found[0], exact(folder / "road.onnx")) < 3e-2
