"""`mavcg build MODEL` with a cache of any length, which grows by the tokens of each run: keys of past + tokens."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as package
from mavcg.errors import MavcgError
from mavcg.toolchain.zig import run_zig
from tests.mavcg.cli.guarded import guarded
from tests.mavcg.cli.in_process import build_in

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.growing_caches import HEADS, SIZE, WIDTH, decoder, steps_of  # noqa: E402

pytestmark = pytest.mark.long
PAST, TOKENS = LONGEST = 70, 9
LAYERS = 2


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> Path:
    """A decoder whose mask has past + tokens numbers by the name in the file."""
    folder = tmp_path_factory.mktemp("growing")
    decoder(folder / "m.onnx", LAYERS)
    cache = f"past.0.key=1x{HEADS}x0..{PAST}x{SIZE}"
    shapes = ["--shape", f"x=1x1..{TOKENS}x{WIDTH}", "--shape", cache]
    build_in(folder, "m.onnx", *shapes, "--cores", cores[1], "-o", "libnet.so", "--tune", "off")
    return folder


@pytest.mark.parametrize("threads", [1, 3])
def test_all_lengths_have_onnxruntimes_results(built: Path, threads: int) -> None:
    """The arrays end at pages that cannot be read or written."""
    reference = onnxruntime.InferenceSession(str(built / "m.onnx"))
    with package.load(built / "libnet.so", threads=threads) as model:
        assert model.dimensions == {"tokens": (1, TOKENS), "past": (0, PAST)}
        for pair in (
            LONGEST,
            (1, 1),
            (64, 1),
            (63, 1),
            (63, 2),
            (1, TOKENS),
            (17, 5),
            (0, 1),
            (PAST, 1),
            (0, TOKENS),
            LONGEST,
        ):
            inputs = steps_of(*pair, LAYERS)
            given = {t.name: guarded(inputs[t.name]) for t in model.inputs}  # also of arrays without elements
            wanted = reference.run(None, inputs)
            places = [guarded(np.zeros_like(want)) for want in wanted]
            results = model.run(*(x for _, x in given.values()), out=[place for _, place in places])
            for have, want in zip(results, wanted, strict=True):
                assert have.shape == want.shape and np.abs(have - want).max() <= 1e-4 * np.abs(want).max()


def test_tokens_one_by_one_have_the_results_of_all_at_once(built: Path) -> None:
    """The caches of each run are those of the run before and its own; the first run has none."""
    inputs = steps_of(0, TOKENS, LAYERS)
    with package.load(built / "libnet.so") as model:
        names = [t.name for t in model.inputs]
        whole = model.run(*(inputs[name] for name in names))[0]
        caches = {name: x for name, x in inputs.items() if name.startswith("past")}
        for token in range(TOKENS):
            of_token = {name: inputs[name][:, token : token + 1] for name in ("x", "position_ids")}
            given = {**caches, **of_token, "keys_seen": np.ones((1, 1 + token), np.int64)}
            one, *grown = model.run(*(np.ascontiguousarray(given[name]) for name in names))
            caches = dict(zip(caches, grown, strict=True))
            assert np.abs(one - whole[:, token : token + 1]).max() <= 1e-4 * np.abs(whole).max()


def test_other_shapes_are_refused_and_change_nothing(built: Path) -> None:
    with package.load(built / "libnet.so") as model:
        inputs = steps_of(5, 2, LAYERS)
        before = model.run(*(inputs[t.name] for t in model.inputs))[0].tobytes()
        for name, shape in (
            ("keys_seen", (1, 6)),
            ("keys_seen", (1, 8)),
            ("past.1.value", (1, HEADS, 6, SIZE)),
            ("past.0.key", (1, HEADS, 0, SIZE)),  # where the others have 5
            ("past.0.key", (1, HEADS, PAST + 1, SIZE)),
            ("x", (1, 3, WIDTH)),
        ):
            other = {**inputs, name: np.zeros(shape, inputs[name].dtype)}
            with pytest.raises(MavcgError, match="do not fit"):
                model.run(*(other[t.name] for t in model.inputs))
        assert model.run(*(inputs[t.name] for t in model.inputs))[0].tobytes() == before


C_PROGRAM = """\
#include <stdlib.h>
#include <string.h>
#include "net.h"

