"""`mavcg build MODEL --shape x=1,3x..`: one library with several sizes, whole and of subgraphs."""

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
from tests.mavcg.cli.in_process import build_in

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.cli.sized_models import make_model, near  # noqa: E402

X = np.random.default_rng(1).standard_normal((4, 3, 8, 8)).astype(np.float32)
M = np.random.default_rng(2).standard_normal((3, 3)).astype(np.float32)


def build(folder: Path, whole: bool, core: str) -> Any:
    make_model(folder / "m.onnx", whole)
    options = ["--shape", "x=1,3x3x8x8", "--cores", core, "-o", "libnet.so", "--json", *["--partial"] * (not whole)]
    return json.loads(build_in(folder, "m.onnx", *options))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("sizes")
    return folder, build(folder, True, cores[1])


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("partial-sizes")
    return folder, build(folder, False, cores[1])


def test_a_whole_library_takes_the_size_of_its_inputs(whole: tuple[Path, Any]) -> None:
    folder, _ = whole
    reference = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    with package.load_sizes(folder / "libnet.so") as model:
        assert model.shapes == (((1, 3, 8, 8),), ((3, 3, 8, 8),))
        for batch in (3, 1, 3):
            assert near(model.run(X[:batch])[0], reference.run(None, {"x": X[:batch]})[0])
        with pytest.raises(MavcgError, match="no size has inputs 2x3x8x8; the library was built for 1x3x8x8, 3x3x8x8"):
            model.run(X[:2])
        with pytest.raises(MavcgError, match="float64"):
            model.run(X[:1].astype(np.float64))
    with pytest.raises(MavcgError, match="closed"):
        model.run(X[:1])


def test_sizes_share_their_weights(whole: tuple[Path, Any]) -> None:
    """Packed weights of both sizes take less than twice those of one, in panels of 16 output channels."""
    _, report = whole
    one = 16 * (27 + 256) * 4
    assert [size["shape"] for size in report["sizes"]] == ["x=1x3x8x8", "x=3x3x8x8"]
    assert report["weight_bytes"] < 2 * one


def test_one_size_of_a_library_by_load(whole: tuple[Path, Any]) -> None:
    folder, _ = whole
    with package.load(folder / "libnet.so") as first:
        assert first.inputs[0].shape == (1, 3, 8, 8)
    assert {"mavcg_model_api", "mavcg_sizes_api", "mavcg_find_size"} <= exported_symbols(folder / "libnet.so")


