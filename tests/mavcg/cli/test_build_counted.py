"""`mavcg build` of a detection network with NonMaxSuppression at its end: outputs whose length a run decides."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mavcg as package
from mavcg.errors import MavcgError
from mavcg.objects.elf import exported_symbols
from mavcg.toolchain.zig import run_zig
from tests.mavcg.cli.in_process import build_in

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = NDArray[Any]
SIZE, ANCHORS, CLASSES = 24, 36, 3
TEXT = "an index in an input, or computed from one, is outside of the tensor it counts in"


def make_model(path: Path) -> None:
    """Convolutions, scores and boxes of cells, what remains as rows; the places of large pixels, two a column."""
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    draw = np.random.default_rng(0)
    nodes = [
        node("Conv", ["x", "w1"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w2"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Reshape", ["c", "by_cell"], ["cells"]),
        node("Split", ["cells", "parts"], ["raw_scores", "raw_boxes"], axis=1),
        node("Sigmoid", ["raw_scores"], ["scores"]),
        node("Transpose", ["raw_boxes"], ["moved"], perm=[0, 2, 1]),
        node("Add", ["moved", "anchors"], ["boxes"]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["kept"]),
        node("Gather", ["kept", "two"], ["number"], axis=1),
        node("Squeeze", ["boxes", "zero"], ["all_boxes"]),
        node("Gather", ["all_boxes", "number"], ["its_boxes"]),
        node("GatherND", ["scores", "kept"], ["its_scores"]),
        node("Unsqueeze", ["its_scores", "one"], ["score_column"]),
        node("Concat", ["its_boxes", "score_column"], ["detections"], axis=1),
        node("Greater", ["x", "limit"], ["bright"]),
        node("NonZero", ["bright"], ["places"]),
        node("Gather", ["all_boxes", "chosen"], ["picked"]),
        node("Gather", ["picked", "zero_index"], ["same"], axis=1),
    ]
    corners = draw.integers(0, 20, (ANCHORS, 2)).astype(np.float32)
    anchors = np.concatenate([corners, corners + 6], 1)[None]
    known = {
        "w1": draw.standard_normal((8, 3, 3, 3)).astype(np.float32),
        "w2": (draw.standard_normal((CLASSES + 4, 8, 3, 3)) / 12).astype(np.float32),  # no two scores are nearly equal
        "by_cell": np.array([1, CLASSES + 4, ANCHORS]),
        "parts": np.array([CLASSES, 4]),
        "anchors": anchors,
        "most": np.array([10]),
        "overlap": np.array([0.4], np.float32),
        "two": np.array(2),
        "zero": np.array([0]),
        "one": np.array([1]),
        "limit": np.array(1, np.float32),
        "zero_index": np.array(0),
    }
    graph = onnx.helper.make_graph(
        nodes,
        "detector",
        [value("x", 1, [1, 3, SIZE, SIZE]), value("least", 1, [1]), value("chosen", 7, [2])],
        [value("detections", 1, ["found", 5]), value("kept", 7, None), value("places", 7, None), value("same", 1, [2])],
        [onnx.numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("counted")
    make_model(folder / "m.onnx")
    options = ["--cores", cores[1], "-o", "libnet.so", "--tune", "off", "--json"]
    return folder, json.loads(build_in(folder, "m.onnx", *options))


def inputs_of(seed: int, least: float) -> list[Array]:
    x = np.random.default_rng(seed).standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
    return [x, np.array([least], np.float32), np.array([seed % ANCHORS, -1])]


def theirs(folder: Path, arrays: list[Array]) -> list[Array]:
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    made: list[Array] = session.run(None, dict(zip(("x", "least", "chosen"), arrays, strict=True)))
    return made


@pytest.mark.parametrize("threads", [1, 2])
def test_arrays_have_the_lengths_that_the_run_decides(built: tuple[Path, Any], threads: int) -> None:
    """onnxruntime's boxes, from none (a score of 2 has nobody) to the bound; then an index that does not exist."""
    folder, _ = built
    with package.load(folder / "libnet.so", threads=threads) as model:
        assert model.counted == {"detections": 0, "kept": 0, "places": 1}
        assert [t.shape for t in model.outputs] == [(30, 5), (30, 3), (4, 3 * SIZE * SIZE), (2,)]
        lengths = set()
        for seed, least in enumerate((0.9, 0.3, 2.0, 0.5, 0.0)):
            arrays = inputs_of(seed, least)
            have, want = model.run(*arrays), theirs(folder, arrays)
            assert [a.shape for a in have] == [a.shape for a in want]
            assert np.array_equal(have[1], want[1]) and np.array_equal(have[2], want[2])
            np.testing.assert_allclose(have[0], want[0], 1e-4, 1e-5)
            lengths.add(len(have[0]))
        assert min(lengths) == 0 and len(lengths) > 2
        out = model.empty_outputs()
        views = model.run(*inputs_of(1, 0.0), out=out)
        assert all(np.shares_memory(view, array) for view, array in zip(views, out, strict=True))
        with pytest.raises(MavcgError, match=TEXT):
            model.run(*inputs_of(1, 0.3)[:2], np.array([0, ANCHORS]))
        assert len(model.run(*inputs_of(2, 2.0))[0]) == 0


