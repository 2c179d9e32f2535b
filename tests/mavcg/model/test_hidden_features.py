"""A model library on a machine that hides an extension that its cores have: the engine runs what the kernel offers.

Versions of 8-bit kernels for the Exynos 9820's cores use the dot product, which the generic version does not; those for
the Snapdragon 8 Gen 1's cores products of matrices, whose weights all versions of that library read.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.objects.code_extensions import function_extensions
from mavcg.toolchain.zig import run_zig
from tests.machine import QEMU, SYSROOT, needs_qemu_and_libc

RUN_MODEL = Path(__file__).parents[2] / "pipelines/run_model.c"
INPUT = np.random.default_rng(3).integers(-128, 128, (1, 9, 9, 8)).astype(np.int8)
A55, A53_AS_A55 = "max,midr=0x412fd050", "cortex-a53,midr=0x412fd050"
X2, A76_AS_X2 = "max,midr=0x410fd480", "cortex-a76,midr=0x410fd480"


def eight_bit_model(path: Path) -> Path:
    onnx = pytest.importorskip("onnx")
    weights = np.random.default_rng(7).integers(-127, 128, (16, 8, 3, 3)).astype(np.int8)
    arrays = {"w": weights, "scale": np.float32(0.5), "fine": np.float32(0.01), "zero": np.int8(-3), "none": np.int8(0)}
    names = ["x", "scale", "zero", "w", "fine", "none", "scale", "zero"]
    node = onnx.helper.make_node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1])
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node],
        "eight",
        [value("x", 3, [1, 8, 9, 9])],
        [value("y", 3, [1, 16, 9, 9])],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def library_folder(board: str, factory: pytest.TempPathFactory) -> Path:
    from mavcg.cli.app import run

    folder = factory.mktemp("eight")
    model = eight_bit_model(folder / "road.onnx")
    assert run(["build", str(model), "--board", board, "-o", str(folder / "libroad.so")]) == 0
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library_folder("exynos9820", tmp_path_factory)


@pytest.fixture(scope="module")
def matrix_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library_folder("snapdragon-8-gen-1", tmp_path_factory)


def test_inspect_names_what_each_version_needs(folder: Path, mavcg: Any) -> None:
    note = json.loads(mavcg("inspect", folder / "libroad.so", "--json").stdout)

    needs: dict[str, list[str]] = {"generic": []}
    for core in ("cortex-a55", "cortex-a75", "exynos-m4"):
        needs |= {core: ["dotprod"], f"{core}-v81": []}
    assert note["extensions"] == needs and note["versions"] == list(needs)
    by_kernel = [kernel["versions"] for kernel in note["kernels"].values()]
    assert all(
        label in needs and version["extensions"] in ([], needs[label])
        for v in by_kernel
        for label, version in v.items()
    )
    assert (
        "versions: generic, cortex-a55 (dotprod), cortex-a55-v81, cortex-a75 (dotprod)"
        in mavcg("inspect", folder / "libroad.so").stdout
    )


def test_levels_have_code_of_their_own_only_where_it_gains(folder: Path, mavcg: Any) -> None:
    """An A55 is in order: its level's convolution is scheduled for it. An A75 without dot products runs generic's."""
    note = json.loads(mavcg("inspect", folder / "libroad.so", "--json").stdout)

    def shared(label: str) -> dict[str, str | None]:
        kernels = note["kernels"].items()
        return {name.split("_")[0]: kernel["versions"][label].get("shares_body_with") for name, kernel in kernels}

    assert shared("cortex-a55") == dict.fromkeys(("transpose", "pad", "qconv2d"))
    assert shared("cortex-a55-v81") == {"transpose": "cortex-a55", "pad": "cortex-a55", "qconv2d": None}
    assert shared("cortex-a75-v81") == {"transpose": "cortex-a75", "pad": "cortex-a75", "qconv2d": "generic"}
    [convolution] = [k["versions"] for name, k in note["kernels"].items() if name.startswith("qconv2d")]
    assert note["level_bytes"] == convolution["cortex-a55-v81"]["bytes"] > convolution["cortex-a75-v81"]["bytes"] == 0


@pytest.mark.long
def test_versions_for_cores_with_products_of_matrices_need_them(matrix_folder: Path, mavcg: Any) -> None:
    needs = json.loads(mavcg("inspect", matrix_folder / "libroad.so", "--json").stdout)["extensions"]
    assert needs.pop("generic") == []
    levels = {"cortex-a510": ["i8mm"], "cortex-a510-noi8mm": ["dotprod"], "cortex-a510-v81": []}
    assert {name: own for name, own in needs.items() if name.startswith("cortex-a510")} == levels
    assert needs["cortex-x2-noi8mm"] == ["dotprod"] and needs["cortex-x2-v81"] == []


@needs_qemu_and_libc
def test_the_engine_runs_no_version_whose_extension_is_hidden(folder: Path) -> None:
    (own, wanted), (hidden, found) = runs(folder, (A55, A53_AS_A55))
    assert (own, hidden) == ({"cortex-a55"}, {"cortex-a55-v81"}) and wanted == found


@pytest.mark.long
@needs_qemu_and_libc
def test_a_core_without_its_products_of_matrices_computes_the_same(folder: Path, matrix_folder: Path) -> None:
    (own, wanted), (hidden, found) = runs(matrix_folder, (X2, A76_AS_X2))
    assert (own, hidden) == ({"cortex-x2"}, {"cortex-x2-noi8mm"}) and wanted == found
    assert runs(folder, (A55,))[0][1] == wanted


def runs(folder: Path, cpus: Sequence[str]) -> list[tuple[set[str], bytes]]:
    """The versions that ran on each emulated processor, and the outputs."""
    flags = ["-target", "aarch64-linux-gnu.2.17", "-std=gnu11", "-O1", "-pthread", "-fno-sanitize=all", f"-I{folder}"]
    link = [str(RUN_MODEL), str(folder / "libroad.so"), f"-Wl,-rpath,{folder}", "-o", str(folder / "run_model")]
    run_zig("cc", [*flags, *link], "linking the program")
    (folder / "inputs.bin").write_bytes(INPUT.tobytes())

    def run(cpu: str) -> tuple[set[str], bytes]:
        words = [str(QEMU), "-L", str(SYSROOT), "-cpu", cpu, "./run_model", "inputs.bin", "outputs.bin", "2", "2"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAVCG_")}
        done = subprocess.run(
            words, cwd=folder, env=environment | {"MAVCG_TRACE": "1"}, capture_output=True, text=True, check=True
        )
        ran = set(re.findall(r"^mavcg: \S+ (\S+) [1-9]\d*$", done.stderr, re.MULTILINE))
        return ran, (folder / "outputs.bin").read_bytes()

    return [run(cpu) for cpu in cpus]


X86_QEMU = shutil.which("qemu-x86_64-static") or shutil.which("qemu-x86_64")


@pytest.fixture(scope="module")
def x86_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mavcg.cli.app import run

    folder = tmp_path_factory.mktemp("eight")
    target = ["--target", "x86_64-linux-gnu", "--cores", "haswell,skylake-avx512,icelake-server,sapphirerapids"]
    assert run(["build", str(eight_bit_model(folder / "road.onnx")), *target, "-o", str(folder / "libroad.so")]) == 0
    return folder


def test_each_x86_version_needs_what_its_kernels_use(x86_folder: Path, mavcg: Any) -> None:
    """A Sapphire Rapids has half precision too, which no kernel uses; AVX2 and FMA are of the base."""
    note = json.loads(mavcg("inspect", x86_folder / "libroad.so", "--json").stdout)
    vectors = ["avx512bw", "avx512f", "avx512vl"]

    assert note["extensions"] == {
        "generic": [],
        "haswell": [],
        "skylake-avx512": vectors,
        "skylake-avx512-avx2": [],
        "icelake-server": [*vectors, "avx512vnni"],
        "icelake-server-avx2": [],
        "sapphirerapids": ["amx-int8", "amx-tile", *vectors],
        "sapphirerapids-noamx": [*vectors, "avx512vnni"],
        "sapphirerapids-avx2": ["avxvnni"],
    }
    assert None not in function_extensions(x86_folder / "libroad.so").values()


@pytest.mark.skipif(
    X86_QEMU is None or not Path("/lib64/ld-linux-x86-64.so.2").exists(), reason="needs qemu-x86_64 and a C library"
)
def test_the_engine_runs_no_version_whose_avx_512_is_hidden(x86_folder: Path) -> None:
    """QEMU has none, also where its processor says that it is a Skylake server."""
    flags = [
        "-target",
        "x86_64-linux-gnu.2.17",
        "-std=gnu11",
        "-O1",
        "-pthread",
        "-fno-sanitize=all",
        f"-I{x86_folder}",
    ]
    link = [str(RUN_MODEL), str(x86_folder / "libroad.so"), f"-Wl,-rpath,{x86_folder}", "-o", str(x86_folder / "run")]
    run_zig("cc", [*flags, *link], "linking the program")
    (x86_folder / "inputs.bin").write_bytes(INPUT.tobytes())

    def run(cpu: str) -> tuple[set[str], bytes]:
        words = [str(X86_QEMU), "-cpu", cpu, "./run", "inputs.bin", "outputs.bin", "2", "2"]
        done = subprocess.run(
            words, cwd=x86_folder, env={"MAVCG_TRACE": "1"}, capture_output=True, text=True, check=True
        )
        ran = set(re.findall(r"^mavcg: \S+ (\S+) [1-9]\d*$", done.stderr, re.MULTILINE))
        return ran, (x86_folder / "outputs.bin").read_bytes()

    (own, wanted), (hidden, found) = run("Haswell"), run("Skylake-Server")
    assert (own, hidden) == ({"haswell"}, {"skylake-avx512-avx2"}) and wanted == found