C_PROGRAM = """\
#include <stdio.h>
#include "net.h"
int main(void) {
    static float x[3 * 3 * 8 * 8], y[3 * 5];
    const int64_t shape[] = {3, 3, 8, 8}, absent[] = {2, 3, 8, 8};
    const int64_t *dims[] = {shape}, *no_dims[] = {absent};
    const mavcg_model_table *model = mavcg_find_size(dims);
    const void *inputs[] = {x};
    void *outputs[] = {y}, *context;
    for (int i = 0; i < 576; i++) x[i] = (float)(i % 7) - 3;
    int status = model->create(NULL, &context);
    if (!status) status = model->run(context, inputs, outputs);
    model->destroy(context);
    for (int i = 0; i < 15; i++) printf("%.9g ", y[i]);
    return status || mavcg_find_size(no_dims) || mavcg_find_size(NULL);
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_the_header_in_c(whole: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = whole
    (tmp_path / "app.c").write_text(C_PROGRAM)
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-I", str(folder), "app.c", str(folder / "libnet.so")]
    subprocess.run([*command, f"-Wl,-rpath,{folder}", "-o", "app"], cwd=tmp_path, check=True)
    done = subprocess.run(["./app"], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0
    x = (np.arange(576) % 7 - 3).astype(np.float32).reshape(3, 3, 8, 8)
    want = onnxruntime.InferenceSession(str(folder / "m.onnx")).run(None, {"x": x})[0]
    assert near(np.array(done.stdout.split(), np.float32).reshape(3, 5), want)


CPP_PROGRAM = """\
#include "net.hpp"
#include <cstdio>
#include <type_traits>
#include <utility>
using mavcg_net::context;
static_assert(std::is_nothrow_move_constructible_v<context> && !std::is_copy_constructible_v<context>);
static_assert(!std::is_constructible_v<context, std::array<std::int64_t, 3>>, "the input has 4 dimensions");
static std::array<float, 3 * 3 * 8 * 8> x;
static std::array<float, 3 * 5> y;
static int failures = 0;
static void expect(bool held, const char *what) {
    if (!held) std::printf("%s\\n", what);
    failures += !held;
}
#ifdef MAVCG_EXCEPTIONS
template <class Call> static int result(Call call) {
    try {
        return call();
    } catch (const mavcg::error &error) {
        return error.status();
    }
}
#else
template <class Call> static int result(Call call) { return call(); }
#endif
int main() {
    for (int i = 0; i < 576; i++) x[i] = (float)(i % 7) - 3;
    context first({3, 3, 8, 8}, 2), one({1, 3, 8, 8});
    expect(first && one && first.status() == MAVCG_OK && first.inputs()[0].dims[0] == 3, "two contexts");
    expect(one.outputs()[0].bytes == 5 * sizeof(float), "outputs of the other size");
    context model(std::move(first));
    expect(result([&] { return first.run(x, y); }) == MAVCG_ERROR_NULL, "a context that was moved from");
    expect(result([&] { return one.run(x, y); }) == MAVCG_ERROR_SIZE, "spans of another size");
    expect(result([&] { return context({2, 3, 8, 8}).status(); }) == MAVCG_ERROR_SIZE, "no such size");
    expect(result([&] { return context({1, 3, 8, 8}, -1).status(); }) == MAVCG_ERROR_OPTION, "-1 threads");
    expect(context::sizes().size() == 2 && context::find({1, 3, 8, 8}) == context::sizes()[0], "sizes");
#ifndef MAVCG_EXCEPTIONS
    context none({2, 3, 8, 8});
    expect(!none && none.run(x, y) == MAVCG_ERROR_NULL && none.cancel() == MAVCG_ERROR_NULL, "a context of no size");
    one = std::move(none);
#endif
    std::array<double, 64> ns{};
    expect(model.profile(std::span(ns).first(model.steps().size()), x, y) == MAVCG_OK && ns[0] > 0, "profile");
    y = {};
    expect(model.run(x, y) == MAVCG_OK, "run");
    for (float each : y) std::printf("%.9g ", each);
    return failures;
}
"""


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.parametrize("flag", ["-fno-exceptions", "-DMAVCG_EXCEPTIONS"])
def test_the_header_in_cpp(whole: tuple[Path, Any], tmp_path: Path, flag: str) -> None:
    folder, _ = whole
    (tmp_path / "app.cpp").write_text(CPP_PROGRAM)
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", flag, "-I", str(folder), "app.cpp"]
    command += [str(folder / "libnet.so"), f"-Wl,-rpath,{folder}", "-o", "app"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./app"], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout
    x = (np.arange(576) % 7 - 3).astype(np.float32).reshape(3, 3, 8, 8)
    want = onnxruntime.InferenceSession(str(folder / "m.onnx")).run(None, {"x": x})[0]
    assert near(np.array(done.stdout.split(), np.float32).reshape(3, 5), want)


def test_names_that_no_other_library_has(whole: tuple[Path, Any]) -> None:
    """A program that uses two libraries of several sizes reaches each by names of its own."""
    folder, report = whole
    assert {"mavcg_model_net_sizes", "mavcg_model_net_find_size"} <= exported_symbols(folder / "libnet.so")
    assert "net.hpp" in report["files"]


def test_onnx_runtime_takes_the_size_of_its_inputs(parts: tuple[Path, Any]) -> None:
    folder, report = parts
    assert [size["macs_share"] for size in report["sizes"]] == [1, 1]
    assert {left["op"] for left in report["left"]} >= {"SequenceAt", "SequenceConstruct"}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(str(folder / "libnet.so"))
    session = onnxruntime.InferenceSession(str(folder / "m.mavcg.onnx"), options)
    reference = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    for batch in (3, 1, 3):
        arrays = {"x": X[:batch], "m": M}
        have, want = session.run(None, arrays), reference.run(None, arrays)
        assert near(have[0], want[0]) and have[1].tolist() == want[1].tolist() == [batch, 4, 8, 8]
    with pytest.raises(Exception, match=r"x has shape \[2x3x8x8\].* built for \[1x3x8x8\], \[3x3x8x8\];"):
        session.run(None, {"x": X[:2], "m": M})
    assert near(session.run(None, {"x": X[:1], "m": M})[0], reference.run(None, {"x": X[:1], "m": M})[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max-arena", "1000"], "x=1x3x8x8: --max-arena 1000: the buffers of m take 2240 bytes at least"),
        (["--shape", "x=2..1x3x8x8"], "the range 2..1 has no length"),
    ],
)
def test_options_that_do_not_fit(
    mavcg: Any, here: Path, cores: tuple[str, str], options: list[str], words: str
) -> None:
    make_model(here / "m.onnx", True)
    shape = [] if "--shape" in options else ["--shape", "x=1,2x3x8x8"]
    ended = mavcg("build", "m.onnx", "--cores", cores[1], *shape, *options)

    assert ended.status == 2 and words in ended.stderr
    assert [path.name for path in here.iterdir()] == ["m.onnx"]
