"""A partial build of a TFLite file as a user of LiteRT meets it: `load_delegate("./libm.so")`."""

import ctypes
import errno
import json
import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert.interpreter")
from ai_edge_litert.interpreter import Interpreter, load_delegate  # noqa: E402

from mavcg.runtime.amalgamation import SOURCES as CSRC  # noqa: E402
from mavcg.toolchain.zig import run_zig  # noqa: E402
from tests.mavcg.cli.in_process import build_in  # noqa: E402
from tests.mavcg.cli.litert_models import CONVOLUTION, FOREIGN, X, chain, delegated, invoke, near, weights
from tests.mavcg.importers.tflite.conftest import Writer, litert  # noqa: E402

# What the issue has a user write, with the library's path.
SCRIPT = """\
import numpy as np
from ai_edge_litert.interpreter import Interpreter, load_delegate

interpreter = Interpreter("m.tflite", experimental_delegates=[load_delegate("./libm.so")])
interpreter.allocate_tensors()
interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.load("x.npy"))
interpreter.invoke()
np.save("y.npy", interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
"""


def eight_bit(writer: Writer) -> bytes:
    """A convolution on 8-bit numbers, weights per channel."""
    x = writer.input((1, 8, 8, 6), "i8", 0.05, 3)
    scales = np.linspace(0.01, 0.02, 6)
    q = np.random.default_rng(4).integers(-127, 128, (6, 3, 3, 6)).astype(np.int8)
    bias = np.arange(6, dtype=np.int32) * 50
    inputs = [x, writer.constant(q, "i8", scales, 0, 0), writer.constant(bias, "i32", scales * 0.05, 0, 0)]
    return writer.bytes(writer.op("CONV_2D", inputs, ("i8", 0.1, -5), **CONVOLUTION))


Build = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> Build:
    """build(folder, data): m.tflite with these bytes and its libm.so in a folder; what the build said. The same bytes
    are built once."""
    built: dict[bytes, Path] = {}

    def build_file(folder: Path, data: bytes) -> dict[str, Any]:
        if data not in built:
            built[data] = tmp_path_factory.mktemp("delegate")
            (built[data] / "m.tflite").write_bytes(data)
            said = build_in(built[data], "m.tflite", "--partial", "--cores", cores[1], "-o", "libm.so", "--json")
            (built[data] / "report.json").write_text(said)
        for path in built[data].iterdir():
            shutil.copy(path, folder)
        report: dict[str, Any] = json.loads((folder / "report.json").read_text())
        return report

    return build_file


@pytest.mark.long
def test_the_script_of_a_user_in_a_fresh_folder(build: Build, here: Path) -> None:
    data = chain(Writer())
    report = build(here, data)
    np.save("x.npy", X)
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=here, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stderr
    assert "mavcg: libm.so: 1 of 1 subgraphs with 2 of 2 nodes" in done.stderr
    assert near(np.load("y.npy"), litert(data, [X])[0])
    assert report["left"] == [] and report["macs_share"] == 1 and report["also"] is None
    assert report["macs"] == 2 * 8 * 8 * 6 * 9 * 6


@pytest.mark.long
def test_a_node_that_stays_between_two_subgraphs(build: Build, here: Path, capfd: Any) -> None:
    data = chain(Writer(), between=True)
    report = build(here, data)
    assert [each["nodes"] for each in report["subgraphs"]] == [1, 1]
    assert report["left"] == [{"op": FOREIGN, "count": 1, "why": "this operator is not supported"}]
    (have,), interpreter = delegated(here / "m.tflite", X)

    assert near(have, litert(data, [X])[0])
    assert "2 of 2 subgraphs with 2 of 3 nodes" in capfd.readouterr().err
    assert [op["op_name"] for op in interpreter._get_ops_details()].count("mavcg") in (0, 2)


@pytest.mark.long
def test_eight_bit_numbers(build: Build, here: Path) -> None:
    data = eight_bit(Writer())
    build(here, data)
    x = np.random.default_rng(5).integers(-128, 128, (1, 8, 8, 6)).astype(np.int8)
    (have,), _ = delegated(here / "m.tflite", x)
    (want,) = litert(data, [x])

    assert have.dtype == np.int8 and np.abs(have.astype(int) - want.astype(int)).max() <= 1


FORBIDDEN = {"x86_64": 310, "aarch64": 270}  # the number of process_vm_readv


