"""Model libraries for Android: what a device's loader sees, and the code run here."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from mavcg.objects.library import bionic_names
from mavcg.toolchain.target import host_target

HOST_ARCH = host_target().arch
CORES = {"aarch64": "cortex-a76,cortex-a78", "x86_64": "haswell"}  # no machine passes, which take most of a build
LARGE_PAGE = 16384


@pytest.fixture(scope="module")
def math_onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose operators C programs take from libm: convolution, erf, tanh, exp, pow, log, softmax."""
    onnx = pytest.importorskip("onnx")
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    names = ["Erf", "Tanh", "Exp", "Sqrt", "Log", "Sigmoid"]
    nodes = [node("Conv", ["x", "w"], ["t0"], pads=[1, 1, 1, 1])]
    nodes += [node(name, [f"t{i}"], [f"t{i + 1}"]) for i, name in enumerate(names)]
    nodes += [node("Pow", [f"t{len(names)}", "p"], ["powers"]), node("Softmax", ["powers"], ["y"], axis=1)]
    weights = np.random.default_rng(1).standard_normal((8, 4, 3, 3)).astype(np.float32)
    constants = [
        onnx.numpy_helper.from_array(weights, "w"),
        onnx.numpy_helper.from_array(np.full(1, 1.7, np.float32), "p"),
    ]
    graph = onnx.helper.make_graph(
        nodes, "math", [value("x", 1, [1, 4, 12, 12])], [value("y", 1, [1, 8, 12, 12])], constants
    )
    path = tmp_path_factory.mktemp("math") / "math.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def build(model: Path, folder: Path, arch: str, *options: str, cores: tuple[str, ...] | None = None) -> Path:
    out = folder / "libmath.so"
    cores = ("--cores", CORES[arch]) if cores is None else cores
    command = [sys.executable, "-m", "mavcg.cli", "build", str(model), *cores, "-o", str(out), *options]
    subprocess.run([*command, "--target", f"{arch}-linux-android"], check=True, capture_output=True, cwd=folder)
    return out


@pytest.fixture(scope="module")
def library_here(math_onnx: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(math_onnx, tmp_path_factory.mktemp("here"), HOST_ARCH)


def check_for_bionic(path: Path) -> set[str]:
    """Check all that Android's loader goes by, from API level 21 on. Returns the exported names."""
    with path.open("rb") as file:
        elf: Any = ELFFile(file)
        symbols = list(elf.get_section_by_name(".dynsym").iter_symbols())
        tags = list(elf.get_section_by_name(".dynamic").iter_tags())
        segments = [(s["p_type"], s["p_vaddr"], s["p_memsz"], s["p_align"], s["p_flags"]) for s in elf.iter_segments()]
        sections = {section.name for section in elf.iter_sections()}
    imported = {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name}
    exported = {s.name for s in symbols if s["st_shndx"] != "SHN_UNDEF" and s.name}
    sources = {library for library, defined in bionic_names().items() if imported & defined}
    loaded = [segment for segment in segments if segment[0] == "PT_LOAD"]
    entries = {tag.entry.d_tag for tag in tags}

    assert imported and imported <= frozenset().union(*bionic_names().values())
    assert [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"] == [
        name for name in bionic_names() if name in sources
    ]
    assert "libc.so" in sources
    assert [tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"] == [path.name]
    assert not any(name.startswith(".gnu.version") for name in sections)  # no versions of any C library
    assert not {"DT_TEXTREL", "DT_RELR", "DT_ANDROID_RELR"} & entries  # refused, or unknown to API level 21
    assert {"DT_HASH", "DT_GNU_HASH"} <= entries
    assert "PT_TLS" not in {segment[0] for segment in segments}  # known to API level 29 and later
    assert all(align == LARGE_PAGE for *_, align, _ in loaded)
    assert not any(flags & 1 and flags & 2 for *_, flags in loaded)  # no page is code and writable
    pages = [
        set(range(address // LARGE_PAGE, (address + size - 1) // LARGE_PAGE + 1)) for _, address, size, _, _ in loaded
    ]
    assert len(set().union(*pages)) == sum(map(len, pages))  # no page of 16 KiB belongs to two segments
    return exported


# That of this machine is built for other tests anyway.
@pytest.mark.parametrize(
    "arch", [pytest.param(arch, marks=() if arch == HOST_ARCH else pytest.mark.long) for arch in ("aarch64", "x86_64")]
)
def test_a_library_asks_for_what_bionic_has_at_api_level_21(
    arch: str, math_onnx: Path, library_here: Path, tmp_path: Path
) -> None:
    path = library_here if arch == HOST_ARCH else build(math_onnx, tmp_path, arch)
    exported = check_for_bionic(path)

    assert "mavcg_model_api" in exported and all(name.startswith("mavcg_model") for name in exported)


@pytest.mark.long
def test_a_partial_build_asks_for_no_more(math_onnx: Path, tmp_path: Path) -> None:
    exported = check_for_bionic(build(math_onnx, tmp_path, "aarch64", "--partial", "--also", "other.onnx"))

    assert {"RegisterCustomOps", "tflite_plugin_create_delegate", "tflite_plugin_destroy_delegate"} <= exported


@pytest.mark.long
def test_a_target_alone_is_enough(math_onnx: Path, tmp_path: Path) -> None:
    assert "mavcg_model_api" in check_for_bionic(build(math_onnx, tmp_path, "aarch64", cores=()))


_RUN = """
import sys, numpy as np
from mavcg.runtime.loading import load
with load(sys.argv[1]) as model:
    np.save(sys.argv[3], np.asarray(model.run(np.load(sys.argv[2]))))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="binds bionic's names to glibc's libraries")
def test_its_code_computes_the_model(math_onnx: Path, library_here: Path, tmp_path: Path) -> None:
    """Run here: libc.so and libdl.so, as Android calls them, are links to this machine's."""
    runtime = pytest.importorskip("onnxruntime")
    x = np.random.default_rng(2).standard_normal((1, 4, 12, 12)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    mapped = Path("/proc/self/maps").read_text().splitlines()
    libc = next(line.split()[-1] for line in mapped if line.endswith("libc.so.6"))
    for name, version in (("libc.so", "libc.so.6"), ("libm.so", "libm.so.6"), ("libdl.so", "libdl.so.2")):
        (tmp_path / name).symlink_to(Path(libc).with_name(version))
    command = [sys.executable, "-c", _RUN, str(library_here), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    subprocess.run(command, check=True, env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)})
    (expected,) = runtime.InferenceSession(str(math_onnx), providers=["CPUExecutionProvider"]).run(None, {"x": x})

    assert np.isfinite(expected).any()
    np.testing.assert_allclose(np.load(tmp_path / "y.npy").reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


def test_the_name_of_a_library_of_the_system_is_refused(mavcg: Any, math_onnx: Path, here: Path) -> None:
    ended = mavcg("build", math_onnx, "--cores", "cortex-a55", "--target", "aarch64-linux-android", "-o", "libm.so")

    assert ended.status == 2 and "libm.so: is the name of Android's own library" in ended.stderr
    assert list(here.iterdir()) == []
