"""Convolution layers and matrix products, one by one, beside this core's measured peak: `python -m bench.conv_layers`.

One thread; all data are warm in the caches as far as they fit. Times are CPU times of the thread, without calls during
which it lost its CPU. Peak and kernel alternate; the upper quartile of the rounds counts, since other programs, which
share the caches, can only slow them down. Calls come from a compiled loop. GFLOP/s count a multiply-add as two.
"""

import argparse
import ctypes
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir

from bench.jit import Compiled, caller, compile_step, host_machine, planned
from bench.record import facts, write
from bench.tables.catalogue import print_record
from mavcg.graph import Array, Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels.builder.emit import F32, PTR, Values, const, fma, for_range
from mavcg.kernels.builder.lanes import f32_splat
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.kernels.registry import lower
from mavcg.runtime.machines import packing_for
from mavcg.specs.kernel import Machine, Step, View, dense_view
from mavcg.specs.packed_constant import constant_array
from mavcg.toolchain.target import host_target

# (out size, in channels, out channels, kernel, stride, groups)
LAYERS = {
    "resnet50 conv1": (112, 3, 64, 7, 2, 1),
    "resnet50 2.1x1a": (56, 64, 64, 1, 1, 1),
    "resnet50 2.3x3": (56, 64, 64, 3, 1, 1),
    "resnet50 2.1x1b": (56, 64, 256, 1, 1, 1),
    "resnet50 3.3x3": (28, 128, 128, 3, 1, 1),
    "resnet50 3.1x1b": (28, 128, 512, 1, 1, 1),
    "resnet50 4.3x3": (14, 256, 256, 3, 1, 1),
    "resnet50 4.1x1a": (14, 1024, 256, 1, 1, 1),
    "resnet50 5.3x3": (7, 512, 512, 3, 1, 1),
    "resnet50 5.1x1b": (7, 512, 2048, 1, 1, 1),
    "squeezenet fire2 squeeze": (54, 96, 16, 1, 1, 1),
    "squeezenet fire2 3x3": (54, 16, 64, 3, 1, 1),
    "mobilenet_v2 expand": (56, 24, 144, 1, 1, 1),
    "mobilenet_v2 project": (28, 144, 32, 1, 1, 1),
    "mobilenet_v2 dw 112": (112, 32, 32, 3, 1, 32),
    "mobilenet_v2 dw 56": (56, 144, 144, 3, 1, 144),
    "mobilenet_v2 dw 56 s2": (56, 96, 96, 3, 2, 96),
    "mobilenet_v2 dw 7": (7, 960, 960, 3, 1, 960),
    "mobilenet_v2 dw 14 s2": (7, 576, 576, 3, 2, 576),
    "mobilenet_v2 last": (7, 320, 1280, 1, 1, 1),
    "mobilenet_v1 dw 14": (14, 512, 512, 3, 1, 512),
    "efficientnet_lite0 dw 5x5 14": (14, 672, 672, 5, 1, 672),
    "efficientnet_lite0 dw 5x5 7 s2": (7, 672, 672, 5, 2, 672),
}
PRODUCTS = ((512, 512, 512), (64, 64, 64), (12544, 64, 147), (784, 128, 1152), (49, 512, 4608), (1, 1000, 2048))
ROUNDS, SECONDS = 15, 0.006
PEAK_ACCUMULATORS, PEAK_TURNS = 12, 100_000


def peak_caller(machine: Machine) -> tuple[Callable[[], None], float]:
    """Return a call that executes nothing but independent fused multiply-adds, and the operations of one call."""
    lanes = machine.vector_bytes // 4
    module = ir.Module("peak")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), "peak")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    typ = ir.VectorType(F32, lanes)
    x = b.load(function.args[0], align=4, typ=typ)

    def iteration(_: ir.Value, acc: Values) -> Values:
        return tuple(fma(b, x, x, a) for a in acc)

    start = [b.fadd(x, f32_splat(float(i), lanes)) for i in range(PEAK_ACCUMULATORS)]
    acc = for_range(b, const(0), const(PEAK_TURNS), 1, start, iteration)
    total = acc[0]
    for a in acc[1:]:
        total = b.fadd(total, a)
    b.store(total, function.args[0], align=4)
    b.ret_void()
    compiled = Compiled(add_core_attributes(module, machine), machine)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(compiled.address("peak"))
    room = np.full(64, 1e-3, np.float32)

    def call(keep: object = (compiled, room)) -> None:
        room[:] = 1e-3
        run(room.ctypes.data)

    return call, 2.0 * lanes * PEAK_ACCUMULATORS * PEAK_TURNS


