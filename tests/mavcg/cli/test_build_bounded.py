"""`mavcg build MODEL --shape x=1x1..160x24`: a library with a bounded dimension, by every door."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as package
from mavcg.errors import MavcgError
from mavcg.objects.elf import exported_symbols
from mavcg.toolchain.zig import run_zig
from tests.mavcg.cli.in_process import build_in

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Tokens  # noqa: E402
from tests.mavcg.cli.guarded import Array, guarded  # noqa: E402

MOST, WIDTH, RESULTS = 160, 24, 97  # so much work that a step has several chunks


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> tuple[Path, Any]:
    """A network of three results, one of which has a single number for each token; and the build's document."""
    folder = tmp_path_factory.mktemp("bounded")
    net = Tokens(WIDTH)
    net.linear(RESULTS)
    net.norm()
    wide = net.last
    net.residual()
    net.attention(heads=1)
    net.above_mean()
    net.centred()
    net.save(folder / "m.onnx", [net.last, wide])
    options = ["--shape", f"x=1x1..{MOST}x{WIDTH}", "--cores", cores[1], "-o", "libnet.so", "--tune", "off", "--json"]
    return folder, json.loads(build_in(folder, "m.onnx", *options))


def inputs_of(length: int) -> Array:
    return np.random.default_rng(length).standard_normal((1, length, WIDTH)).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 3])
def test_every_length_has_onnxruntimes_results(built: tuple[Path, Any], threads: int) -> None:
    """The arrays end at pages that cannot be read or written."""
    folder, _ = built
    reference = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    with package.load(folder / "libnet.so", threads=threads) as model:
        assert model.dimensions == {"tokens": (1, MOST)}
        assert model.inputs[0].shape == (1, MOST, WIDTH)
        for length in (MOST, 1, 2, 3, 5, 7, 13, 31, MOST - 1, MOST, 6):
            memory, x = guarded(inputs_of(length))
            wanted = reference.run(None, {"x": x})
            places = [guarded(np.zeros_like(want)) for want in wanted]
            results = model.run(x, out=[place for _, place in places])
            for have, want in zip(results, wanted, strict=True):
                assert have.shape == want.shape and np.abs(have - want).max() <= 1e-4 * np.abs(want).max()
            assert model.outputs[0].shape == (1, length, RESULTS) and memory is not None
            assert [a.tobytes() for a in model.run(x)] == [a.tobytes() for a in results]


def test_lengths_change_between_the_runs_of_several_threads(built: tuple[Path, Any]) -> None:
    """Threads that are late for a step never take rows of it by the length of a later run."""
    folder, _ = built
    lengths = (MOST, 3, 97, 1, 64)
    with package.load(folder / "libnet.so") as alone:
        expected = [alone.run(inputs_of(length))[0].tobytes() for length in lengths]
    arrays = [inputs_of(length) for length in lengths]
    with package.load(folder / "libnet.so", threads=3) as model:
        assert model.threads == 3
        for turn in range(200):
            number = turn * 7 % len(lengths)
            assert model.run(arrays[number])[0].tobytes() == expected[number]


def test_other_shapes_are_refused_and_change_nothing(built: tuple[Path, Any]) -> None:
    folder, _ = built
    with package.load(folder / "libnet.so") as model:
        before = model.run(inputs_of(7))[0].tobytes()
        for shape in (
            (1, 0, WIDTH),
            (1, MOST + 1, WIDTH),
            (2, 7, WIDTH),
            (1, 7, WIDTH + 1),
            (7, WIDTH),
            (1, 7, WIDTH, 1),
        ):
            with pytest.raises(MavcgError, match=f"do not fit .* the dimension tokens of 1 to {MOST}"):
                model.run(np.zeros(shape, np.float32))
        with pytest.raises(MavcgError, match="float64"):
            model.run(np.zeros((1, 7, WIDTH)))
        with pytest.raises(MavcgError, match="2 inputs given"):
            model.run(inputs_of(7), inputs_of(7))
        with pytest.raises(MavcgError, match="out "):
            model.run(inputs_of(7), out=[np.zeros((1, 8, RESULTS), np.float32)] * 2)
        assert model.run(inputs_of(7))[0].tobytes() == before
    with pytest.raises(MavcgError, match="closed"):
        model.run(inputs_of(3))


