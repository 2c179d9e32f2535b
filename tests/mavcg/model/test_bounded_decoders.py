"""Decoders with a bounded prompt: onnxruntime's values, and the bits of kernels for each number of tokens."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as package
from mavcg.errors import MavcgError
from mavcg.graph.counts import Dimension

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_run import assert_same, results_of_lengths  # noqa: E402
from tests.mavcg.cli.in_process import build_in  # noqa: E402
from tests.mavcg.importers.grouped_attention_models import ROOM, SIZE, floats, kept_tokens, model  # noqa: E402

helper = onnx.helper
MICROSOFT = "com.microsoft"
DECODER = Path(__file__).parents[3] / "examples/decoder/make_decoder.py"


def free(path: Path, *names: str) -> Path:
    """The model with its tokens, axis 1 of these inputs, free."""
    graph = onnx.load(path)
    for value in graph.graph.input:
        if value.name in names:
            value.type.tensor_type.shape.dim[1].dim_param = "tokens"
    onnx.save(graph, path)
    return path


@pytest.mark.parametrize(
    ("packed", "window", "room"), [(True, -1, ROOM), (False, 3, ROOM), pytest.param(True, 3, 5, marks=pytest.mark.long)]
)
def test_attention_over_caches(tmp_path: Path, packed: bool, window: int, room: int) -> None:
    """Runs of one to seven tokens attend to caches that are empty or hold tokens of earlier runs.

    A cache that is shorter than the text drops what is before the window.
    """
    heads, random, drops = (4, 2), np.random.default_rng(0), room < ROOM
    more = {"do_rotary": 1, "local_window_size": window, "sliding_window_cache": int(drops)}
    names = ("q",) if packed else ("q", "k", "v")
    path = free(model(tmp_path / "m.onnx", 1, 7, heads, packed, more=more, room=room), *names)
    widths = [heads[0] + 2 * heads[1]] if packed else [heads[0], heads[1], heads[1]]
    reference = onnxruntime.InferenceSession(path)
    inputs: dict[int, Any] = {}
    for n, before in ((1, 4), (2, 0), (3, 2), (6, 5), (7, 0)):
        caches = {f"past_{name}": floats(random, 1, heads[1], room, SIZE) for name in ("key", "value")}
        of_tokens = {name: floats(random, 1, n, w * SIZE) for name, w in zip(names, widths, strict=True)}
        last, total = np.array([before + n - 1], np.int32), np.array(before + n, np.int32)
        inputs[n] = {**of_tokens, **caches, "last": last, "total": total}
    shapes = {name: (1, None, width * SIZE) for name, width in zip(names, widths, strict=True)}
    results = results_of_lengths(path, shapes, Dimension("tokens", 1, 7), inputs, (2, 6))
    for n, (ours, fixed) in results.items():
        assert ours == (fixed or ours), f"the bits of {n} tokens"
        keys = kept_tokens(int(inputs[n]["total"]), room, window) if drops else int(inputs[n]["total"])
        expected = reference.run(None, inputs[n])
        for number, (have, want) in enumerate(zip(ours, expected, strict=True)):
            near = np.frombuffer(have, np.float32).reshape(want.shape)
            used = slice(None) if not number else (slice(None), slice(None), slice(keys))
            np.testing.assert_allclose(near[used], want[used], 2e-5, 2e-5)


@pytest.mark.parametrize("level", [0, 4])
def test_weights_of_four_bits(tmp_path: Path, level: int) -> None:
    """One to nine tokens: each tile of lines, and none of them."""
    rng, width, out = np.random.default_rng(0), 80, 37
    arrays = {
        "w": rng.integers(0, 256, (out, 3, 16)).astype(np.uint8),
        "s": rng.uniform(0.05, 0.1, out * 3).astype(np.float32),
        "b": rng.standard_normal(out).astype(np.float32),
    }
    attributes = {"K": width, "N": out, "bits": 4, "block_size": 32, "accuracy_level": level}
    node = helper.make_node("MatMulNBits", ["x", "w", "s", "", "", "b"], ["y"], "p", domain=MICROSOFT, **attributes)
    value = helper.make_tensor_value_info
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph([node], "g", [value("x", 1, [1, "n", width])], [value("y", 1, None)], constants)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), tmp_path / "m.onnx")
    inputs = {n: {"x": rng.standard_normal((1, n, width)).astype(np.float32)} for n in range(1, 10)}
    assert_same(tmp_path / "m.onnx", {"x": (1, None, width)}, Dimension("n", 1, 9), inputs, (3, 8))


@pytest.mark.long
@pytest.mark.parametrize("level", ["0", "4"])
def test_a_text(tmp_path: Path, cores: tuple[str, str], level: str) -> None:
    """Prompts of several lengths and single tokens, whose caches are states, beside onnxruntime."""
    path = tmp_path / "decoder.onnx"
    run_decoder_writer(path, level)
    states = ("--state", "past_key_values.*=present.*")
    given = ("--shape", "input_ids=1x1..16", *states, "--cores", cores[1], "-o", "libdecoder.so")
    build_in(tmp_path, "decoder.onnx", *given)
    session, random = onnxruntime.InferenceSession(path), np.random.default_rng(0)
    caches = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs() if i.name.startswith("past")}
    with package.load(tmp_path / "libdecoder.so", threads=2) as decoder:
        assert decoder.dimensions == {"tokens": (1, 16)} and len(decoder.states) == 4
        before = 0
        for count in (16, 1, 1, 5, 16, 2, 3, 1, 7):
            total = before + count
            feed = {
                "input_ids": random.integers(0, 512, (1, count)),
                "seqlens_k": np.array([total - 1], np.int32),
                "total_sequence_length": np.array(total, np.int32),
            }
            want, *present = session.run(None, feed | caches)
            caches.update(zip(caches, present, strict=True))
            saved = decoder.save_state()
            (have,) = decoder.run(*(feed[tensor.name] for tensor in decoder.inputs))
            assert np.abs(have - want).max() <= (2e-5 if level == "0" else 0.05) * np.abs(want).max()
            decoder.restore_state(saved)
            (again,) = decoder.run(*(feed[tensor.name] for tensor in decoder.inputs))
            assert again.tobytes() == have.tobytes()
            before = total
        with pytest.raises(MavcgError, match="do not fit"):
            decoder.run(np.zeros((1, 17), np.int64), np.array([16], np.int32), np.array(17, np.int32))


def run_decoder_writer(path: Path, level: str) -> None:
    """Write the example's decoder of the smallest size."""
    import runpy
    import sys
    from unittest import mock

    arguments = [str(DECODER), str(path), "--size", "tiny", "--accuracy-level", level]
    with mock.patch.object(sys, "argv", arguments):
        runpy.run_path(str(DECODER), run_name="__main__")


