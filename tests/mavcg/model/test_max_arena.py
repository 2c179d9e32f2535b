"""`mavcg build model.onnx --max-arena`: libraries whose layers are computed by parts of rows, as users build them."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as package
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig
from tests.machine import MIDRS, QEMU, SYSROOT, needs_qemu_and_libc
from tests.mavcg.apps.small_networks import write_network

CORES = "haswell" if host_target().arch == "x86_64" else "cortex-a55"
OPTIONS = ("--cores", CORES, "--target", host_target().zig_name, "--tune", "off", "--json")
Mavcg = Callable[..., Any]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnx")
    return write_network(tmp_path_factory.mktemp("arena") / "net.onnx", 16, 64, 0)


def build(mavcg: Mavcg, network: Path, library: Path, *options: str) -> dict[str, Any]:
    ended = mavcg("build", network, "-o", library, *OPTIONS, *options)
    assert ended.status == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


@pytest.mark.long
def test_parts_of_rows_keep_the_limit_and_the_bits(network: Path, tmp_path: Path, mavcg: Mavcg) -> None:
    whole = build(mavcg, network, tmp_path / "libwhole.so", "--max-error", "0")
    parts = build(mavcg, network, tmp_path / "libparts.so", "--max-error", "0", "--max-arena", "100 kB")
    assert parts["arena_bytes"] <= 100_000 < whole["arena_bytes"]
    assert parts["phases"] > whole["phases"] and parts["moved_bytes"] > 0 == whole["moved_bytes"]

    x = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype(np.float32)
    with package.load(tmp_path / "libwhole.so") as model:
        right, steps = model.run(x)[0].tobytes(), [step.name for step in model.profile(x)]
    for threads in (1, 2, 5):
        with package.load(tmp_path / "libparts.so", threads=threads) as model:
            assert all(model.run(x)[0].tobytes() == right for _ in range(5))
            assert [step.name for step in model.profile(x)] == steps and model.arena_bytes == parts["arena_bytes"]


@pytest.mark.long
def test_a_limit_that_layers_keep_changes_nothing(network: Path, tmp_path: Path, mavcg: Mavcg) -> None:
    whole = build(mavcg, network, tmp_path / "liba.so")
    limited = build(mavcg, network, tmp_path / "libb.so", "--max-arena", "2MB")
    assert limited["arena_bytes"] == whole["arena_bytes"] and limited["phases"] == whole["phases"]


@pytest.mark.long
def test_a_limit_that_cannot_be_kept_is_refused(network: Path, tmp_path: Path, mavcg: Mavcg) -> None:
    """The refusal names the least possible, and a build with that succeeds."""
    ended = mavcg("build", network, "-o", tmp_path / "liba.so", *OPTIONS, "--max-arena", "1000")
    assert (ended.status, ended.stdout) == (2, "") and not list(tmp_path.iterdir())
    match = re.search(r"--max-arena 1000: .* take (\d+) bytes at least, computed by parts of rows", ended.stderr)
    assert match is not None and "net.onnx: --max-arena 1000:" in ended.stderr
    made = build(mavcg, network, tmp_path / "liba.so", "--max-arena", match[1])
    assert made["arena_bytes"] <= int(match[1])


@pytest.mark.long
def test_each_of_several_sizes_keeps_the_limit(network: Path, tmp_path: Path, mavcg: Mavcg) -> None:
    """The smaller size is computed layer by layer as before, the larger one by parts of rows."""
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    free = onnx.load(network)
    for i, name in ((2, "H"), (3, "W")):
        free.graph.input[0].type.tensor_type.shape.dim[i].dim_param = name
    onnx.save(free, tmp_path / "net.onnx")
    made = build(
        mavcg, tmp_path / "net.onnx", tmp_path / "libnet.so", "--shape", "x=1x3x32,64x32,64", "--max-arena", "100 kB"
    )
    phases = {size["shape"]: size["phases"] for size in made["sizes"]}
    assert all(size["arena_bytes"] <= 100_000 for size in made["sizes"])
    assert phases["x=1x3x32x32"] < 10 < phases["x=1x3x64x64"]

    reference = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    with package.load_sizes(tmp_path / "libnet.so", threads=2) as model:
        for side in (64, 32):
            x = np.random.default_rng(side).standard_normal((1, 3, side, 64)).astype(np.float32)
            have, want = model.run(x)[0], reference.run(None, {"x": x})[0]
            assert np.abs(have - want).max() <= 1e-4 * np.abs(want).max()


@pytest.mark.parametrize("value", ["4 potatoes", "-4", ""])
def test_what_is_no_size(value: str, network: Path, tmp_path: Path, mavcg: Mavcg) -> None:
    ended = mavcg("build", network, "-o", tmp_path / "liba.so", *OPTIONS, f"--max-arena={value}")
    assert ended.status == 2 and f"--max-arena {value}: is not a size" in ended.stderr


@pytest.mark.long
def test_in_mavcg_toml(network: Path, tmp_path: Path, mavcg: Mavcg, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(network, tmp_path / "net.onnx")
    keys = f'cores = ["{CORES}"]\ntarget = "{host_target().zig_name}"\ntune = "off"\nmax_arena = "100 kB"'
    (tmp_path / "mavcg.toml").write_text(f'[[model]]\nfile = "net.onnx"\n{keys}\n')
    monkeypatch.chdir(tmp_path)
    ended = mavcg("build")
    assert ended.status == 0, ended.stderr
    with package.load(tmp_path / "libnet.so") as model:
        assert model.arena_bytes <= 100_000


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "parts.h"
int main(void) {
    const void *in[1] = {malloc(4 * 3 * 64 * 64)};
    void *out[1] = {malloc(64)};
    FILE *x = fopen("x.in", "rb"), *y = fopen("y.out", "wb");
    parts_options options = {.threads = 2};
    parts_context *context;
    if (fread((void *)in[0], 4, 3 * 64 * 64, x) != 3 * 64 * 64 || parts_create(&options, &context)) return 1;
    for (int run = 0; run < 3; run++) if (parts_run(context, in, out)) return 2;
    parts_destroy(context);
    return fwrite(out[0], 1, 64, y) != 64 || fclose(y);
}
"""


