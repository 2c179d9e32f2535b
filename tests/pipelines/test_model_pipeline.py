"""A model file to a library to results, as users go: emulated ARM cores, moved threads, other runtimes."""

import importlib.util
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mavcg
from bench.models import model_path, shapes_of
from mavcg.errors import MavcgError
from mavcg.model.model import build_model
from mavcg.model.request import ModelOptions, SelectionOptions, make_model_request
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig
from tests.machine import MIDRS, QEMU, SYSROOT, needs_qemu_and_libc, needs_two_cpus

Array = NDArray[Any]
HERE = Path(__file__).parent
TWO_CORES = ("haswell", "znver3") if host_target().arch == "x86_64" else ("cortex-a55", "cortex-a76")


def small_onnx(path: Path) -> Path:
    """Of everything a little: 2.6 M multiply-adds."""
    onnx = pytest.importorskip("onnx")
    from onnx import numpy_helper

    rng = np.random.default_rng(5)
    weights: dict[str, Array] = {}

    def normal(name: str, *shape: int) -> str:
        scale = math.sqrt(2 / math.prod(shape[1:])) if len(shape) > 1 else 0.2
        weights[name] = (rng.standard_normal(shape) * scale).astype(np.float32)
        return name

    def constant(name: str, values: Any, dtype: Any = np.float32) -> str:
        weights[name] = np.asarray(values, dtype)
        return name

    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["x", normal("w0", 20, 3, 3, 3), normal("b0", 20)], ["c0"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node(
            "BatchNormalization",
            [
                "c0",
                constant("s", rng.uniform(0.5, 1.5, 20)),
                normal("o", 20),
                normal("m", 20),
                constant("v", rng.uniform(0.5, 1.5, 20)),
            ],
            ["n0"],
        ),
        node("Clip", ["n0", constant("low", 0.0), constant("high", 6.0)], ["r0"]),
        node("Conv", ["r0", normal("w1", 20, 1, 3, 3)], ["c1"], group=20, pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", normal("w2", 20, 20, 1, 1), normal("b2", 20)], ["c2"]),
        node("Add", ["c2", "r0"], ["a"]),
        node("Conv", ["a", normal("w3", 13, 20, 5, 5)], ["c3"], pads=[2, 2, 2, 2]),
        node("Sigmoid", ["c3"], ["g3"]),
        node("Concat", ["a", "g3"], ["cat"], axis=1),
        node("MaxPool", ["cat"], ["p"], kernel_shape=[3, 3], strides=[2, 2]),
        node("HardSwish", ["p"], ["h"]),
        node("GlobalAveragePool", ["h"], ["q"]),
        node("Flatten", ["q"], ["f"]),
        node("Gemm", ["f", normal("w4", 10, 33), normal("b4", 10)], ["z"], transB=1),
        node("Softmax", ["z"], ["y"], axis=1),
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "road",
        [value("x", 1, [1, 3, 31, 37])],
        [value("y", 1, [1, 10]), value("h", 1, [1, 33, 7, 9])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def small_tflite(path: Path) -> Path:
    """Convolution, depthwise, residual, pooling, a layer of all inputs, softmax, as TFLite has them."""
    pytest.importorskip("ai_edge_litert.schema_py_generated", reason="ai-edge-litert writes the model")
    file = HERE.parent / "mavcg/importers/tflite/conftest.py"
    spec = importlib.util.spec_from_file_location("tflite_writer", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng = np.random.default_rng(6)

    def normal(*shape: int) -> Array:
        values: Array = rng.standard_normal(shape) / math.sqrt(math.prod(shape[1:]))
        return values.astype(np.float32)

    m = module.Writer()
    x = m.input((1, 19, 23, 3), name="x")
    a = m.op(
        "CONV_2D",
        [x, m.constant(normal(12, 3, 3, 3)), m.constant(normal(12))],
        options="Conv2DOptions",
        shape=(1, 10, 12, 12),
        padding=0,
        strideW=2,
        strideH=2,
        dilationWFactor=1,
        dilationHFactor=1,
        fusedActivationFunction=3,
    )
    d = m.op(
        "DEPTHWISE_CONV_2D",
        [a, m.constant(normal(1, 3, 3, 12)), m.constant(normal(12))],
        options="DepthwiseConv2DOptions",
        shape=(1, 10, 12, 12),
        padding=0,
        strideW=1,
        strideH=1,
        depthMultiplier=1,
        dilationWFactor=1,
        dilationHFactor=1,
        fusedActivationFunction=1,
    )
    s = m.op("ADD", [a, d], options="AddOptions", shape=(1, 10, 12, 12), fusedActivationFunction=0)
    p = m.op(
        "AVERAGE_POOL_2D",
        [s],
        options="Pool2DOptions",
        shape=(1, 5, 6, 12),
        padding=1,
        strideW=2,
        strideH=2,
        filterWidth=2,
        filterHeight=2,
        fusedActivationFunction=0,
    )
    flat = m.op("RESHAPE", [p, m.constant([1, 360])], options="ReshapeOptions", shape=(1, 360), newShape=[1, 360])
    z = m.op(
        "FULLY_CONNECTED",
        [flat, m.constant(normal(7, 360)), m.constant(normal(7))],
        options="FullyConnectedOptions",
        shape=(1, 7),
        fusedActivationFunction=0,
    )
    y = m.op("SOFTMAX", [z], options="SoftmaxOptions", shape=(1, 7), beta=1.0)
    path.write_bytes(m.bytes(y))
    return path


MODELS: dict[str, Callable[[Path], Path]] = {"road.onnx": small_onnx, "road.tflite": small_tflite}


@dataclass(frozen=True)
class Road:
    """A model, its library for a board or cores, and the program linked with it."""

    model: Path
    folder: Path
    arm: bool
    input_shapes: tuple[tuple[int, ...], ...]

    @property
    def inputs(self) -> list[Array]:
        rng = np.random.default_rng(0)
        return [rng.standard_normal(shape).astype(np.float32) for shape in self.input_shapes]

    def run(self, threads: int = 1, runs: int = 2, move: bool = False, core: str = "", **more: str) -> bytes:
        """The outputs' bytes; all runs of a call give the same."""
        out = self.folder / "outputs.bin"
        (self.folder / "inputs.bin").write_bytes(b"".join(array.tobytes() for array in self.inputs))
        emulator = [str(QEMU), "-L", str(SYSROOT), "-cpu", f"max,midr={MIDRS[core]:#x}"] if self.arm else []
        words = [str(self.folder / "run_model"), str(self.folder / "inputs.bin"), str(out), str(threads), str(runs)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAVCG_")}
        path = {"LD_LIBRARY_PATH": str(self.folder)} if not self.arm else {}
        done = subprocess.run(
            [*emulator, *words, *(["move"] if move else [])],
            env=environment | path | {"MAVCG_TRACE": "1"} | more,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, f"{done.returncode}: {done.stdout} {done.stderr[-2000:]}"
        words = done.stdout.split()
        assert words[0] == "runs" and (int(words[3]) >= 300 or not move)
        self.ran.clear()
        self.ran.update(re.findall(r"^mavcg: \S+ (\S+) [1-9]\d*$", done.stderr, re.MULTILINE))
        return out.read_bytes()

    @property
    def ran(self) -> set[str]:
        """The versions that ran, last time."""
        return _RAN.setdefault(self.folder, set())

    def reference(self) -> list[Array]:
        """What onnxruntime or LiteRT makes of the inputs."""
        if self.model.suffix == ".onnx":
            ort = pytest.importorskip("onnxruntime")
            session = ort.InferenceSession(str(self.model), providers=["CPUExecutionProvider"])
            names = [i.name for i in session.get_inputs()]
            return list(session.run(None, dict(zip(names, self.inputs, strict=True))))
        litert = pytest.importorskip("ai_edge_litert.interpreter")
        interpreter = litert.Interpreter(str(self.model), num_threads=1)
        interpreter.allocate_tensors()
        for tensor, array in zip(interpreter.get_input_details(), self.inputs, strict=True):
            interpreter.set_tensor(tensor["index"], array)
        interpreter.invoke()
        return [interpreter.get_tensor(t["index"]) for t in interpreter.get_output_details()]

    def check(self, outputs: bytes) -> None:
        """Within 1e-4 of the reference, relative to the largest element of each output."""
        at = 0
        for wanted in self.reference():
            found = np.frombuffer(outputs, np.float32, wanted.size, at).reshape(wanted.shape)
            at += found.nbytes
            assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()
        assert at == len(outputs)


_RAN: dict[Path, set[str]] = {}


def make_road(
    model: Path, folder: Path, board: str | None, cores: Sequence[str], shapes: Sequence[str] = (), strategy: str = ""
) -> Road:
    """Build a library and link the program with it, as a user does."""
    selection = SelectionOptions(strategy or None)
    request, _ = make_model_request(
        model, str(folder / "libroad.so"), ModelOptions(board=board, cores=cores, shapes=shapes), selection
    )
    result = build_model(request)
    target = request.target
    zig = ["-target", target.zig_name, "-std=gnu11", "-O2", "-pthread", "-fno-sanitize=all", f"-I{folder}"]
    link = [str(HERE / "run_model.c"), str(folder / "libroad.so"), f"-Wl,-rpath,{folder}"]
    run_zig("cc", [*zig, *link, "-o", str(folder / "run_model")], "linking the program")
    shapes_in = tuple(t.type.shape for t in result.plan.program.inputs)
    return Road(model, folder, target.arch == "aarch64" != host_target().arch, shapes_in)


@pytest.fixture(scope="module", params=[pytest.param("road.onnx", marks=pytest.mark.long), "road.tflite"])
def arm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Road:
    """A small model for the exynos9820."""
    folder = tmp_path_factory.mktemp("arm")
    return make_road(MODELS[request.param](folder / request.param), folder, "exynos9820", ())


@pytest.fixture(scope="module", params=["road.onnx", pytest.param("road.tflite", marks=pytest.mark.long)])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Road:
    """A small model for two cores of this machine's architecture."""
    folder = tmp_path_factory.mktemp("host")
    return make_road(MODELS[request.param](folder / request.param), folder, None, TWO_CORES)


@needs_qemu_and_libc
@pytest.mark.long
@pytest.mark.parametrize("strategy", ["local", "family:direct_blocked"])
def test_selected_primitives_give_the_same_bits_on_every_core(strategy: str, tmp_path: Path) -> None:
    road = make_road(small_onnx(tmp_path / "road.onnx"), tmp_path, "exynos9820", (), strategy=strategy)
    found = {core: road.run(core=core, threads=2) for core in ("generic", "cortex-a55")}
    assert found["generic"] == found["cortex-a55"]
    road.check(found["generic"])


@needs_qemu_and_libc
def test_every_core_of_the_board_gives_the_same_bits(arm: Road) -> None:
    found = {}
    for core in MIDRS:
        found[core] = arm.run(core=core, threads=2)
        assert arm.ran == {core}

    assert set(map(len, found.values())) == {len(found["generic"])}
    assert set(found.values()) == {found["generic"]}
    arm.check(found["generic"])


@pytest.mark.long
@needs_two_cpus
def test_threads_that_are_moved_between_two_cores_give_the_same_bits(host: Road) -> None:
    wanted = host.run(MAVCG_CPU_MAP="all=generic")
    assert host.ran == {"generic"}
    moved = host.run(threads=3, runs=1000, move=True, MAVCG_CPU_MAP=f"0={TWO_CORES[0]},1={TWO_CORES[1]}")
    if host.ran - set(TWO_CORES):
        pytest.skip(f"this machine does not do as {' and '.join(TWO_CORES)}")

    assert host.ran == set(TWO_CORES)
    assert moved == wanted
    host.check(moved)


def test_any_number_of_threads_gives_the_same_bits(host: Road) -> None:
    assert len({host.run(threads=threads, runs=20) for threads in (1, 2, 3, 5, 8)}) == 1


def test_python_gets_what_the_c_program_gets(host: Road) -> None:
    with mavcg.load(host.folder / "libroad.so", threads=2) as model:
        output = model.run(*host.inputs)

    assert b"".join(array.tobytes() for array in output) == host.run()


@needs_qemu_and_libc
@pytest.mark.long
def test_squeezenet_on_every_core_of_the_board(tmp_path: Path) -> None:
    try:
        model = model_path("squeezenet-random", fetch=False)
    except MavcgError as error:
        pytest.skip(str(error))
    shutil.copy(model, tmp_path / "model.onnx")
    road = make_road(tmp_path / "model.onnx", tmp_path, "exynos9820", ())
    found = {core: road.run(core=core, runs=1) for core in MIDRS}

    assert set(found.values()) == {found["generic"]}
    road.check(found["generic"])


@pytest.mark.long
@pytest.mark.parametrize("name", ["squeezenet-random", "mobilenet_v2", "blazeface", "ppocr_cls", "hand_landmark"])
def test_real_models_agree_with_their_references(name: str) -> None:
    """The rest: python -m bench.model_accuracy."""
    from bench.model_accuracy import check

    try:
        model_path(name, fetch=False)
    except MavcgError as error:
        pytest.skip(str(error))
    row = check(name)

    assert row.ok, row
    assert shapes_of(name) or row.top
