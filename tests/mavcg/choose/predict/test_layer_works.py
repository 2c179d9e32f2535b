"""The least work of steps, for limits: counted by hand and by brute force."""

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

from mavcg.choose.lowering.lower import lower_candidates
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.choose.predict.layer_works import layer_works
from mavcg.choose.predict.program_work import step_works
from mavcg.cost.limit import LayerWork
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels.primitives.winograd.spec import Winograd, WinogradInput, WinogradOutput, WinogradProducts
from mavcg.kernels.registry import emit
from mavcg.passes.graph.pipeline import optimise
from mavcg.runtime.machines import machines_for, packing_for
from mavcg.specs.kernel import KernelSpec
from mavcg.toolchain.target import parse_target

TARGET = parse_target("x86_64-linux-gnu")
FLOAT_OPERATION = re.compile(r"= f(?:add|sub|mul|neg) |= call [^@]*@\"?llvm\.fma")


def works_of(graph: Graph, algorithm: str = "") -> list[tuple[KernelSpec, LayerWork]]:
    """The steps of a graph with the least work of each; algorithm: of all nodes that have several."""
    candidates = lower_candidates(graph, packing_for(TARGET), 1e-3)
    outputs = [node.output for node in graph.nodes if node.op == "conv2d"] if algorithm else []
    plan = plan_lowered(candidates.lower(dict.fromkeys(outputs, algorithm)))
    steps = plan.lowered.steps
    return [(step.spec, work) for step, work in zip(steps, layer_works(plan, step_works(plan)), strict=True)]


def convolution(x: tuple[int, ...], weights: tuple[int, ...], **attributes: Any) -> Graph:
    """A graph of one f32 convolution: N, H, W, C and O, KH, KW, I."""
    b = GraphBuilder("net")
    w = np.random.default_rng(0).standard_normal(weights, dtype=np.float32)
    return b.finish([b.add("conv2d", [b.input("x", TensorType("f32", x)), b.constant(w)], **attributes)])


def brute_force(out: tuple[int, ...], kernel: tuple[int, ...], channels: int) -> int:
    """The multiply-adds of a convolution, one by one."""
    return sum(1 for _ in product(*map(range, (*out, *kernel, channels))))


@pytest.mark.parametrize(
    ("weights", "stride", "groups", "read"),
    [((5, 3, 3, 4), 1, 1, 9 * 9 * 4), ((4, 3, 3, 1), 2, 4, 9 * 9 * 4), ((6, 1, 1, 4), 2, 1, 5 * 5 * 4)],
)
def test_a_convolution_has_the_products_and_bytes_of_its_definition(
    weights: tuple[int, ...], stride: int, groups: int, read: int
) -> None:
    """A 1x1 filter with a stride reads a part of the pixels."""
    graph = convolution((1, 9, 9, 4), weights, stride=(stride, stride), groups=groups, pads=(0, 0, 0, 0))
    ((_, work),) = works_of(graph)
    side = (9 - weights[1]) // stride + 1

    assert work.multiply_adds == brute_force((side, side, weights[0]), weights[1:3], weights[3])
    assert work.arithmetic == "f32" and work.trips == 1
    assert work.tensor_bytes == 4 * (read + side * side * weights[0])
    assert work.weight_bytes >= 4 * np.prod(weights)  # whole panels


@pytest.mark.parametrize(("weight", "arithmetic"), [(1, "i8"), (127, "i16")])
def test_bytes_are_multiplied_as_bytes(weight: int, arithmetic: str) -> None:
    """Two products of 255 by 127 are more than i16 holds."""
    b = GraphBuilder("net")
    inputs = [
        b.input("x", TensorType("u8", (1, 6, 6, 8))),
        b.constant(np.full((16, 3, 3, 8), weight, np.int8)),
        b.constant(np.zeros(16, np.int32)),
        b.constant(np.full(16, 0.01, np.float32)),
    ]
    options: dict[str, Any] = {
        "pads": (0, 0, 0, 0),
        "groups": 1,
        "stride": (1, 1),
        "x_zero": 9,
        "out_zero": 1,
        "lo": 0,
        "hi": 255,
    }
    graph = b.finish([b.add("qconv2d", inputs, to="u8", **options)])
    works = [work for _, work in works_of(graph) if work.multiply_adds]

    assert [(work.arithmetic, work.multiply_adds) for work in works] == [
        (arithmetic, brute_force((4, 4, 16), (3, 3), 8))
    ]
    assert works[0].tensor_bytes == 6 * 6 * 8 + 4 * 4 * 16


def test_a_gather_reads_as_much_as_it_writes() -> None:
    b = GraphBuilder("net")
    table = b.constant(np.random.default_rng(0).standard_normal((1000, 32), dtype=np.float32))
    ids = b.input("ids", TensorType("i64", (3,)))
    ((_, work),) = works_of(b.finish([b.add("gather", [table, ids], axis=0)]))

    assert (work.multiply_adds, work.arithmetic, work.weight_bytes) == (0, "", 3 * 32 * 4)
    assert work.tensor_bytes == 3 * 8 + 3 * 32 * 4


@pytest.mark.parametrize("m", [2, 4])
def test_winograd_counts_as_the_algorithm_that_it_is(m: int) -> None:
    """Products of tiles, and the operations of the code that transforms them; no workspace between the stages."""
    side, channels = 8, 128
    graph = optimise(convolution((1, side, side, channels), (channels, 3, 3, channels), pads=(1, 1, 1, 1)))
    staged = [each for each in works_of(graph, f"winograd_2d_f{m}_k3_staged") if each[0].family.startswith("winograd")]
    tiles, t = (side // m) ** 2, m + 2
    by_kind = {type(spec): (spec, work) for spec, work in staged}

    assert by_kind[WinogradProducts][1].multiply_adds == tiles * t * t * channels * channels
    for kind in (WinogradInput, WinogradOutput):
        spec, work = by_kind[kind]
        assert work.multiply_adds == tiles * channels * emitted_operations(spec)
    padded, out = (side + 2) ** 2 * channels, side * side * channels
    assert sum(work.tensor_bytes for _, work in staged) == 4 * (padded + out)
    whole = [work for spec, work in works_of(graph, f"winograd_2d_f{m}_k3") if isinstance(spec, Winograd)]
    assert [work.multiply_adds for work in whole] == [sum(work.multiply_adds for _, work in staged)]


def emitted_operations(spec: KernelSpec) -> int:
    """The arithmetic instructions of a transform's code of whole vectors, which is straight for a tile of channels."""
    module = ir.Module("m")
    emit(module, spec, machines_for((), TARGET)["generic"], None)
    return len(FLOAT_OPERATION.findall(str(module)))