def conv_caller(machine: Machine, size: int, ic: int, oc: int, k: int, stride: int, groups: int) -> tuple[Any, float]:
    """Return the call of a layer of `size` x `size` output pixels; its input is in a padded buffer, as in a library."""
    b = GraphBuilder("layer")
    side = (size - 1) * stride + k
    x = b.input("x", TensorType("f32", (1, side, side, ic)))
    rng = np.random.default_rng(0)
    w = b.constant(rng.standard_normal((oc, k, k, ic // groups)).astype(np.float32), "w")
    bias = b.constant(np.zeros(oc, np.float32), "bias")
    out = b.add("conv2d", [x, w, bias], stride=(stride, stride), pads=(0, 0, 0, 0), groups=groups, act="relu")
    return _caller(b, out, machine), 2.0 * size * size * oc * k * k * ic / groups


def product_step(m: int, right: Array) -> Step:
    """Return the kernel of an m x k matrix times a constant k x n matrix."""
    b = GraphBuilder("product")
    a = b.input("a", TensorType("f32", (m, right.shape[0])))
    return _step(b, b.add("matmul", [a, b.constant(right, "b")]))[0]


def product_caller(machine: Machine, m: int, n: int, k: int) -> tuple[Any, float]:
    """Return the call of an m x k matrix times a constant k x n matrix."""
    b = GraphBuilder("product")
    a = b.input("a", TensorType("f32", (m, k)))
    right = b.constant(np.random.default_rng(0).standard_normal((k, n)).astype(np.float32), "b")
    return _caller(b, b.add("matmul", [a, right]), machine), 2.0 * m * n * k


def _step(b: GraphBuilder, out: str) -> tuple[Step, Graph]:
    graph = b.finish([out])
    node = graph.nodes[-1]
    views: dict[str, View] = {n: dense_view(graph.types[n]) for n in (*node.inputs, *node.outputs) if n}
    (step,) = lower(node, graph, views, packing_for(host_target()))
    return step, graph


def _caller(b: GraphBuilder, out: str, machine: Machine) -> Callable[[], None]:
    step, graph = _step(b, out)
    rng = np.random.default_rng(1)
    arrays = []
    for operand in step.operands:
        source = graph.constants.get(operand.tensor)
        if operand.constant is not None:
            source = constant_array(operand.constant, graph.constants)
        drawn = source if source is not None else rng.standard_normal(graph.shape(operand.tensor))
        arrays.append(aligned(drawn.astype(np.float32)))
    macro = planned(step, machine)
    return caller(compile_step(step, machine, macro), step, arrays, macro)


def aligned(array: Array) -> Array:
    """Return a copy that begins at a cache line, with some room behind it."""
    room = np.zeros(array.size + 32, array.dtype)
    start = (-room.ctypes.data % 64) // array.itemsize
    copy: Array = room[start : start + array.size].reshape(array.shape)
    copy[...] = array
    return copy


def seconds_of(call: Callable[[], None], least: float) -> float:
    """Return the CPU seconds of one call: the mean over enough calls to fill `least` seconds."""
    calls, start = 0, time.thread_time()
    while True:
        call()
        calls += 1
        took = time.thread_time() - start
        if took >= least:
            return took / calls


def seconds_of_each(call: Callable[..., None], least: float) -> float:
    """Return the CPU seconds of one call, by a kernel that repeats itself.

    So short times do not include Python and the clock.
    """
    times = max(1, round(least / seconds_of(call, least / 8)))
    start = time.thread_time()
    call(times)
    return (time.thread_time() - start) / times


def measure(name_part: str = "") -> list[dict[str, Any]]:
    """Return a row for every layer and product whose name contains `name_part`, each interleaved with the peak."""
    machine = host_machine()
    peak, peak_work = peak_caller(machine)
    cases: dict[str, Callable[[], tuple[Any, float]]] = {
        name: partial(conv_caller, machine, *layer) for name, layer in LAYERS.items()
    }
    cases |= {f"gemm {m}x{n}x{k}": partial(product_caller, machine, m, n, k) for m, n, k in PRODUCTS}
    rows = []
    for name, make in cases.items():
        if name_part not in name:
            continue
        call, work = make()
        call()
        pairs = [(peak_work / seconds_of(peak, SECONDS), work / seconds_of_each(call, SECONDS)) for _ in range(ROUNDS)]
        top, mine = (statistics.quantiles(rates, n=4)[2] / 1e9 for rates in zip(*pairs, strict=True))
        rows.append(
            {
                "name": name,
                "gflops": round(mine, 2),
                "peak_gflops": round(top, 2),
                "share": round(mine / top, 4),
            }
        )
    return rows


def bench_layers(
    name: str,
    about: str | None,
    measure: Callable[[str], list[dict[str, Any]]],
) -> None:
    """The command of a bench of layers: measure, print, and write bench/results/<name>.json where all are measured.

    about: its help. measure: those with a text in their names.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="", help="only what has this in its name")
    parser.add_argument("--json", action="store_true", help="print the record instead of a table")
    args = parser.parse_args()
    rows = measure(args.name)
    record = {**facts("measured", f"bench.{name}"), "rows": rows}
    if not args.name:
        write(name, record)
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    print_record(name, record)


def main() -> None:
    """Measure, print, and write bench/results/conv_layers.json."""
    bench_layers("conv_layers", __doc__, measure)


if __name__ == "__main__":
    main()