@pytest.mark.parametrize("before", [5, 9])
def test_arrays_that_lie_otherwise_are_copied(built: tuple[Path, Any], before: int) -> None:
    """A transposed array, every second row and a list of Python, at the length of the run before and at another."""
    folder, _ = built
    x = inputs_of(5)
    turned, spaced = np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1), np.repeat(x, 2, axis=1)[:, ::2]
    assert not turned.flags.c_contiguous and not spaced.flags.c_contiguous
    with package.load(folder / "libnet.so") as model:
        wanted = [result.tobytes() for result in model.run(x)]
        for other in (turned, spaced):
            model.run(inputs_of(before))
            assert [result.tobytes() for result in model.run(other)] == wanted
        model.run(inputs_of(before))
        with pytest.raises(MavcgError, match="float64"):
            model.run(x.tolist())


@pytest.mark.parametrize("tokens", [1 << 31, (1 << 31) + 1, (1 << 32) + 7, 1 << 55])
def test_lengths_that_no_memory_has_are_refused(built: tuple[Path, Any], tokens: int) -> None:
    """One number that is all elements of an array: it is neither copied nor read."""
    folder, _ = built
    with package.load(folder / "libnet.so") as model:
        with pytest.raises(MavcgError, match="do not fit"):
            model.run(np.broadcast_to(np.float32(0), (1, tokens, WIDTH)))
        assert model.run(inputs_of(7))[0].shape == (1, 7, RESULTS)


def test_the_document_and_the_note_name_the_dimension(built: tuple[Path, Any], mavcg: Any) -> None:
    folder, document = built
    assert document["dimensions"] == {"tokens": [1, MOST]}
    assert json.loads(mavcg("inspect", folder / "libnet.so", "--json").stdout)["dimensions"] == {"tokens": [1, MOST]}
    assert f"tokens: 1 to {MOST}, in each run anew" in mavcg("inspect", folder / "libnet.so").stdout
    header = (folder / "net.h").read_text()
    assert f"x: f32[1,tokens,{WIDTH}], {4 * WIDTH} * tokens bytes" in header
    names = {f"mavcg_model_net_{name}" for name in ("set_shape", "context_inputs", "context_outputs")}
    assert names <= exported_symbols(folder / "libnet.so")


def test_mavcg_run_takes_any_length(built: tuple[Path, Any], mavcg: Any, tmp_path: Path) -> None:
    folder, _ = built
    x = inputs_of(5)
    np.save(tmp_path / "x.npy", x)
    ended = mavcg("run", folder / "libnet.so", "--input", tmp_path / "x.npy", "-o", tmp_path / "y.npz")
    assert ended.status == 0, ended.stderr
    with package.load(folder / "libnet.so") as model:
        written = np.load(tmp_path / "y.npz")
        assert [written[t.name].tobytes() for t in model.outputs] == [a.tobytes() for a in model.run(x)]


C_PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

static int length_of(net_context *context, int64_t a, int64_t tokens, int64_t width) {
    int64_t *shape = malloc(3 * sizeof *shape); /* exactly, under the address sanitizer */
    shape[0] = a, shape[1] = tokens, shape[2] = width;
    const int64_t *const dims[] = {shape};
    int status = net_set_shape(context, dims);
    free(shape);
    return status;
}

