"""`mavcg build MODEL --shape input_ids=1..4x1..96`: a library with two bounded dimensions, by every door."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as package
from mavcg.errors import MavcgError
from tests.mavcg.cli.guarded import guarded
from tests.mavcg.cli.in_process import build_in

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bert_models import MOST, bert, sentence  # noqa: E402

BOUNDS = {"batch": [1, 4], "tokens": [1, MOST]}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> tuple[Path, Any]:
    """An encoder whose mask follows its tokens by the names of dimensions; and the build's document."""
    folder = tmp_path_factory.mktemp("dimensions")
    bert(folder / "m.onnx", layers=1, batch="batch")
    options = ["--shape", f"input_ids=1..4x1..{MOST}", "--cores", cores[1], "-o", "libnet.so", "--tune", "off"]
    return folder, json.loads(build_in(folder, "m.onnx", *options, "--json"))


@pytest.mark.parametrize("threads", [1, 3])
def test_all_lengths_have_onnxruntimes_results(built: tuple[Path, Any], threads: int) -> None:
    """The arrays end at pages that cannot be read or written."""
    folder, _ = built
    reference = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    with package.load(folder / "libnet.so", threads=threads) as model:
        assert model.dimensions == {name: tuple(bounds) for name, bounds in BOUNDS.items()}
        for batch, length in ((4, MOST), (1, 1), (3, 17), (2, 17), (4, 1), (1, MOST), (2, 64), (3, 31)):
            memories, given = zip(*map(guarded, sentence(length, batch=batch).values()), strict=True)
            wanted = reference.run(None, dict(zip(("input_ids", "attention_mask"), given, strict=True)))
            places = [guarded(np.zeros_like(want)) for want in wanted]
            for have, want in zip(model.run(*given, out=[place for _, place in places]), wanted, strict=True):
                assert have.shape == want.shape and np.abs(have - want).max() <= 1e-4 * np.abs(want).max()
            assert model.outputs[0].shape == (batch, length, 24) and len(memories) == 2


def test_other_shapes_are_refused_and_change_nothing(built: tuple[Path, Any]) -> None:
    folder, _ = built
    with package.load(folder / "libnet.so") as model:
        before = model.run(*sentence(7, batch=3).values())[0].tobytes()
        for ids, mask in (
            ((0, 7), (0, 7)),
            ((3, 0), (3, 0)),
            ((5, 7), (5, 7)),
            ((3, MOST + 1), (3, MOST + 1)),
            ((3, 7), (2, 7)),
            ((3, 7), (3, 8)),
            ((7, 3), (3, 7)),
            ((21,), (21,)),
        ):
            words = f"do not fit .* the dimensions batch of 1 to 4 in place of 4 and tokens of 1 to {MOST}"
            with pytest.raises(MavcgError, match=words):
                model.run(np.zeros(ids, np.int64), np.ones(mask, np.int64))
        assert model.run(*sentence(7, batch=3).values())[0].tobytes() == before


def test_the_document_and_the_header_name_the_dimensions(built: tuple[Path, Any], mavcg: Any) -> None:
    folder, document = built
    assert document["dimensions"] == BOUNDS
    assert json.loads(mavcg("inspect", folder / "libnet.so", "--json").stdout)["dimensions"] == BOUNDS
    shown = mavcg("inspect", folder / "libnet.so").stdout
    assert f"batch: 1 to 4, in each run anew, tokens: 1 to {MOST}, in each run anew" in shown
    header = (folder / "net.h").read_text()
    for line in ("input_ids: i64[batch,tokens], 8 * batch * tokens bytes", ": f32[batch,24], 96 * batch bytes"):
        assert line in header


C_PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

static int set(net_context *context, int64_t batch, int64_t tokens, int64_t masks, int64_t seen) {
    const int64_t ids[] = {batch, tokens}, mask[] = {masks, seen}, *dims[] = {ids, mask};
    return net_set_shape(context, dims);
}

