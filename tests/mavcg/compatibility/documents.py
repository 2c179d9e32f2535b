"""The keys of the JSON documents that commands print, recorded as a part of version 1's promise.

python -m tests.mavcg.compatibility.documents      # runs the commands and adds what is new to promise.json
"""

import json
import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from mavcg.cli.app import run
from mavcg.toolchain.target import host_target
from tests.mavcg.compatibility.promise import record

SECTION = "json"
SOURCE = "int total(const int *x, int n) {\n    int s = 0;\n    while (n--) s += x[n];\n    return s;\n}\n"
PROFILE = "app 1 1.0: 100 cycles: \n\t    7f total+0x10 (/app)\n\n"
BUFFERS = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n"
LOOP = ".globl loop\nloop:\n\tldr q0, [x0], #16\n\tfmla v1.4s, v0.4s, v2.4s\n\tsubs x1, x1, #1\n\tb.ne loop\n\tret\n"
APP = '[[network]]\nname = "first"\nfile = "net.onnx"\n[[network]]\nname = "second"\nfile = "net.onnx"\n'
PERIODS = APP.replace("first", "one").replace("second", "two").replace('onnx"', 'onnx"\nperiod_ms = 5')
HOST = "haswell" if host_target().arch == "x86_64" else "cortex-a55"
# Verb -> its words, but for --json; in this order, since some read what others write.
COMMANDS = {
    "init": "init .",
    "profile": "profile --import perf.txt",
    "build a program": "build --source total.c --hot total --board exynos9820 -o libtotal.so",
    "build a model": f"build net.onnx --cores {HOST} -o libnet.so",
    "inspect a program": "inspect libtotal.so",
    "inspect a model": "inspect libnet.so",
    "run": "run libnet.so --seed 0",
    "bench": "bench libnet.so --seconds 0.01",
    "estimate a model": "estimate net.onnx --board exynos9820",
    "estimate a loop": "estimate loop.S --core cortex-a55",
    "simulate": "simulate loop.S --function loop --core cortex-a55 --args 'buf:65536 i:100'",
    "explain": "explain loop.S loop --core cortex-a55",
    "tune-asm": "tune-asm loop.S --core cortex-a55 -o tuned.S",
    "primitives": "primitives",
    "select": "select net.onnx --board exynos9820",
    "memory": "memory --instance buffers.csv",
    "cores": "cores",
    "a core": "cores cortex-a55",
    "a board": "cores exynos9820",
    "runtime": "runtime",
    "app plan": "app plan app.toml --board exynos9820",
    "app simulate": "app simulate periods.toml --board exynos9820",
    "app build": f"app build app.toml --cores {HOST} -o libapp.so",
    "accel targets": "accel targets",
    "accel build": "accel build net.onnx --target small -o net.elf",
    "accel simulate": "accel simulate net.elf",
}
# Verbs whose documents need a board, a farm, minutes, or a program that runs: their own tests have their keys.
ELSEWHERE = {
    "auto",
    "plan",
    "explore",
    "calibrate",
    "tune",
    "quantise",
    "measure",
    "app example",
    "app serve",
    "blas build",
    "farm serve",
    "farm join",
    "accel fuse",
    "accel run",
    "accel host",
    "accel validate",
    "accel rtl",
    "accel cosim",
    "accel match",
    "accel path",
}
# Keys whose objects have names of functions, files, cores, operators or kernels as keys.
_NAMED = tuple(
    "refused kernels extensions spec needs operators library_needs sources share_percent share_by_core versions".split()
)
# Keys whose contents are not promised: what models of cores and kernels are made of.
_INTERNAL = ("spec", "sources", "silicon", "policy", "model", "blocking")


def lay_out(folder: Path) -> None:
    """Write the files that the commands read."""
    import onnx

    value = onnx.helper.make_tensor_value_info
    weights = [onnx.numpy_helper.from_array(np.ones((8, 4, 1, 1), np.float32), "w")]
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, [1, 4, 8, 8])], [value("y", 1, [1, 8, 8, 8])], weights)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8),
        folder / "net.onnx",
    )
    texts = {"total.c": SOURCE, "perf.txt": PROFILE, "buffers.csv": BUFFERS, "loop.S": LOOP}
    texts |= {"app.toml": APP, "periods.toml": PERIODS}
    for name, text in texts.items():
        (folder / name).write_text(text)


def printed(words: str) -> Any:
    """The document that a command prints in the current folder."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = run([*shlex.split(words), "--json"])
    assert status == 0, f"mavcg {words}: {err.getvalue()}"
    return json.loads(out.getvalue())


def keys_of(document: Any, at: str) -> Iterator[str]:
    """The paths of a document's values: `.key`, `[]` for entries of a list, `.*` for keys that are the user's names."""
    if isinstance(document, dict):
        named = any(not key.isidentifier() or key != key.lower() for key in document) or at.endswith(_NAMED)
        for key, value in document.items():
            path = f"{at}.*" if named else f"{at}.{key}"
            yield path
            if key not in _INTERNAL:
                yield from keys_of(value, path)
    elif isinstance(document, list):
        for entry in document:
            yield from keys_of(entry, f"{at}[]")


def document_lines() -> set[str]:
    """Run all commands in a new folder, and return the keys of what they print."""
    lines: set[str] = set()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        lay_out(Path(folder))
        for name, words in COMMANDS.items():
            lines.update(keys_of(printed(words), name))
    return lines


if __name__ == "__main__":
    os.environ["MAVCG_CACHE"] = "off"
    record(SECTION, document_lines())