def test_the_document_the_note_and_the_header_have_the_bound(built: tuple[Path, Any], mavcg: Any) -> None:
    folder, document = built
    detections = {"name": "detections", "type": "f32[30,5]", "counted": True, "counted_axis": 0}
    assert document["outputs"][0] == detections and document["outputs"][3] == {"name": "same", "type": "f32[2]"}
    assert json.loads(mavcg("inspect", folder / "libnet.so", "--json").stdout)["outputs"][0] == detections
    assert "detections f32[30,5] (each run decides the length of axis 0)" in " ".join(
        mavcg("inspect", folder / "libnet.so").stdout.split()
    )
    header = (folder / "net.h").read_text()
    assert "detections: f32[up to 30,5], memory for 600 bytes" in header
    names = exported_symbols(folder / "libnet.so")
    assert "mavcg_model_net_context_outputs" in names and "mavcg_model_net_set_shape" not in names


def test_mavcg_run_writes_the_actual_shapes(built: tuple[Path, Any], mavcg: Any, tmp_path: Path) -> None:
    folder, _ = built
    arrays = inputs_of(1, 0.3)
    for name, array in zip(("x", "least", "chosen"), arrays, strict=True):
        np.save(tmp_path / f"{name}.npy", array)
    files = [argument for name in ("x", "least", "chosen") for argument in ("--input", f"{name}={tmp_path / name}.npy")]
    ended = mavcg("run", folder / "libnet.so", *files, "-o", tmp_path / "y.npz")
    assert ended.status == 0, ended.stderr
    written = np.load(tmp_path / "y.npz")
    assert [written[n].shape for n in ("detections", "places")] == [a.shape for a in theirs(folder, arrays)[::2]]


C_PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