@pytest.mark.long
@needs_qemu_and_libc
@pytest.mark.parametrize("strategy", ["engine", "pbqp"])
def test_on_emulated_cores(strategy: str, network: Path, tmp_path: Path, mavcg: Mavcg) -> None:
    """Each core type of a board gives the same bits; with the same algorithms, those of layer by layer.

    Within the limit a selection chooses other algorithms, which round otherwise: docs/applications.md.
    """
    results: dict[tuple[str, ...], set[bytes]] = {}
    (tmp_path / "program.c").write_text(PROGRAM)
    x = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype(np.float32)
    (tmp_path / "x.in").write_bytes(x.tobytes())
    common = ("--board", "exynos9820", "--strategy", strategy, "--max-error", "0")
    for limit in ((), ("--max-arena", "100 kB")):
        library = tmp_path / "libparts.so"
        ended = mavcg("build", network, "-o", library, *common, *limit)
        assert ended.status == 0, ended.stderr
        flags = ["-target", "aarch64-linux-gnu.2.36", *PLAIN_CODE_FLAGS, f"-I{tmp_path}", str(tmp_path / "program.c")]
        run_zig("cc", [*flags, f"-L{tmp_path}", "-lparts", "-o", str(tmp_path / "program")], "compiling")
        for midr in MIDRS.values():
            assert QEMU is not None
            command = [QEMU, "-cpu", f"max,midr={midr:#x}", "-L", str(SYSROOT), "-E", f"LD_LIBRARY_PATH={tmp_path}"]
            subprocess.run([*command, str(tmp_path / "program")], cwd=tmp_path, check=True, timeout=600)
            results.setdefault(limit, set()).add((tmp_path / "y.out").read_bytes())
    assert all(len(of_cores) == 1 for of_cores in results.values())
    (whole,), (parts,) = results.values()
    assert whole == parts or strategy == "pbqp"
    np.testing.assert_allclose(np.frombuffer(parts, np.float32), np.frombuffer(whole, np.float32), rtol=1e-5, atol=1e-5)
