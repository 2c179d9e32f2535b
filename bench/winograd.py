"""Winograd's convolutions beside the engine's implicit matrix product, by layer: `python -m bench.winograd`.

The 3x3 layers with stride 1 of VGG-19, ResNet-50 and Inception v1, one thread, images and weights in memory as in a
library. The algorithms are interleaved; each counts with the upper quartile of its rounds, because other programs,
which share the caches, can only slow it down. GFLOP/s are those of the definition (a multiply-add is two), so
algorithms with fewer multiplications may be above the core's peak. Times include a call by ctypes, about 0.7 us
per kernel.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.conv_layers import bench_layers, conv_caller, peak_caller, seconds_of
from bench.jit import caller, compile_step, host_machine
from mavcg.kernels.primitives.registry import find_primitive
from mavcg.runtime.machines import packing_for
from mavcg.specs.kernel import Array, Machine, Step
from mavcg.specs.primitive import Epilogue, Scenario
from mavcg.toolchain.target import host_target

# (out size, in channels, out channels)
LAYERS = {
    "vgg19 1.1": (224, 3, 64),
    "vgg19 1.2": (224, 64, 64),
    "vgg19 2.1": (112, 64, 128),
    "vgg19 2.2": (112, 128, 128),
    "vgg19 3.1": (56, 128, 256),
    "vgg19 3.2": (56, 256, 256),
    "vgg19 4.1": (28, 256, 512),
    "vgg19 4.2": (28, 512, 512),
    "vgg19 5": (14, 512, 512),
    "resnet50 2": (56, 64, 64),
    "resnet50 3": (28, 128, 128),
    "resnet50 4": (14, 256, 256),
    "resnet50 5": (7, 512, 512),
    "inception 2": (56, 64, 192),
    "inception 3a": (28, 96, 128),
    "inception 3b": (28, 128, 192),
    "inception 4a": (14, 96, 208),
    "inception 4b": (14, 112, 224),
    "inception 4d": (14, 144, 288),
    "inception 4e": (14, 160, 320),
    "inception 5b": (7, 192, 384),
}
ALGORITHMS = ("2d_f2_k3", "2d_f4_k3", "2d_f6_k3", "2d_f4_k3_staged", "1d_f4_k3", "1d_f6_k3")
IMPLICIT = "implicit"
ROUNDS, SECONDS = 9, 0.005


def _placed(values: Array) -> Array:
    """Return a copy that begins at a cache line."""
    raw = np.zeros(values.size + 32, np.float32)
    start = (-raw.ctypes.data % 64) // 4
    array = raw[start : start + values.size].reshape(values.shape)
    array[...] = values
    return array


def winograd_caller(machine: Machine, algorithm: str, size: int, in_ch: int, out_ch: int) -> Callable[[], None]:
    """Return the call of a primitive on N, H, W, C, with bias and relu.

    The input's border is in its buffer, as in a library.
    """
    scenario = Scenario(in_ch, size + 2, size + 2, 1, 3, out_ch)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((out_ch, in_ch, 3, 3)).astype(np.float32)
    primitive = find_primitive(f"winograd_{algorithm}_hwc_hwc")
    lowering = primitive.lower(scenario, weights, Epilogue(bias=True, act="relu"), packing_for(host_target()).lanes)
    bases = {
        "x": _placed(rng.standard_normal((size + 2, size + 2, in_ch))),
        "weights": _placed(lowering.weights),
        "out": _placed(np.zeros((size, size, out_ch))),
        "bias": _placed(np.zeros(out_ch)),
        "workspace": _placed(np.zeros(lowering.workspace_bytes // 4 + 16)),
    }
    calls = []
    for stage in lowering.stages:
        step = Step(stage.spec, ())
        places = [bases[operand.base].reshape(-1)[operand.offset // 4 :] for operand in stage.operands]
        calls.append(caller(compile_step(step, machine), step, places))

    def call(keep: object = bases) -> None:
        for call_stage in calls:
            call_stage()

    return call


def measure(name_part: str = "", algorithms: Sequence[str] = ALGORITHMS) -> list[dict[str, Any]]:
    """Return a row for each layer whose name contains `name_part`: GFLOP/s of each algorithm, and of the peak."""
    machine = host_machine()
    peak, peak_work = peak_caller(machine)
    rows = []
    for name, layer in LAYERS.items():
        if name_part not in name:
            continue
        implicit, work = conv_caller(machine, *layer, 3, 1, 1)
        calls = {IMPLICIT: implicit} | {
            algorithm: winograd_caller(machine, algorithm, *layer) for algorithm in algorithms
        }
        for call in calls.values():
            call()
        rates: dict[str, list[float]] = {algorithm: [] for algorithm in (*calls, "peak")}
        for _ in range(ROUNDS):
            rates["peak"].append(peak_work / seconds_of(peak, SECONDS))
            for algorithm, call in calls.items():
                rates[algorithm].append(work / seconds_of(call, SECONDS))
        gflops = {
            algorithm: round(statistics.quantiles(per_second, n=4)[2] / 1e9, 1)
            for algorithm, per_second in rates.items()
        }
        best = max(algorithms, key=lambda algorithm: gflops[algorithm])
        rows.append({"name": name, "gflops": gflops, "best": best, "gain": round(gflops[best] / gflops[IMPLICIT], 2)})
    return rows


def main() -> None:
    """Measure, print, and write bench/results/winograd.json."""
    bench_layers("winograd", __doc__, measure)


if __name__ == "__main__":
    main()
