"""The JNI sample: its native part built for Android as docs/android.md says, and called through a table of ours."""

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mavcg.objects.elf import imports_of
from mavcg.toolchain.target import host_target

onnx = pytest.importorskip("onnx")
ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "android_jni"


def build(folder: Path, target: str, zig_target: str) -> Path:
    value = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Relu", ["x"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "face", [value("x", 1, [4])], [value("y", 1, [4])])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), folder / "face.onnx")
    command = [sys.executable, "-m", "mavcg.cli", "build", "face.onnx", "--cores", "generic", "--target", target]
    subprocess.run([*command, "-o", "libface.so"], cwd=folder, check=True, capture_output=True)
    text = re.sub(r"\\\n", " ", (ROOT / "docs" / "android.md").read_text())
    line = re.search(r"^    python -m (ziglang cc .*)$", text, re.MULTILINE)
    assert line is not None
    words = line[1].replace("aarch64-linux-musl", zig_target).replace("examples/android_jni", str(SAMPLE)).split()
    subprocess.run([sys.executable, "-m", *words], cwd=folder, check=True)
    return folder / "libface_jni.so"


@pytest.mark.long
def test_the_native_part_for_android(tmp_path: Path) -> None:
    libraries, symbols = imports_of(build(tmp_path, "aarch64-linux-android", "aarch64-linux-musl"))
    assert libraries == ["libface.so"] and all(name.startswith("mavcg_model_face_") for name in symbols)


@pytest.mark.long
def test_the_native_part_here(tmp_path: Path) -> None:
    made = build(tmp_path, host_target().zig_name, host_target().zig_name)
    model = ctypes.CDLL(str(tmp_path / "libface.so"))  # loaded first: the other finds it by its name
    library = ctypes.CDLL(str(made))
    assert model.mavcg_model_api
    address = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(lambda env, buffer: buffer)
    capacity = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(lambda env, buffer: 16)
    table = (ctypes.c_void_p * 232)()
    table[230], table[231] = (ctypes.cast(function, ctypes.c_void_p).value for function in (address, capacity))
    env = ctypes.byref(ctypes.c_void_p(ctypes.addressof(table)))
    library.Java_sample_Face_create.restype = ctypes.c_int64
    context = ctypes.c_int64(library.Java_sample_Face_create(env, None, 1))
    x, y = np.array([-1, 2, -3, 4], np.float32), np.zeros(4, np.float32)

    arrays = [ctypes.c_void_p(array.ctypes.data) for array in (x, y)]
    assert context.value and library.Java_sample_Face_run(env, None, context, *arrays) == 0
    assert y.tolist() == [0, 2, 0, 4]
    library.Java_sample_Face_destroy(env, None, context)
    assert library.Java_sample_Face_create(env, None, -1) == 0
