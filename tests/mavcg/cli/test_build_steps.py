"""`mavcg build MODEL --shape x=1x3x8..40:8x8..32:8`: lengths in steps, by every door."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mavcg as package
from mavcg.errors import MavcgError
from mavcg.toolchain.zig import run_zig
from tests.mavcg.cli.in_process import build_in

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Images, u_net  # noqa: E402
from tests.mavcg.cli.guarded import guarded  # noqa: E402

SHAPE = "x=1x3x8..40:8x8..32:8"
SIZES = [(40, 32), (8, 8), (16, 24), (40, 8), (8, 32), (40, 32)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> tuple[Path, Any]:
    """A small U-Net, and half of its image, with the shape in mavcg.toml; and the build's document."""
    folder = tmp_path_factory.mktemp("steps")
    net: Images = u_net(1, 1, 3, "height", "width")
    net.pool("AveragePool", 2, 2, strides=[2, 2])
    net.save(folder / "net.onnx")
    model = f'[[model]]\nfile = "net.onnx"\ncores = ["{cores[1]}"]\nshapes = ["{SHAPE}"]\n'
    (folder / "mavcg.toml").write_text(model)
    return folder, json.loads(build_in(folder, "--json"))["models"][0]


def image(size: tuple[int, ...]) -> NDArray[np.float32]:
    return np.random.default_rng(size).standard_normal((1, 3, *size)).astype(np.float32)


def test_every_size_has_onnxruntimes_results(built: tuple[Path, Any]) -> None:
    """In arrays that end at pages that cannot be read or written."""
    folder, _ = built
    reference = onnxruntime.InferenceSession(str(folder / "net.onnx"))
    with package.load(folder / "libnet.so", threads=2) as model:
        assert model.dimensions == {"height": (8, 40, 8), "width": (8, 32, 8)}
        assert model.inputs[0].shape == (1, 3, 40, 32)
        for size in SIZES:
            memory, x = guarded(image(size))
            (want,) = reference.run(None, {"x": x})
            held, place = guarded(np.zeros_like(want))
            (have,) = model.run(x, out=[place])
            assert have.shape == want.shape == model.outputs[0].shape and memory is not None and held is not None
            assert np.abs(have - want).max() <= 1e-5 * max(1.0, np.abs(want).max())
        for size in ((9, 8), (12, 8), (8, 31), (0, 8), (48, 8), (4, 8)):
            with pytest.raises(MavcgError, match="height of 8 to 40 in steps of 8 in place of 40 and width of 8 to 32"):
                model.run(image(size))
        assert model.run(image((8, 8)))[0].shape == (1, 4, 4, 4)


def test_the_document_the_note_and_the_header_have_the_step(built: tuple[Path, Any], mavcg: Any) -> None:
    folder, document = built
    bounds = {"height": [8, 40, 8], "width": [8, 32, 8]}
    assert document["dimensions"] == bounds
    assert json.loads(mavcg("inspect", folder / "libnet.so", "--json").stdout)["dimensions"] == bounds
    assert "height: 8 to 40 in steps of 8, in each run anew" in mavcg("inspect", folder / "libnet.so").stdout
    header = (folder / "net.h").read_text()
    for line in (
        "x: f32[1,3,height,width], 12 * height * width bytes",
        "f32[1,4,height / 2,width / 2], 4 * height * width bytes",
        " * height is 8 to 40 in steps of 8, in each run anew.",
        "out of bounds or off the step",
    ):
        assert line in header


C_PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

static int size_of(net_context *context, int64_t height, int64_t width) {
    int64_t *shape = malloc(4 * sizeof *shape); /* exactly, under the address sanitizer */
    shape[0] = 1, shape[1] = 3, shape[2] = height, shape[3] = width;
    const int64_t *const dims[] = {shape};
    int status = net_set_shape(context, dims);
    free(shape);
    return status;
}

int main(void) {
    const int64_t hostile[] = {0, -8, 1, 7, 9, 33, 39, 41, 48, INT64_MAX, INT64_MIN, INT64_C(1) << 32,
                               (INT64_C(1) << 32) + 8, INT64_C(1) << 62, -(INT64_C(1) << 61), INT64_MAX - 7};
    net_context *context;
    net_options options = {.threads = 2};
    if (net_create(&options, &context)) return 1;
    const mavcg_model_table *table = mavcg_model_api();
    if (table->dimension_count != 2 || table->dimension_steps[0] != 8 || table->dimensions[1].most != 32) return 2;
    for (int64_t height = 40; height > 0; height -= 8)
        for (int64_t width = 8; width <= 32; width += 8) {
            for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
                if (size_of(context, hostile[i], width) != MAVCG_ERROR_SIZE ||
                    size_of(context, height, hostile[i]) != MAVCG_ERROR_SIZE)
                    return 3;
            if (size_of(context, height, width)) return 4;
            const mavcg_tensor *in = net_context_inputs(context), *out = net_context_outputs(context);
            if (in->bytes != 12 * (size_t)(height * width) || out->bytes != 4 * (size_t)(height * width)) return 5;
            void *x = calloc(1, in->bytes), *y = malloc(out->bytes);
            const void *inputs[] = {x};
            void *outputs[] = {y};
            if (net_run(context, inputs, outputs)) return 6;
            free(x), free(y);
        }
    net_destroy(context);
    return 0;
}
"""


@pytest.mark.long
def test_hostile_sizes_in_a_c_program(built: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = built
    (tmp_path / "c.c").write_text(C_PROGRAM)
    arguments = ["-std=c11", "-Wall", "-Werror", f"-I{folder}", str(tmp_path / "c.c"), f"-L{folder}", "-lnet"]
    if gcc := shutil.which("gcc"):
        subprocess.run([gcc, "-fsanitize=address", *arguments, "-o", tmp_path / "c"], check=True)
    else:
        run_zig("cc", [*arguments, "-o", str(tmp_path / "c")], "building c.c")
    environment: dict[str, Any] = {"LD_LIBRARY_PATH": str(folder)}
    ended = subprocess.run([tmp_path / "c"], capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, f"{ended.returncode} {ended.stderr}"


@pytest.mark.long
def test_parts_in_onnxruntime_take_the_steps(built: tuple[Path, Any], tmp_path: Path, cores: tuple[str, str]) -> None:
    """An operator of each part has the dimensions of its own inputs, of half or a quarter of the image."""
    folder, _ = built
    shutil.copy(folder / "net.onnx", tmp_path / "m.onnx")
    options = ["--partial", "--shape", SHAPE, "--cores", cores[1], "-o", "libm.so", "--also", "m.mavcg.onnx", "--json"]
    document = json.loads(build_in(tmp_path, "m.onnx", *options))
    assert [each["dimensions"] for each in document["subgraphs"]] == [{"height": [8, 40, 8], "width": [8, 32, 8]}]
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.register_custom_ops_library(str(tmp_path / "libm.so"))
    session = onnxruntime.InferenceSession(str(tmp_path / "m.mavcg.onnx"), settings)
    reference = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    for size in SIZES:
        x = {"x": image(size)}
        want, have = reference.run(None, x)[0], session.run(None, x)[0]
        assert have.shape == want.shape and np.abs(have - want).max() <= 1e-5 * max(1.0, np.abs(want).max())
    with pytest.raises(Exception, match="with height of 8 to 40 in steps of 8 in place of 40 and width of 8 to 32 in"):
        session.run(None, {"x": image((12, 8))})
