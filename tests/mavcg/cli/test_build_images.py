"""`mavcg build MODEL --shape x=1..2x3x5..40x5..50`: images of any height and width, here and on emulated Arm cores."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mavcg as package
from bench.models import model_path
from mavcg.errors import MavcgError
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig
from tests.machine import MIDRS, QEMU, SYSROOT, needs_qemu_and_libc
from tests.mavcg.cli.guarded import guarded
from tests.mavcg.cli.in_process import build_in

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Images  # noqa: E402

pytestmark = pytest.mark.long
SIZES = [(2, 40, 50), (1, 5, 5), (2, 6, 33), (1, 40, 5), (1, 39, 49), (2, 17, 16), (1, 8, 31), (2, 40, 50)]
FIXED = (2, 17, 16)  # of which there is a library of its own


def network(path: Path) -> Path:
    """Plain, depthwise and 1x1 convolutions with residuals and pads, pools, a scale by the mean of the image."""
    net = Images("batch", 3, "height", "width")
    net.conv(12, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    before = net.last
    net.conv(12, 5, 5, group=12, pads=[2, 2, 2, 2])
    net.conv(12, 1, 1, act="")
    net.add("Add", before, net.last)
    image = net.last
    net.add("GlobalAveragePool", image)
    net.conv(12, 1, 1, act="Sigmoid")
    net.add("Mul", image, net.last)
    net.conv(40, 3, 2, dilations=[2, 1], pads=[2, 0, 2, 1])
    net.pool("MaxPool", 3, 3, strides=[2, 2], pads=[1, 1, 1, 1])
    net.conv(7, 1, 1, act="")
    return net.save(path)


def values(shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.random.default_rng(shape).standard_normal((shape[0], 3, *shape[1:])).astype(np.float32)


def build(folder: Path, shape: str, *options: str) -> None:
    build_in(folder, "m.onnx", "--shape", f"x={shape}", "--tune", "off", *options)


@pytest.mark.parametrize("threads", [1, 3])
def test_all_sizes_have_onnxruntimes_results(tmp_path: Path, cores: tuple[str, str], threads: int) -> None:
    """In arrays that end at pages that cannot be read or written; larger images first and last."""
    network(tmp_path / "m.onnx")
    build(tmp_path, "1..2x3x5..40x5..50", "--cores", cores[1], "-o", "libnet.so")
    reference = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    with package.load(tmp_path / "libnet.so", threads=threads) as model:
        assert model.dimensions == {"batch": (1, 2), "height": (5, 40), "width": (5, 50)}
        for size in SIZES:
            memory, x = guarded(values(size))
            (want,) = reference.run(None, {"x": x})
            held, place = guarded(np.zeros_like(want))
            (have,) = model.run(x, out=[place])
            assert have.shape == want.shape and memory is not None and held is not None
            assert np.abs(have - want).max() <= 1e-5 * max(1.0, np.abs(want).max())
        with pytest.raises(MavcgError, match="of 5 to 50"):
            model.run(np.zeros((1, 3, 5, 51), np.float32))


C_PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

int main(void) {
    const int64_t sizes[][3] = {SIZES}, hostile[] = {0, -1, 4, 51, INT64_MAX, INT64_MIN, INT64_C(1) << 32,
                                                     (INT64_C(1) << 32) + 5, INT64_C(1) << 62};
    net_options options = {.threads = 2};
    net_context *context;
    FILE *from = fopen("x.in", "rb"), *to = fopen("y.out", "wb");
    if (net_create(&options, &context)) return 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t *size = sizes[i], right[] = {size[0], 3, size[1], size[2]}, *shape[] = {right};
        for (size_t k = 0; k < sizeof hostile / sizeof *hostile; k++)
            for (int axis = 1; axis < 4; axis++) {
                int64_t wrong[] = {size[0], 3, size[1], size[2]};
                const int64_t *other[] = {wrong};
                wrong[axis] = hostile[k];
                if (net_set_shape(context, other) != MAVCG_ERROR_SIZE) return 2;
            }
        if (net_set_shape(context, shape)) return 3;
        size_t in_bytes = net_context_inputs(context)->bytes, out_bytes = net_context_outputs(context)->bytes;
        void *x = malloc(in_bytes), *y = malloc(out_bytes); /* exactly, under the address sanitizer */
        const void *inputs[] = {x};
        void *outputs[] = {y};
        if (fread(x, 1, in_bytes, from) != in_bytes || net_run(context, inputs, outputs)) return 4;
        fwrite(y, 1, out_bytes, to);
        free(x), free(y);
    }
    net_destroy(context);
    return fclose(to);
}
"""