int main(void) {
    const int64_t hostile[] = {0, -1, 97, INT64_MAX, INT64_MIN, (INT64_C(1) << 32) + 1, INT64_C(1) << 62};
    net_context *context;
    net_options options = {.threads = 2};
    if (net_create(&options, &context) || set(context, 2, 7, 2, 7)) return 1;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        int64_t n = hostile[i];
        if (set(context, n, 7, n, 7) != MAVCG_ERROR_SIZE || set(context, 2, n, 2, n) != MAVCG_ERROR_SIZE) return 2;
        if (set(context, n, n, n, n) != MAVCG_ERROR_SIZE || set(context, 2, 7, 2, n) != MAVCG_ERROR_SIZE) return 3;
        if (net_context_outputs(context)[0].bytes != 2 * 7 * 24 * 4) return 4;
    }
    for (int64_t batch = 4; batch > 0; batch--)
        for (int64_t tokens = 96; tokens > 0; tokens -= 19) { /* exact arrays, under the address sanitizer */
            if (set(context, batch, tokens, batch, tokens)) return 5;
            const mavcg_tensor *in = net_context_inputs(context), *out = net_context_outputs(context);
            int64_t *ids = calloc(1, in[0].bytes), *mask = malloc(in[1].bytes);
            float *y = malloc(out[0].bytes), *mean = malloc(out[1].bytes);
            for (int64_t i = 0; i < batch * tokens; i++) ids[i] = i % 50, mask[i] = 1;
            const void *inputs[] = {ids, mask};
            void *outputs[] = {y, mean};
            if (in[0].bytes != (size_t)(batch * tokens) * 8 || net_run(context, inputs, outputs)) return 6;
            if (batch * tokens == 1) printf("%a %a\\n", y[0], mean[23]);
            free(ids), free(mask), free(y), free(mean);
        }
    net_destroy(context);
    return 0;
}
"""


def test_a_c_program_sets_the_lengths(built: tuple[Path, Any], tmp_path: Path) -> None:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed")
    folder, _ = built
    (tmp_path / "c.c").write_text(C_PROGRAM)
    arguments = [gcc, "-fsanitize=address", "-Wall", "-Werror", f"-I{folder}", "c.c", f"-L{folder}", "-lnet", "-o", "c"]
    subprocess.run(arguments, cwd=tmp_path, check=True)
    ended = subprocess.run([tmp_path / "c"], capture_output=True, text=True, env={"LD_LIBRARY_PATH": str(folder)})
    assert ended.returncode == 0, f"{ended.returncode} {ended.stderr}"
    with package.load(folder / "libnet.so") as model:
        y, mean = model.run(np.zeros((1, 1), np.int64), np.ones((1, 1), np.int64))
    assert [float.fromhex(word) for word in ended.stdout.split()] == [y[0, 0, 0], mean[0, 23]]


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (["input_ids=1..4x1..8", "attention_mask=1..4x1..9"], "1..8 and 1..9 are bounds of the dimension tokens"),
        (["input_ids=1..4x8..1"], "the range 8..1 has no length"),
        (["input_ids=1..4x1,8"], "beside a list"),
    ],
)
def test_bounds_that_do_not_agree_are_refused(
    mavcg: Any, here: Path, cores: tuple[str, str], shapes: list[str], words: str
) -> None:
    bert(here / "m.onnx", layers=1, batch="batch")
    options = [word for shape in shapes for word in ("--shape", shape)]
    ended = mavcg("build", "m.onnx", "--cores", cores[1], *options)
    assert ended.status == 2 and words in ended.stderr and len(ended.stderr.splitlines()) == 1
    assert [path.name for path in here.iterdir()] == ["m.onnx"]


def test_a_node_between_tokens_without_a_kernel_is_named(mavcg: Any, here: Path, cores: tuple[str, str]) -> None:
    """The largest of tokens, of which there may be none."""
    value = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("ArgMax", ["x"], ["y"], name="scores", axis=1)]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, ["batch", "tokens", 8])], [value("y", 7, None)])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), "m.onnx")
    ended = mavcg("build", "m.onnx", "--cores", cores[1], "--shape", "x=1..4x0..12x8")
    assert ended.status == 2 and len(ended.stderr.splitlines()) == 1
    assert "node 'scores' (arg_max): the bounded dimensions batch (1 to 4), tokens (0 to 12): no kernel" in ended.stderr
    assert "give a list of lengths in their place, such as 1,4 and 0,12, for a size of each" in ended.stderr