int main(void) {
    net_context *context;
    if (net_create(NULL, &context)) return 1;
    const mavcg_tensor *bound = net_outputs(NULL), *made = net_context_outputs(context);
    if (made[0].dims[0] != 30 || made[0].bytes != 600 || net_context_outputs(NULL) != bound) return 2;
    float *x = calloc(1, net_inputs(NULL)[0].bytes), least = 2;
    int64_t chosen[2] = {0, -1};
    const void *inputs[] = {x, &least, chosen};
    void *outputs[4];
    size_t in_bytes[3], out_bytes[4];
    for (int i = 0; i < 3; i++) in_bytes[i] = net_inputs(NULL)[i].bytes;
    for (int i = 0; i < 4; i++) outputs[i] = malloc(out_bytes[i] = bound[i].bytes); /* exact, under the sanitizer */
    if (net_run_sized(context, inputs, in_bytes, outputs, out_bytes)) return 3;
    if (made[0].dims[0] != 0 || made[0].bytes != 0 || bound[0].dims[0] != 30) return 4;
    if (made[2].dims[0] != 4 || made[2].dims[1] != 0 || made[2].bytes != 0) return 5;
    for (int i = 0; i < 3 * 24 * 24; i++) x[i] = 2; /* all of it is bright */
    if (net_run_sized(context, inputs, in_bytes, outputs, out_bytes)) return 6;
    if (made[2].dims[1] != 3 * 24 * 24 || made[2].bytes != out_bytes[2]) return 7;
    x[5] = x[700] = 0;
    if (net_run(context, inputs, outputs) || made[2].dims[1] != 3 * 24 * 24 - 2) return 8;
    const int64_t *columns = (const int64_t *)outputs[2] + 3 * made[2].dims[1]; /* dense: after the third row */
    if (columns[4] != 4 || columns[5] != 6) return 9;
    const int64_t hostile[] = {36, -37, INT64_MAX, INT64_MIN};
    for (int i = 0; i < 4; i++) {
        chosen[1] = hostile[i];
        if (net_run(context, inputs, outputs) != MAVCG_ERROR_INDEX || made[2].dims[1] != 3 * 24 * 24 - 2) return 10;
    }
    const mavcg_model_table *table = mavcg_model_api();
    if (table->counted_count != 3 || table->counted[2].output != 2 || table->counted[2].axis != 1) return 11;
    size_t less[] = {580, out_bytes[1], out_bytes[2], out_bytes[3]};
    if (net_run_sized(context, inputs, in_bytes, outputs, less) != MAVCG_ERROR_SIZE) return 12;
    net_destroy(context);
    for (int i = 0; i < 4; i++) free(outputs[i]);
    free(x);
    puts("right");
    return 0;
}
"""

CPP_PROGRAM = """\
#include <cstdio>
#include <vector>
#include "net.hpp"
int main() {
    mavcg_net::context model(1);
    std::vector<float> x(3 * 24 * 24), least{2}, detections(150), same(2);
    std::vector<std::int64_t> chosen{0, 1}, kept(90), places(4 * 3 * 24 * 24);
    if (model.present_outputs()[0].dims[0] != 30) return 1;
    if (model.run(x, least, chosen, detections, kept, places, same)) return 2;
    if (model.present_outputs()[0].dims[0] != 0 || model.outputs()[0].dims[0] != 30) return 3;
    std::puts("right");
}
"""


@pytest.mark.long
def test_c_and_cpp_programs_read_the_lengths(built: tuple[Path, Any], tmp_path: Path) -> None:
    """Arrays of exactly the bound suffice, and hostile indices end in an error code, under the address sanitizer."""
    folder, _ = built
    for name, text, options in (("c.c", C_PROGRAM, ["-std=c11"]), ("c.cpp", CPP_PROGRAM, ["-std=c++20"])):
        (tmp_path / name).write_text(text)
        program = tmp_path / f"{name}.out"
        tool = "cc" if name == "c.c" else "c++"
        arguments = [*options, "-Wall", "-Werror", f"-I{folder}", str(tmp_path / name), f"-L{folder}", "-lnet"]
        run_zig(tool, [*arguments, f"-Wl,-rpath,{folder}", "-o", str(program)], name)
        ended = subprocess.run([program], capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stdout) == (0, "right\n"), ended.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--shape", "x=1,2x3x24x24"], "the sizes of a library have fixed outputs"),
        (["--shape", "x=1..2x3x24x24"], "outputs follow from these lengths alone"),
    ],
)
def test_what_takes_fixed_outputs_refuses_them_by_name(
    mavcg: Any, cores: tuple[str, str], tmp_path: Path, monkeypatch: Any, options: list[str], words: str
) -> None:
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node("NonZero", ["x"], ["y"])], "g", [value("x", 1, ["batch", 3, 24, 24])], [value("y", 7, None)]
    )
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), "m.onnx")
    ended = mavcg("build", "m.onnx", "--cores", cores[1], *options)
    assert ended.status == 2 and words in ended.stderr and "decides the length of y" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
