"""Main loops on a Cortex-A55 as a build leaves them, by the model of its pipeline: near what the core can do at all."""

from pathlib import Path

import numpy as np
import pytest

from mavcg.assembly.tuning import tune_version
from mavcg.assembly.version_tuning import TuningJob
from mavcg.choose.lowering.kernel_code import HEURISTIC_SECONDS, KERNEL_FLAGS, kernel_module, version_symbol
from mavcg.graph.layout import dense_strides
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.builder.quantize import Int8Epilogue
from mavcg.kernels.int8.specs import QConv2d
from mavcg.kernels.primitives.registry import find_primitive
from mavcg.passes.asm.models.main_loop import main_loop
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import KernelSpec, View
from mavcg.specs.primitive import Epilogue, Scenario
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import parse_target

TARGET = parse_target("aarch64-linux-gnu.2.17")
F32_PEAK, I8_PEAK = 8.0, 32.0  # FLOP and OP a cycle: a multiply-add of 128 bits


def products_of_bytes() -> KernelSpec:
    x, out = (1, 28, 28, 64), (1, 28, 28, 64)
    return QConv2d(
        x=View("i8", x, dense_strides(x)),
        out=View("i8", out, dense_strides(out)),
        kernel=(1, 1),
        stride=(1, 1),
        dilation=(1, 1),
        groups=1,
        lanes=8,
        epilogue=Int8Epilogue(0, -128, 127, "i8"),
        narrow=True,
    )


def direct_convolution() -> KernelSpec:
    s = Scenario(64, 28, 28, 1, 1, 64)
    lowering = find_primitive("direct_blocked_channels_chwc_chwc").lower(
        s, np.zeros((64, 64, 1, 1), np.float32), Epilogue(bias=True), 8
    )
    return max((stage.spec for stage in lowering.stages), key=lambda spec: spec.work)


@pytest.mark.parametrize(
    ("spec", "unit", "peak"),
    [(products_of_bytes(), "OP", I8_PEAK), (direct_convolution(), "FLOP", F32_PEAK)],
    ids=["8-bit products", "direct convolution"],
)
def test_a_default_build_leaves_loops_near_the_peak(
    spec: KernelSpec, unit: str, peak: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path))
    core = load_core("cortex-a55")
    text = kernel_module([spec], machines_for((core,), TARGET)[core.name], core.name, TARGET)
    asked = CodegenJob(text, TARGET, "test", opt_level="2", emit="asm", flags=KERNEL_FLAGS)
    compile_module(asked, tmp_path / "kernel.s")
    compiled = (tmp_path / "kernel.s").read_text()
    symbol = version_symbol(kernel_name(spec), core.name)
    job = TuningJob(core, compiled, symbol, "", symbol, "", True, HEURISTIC_SECONDS, account=False)
    before, after = (main_loop(each, symbol, load_timing(core)) for each in (compiled, tune_version(job)[0]))
    assert before is not None and before.per_cycle < 0.8 * peak
    assert after is not None and after.unit == unit
    assert 0.95 * peak <= after.per_cycle <= peak