C_PROGRAM = """\
#include <stdlib.h>
#include <string.h>
#include "decoder.h"

static int of_lengths(decoder_context *context, int64_t ids, int64_t last) {
    int64_t *shape = malloc(2 * sizeof *shape), *ends = malloc(sizeof *ends);
    shape[0] = 1, shape[1] = ids, ends[0] = last;
    const int64_t *const dims[] = {shape, ends, NULL}; /* a number has no dimensions */
    int status = decoder_set_shape(context, dims);
    free(shape), free(ends);
    return status;
}

int main(void) {
    const int64_t hostile[] = {0, -1, 17, INT64_MAX, INT64_MIN, INT64_C(1) << 31, (INT64_C(1) << 32) + 5};
    decoder_context *context;
    decoder_options options = {.threads = 2};
    if (decoder_create(&options, &context)) return 1;
    if (of_lengths(context, 5, 2) != MAVCG_ERROR_SIZE) return 2;
    int before = 0;
    for (int64_t tokens = 16; tokens > 0; tokens -= 3) {
        if (of_lengths(context, tokens, 1)) return 3;
        for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
            if (of_lengths(context, hostile[i], 1) != MAVCG_ERROR_SIZE) return 4;
        size_t bytes = decoder_context_outputs(context)[0].bytes;
        if (bytes != (size_t)tokens * 512 * 4) return 5;
        int64_t *ids = calloc((size_t)tokens, sizeof *ids);
        int32_t *last = malloc(sizeof *last), *total = malloc(sizeof *total);
        float *scores = malloc(bytes);
        before += (int)tokens;
        *last = before - 1, *total = before;
        const void *inputs[] = {ids, last, total};
        void *outputs[] = {scores};
        if (decoder_run(context, inputs, outputs)) return 6;
        *last = 256 - 1 + (int)tokens; /* behind the end of the caches */
        if (decoder_run(context, inputs, outputs) != MAVCG_ERROR_INDEX) return 7;
        if (decoder_reset(context)) return 8;
        before = 0;
        free(ids), free(last), free(total), free(scores);
    }
    decoder_destroy(context);
    return 0;
}
"""


@pytest.mark.long
def test_hostile_numbers_of_tokens_in_c(tmp_path: Path, cores: tuple[str, str]) -> None:
    """They end in an error code, also beside caches; arrays of exactly the sizes suffice (address sanitizer)."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc")
    run_decoder_writer(tmp_path / "decoder.onnx", "0")
    given = ("--shape", "input_ids=1x1..16", "--state", "past_key_values.*=present.*", "--cores", cores[1])
    build_in(tmp_path, "decoder.onnx", *given, "-o", "libdecoder.so")
    (tmp_path / "c.c").write_text(C_PROGRAM)
    command = [gcc, "-std=c11", "-Wall", "-Werror", "-fsanitize=address", "c.c", "-L.", "-ldecoder", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    ended = subprocess.run(
        [tmp_path / "program"], env={"LD_LIBRARY_PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert ended.returncode == 0, f"{ended.returncode} {ended.stderr}"
