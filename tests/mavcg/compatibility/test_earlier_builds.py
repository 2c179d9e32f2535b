"""Libraries, files and headers of an earlier mavcg (built_2026_11_23) with today's loaders, commands and libraries.

They were built by commit f098c276, of 2026-11-23, for Haswell and Cortex-A55 with glibc 2.17: a model of a convolution
and a relu, a program, an application of two such models, an accelerator's program, a profile, and the model's header.
"""

import ctypes
import io
import json
import lzma
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg
from mavcg.errors import MavcgError
from mavcg.runtime.amalgamation import SOURCES
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig
from tests.mavcg.conftest import Mavcg

ROOT = Path(__file__).parents[3]
BUILT = Path(__file__).parent / "built_2026_11_23"
COMMIT = "f098c276"
ARCH = platform.machine()
IMAGE = np.arange(108, dtype=np.float32).reshape(1, 3, 6, 6) / 16
# Of a program in C that takes the model from the library by its table, as any host does, or by the header's names.
HOST = """
#include <dlfcn.h>
#include <stdio.h>
#include "engine_api.h"
int main(int count, char **words) {
    void *library = dlopen(words[1], RTLD_NOW);
    if (!library) { puts(dlerror()); return 1; }
    const mavcg_model_table *(*table_of)(void) = (const mavcg_model_table *(*)(void))dlsym(library, "mavcg_model_api");
    const mavcg_model_table *table = table_of();
    static float x[108], y[144];
    for (int i = 0; i < 108; i++) x[i] = i / 16.0f;
    const void *inputs[] = {x};
    void *outputs[] = {y}, *context;
    mavcg_options options = {.threads = 2};
    if (table->create(&options, &context) || table->run(context, inputs, outputs)) return 2;
    table->destroy(context);
    printf("%u %s %zu\\n", table->api, table->name, table->inputs[0].bytes);
    for (int i = 0; i < 144; i++) printf("%.9g\\n", y[i]);
    return 0;
}
"""
USER = """
#include <stdio.h>
#include "net.h"
int main(void) {
    static float x[108], y[144];
    for (int i = 0; i < 108; i++) x[i] = i / 16.0f;
    const void *inputs[] = {x};
    void *outputs[] = {y};
    net_options options = {.threads = 2};
    net_context *context;
    if (net_create(&options, &context) || net_run(context, inputs, outputs)) return 2;
    net_destroy(context);
    puts(net_error_text(0));
    for (int i = 0; i < 144; i++) printf("%.9g\\n", y[i]);
    return 0;
}
"""

here_only = pytest.mark.skipif(ARCH not in ("x86_64", "aarch64"), reason="libraries are built for two processors")


@pytest.fixture
def unpacked(here: Path) -> Callable[[str], Path]:
    """unpacked("libnet-x86_64.so"): the path of a file, in the current folder."""

    def unpacked(name: str) -> Path:
        (here / name).write_bytes(lzma.decompress((BUILT / f"{name}.xz").read_bytes()))
        return here / name

    return unpacked


def expected(seed: int) -> np.ndarray[Any, Any]:
    """The outputs of the model by its definition, exact in f32: weights are quarters, the image is of sixteenths."""
    weights = np.random.default_rng(seed).integers(-4, 5, (4, 3, 3, 3)).astype(np.float64) / 4
    padded = np.pad(IMAGE.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded[0], (3, 3), axis=(1, 2))
    outputs: np.ndarray[Any, Any] = np.maximum(np.einsum("chwij,ocij->ohw", windows, weights), 0)[None]
    return outputs


def read(text: str, header_lines: int = 1) -> np.ndarray[Any, Any]:
    return np.array([float(line) for line in text.splitlines()[header_lines:]]).reshape(1, 4, 6, 6)


@here_only
def test_a_model_is_loaded_and_computes_the_same(unpacked: Callable[[str], Path]) -> None:
    with mavcg.load(unpacked(f"libnet-{ARCH}.so"), threads=2) as model:
        (y,) = model.run(IMAGE)
        assert (model.name, model.dimensions, model.states) == ("net", {}, ())
        assert [step.op for step in model.profile(IMAGE)]
    np.testing.assert_array_equal(y, expected(0))


@pytest.mark.skipif(ARCH != "x86_64", reason="the application is built for x86-64")
def test_an_application_is_loaded_and_computes_the_same(unpacked: Callable[[str], Path]) -> None:
    path = unpacked("libpair-x86_64.so")
    with mavcg.load_application(path) as application:
        assert set(application.networks) == {"first", "second"}
        for seed, name in enumerate(("first", "second")):
            (y,) = application[name].run(IMAGE)
            np.testing.assert_array_equal(y, expected(seed))


@here_only
def test_a_program_runs_beside_todays_selector(unpacked: Callable[[str], Path]) -> None:
    """The library has a selector of its own; the process has today's for the binding of `mavcg cores`."""
    from mavcg.runtime.binding import detect

    detect(Path("/"), [], None)
    library = ctypes.CDLL(str(unpacked(f"libtotal-{ARCH}.so")))
    numbers = (ctypes.c_int * 1000)(*range(1000))
    assert library.total(numbers, 1000) == sum(range(1000))


@pytest.mark.parametrize("name", ["libtotal-x86_64.so", "libtotal-aarch64.so"])
def test_a_program_is_described(name: str, unpacked: Callable[[str], Path], mavcg: Mavcg) -> None:
    ended = mavcg("inspect", unpacked(name), "--json")
    (function,) = json.loads(ended.stdout)["functions"]
    assert function["name"] == "total" and {"generic"} < {version["core"] for version in function["versions"]}
    assert mavcg("inspect", name).status == 0