int main(void) {
    const int64_t *none[] = {NULL};
    const int64_t hostile[] = {0, -1, 161, INT64_MAX, INT64_MIN, (INT64_C(1) << 32) + 1, INT64_C(1) << 31, -7,
                               (INT64_C(1) << 31) + 7, (INT64_C(1) << 32) + 7, INT64_MIN + 7, INT64_C(1) << 62};
    net_context *context;
    net_options options = {.threads = 2};
    if (net_create(&options, &context)) return 1;
    if (net_context_inputs(context)[0].bytes != net_inputs(NULL)[0].bytes) return 2;
    if (net_set_shape(NULL, none) != MAVCG_ERROR_NULL || net_set_shape(context, NULL) != MAVCG_ERROR_NULL) return 3;
    if (net_set_shape(context, none) != MAVCG_ERROR_NULL) return 4;
    if (length_of(context, 1, 7, 24)) return 5;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        if (length_of(context, 1, hostile[i], 24) != MAVCG_ERROR_SIZE) return 6;
    if (length_of(context, 2, 7, 24) != MAVCG_ERROR_SIZE || length_of(context, 1, 7, 23) != MAVCG_ERROR_SIZE) return 7;
    const mavcg_tensor *in = net_context_inputs(context), *out = net_context_outputs(context);
    if (in[0].dims[1] != 7 || in[0].bytes != 7 * 24 * 4 || out[0].bytes != 7 * 97 * 4) return 8;
    for (int64_t tokens = 160; tokens > 0; tokens -= 3) { /* exact arrays, under the address sanitizer */
        if (length_of(context, 1, tokens, 24)) return 9;
        float *x = calloc(1, in[0].bytes), *y = malloc(out[0].bytes), *wide = malloc(out[1].bytes);
        const void *inputs[] = {x};
        void *outputs[] = {y, wide};
        const size_t in_bytes[] = {in[0].bytes}, out_bytes[] = {out[0].bytes, out[1].bytes};
        const size_t longer[] = {in[0].bytes + 4};
        if (net_run_sized(context, inputs, longer, outputs, out_bytes) != MAVCG_ERROR_SIZE) return 10;
        if (net_run_sized(context, inputs, in_bytes, outputs, out_bytes)) return 11;
        if (tokens == 1) printf("%a %a\\n", y[0], wide[96]);
        free(x), free(y), free(wide);
    }
    net_destroy(context);
    return 0;
}
"""

CPP_PROGRAM = """\
#include <cstdio>
#include <vector>
#include "net.hpp"
int main() {
    mavcg_net::context model(2);
    if (!model || model.set_shape({1, 161, 24}) != MAVCG_ERROR_SIZE || model.set_shape({1, 9, 24})) return 1;
    std::vector<float> x(9 * 24), y(model.outputs()[0].bytes / 4), wide(model.outputs()[1].bytes / 4);
    std::vector<double> times(model.steps().size());
    if (y.size() != 9 * 97 || model.run(x, y, wide) || model.profile(times, x, y, wide)) return 2;
    std::vector<float> longer(10 * 24);
    if (model.run(longer, y, wide) != MAVCG_ERROR_SIZE) return 3;
    if (model.profile(times, longer, y, wide) != MAVCG_ERROR_SIZE) return 4;
    std::printf("%a %a\\n", y[0], wide[96]);
}
"""


@pytest.mark.long
def test_c_and_cpp_programs_set_the_length(built: tuple[Path, Any], tmp_path: Path) -> None:
    """Hostile lengths end in an error code, and arrays of exactly the sizes suffice."""
    folder, _ = built
    with package.load(folder / "libnet.so") as model:
        y, wide = model.run(np.zeros((1, 1, WIDTH), np.float32))
    first = f"{float(y[0, 0, 0]).hex()} {float(wide[0, 0, 96]).hex()}"
    for name, text, options in (("c.c", C_PROGRAM, ["-std=c11"]), ("c.cpp", CPP_PROGRAM, ["-std=c++20"])):
        (tmp_path / name).write_text(text)
        program = tmp_path / f"{name}.out"
        tool = "cc" if name == "c.c" else "c++"
        arguments = [*options, "-Wall", "-Werror", f"-I{folder}", str(tmp_path / name), f"-L{folder}", "-lnet"]
        gcc = shutil.which("gcc")
        if gcc and tool == "cc":
            subprocess.run([gcc, "-fsanitize=address", *arguments, "-o", program], check=True)
        else:
            run_zig(tool, [*arguments, "-o", str(program)], f"building {name}")
        ended = subprocess.run(
            [program], capture_output=True, text=True, check=False, env={"LD_LIBRARY_PATH": str(folder)}
        )
        assert ended.returncode == 0, f"{name}: {ended.returncode} {ended.stderr}"
        assert [float.fromhex(word) for word in ended.stdout.split()] == [float.fromhex(word) for word in first.split()]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--shape", "x=1x4..2x24"], "the range 4..2 has no length"),
        (["--shape", "x=1x1..4x24", "--max-arena", "1MB"], "--max-arena 1MB: does not apply to a bounded dimension"),
        (["--shape", "x=1x1..4x24", "--precision", "auto"], "--precision auto: does not apply"),
        (["--shape", "x=1x1..4x24", "--state", "x=t2"], "--state x=t2: only states have the dimension tokens, so no"),
    ],
)
def test_what_a_bounded_dimension_does_not_support_is_refused(
    mavcg: Any, here: Path, cores: tuple[str, str], options: list[str], words: str
) -> None:
    net = Tokens(24)
    net.linear(24)
    net.save(here / "m.onnx", ["t1", "t2"])
    ended = mavcg("build", "m.onnx", "--cores", cores[1], *options)
    assert ended.status == 2 and words in ended.stderr
    assert [path.name for path in here.iterdir()] == ["m.onnx"]