static net_context *context;

static int lengths(int64_t past, int64_t tokens, int64_t keys) {
    size_t count;
    const mavcg_tensor *given = net_inputs(&count);
    int64_t **shapes = malloc(count * sizeof *shapes); /* exactly, under the address sanitizer */
    for (size_t i = 0; i < count; i++) {
        const mavcg_tensor *in = given + i;
        shapes[i] = malloc((size_t)in->rank * sizeof(int64_t));
        memcpy(shapes[i], in->dims, (size_t)in->rank * sizeof(int64_t));
        int cache = !strncmp(in->name, "past", 4);
        shapes[i][cache ? 2 : 1] = cache ? past : strcmp(in->name, "keys_seen") ? tokens : keys;
    }
    int status = net_set_shape(context, (const int64_t *const *)shapes);
    for (size_t i = 0; i < count; i++) free(shapes[i]);
    free(shapes);
    return status;
}

int main(void) {
    const int64_t hostile[] = {-1, -2, INT64_MAX, INT64_MIN, INT64_C(1) << 31, INT64_C(1) << 32, (INT64_C(1) << 32) + 5,
                               INT64_C(1) << 62, 71};
    net_options options = {.threads = 2};
    if (net_create(&options, &context) || lengths(5, 2, 7)) return 1;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        for (size_t k = 0; k < sizeof hostile / sizeof *hostile; k++) {
            int64_t both = (int64_t)((uint64_t)hostile[i] + (uint64_t)hostile[k]);
            if (lengths(hostile[i], hostile[k], both) != MAVCG_ERROR_SIZE) return 2;
            if (lengths(5, 2, hostile[i]) != MAVCG_ERROR_SIZE) return 3;
            if (lengths(5, hostile[i], 7) != MAVCG_ERROR_SIZE) return 3;
        }
    size_t in_count, out_count;
    net_inputs(&in_count), net_outputs(&out_count);
    if (lengths(0, 0, 0) != MAVCG_ERROR_SIZE || lengths(0, 2, 3) != MAVCG_ERROR_SIZE) return 3;
    for (int64_t past = 70; past >= 0; past -= past == 1 ? 1 : 23)
        for (int64_t tokens = 1; tokens <= 9; tokens += 4) {
            if (lengths(past, tokens, past + tokens)) return 4;
            const void **inputs = malloc(in_count * sizeof *inputs);
            void **outputs = malloc(out_count * sizeof *outputs);
            for (size_t i = 0; i < in_count; i++) inputs[i] = calloc(1, net_context_inputs(context)[i].bytes);
            for (size_t i = 0; i < out_count; i++) outputs[i] = malloc(net_context_outputs(context)[i].bytes);
            if (net_run(context, inputs, outputs)) return 5;
            for (size_t i = 0; i < in_count; i++) free((void *)inputs[i]);
            for (size_t i = 0; i < out_count; i++) free(outputs[i]);
            free(inputs), free(outputs);
        }
    net_destroy(context);
    return 0;
}
"""


def test_hostile_lengths_in_a_c_program(built: Path, tmp_path: Path) -> None:
    """Sums of lengths that overflow, too, end in an error code; arrays of exactly the sizes suffice."""
    (tmp_path / "c.c").write_text(C_PROGRAM)
    arguments = ["-std=c11", "-Wall", "-Werror", f"-I{built}", str(tmp_path / "c.c"), f"-L{built}", "-lnet"]
    if gcc := shutil.which("gcc"):
        subprocess.run([gcc, "-fsanitize=address", *arguments, "-o", tmp_path / "c"], check=True)
    else:
        run_zig("cc", [*arguments, "-o", str(tmp_path / "c")], "building c.c")
    environment: dict[str, Any] = {"LD_LIBRARY_PATH": str(built)}
    ended = subprocess.run([tmp_path / "c"], capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, f"{ended.returncode} {ended.stderr}"