def forbid_reading_memory() -> None:
    """Let process_vm_readv fail with EPERM in this thread from now on, as containers and sandboxes may."""

    class Filter(ctypes.Structure):
        _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]

    # Load the call's number; if it is that one, return SECCOMP_RET_ERRNO | EPERM, else SECCOMP_RET_ALLOW.
    lines = [(0x20, 0, 0, 0), (0x15, 0, 1, FORBIDDEN[platform.machine()]), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
    program = Program(len(lines), (Filter * len(lines))(*(Filter(*line) for line in lines)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        pytest.skip("there is no seccomp here")
    assert libc.process_vm_readv(os.getpid(), None, 0, None, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM


@pytest.mark.skipif(platform.machine() not in FORBIDDEN, reason="of Linux on x86-64 and AArch64")
def test_the_file_is_known_where_process_vm_readv_is_forbidden(build: Build, here: Path, capfd: Any) -> None:
    build(here, data := chain(Writer()))
    (here / "other.tflite").write_bytes(data.replace(weights(1).tobytes(), weights(2).tobytes()))
    files = len(os.listdir("/proc/self/fd"))

    def run(name: str) -> tuple[Any, str]:
        interpreter = Interpreter(str(here / name), experimental_delegates=[load_delegate(str(here / "libm.so"))])
        interpreter.allocate_tensors()
        return invoke(interpreter, X)[0], capfd.readouterr().err

    def run_both() -> tuple[Any, ...]:
        forbid_reading_memory()
        return run("m.tflite"), run("other.tflite")

    with ThreadPoolExecutor(1) as one:  # a filter is its thread's
        (own, said), (_, of_other) = one.submit(run_both).result()
    assert "1 of 1 subgraphs with 2 of 2 nodes" in said and near(own, litert(data, [X])[0])
    assert "was built of another file" in of_other
    assert len(os.listdir("/proc/self/fd")) <= files + 1  # the library, at most


@pytest.mark.parametrize("how", ["one weight", "a name", "an option"])
def test_another_file_stays_with_the_runtime(build: Build, here: Path, capfd: Any, how: str) -> None:
    """A file that differs in one weight, in a name, or in an activation alone."""
    data = chain(Writer())
    build(here, data)
    writer = Writer()
    other = bytearray(chain(writer))
    if how == "one weight":
        at = other.index(weights(1).tobytes())
        other[at : at + 4] = np.float32(9).tobytes()
    elif how == "a name":
        at = other.index(b"t1\0")
        other[at : at + 2] = b"q1"
    else:
        writer.graph.operators[1].builtinOptions.fusedActivationFunction = 1
        other = bytearray(writer.bytes(*writer.graph.outputs))
    (here / "m.tflite").write_bytes(bytes(other))
    (have,), _ = delegated(here / "m.tflite", X)

    assert "was built of another file; the runtime keeps this graph" in capfd.readouterr().err
    assert near(have, litert(bytes(other), [X])[0])


def test_a_resized_input_stays_with_the_runtime(build: Build, here: Path, capfd: Any) -> None:
    data = chain(Writer())
    build(here, data)
    (first,), interpreter = delegated(here / "m.tflite", X)
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, (2, 8, 8, 6))
    interpreter.allocate_tensors()
    two = np.concatenate([X, 2 * X])

    assert near(invoke(interpreter, two)[0], litert(data, [two])[0])
    assert "0 of 1 subgraphs" in capfd.readouterr().err
    interpreter.resize_tensor_input(index, (1, 8, 8, 6))
    interpreter.allocate_tensors()
    assert near(invoke(interpreter, X)[0], first)


def test_a_new_interpreter_after_a_size_that_an_operator_refuses(build: Build, here: Path) -> None:
    """LiteRT crashes if the same one allocates again (docs/drop-in.md); the library serves the next one as before."""
    data = chain(Writer())
    build(here, data)
    (first,), interpreter = delegated(here / "m.tflite", X)
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, (1, 8, 8, 5))
    with pytest.raises(RuntimeError):
        interpreter.allocate_tensors()
    (again,), _ = delegated(here / "m.tflite", X)
    del interpreter
    assert np.array_equal(again, first) and near(again, litert(data, [X])[0])


# The steps: a size that an operator refuses, then the right one.
RESIZED = """\
import sys
from ai_edge_litert.interpreter import Interpreter, load_delegate

delegates = [load_delegate(name) for name in sys.argv[1:]]
interpreter = Interpreter("m.tflite", experimental_delegates=delegates)
interpreter.allocate_tensors()
for size in ([1, 8, 8, 5], [1, 8, 8, 6]):
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], size)
    try:
        interpreter.allocate_tensors()
        print("allocated", flush=True)
    except RuntimeError:
        print("refused", flush=True)
"""


@pytest.mark.long
def test_the_crash_after_a_size_that_an_operator_refuses_is_litert_s_own(build: Build, here: Path) -> None:
    """LiteRT crashes with any delegate that has taken nodes, and goes on without one, as docs/drop-in.md says."""
    build(here, chain(Writer()))
    source = Path(__file__).with_name("other_delegate.c")
    run_zig("cc", ["-shared", "-fPIC", f"-I{CSRC}", str(source), "-o", "libother.so"], "building a delegate", here)

    def run(*delegates: str) -> tuple[int, list[str]]:
        words = [sys.executable, "-c", RESIZED, *delegates]
        done = subprocess.run(words, cwd=here, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout.split()

    assert run() == (0, ["refused", "allocated"])
    assert run("./libother.so") == run("./libm.so") == (-signal.SIGSEGV, ["refused"])


@pytest.mark.long
def test_a_library_of_several_sizes(mavcg: Any, here: Path, cores: tuple[str, str], capfd: Any) -> None:
    """The delegate takes the size that the interpreter has; another one stays with the runtime."""
    data = chain(Writer())
    (here / "m.tflite").write_bytes(data)
    options = ["--partial", "--cores", cores[1], "-o", "libm.so", "--shape", "x=1,3x8x8x6", "--json"]
    ended = mavcg("build", "m.tflite", *options)
    assert ended.status == 0, ended.stderr
    assert [size["macs_share"] for size in json.loads(ended.stdout)["sizes"]] == [1, 1]
    (first,), interpreter = delegated(here / "m.tflite", X)
    assert near(first, litert(data, [X])[0]) and "1 of 1 subgraphs with 2 of 2" in capfd.readouterr().err
    index = interpreter.get_input_details()[0]["index"]
    for batch, lines in ((3, "1 of 1 subgraphs"), (1, "1 of 1 subgraphs"), (2, "0 of 1 subgraphs"), (3, "")):
        interpreter.resize_tensor_input(index, (batch, 8, 8, 6))
        interpreter.allocate_tensors()
        x = np.concatenate([X * (i + 1) for i in range(batch)])
        assert near(invoke(interpreter, x)[0], litert(data, [x])[0])
        assert lines in capfd.readouterr().err


def test_a_model_that_is_in_memory(build: Build, here: Path, capfd: Any) -> None:
    data = chain(Writer())
    build(here, data)
    interpreter = Interpreter(model_content=data, experimental_delegates=[load_delegate(str(here / "libm.so"))])
    interpreter.allocate_tensors()

    assert near(invoke(interpreter, X)[0], litert(data, [X])[0])
    assert "1 of 1 subgraphs" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threads": "many"}, "option threads is not a number from 0 to 1024"),
        ({"quiet": "yes"}, "option quiet is neither 0 nor 1"),
        ({"fast": "1"}, "there are the options threads and quiet, and no others"),
    ],
)
def test_options_that_do_not_fit(build: Build, here: Path, options: dict[str, str], words: str) -> None:
    build(here, chain(Writer()))
    with pytest.raises(ValueError, match=re.escape(f"mavcg: libm.so: {words}")):
        load_delegate(str(here / "libm.so"), options)


def test_options(build: Build, here: Path, capfd: Any) -> None:
    build(here, data := chain(Writer()))
    (have,), _ = delegated(here / "m.tflite", X, threads="2", quiet="1")

    assert near(have, litert(data, [X])[0])
    assert "mavcg" not in capfd.readouterr().err


@pytest.mark.long
def test_a_thousand_interpreters_leave_nothing_behind(build: Build, here: Path) -> None:
    build(here, chain(Writer()))

    def peak_kib() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for _ in range(100):
        delegated(here / "m.tflite", X, quiet="1")
    before = peak_kib()
    for _ in range(1000):
        delegated(here / "m.tflite", X, quiet="1")

    assert peak_kib() - before < 4096  # 4 KiB an interpreter would be as much


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--also", "y.onnx"], "--also y.onnx: applies to ONNX models"),
        (["--shape", "z=2x8x8x6"], "--shape z: no such input; inputs are x"),
    ],
)
def test_options_of_onnx(mavcg: Any, here: Path, cores: tuple[str, str], options: list[str], words: str) -> None:
    (here / "m.tflite").write_bytes(chain(Writer()))
    ended = mavcg("build", "m.tflite", "--partial", "--cores", cores[1], *options)

    assert ended.status == 2 and words in ended.stderr
    assert [path.name for path in here.iterdir()] == ["m.tflite"]
