"""The example program: the same results with every compiler and machine, and right ones."""

import ctypes
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.machine import QEMU, needs_qemu

APP = Path(__file__).parents[2] / "examples/edge_app"
OPS = sorted((APP / "ops").glob("*.c"))
ZIG = [sys.executable, "-m", "ziglang"]
needs_make = pytest.mark.skipif(not shutil.which("make"), reason="needs make")
Floats = npt.NDArray[np.float32]


def make(folder: Path, *settings: str) -> Path:
    subprocess.run(["make", "-s", "-C", str(APP), f"BUILD={folder}", *settings], check=True, capture_output=True)
    return folder / "edge_app"


def zig_settings(target: str = "") -> list[str]:
    option = f" -target {target}" if target else ""
    return [f"{name}={' '.join(ZIG)} {tool}{option}" for name, tool in (("CC", "cc"), ("CXX", "c++"))]


def run(app: Sequence[str | Path], *options: str) -> str:
    return subprocess.run([*app, *options], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def gcc_app(edge_app_objects: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(shutil.copytree(edge_app_objects, tmp_path_factory.mktemp("gcc") / "build"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("ops") / "libops.so"
    subprocess.run([*ZIG, "cc", "-O3", "-ffp-contract=off", "-shared", "-fPIC", *OPS, "-o", path], check=True)
    return ctypes.CDLL(str(path))


@pytest.mark.long
@pytest.mark.parametrize("by_zig", [1, pytest.param(2, marks=pytest.mark.long)], ids=["C", "C and C++"])
def test_gcc_and_zig_builds_agree_to_the_bit(
    gcc_app: Path, edge_app_objects: Path, tmp_path: Path, by_zig: int
) -> None:
    """And with other flags."""
    expected = run([gcc_app], "--iterations", "3", "--dump", str(tmp_path / "gcc"))
    if by_zig == 1:
        shutil.copytree(edge_app_objects, tmp_path / "zig")
    other = make(tmp_path / "zig", *zig_settings()[:by_zig], "CFLAGS=-O1 -march=native", "CXXFLAGS=-O0")
    zig = run([other], "--iterations", "3", "--dump", str(tmp_path / "zig.dump"))

    assert expected == zig and re.fullmatch(r"classes (?: \d+){10}\nchecksum [0-9a-f]{16}\n", expected)
    assert (tmp_path / "gcc").read_bytes() == (tmp_path / "zig.dump").read_bytes()


@pytest.mark.long
def test_gcc_agrees_with_itself_to_the_bit(gcc_app: Path, tmp_path: Path) -> None:
    """Also as its makefile has it."""
    for flags in ([], ["CFLAGS=-O2 -march=native", "CXXFLAGS=-O0"]):
        other_flags = make(tmp_path / str(len(flags)), *flags)
        assert run([other_flags], "--iterations", "3") == run([gcc_app], "--iterations", "3")


needs_cmake = pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("g++"), reason="needs cmake and g++")


@needs_cmake
def test_cmake_says_how_it_builds_it(tmp_path: Path) -> None:
    subprocess.run(["cmake", "-S", APP, "-B", tmp_path, "-DCMAKE_BUILD_TYPE=Debug"], check=True, capture_output=True)
    commands = json.loads((tmp_path / "compile_commands.json").read_text())

    assert {Path(entry["file"]) for entry in commands} == {*OPS, *APP.glob("*.cpp")}
    assert all("-ffp-contract=off" in entry["command"].split() for entry in commands)


@needs_cmake
@pytest.mark.long
def test_cmake_builds_it(gcc_app: Path, tmp_path: Path) -> None:
    subprocess.run(["cmake", "-S", APP, "-B", tmp_path, "-DCMAKE_BUILD_TYPE=Debug"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", tmp_path], check=True, capture_output=True)

    assert run([tmp_path / "edge_app"], "--iterations", "2") == run([gcc_app], "--iterations", "2")


CHECKSUM = [Path(__file__).parent / "kernels_checksum.c", *OPS]
OPTIONS = ["-O3", "-ffp-contract=off", "-I", str(APP)]


@pytest.fixture(scope="module")
def checksum_here(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What kernels_checksum.c prints on this machine."""
    program = tmp_path_factory.mktemp("checksum") / "here"
    subprocess.run([*ZIG, "cc", *OPTIONS, *CHECKSUM, "-o", program], check=True)
    return run([program])


@pytest.mark.long
@needs_qemu
@pytest.mark.parametrize(
    "cpu", ["cortex_a55", *(pytest.param(cpu, marks=pytest.mark.long) for cpu in ("generic", "cortex_a76"))]
)
def test_kernels_agree_to_the_bit_on_aarch64(checksum_here: str, tmp_path: Path, cpu: str) -> None:
    # Linked for no CPU in particular, in this folder and as other tests do: ziglang builds a C library for every CPU,
    # level of optimisation and kind of folder at link time.
    arm = [*ZIG, "cc", "-target", "aarch64-linux-musl"]
    subprocess.run([*arm, f"-mcpu={cpu}", *OPTIONS, "-c", *CHECKSUM], cwd=tmp_path, check=True)
    objects = sorted(tmp_path.glob("*.o"))
    subprocess.run([*arm, "-static", "-O1", "-g0", *objects, "-o", tmp_path / "arm"], check=True)

    assert run([str(QEMU), tmp_path / "arm"]) == checksum_here


@needs_qemu
@needs_make
@pytest.mark.long
def test_the_whole_program_agrees_to_the_bit_on_aarch64(gcc_app: Path, tmp_path: Path) -> None:
    app = make(tmp_path, *zig_settings("aarch64-linux-musl"))

    assert run([str(QEMU), app], "--iterations", "2") == run([gcc_app], "--iterations", "2")


def test_checksum_is_fnv_of_the_dump_and_depends_on_the_seed(gcc_app: Path, tmp_path: Path) -> None:
    said = run([gcc_app], "--iterations", "4", "--seed", "9", "--dump", str(tmp_path / "dump"))
    data = (tmp_path / "dump").read_bytes()
    expected = 0xCBF29CE484222325
    for byte in data:
        expected = (expected ^ byte) * 0x100000001B3 % (1 << 64)

    assert f"checksum {expected:016x}" in said
    assert said != run([gcc_app], "--iterations", "4", "--seed", "10")
    probabilities = np.frombuffer(data, np.float32).reshape(4, 10)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    assert len({row.tobytes() for row in probabilities}) == 4


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["--iterations", "x"], 2, "--iterations x: not a number"),
        (["--iterations", "99999999999999999999"], 2, "not a number"),
        (["--iterations", "-1"], 2, "not a number"),
        (["--dump"], 2, "needs a value"),
        (["--fast", "1"], 2, "not an option"),
        (["--dump", "/nowhere/at/all"], 1, "cannot be written"),
        (["--image", "/nowhere.ppm"], 1, "cannot be read"),
    ],
)
def test_bad_options_are_named(gcc_app: Path, options: list[str], status: int, said: str) -> None:
    done = subprocess.run([gcc_app, *options], capture_output=True, text=True)

    assert done.returncode == status and said in done.stderr and not done.stdout


def test_images_from_files(gcc_app: Path, tmp_path: Path) -> None:
    pixels = bytes(range(256)) * 3
    (tmp_path / "x.ppm").write_bytes(b"P6\n16 16\n255\n" + pixels)
    (tmp_path / "y.ppm").write_bytes(b"P6\n16 16\n255\n" + pixels[::-1])
    (tmp_path / "short.ppm").write_bytes(b"P6\n16 16\n255\n" + pixels[:-1])
    one, two = (run([gcc_app], "--iterations", "1", "--image", str(tmp_path / n)) for n in ("x.ppm", "y.ppm"))

    assert one != two
    done = subprocess.run([gcc_app, "--image", tmp_path / "short.ppm"], capture_output=True, text=True)
    assert done.returncode == 1 and "ends before its last pixel" in done.stderr


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("perf"), reason="needs perf")
def test_three_kernels_are_hot_and_nothing_else_of_the_program(gcc_app: Path, tmp_path: Path) -> None:
    record = ["perf", "record", "-q", "-e", "cpu-clock", "-o", str(tmp_path / "p"), str(gcc_app), "--iterations", "600"]
    if (done := subprocess.run(record, capture_output=True, text=True)).returncode:
        pytest.skip(f"perf cannot record here: {done.stderr.strip()[:100]}")
    report = run(
        ["perf", "report", "-i", str(tmp_path / "p"), "--stdio", "--dsos", "edge_app", "-F", "overhead,symbol"]
    )
    shares = {name: float(share) for share, name in re.findall(r"^\s*([\d.]+)%\s+\[\.\]\s+(\S+)", report, re.MULTILINE)}

    assert {name for name, share in shares.items() if share >= 5} == {"gemm_f32", "gemm_s8", "depthwise_f32"}
    assert shares["gemm_f32"] > shares["gemm_s8"] > shares["depthwise_f32"]


def floats(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    assert array.flags["C_CONTIGUOUS"]
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.spread(2)
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("cols", [1, 3, 4, 7, 8, 9, 33])
@pytest.mark.parametrize("depth", [0, 1, 3, 4, 5, 31])
def test_gemm_f32(library: ctypes.CDLL, rows: int, cols: int, depth: int) -> None:
    a, b, bias = floats(1, rows, depth), floats(2, depth, cols), floats(3, cols)
    c = np.full(rows * cols + 1, 7, np.float32)
    low, high = ctypes.c_float(-1.5), ctypes.c_float(2.5)
    library.gemm_f32(rows, cols, depth, pointer(a), pointer(b), pointer(bias), low, high, pointer(c))

    exact = a.astype(np.float64) @ b.astype(np.float64) + bias
    # Each of the depth products and sums rounds once: Higham, "Accuracy and Stability of Numerical Algorithms", (3.5).
    bound = (depth + 1) * 2.0**-24 * 1.01 * (np.abs(a).astype(np.float64) @ np.abs(b) + np.abs(bias))
    assert np.all(np.abs(c[:-1].reshape(rows, cols) - np.clip(exact, -1.5, 2.5)) <= bound)
    assert c[-1] == 7


class Requantize(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int32) for n in ("a_zero", "c_zero", "multiplier", "shift", "low", "high")]


def requantized(total: int, q: Requantize) -> int:
    exact = Fraction(total) * q.multiplier * Fraction(2) ** (q.shift - 31)
    rounded = int(abs(exact) + Fraction(1, 2)) * (1 if exact >= 0 else -1)
    return int(max(q.low, min(q.high, rounded + q.c_zero)))


@pytest.mark.spread(2)
@pytest.mark.parametrize("rows", [1, 3, 4, 5])
@pytest.mark.parametrize("cols", [1, 7, 8, 9, 17])
@pytest.mark.parametrize("depth", [0, 1, 2, 33])
@pytest.mark.parametrize("extreme", [False, True])
def test_gemm_s8(library: ctypes.CDLL, rows: int, cols: int, depth: int, extreme: bool) -> None:
    random = np.random.default_rng(rows * 100 + cols)
    values = [-128, 127] if extreme else list(range(-128, 128))
    a = random.choice(values, (rows, depth)).astype(np.int8)
    b = random.choice(values, (depth, cols)).astype(np.int8)
    bias = random.integers(-3000, 3000, cols).astype(np.int32)
    q = Requantize(-128 if extreme else 11, -7, 1_234_567_891, -9, -128, 127)
    library.packed_size_s8.restype = ctypes.c_size_t
    packed = np.zeros(library.packed_size_s8(depth, cols), np.int8)
    c = np.full(rows * cols + 1, 99, np.int8)
    library.pack_s8(depth, cols, pointer(b), pointer(packed))
    library.gemm_s8(rows, cols, depth, pointer(a), pointer(packed), pointer(bias), ctypes.byref(q), pointer(c))

    sums = (a.astype(np.int64) - q.a_zero) @ b.astype(np.int64) + bias
    assert c[:-1].tolist() == [requantized(int(s), q) for s in sums.ravel()]
    assert c[-1] == 99


@pytest.mark.parametrize("total", [0, 1, -1, 2**31 - 1, -(2**31), 3 << 20, -(3 << 20), (1 << 20) + 1])
@pytest.mark.parametrize(("multiplier", "shift"), [(1 << 30, 0), (2**31 - 1, 0), (1 << 30, -20), (2**31 - 1, -31)])
def test_requantize_rounds_half_away_from_zero(library: ctypes.CDLL, total: int, multiplier: int, shift: int) -> None:
    q = Requantize(0, 0, multiplier, shift, -(2**31), 2**31 - 1)

    assert library.requantize(total, ctypes.byref(q)) == requantized(total, q)


@pytest.mark.spread(2)
@pytest.mark.parametrize("size", [(1, 1), (1, 4), (2, 2), (3, 3), (4, 5), (7, 6)])
@pytest.mark.parametrize("channels", [1, 3, 4, 5, 17])
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_f32(library: ctypes.CDLL, size: tuple[int, int], channels: int, stride: int) -> None:
    height, width = size
    image, taps, bias = floats(1, height, width, channels), floats(2, 3, 3, channels), floats(3, channels)
    out_h, out_w = (height - 1) // stride + 1, (width - 1) // stride + 1
    out = np.full(out_h * out_w * channels + 1, 7, np.float32)
    sizes = (height, width, channels, stride)
    pointers = (pointer(image), pointer(taps), pointer(bias))
    library.depthwise_f32(*sizes, *pointers, ctypes.c_float(-3), ctypes.c_float(3), pointer(out))

    padded = np.pad(image.astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))[::stride, ::stride]
    exact = np.einsum("yxcij,ijc->yxc", windows, taps.astype(np.float64)) + bias
    size_of_terms = np.einsum("yxcij,ijc->yxc", np.abs(windows), np.abs(taps.astype(np.float64))) + np.abs(bias)
    error = np.abs(out[:-1].reshape(out_h, out_w, channels) - np.clip(exact, -3, 3))
    assert np.all(error <= 10 * 2.0**-24 * 1.01 * size_of_terms)
    assert out[-1] == 7


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 4)])
@pytest.mark.parametrize("stride", [1, 2])
def test_im2col(library: ctypes.CDLL, size: tuple[int, int], stride: int) -> None:
    height, width = size
    image = floats(4, height, width, 3)
    out_h, out_w = (height - 1) // stride + 1, (width - 1) // stride + 1
    out = np.zeros((out_h * out_w, 27), np.float32)
    library.im2col_3x3(height, width, 3, stride, pointer(image), pointer(out))

    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))[::stride, ::stride]
    np.testing.assert_array_equal(out, windows.transpose(0, 1, 3, 4, 2).reshape(-1, 27))


def test_exp_is_within_two_units_in_the_last_place(library: ctypes.CDLL) -> None:
    library.exp_f32.restype = ctypes.c_float
    for x in np.linspace(-87, 88, 5001, dtype=np.float32):
        exact = np.exp(np.float64(x))
        unit = np.spacing(np.float32(exact))
        assert abs(library.exp_f32(ctypes.c_float(x)) - exact) <= 2 * unit, x
    assert library.exp_f32(ctypes.c_float(-1000)) == 0


def test_softmax_argmax_mean_and_quantisation(library: ctypes.CDLL) -> None:
    x = floats(5, 9, 10) * 20
    out = np.zeros(10, np.float32)
    library.softmax_f32(10, pointer(x), pointer(out))
    shifted = np.exp(x[0].astype(np.float64) - x[0].max())
    # x - top is rounded: relative to the result that is |x - top| * 2^-24, here up to 80 * 2^-24.
    np.testing.assert_allclose(out, shifted / shifted.sum(), rtol=6e-6)
    assert library.argmax_f32(10, pointer(x)) == int(np.argmax(x[0]))

    library.global_mean_f32(9, 10, pointer(x), pointer(out))
    np.testing.assert_allclose(out, x.astype(np.float64).mean(axis=0), rtol=1e-5, atol=1e-5)

    values = np.array([-100, -1.5, -0.5, -0.4, 0, 0.5, 1.5, 100], np.float32)
    quantized, back = np.zeros(8, np.int8), np.zeros(8, np.float32)
    library.quantize_f32(ctypes.c_size_t(8), ctypes.c_float(1), 3, pointer(values), pointer(quantized))
    assert quantized.tolist() == [-97, 1, 2, 3, 3, 4, 5, 103]
    library.dequantize_s8(ctypes.c_size_t(8), ctypes.c_float(1), 3, pointer(quantized), pointer(back))
    assert back.tolist() == [-100, -2, -1, 0, 0, 1, 2, 100]


def test_sources_use_no_intrinsics() -> None:
    text = "".join(path.read_text() for path in OPS)

    assert not re.search(r"#\s*include\s*<(?!stddef|stdint|string)", text)
    assert "__builtin" not in text and "asm" not in text and "vector_size" not in text
