"""A model library in the simulator: its layers, its version, the same bits on every core; errors for other files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.lab.simulate.model_run import ModelRunOptions, ModelSimulation, model_json, simulate_model
from mavcg.lab.simulate.sampling import SamplePlan
from mavcg.profiles.load import load_board, load_core
from mavcg.profiles.timing import load_timing
from mavcg.toolchain.zig import run_zig

BOARD = load_board("exynos9820")


def simulated(library: Path, core: str, warm: int = 0) -> ModelSimulation:
    kind = load_core(core)
    return simulate_model(library, kind, load_timing(kind), BOARD, ModelRunOptions(warm))


def test_a_library_without_a_model_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    (tmp_path / "x.c").write_text("int f(void) { return 1; }")
    flags = ["-target", "aarch64-linux-gnu.2.17", "-shared", "-fPIC", "-nostdlib"]
    run_zig("cc", [*flags, "x.c", "-o", "x.so"], "building", tmp_path)
    with pytest.raises(MavcgError, match="is not a model library; give --function"):
        simulated(tmp_path / "x.so", "cortex-a55")


@pytest.mark.long
def test_a_library_in_f16_runs_where_the_core_has_the_arithmetic(tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    from onnx import TensorProto, helper, save

    from mavcg.cli.app import run

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [40]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["y"])], "square", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    save(model, str(tmp_path / "square.onnx"))
    library, kind = tmp_path / "libsquare.so", load_core("cortex-a55")
    build = ["build", str(tmp_path / "square.onnx"), "--cores", "cortex-a55", "--precision", "f16", "-o", str(library)]
    assert run(build) == 0
    x = np.linspace(-3, 3, 40, dtype="f")
    result = simulate_model(library, kind, load_timing(kind), BOARD, ModelRunOptions(0, inputs_of=lambda names: [x]))
    rounded = x.astype(np.float16)
    np.testing.assert_array_equal(np.frombuffer(result.outputs[0], "f"), (rounded * rounded).astype("f"))
    with pytest.raises(MavcgError, match="create ends with status -8"):
        simulate_model(library, replace(kind, extensions=()), load_timing(kind), BOARD, ModelRunOptions(0))


@pytest.mark.long
def test_a_model_runs_layer_by_layer_with_the_same_bits_on_every_core(tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    from onnx import TensorProto, helper, numpy_helper, save

    from mavcg.cli.app import run

    pick = np.random.default_rng(1)
    weights = {"w": (8, 3, 3, 3), "d": (8, 1, 3, 3)}
    initial = [numpy_helper.from_array(pick.standard_normal(s).astype("f"), n) for n, s in weights.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first", pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "d"], ["c"], name="depthwise", pads=[1] * 4, group=8),
        helper.make_node("GlobalAveragePool", ["c"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3, 64, 64]), ("y", [1, 8, 1, 1]))
    ]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    save(model, str(tmp_path / "small.onnx"))
    library = tmp_path / "libsmall.so"
    assert run(["build", str(tmp_path / "small.onnx"), "--board", BOARD.name, "-o", str(library)]) == 0

    found = {core: simulated(library, core) for core in ("cortex-a55", "cortex-a75", "exynos-m4")}
    outputs = {core: each.outputs for core, each in found.items()}
    values = np.frombuffer(outputs["cortex-a55"][0], "f")
    assert values.size == 8 and np.isfinite(values).all() and np.ptp(values) > 0
    assert outputs["cortex-a55"] == outputs["cortex-a75"] == outputs["exynos-m4"]
    for each in found.values():
        report = model_json(each)
        layers = sum(layer["cycles"] for layer in report["layers"])
        assert all(step.cycles > 0 for step in each.steps) and 0.8 * report["cycles"] < layers <= report["cycles"]
        assert {"conv2d"} <= {step.op for step in each.steps}
    assert found["cortex-a55"].counts.cycles > found["exynos-m4"].counts.cycles
    kind = load_core("cortex-a55")
    plan = SamplePlan(units=10, unit=300, warm=100, functional=4000)
    # Of caches that a run before has filled: what a skipped part writes is not in them after it.
    sampled = simulate_model(library, kind, load_timing(kind), BOARD, ModelRunOptions(plan=plan))
    whole = simulated(library, "cortex-a55", warm=1)
    assert sampled.outputs == whole.outputs and 0 < sampled.timed < sampled.counts.instructions
    assert abs(sampled.counts.cycles - whole.counts.cycles) <= 3 * sampled.error + 0.01 * whole.counts.cycles
    for step, timed_whole in zip(sampled.steps, whole.steps, strict=True):
        assert step.sample is not None and step.name == timed_whole.name
        assert abs(step.cycles - timed_whole.cycles) <= 4 * step.sample.error + 0.02 * timed_whole.cycles + 1500
    assert model_json(sampled)["sampling"]["standard_error_cycles"] == round(sampled.error)
    assert whole.outputs == outputs["cortex-a55"] and whole.counts.cycles < found["cortex-a55"].counts.cycles

    x = pick.standard_normal((1, 3, 64, 64)).astype("f")

    def with_input(array: np.ndarray[Any, Any]) -> ModelSimulation:
        return simulate_model(
            library, kind, load_timing(kind), BOARD, ModelRunOptions(0, inputs_of=lambda names: [array])
        )

    session = pytest.importorskip("onnxruntime").InferenceSession(str(tmp_path / "small.onnx"))
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_allclose(np.frombuffer(with_input(x).outputs[0], "f"), expected.reshape(-1), rtol=1e-4, atol=1e-5)
    with pytest.raises(MavcgError, match=r"input x: float64\[1, 3, 64, 64\], the model takes float32\[1, 3, 64, 64\]"):
        with_input(x.astype("d"))
    given = ["simulate", str(library), "--core", "cortex-a55", "--board", BOARD.name, "--per-layer", "--input"]
    np.save(tmp_path / "x.npy", x)
    assert run([*given, f"x={tmp_path / 'x.npy'}"]) == 0
    assert run([*given, f"z={tmp_path / 'x.npy'}"]) == 2