@pytest.mark.parametrize("name", ["libnet-x86_64.so", "libnet-aarch64.so", "libpair-x86_64.so"])
def test_a_model_is_described(name: str, unpacked: Callable[[str], Path], mavcg: Mavcg) -> None:
    ended = mavcg("inspect", unpacked(name), "--json")
    document = json.loads(ended.stdout)
    for network in document.get("networks", [document]):
        assert network["inputs"] == [{"name": "x", "type": "f32[1,3,6,6]"}] and network["arena_bytes"] == 1344
    assert mavcg("inspect", name).status == 0


def test_a_profile_is_read(here: Path, mavcg: Mavcg) -> None:
    ended = mavcg("profile", "--import", BUILT / "profile.json", "--json")
    assert ended.status == 0, ended.stderr
    assert [row["symbol"] for row in json.loads(ended.stdout)["functions"]] == ["total"]


def test_an_accelerators_program_is_refused_with_what_to_do(unpacked: Callable[[str], Path], mavcg: Mavcg) -> None:
    """Its format is not promised: a program belongs to the mavcg that built it."""
    for verb in ("simulate", "disassemble", "run"):
        ended = mavcg("accel", verb, unpacked("net.elf"))
        assert (ended.status, ended.stdout) == (2, "")
        assert ended.stderr.rstrip().endswith("if another mavcg built the file, build it again by `mavcg accel build`")
        assert ended.stderr.count("\n") == 1


@here_only
def test_a_library_of_a_later_version_is_refused_by_name(here: Path) -> None:
    """An error says what docs/compatibility.md says: build it again, or take the newer mavcg."""
    (here / "later.c").write_text(
        "struct table { unsigned api; char rest[508]; };\n"
        "static const struct table table = {.api = 1000};\n"
        "const struct table *mavcg_model_api(void) { return &table; }\n"
    )
    run_zig("cc", ["-shared", "-O1", "later.c", "-o", "liblater.so"], "building a table", cwd=here)
    with pytest.raises(MavcgError, match=r"was built by another mavcg \(API 1000, here \d+\); build it again"):
        mavcg.load(here / "liblater.so")


@here_only
@pytest.mark.long
def test_a_host_of_today_takes_a_model_of_then(unpacked: Callable[[str], Path], here: Path) -> None:
    library = unpacked(f"libnet-{ARCH}.so")
    (here / "host.c").write_text(HOST)
    flags = ["-O1", "-fno-sanitize=all", f"-I{SOURCES}", "host.c", "-o", "host"]
    run_zig("cc", [*flags, "-target", host_target().zig_name], "building a host", cwd=here)
    done = subprocess.run([here / "host", library], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("1 net 432\n")
    np.testing.assert_array_equal(read(done.stdout), expected(0))


@here_only
@pytest.mark.long
def test_a_program_with_the_header_of_then_takes_a_model_of_today(here: Path, mavcg: Mavcg) -> None:
    """Compiled against the old header, and linked with the new library: names and layouts are the same."""
    onnx = pytest.importorskip("onnx")
    value, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    weights = np.random.default_rng(0).integers(-4, 5, (4, 3, 3, 3)).astype(np.float32) / 4
    graph = onnx.helper.make_graph(
        [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["y"])],
        "net",
        [value("x", 1, [1, 3, 6, 6])],
        [value("y", 1, [1, 4, 6, 6])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), "net.onnx")
    core = "haswell" if ARCH == "x86_64" else "cortex-a55"
    assert mavcg("build", "net.onnx", "--cores", core, "-o", "libnet.so").status == 0
    (here / "then").mkdir()
    shutil.copy(BUILT / "net.h", here / "then/net.h")
    (here / "user.c").write_text(USER)
    flags = ["-O1", "-fno-sanitize=all", "-Ithen", "user.c", "libnet.so", "-Wl,-rpath,$ORIGIN", "-o", "user"]
    run_zig("cc", [*flags, "-target", host_target().zig_name], "building a program", cwd=here)
    done = subprocess.run([here / "user"], capture_output=True, text=True, check=True)
    np.testing.assert_array_equal(read(done.stdout), expected(0))


@here_only
@pytest.mark.long
def test_a_blas_of_then_computes_with_todays_python(here: Path) -> None:
    """Its library is too large to be kept: it is built by the commit of then, where the history has it."""
    packed = subprocess.run(["git", "archive", COMMIT], cwd=ROOT, capture_output=True)
    if packed.returncode:
        pytest.skip(f"the history here does not have commit {COMMIT}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(here / "then", filter="tar")
    core = "haswell" if ARCH == "x86_64" else "cortex-a55"
    subprocess.run(
        [sys.executable, "-m", "mavcg.cli", "blas", "build", "--cores", core, "-o", "libblas.so", "--strip"],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(here / "then")},
        check=True,
        capture_output=True,
    )
    library = ctypes.CDLL(str(here / "libblas.so"))
    a, b = (np.random.default_rng(seed).integers(-9, 9, (7, 7)).astype(np.float64) for seed in (0, 1))
    c = np.zeros((7, 7))
    one, zero, seven = ctypes.c_double(1), ctypes.c_double(0), ctypes.c_int(7)
    pointers = [matrix.ctypes.data_as(ctypes.c_void_p) for matrix in (a, b, c)]
    library.cblas_dgemm(101, 111, 111, 7, 7, 7, one, pointers[0], seven, pointers[1], seven, zero, pointers[2], seven)
    np.testing.assert_array_equal(c, a @ b)