def write_program(folder: Path, sizes: list[tuple[int, int, int]]) -> None:
    """Write the program that runs images of these sizes, and its input."""
    listed = ", ".join("{" + ", ".join(map(str, size)) + "}" for size in sizes)
    (folder / "c.c").write_text(C_PROGRAM.replace("{SIZES}", "{" + listed + "}"))
    (folder / "x.in").write_bytes(b"".join(values(size).tobytes() for size in sizes))


def test_hostile_sizes_in_a_c_program(tmp_path: Path, cores: tuple[str, str]) -> None:
    """Lengths out of bounds and those whose product overflows are refused; arrays of exactly the sizes suffice."""
    network(tmp_path / "m.onnx")
    build(tmp_path, "1..2x3x5..40x5..50", "--cores", cores[1], "-o", "libnet.so")
    write_program(tmp_path, SIZES)
    arguments = ["-std=c11", "-Wall", "-Werror", f"-I{tmp_path}", str(tmp_path / "c.c"), f"-L{tmp_path}", "-lnet"]
    if gcc := shutil.which("gcc"):
        subprocess.run([gcc, "-fsanitize=address", *arguments, "-o", tmp_path / "c"], check=True)
    else:
        run_zig("cc", [*arguments, "-o", str(tmp_path / "c")], "building c.c")
    environment: dict[str, Any] = {"LD_LIBRARY_PATH": str(tmp_path)}
    command = [tmp_path / "c"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, f"{ended.returncode} {ended.stderr}"


@needs_qemu_and_libc
def test_on_emulated_cores(tmp_path: Path) -> None:
    """Each core type of a board gives onnxruntime's values, and the bits of a library of one size."""
    network(tmp_path / "m.onnx")
    reference = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    wanted = [reference.run(None, {"x": values(size)})[0] for size in SIZES]
    results = dict[bool, set[bytes]]()
    own = ("--strategy", "engine", "--max-error", "0")
    for bounded in (True, False):
        shape = "1..2x3x5..40x5..50" if bounded else "x".join(map(str, (FIXED[0], 3, *FIXED[1:])))
        build(tmp_path, shape, "--board", "exynos9820", "-o", "libnet.so", *(() if bounded else own))
        write_program(tmp_path, SIZES if bounded else [FIXED])
        if not bounded:
            text = (tmp_path / "c.c").read_text()
            text = text.replace("net_set_shape(context, other)", "MAVCG_ERROR_SIZE").replace(
                "net_set_shape(context, shape)", "0 * (int)shape[0][0]"
            )
            text = text.replace("net_context_inputs(context)", "net_inputs(&(size_t){0})")
            (tmp_path / "c.c").write_text(text.replace("net_context_outputs(context)", "net_outputs(&(size_t){0})"))
        flags = ["-target", "aarch64-linux-gnu.2.36", *PLAIN_CODE_FLAGS, f"-I{tmp_path}", str(tmp_path / "c.c")]
        run_zig("cc", [*flags, f"-L{tmp_path}", "-lnet", "-o", str(tmp_path / "c")], "compiling")
        for midr in MIDRS.values():
            assert QEMU is not None
            command = [QEMU, "-cpu", f"max,midr={midr:#x}", "-L", str(SYSROOT), "-E", f"LD_LIBRARY_PATH={tmp_path}"]
            subprocess.run([*command, str(tmp_path / "c")], cwd=tmp_path, check=True, timeout=600)
            results.setdefault(bounded, set()).add((tmp_path / "y.out").read_bytes())
    (any_size,), (fixed,) = results[True], results[False]
    at = 0
    for size, want in zip(SIZES, wanted, strict=True):
        part, at = any_size[at : at + want.nbytes], at + want.nbytes
        have = np.frombuffer(part, np.float32).reshape(want.shape)
        assert np.abs(have - want).max() <= 1e-4 * max(1.0, np.abs(want).max())
        assert size != FIXED or part == fixed


@pytest.mark.parametrize("lengths", ["1..4x3x48..96x48..320"])
def test_a_real_classifier_of_lines_of_text(tmp_path: Path, cores: tuple[str, str], lengths: str) -> None:
    """PP-OCR's, of any batch, height and width."""
    try:
        path = model_path("ppocr_cls", fetch=False)
    except MavcgError as error:
        pytest.skip(str(error))
    (tmp_path / "m.onnx").write_bytes(path.read_bytes())
    build(tmp_path, lengths, "--cores", cores[1], "-o", "libnet.so")
    reference = onnxruntime.InferenceSession(str(path))
    with package.load(tmp_path / "libnet.so", threads=2) as model:
        for size in ((1, 48, 192), (4, 96, 320), (1, 48, 48), (2, 49, 63), (3, 95, 319)):
            x = values(size)
            (want,) = reference.run(None, {reference.get_inputs()[0].name: x})
            (have,) = model.run(x)
            assert have.shape == want.shape and np.abs(have - want).max() <= 1e-4
