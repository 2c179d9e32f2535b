"""A model whose names were made to do harm, built and used as a user would: they are names everywhere, and no more."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as package
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig
from tests.mavcg.conftest import CORES

CODE = '__attribute__((constructor)) static void hole(void) { puts("hole"); }'
INPUT = f"x *\\ {CODE} \\*"
OUTPUT = f"y */ {CODE} /* \x1b[2J\x1b]0;owned\x07 $x$\u202e"
NODE = f'n \\\n*/ {CODE}\r\x9b2J" %s </text>'

PROGRAM = """
#include <stdio.h>
#include "hostile.h"
int main(void) {
    float x[3] = {-1, 2, -3}, y[3];
    const void *inputs[] = {x};
    void *outputs[] = {y};
    hostile_context *context;
    int status = hostile_create(NULL, &context);
    if (!status) status = hostile_run(context, inputs, outputs);
    hostile_destroy(context);
    printf("%d %g %g %g\\n", status, y[0], y[1], y[2]);
    return status;
}
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with hostile.onnx and libhostile.so."""
    onnx = pytest.importorskip("onnx")
    if not CORES:
        pytest.skip("libraries are made for AArch64 and x86-64 only")
    folder = tmp_path_factory.mktemp("hostile")
    value = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Relu", [INPUT], [OUTPUT], name=NODE)]
    graph = onnx.helper.make_graph(nodes, f"*/ {CODE}", [value(INPUT, 1, [1, 3])], [value(OUTPUT, 1, [1, 3])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "hostile.onnx")
    command = [sys.executable, "-m", "mavcg.cli", "build", "hostile.onnx", "--cores", CORES[1]]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def _harmless(text: str) -> bool:
    return all(c.isprintable() or c in "\n\t" for c in text)


def test_a_program_with_the_header_runs_none_of_the_names(hostile: Path) -> None:
    (hostile / "app.c").write_text(PROGRAM)
    flags = ["-target", host_target().zig_name, "-O2", "-fno-sanitize=all", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    run_zig("cc", [*flags, "app.c", "-L.", "-lhostile", "-o", "app"], "compiling a program", hostile)

    environment = os.environ | {"LD_LIBRARY_PATH": str(hostile)}
    done = subprocess.run([hostile / "app"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "0 0 2 0\n"


def test_python_has_the_names_as_they_are(hostile: Path) -> None:
    with package.load(hostile / "libhostile.so") as model:
        assert (model.inputs[0].name, model.outputs[0].name) == (INPUT, OUTPUT)
        x = np.array([[-1, 2, -3]], np.float32)
        assert model.run(x)[0].tolist() == [[0, 2, 0]]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, ("inspect", "libhostile.so")),
        (0, ("run", "libhostile.so", "--seed", "0")),
        (0, ("bench", "libhostile.so", "--per-layer", "--seconds", "0.1")),
        (2, ("build", "hostile.onnx", "--cores", "generic", "--shape", "q=1", "-o", "libb.so")),
        (2, ("inspect", "nothing\x1b[2J.so")),
    ],
)
def test_no_command_sends_escapes_to_a_terminal(
    mavcg: Any, hostile: Path, status: int, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    ended = mavcg(*words)

    assert ended.status == status and (ended.stdout or ended.stderr)
    assert _harmless(ended.stdout) and _harmless(ended.stderr)


def test_json_has_the_names_as_they_are(mavcg: Any, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hostile)
    document = json.loads(mavcg("inspect", "libhostile.so", "--json").stdout)

    assert json.dumps(OUTPUT) in json.dumps(document)


def test_the_timeline_is_a_picture(mavcg: Any, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hostile)
    ended = mavcg("estimate", "hostile.onnx", "--board", "exynos9820", "--plot", "timeline.svg")

    assert ended.status == 0 and _harmless(ended.stdout)
    assert ET.parse(hostile / "timeline.svg").getroot().tag.endswith("svg")


def test_a_library_s_name_with_escapes_is_refused(mavcg: Any, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hostile)
    ended = mavcg("build", "hostile.onnx", "--cores", "generic", "-o", "lib\x1b[2J.so")

    assert ended.status == 2 and r"lib\x1b[2J.so: has control characters" in ended.stderr
