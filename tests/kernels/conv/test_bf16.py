"""bf16 convolutions and matrix products: sums of f32, rounded once, and the same bits on every core."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.graph import DTYPES, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import evaluate
from mavcg.kernels.registry import emit
from mavcg.specs.kernel import Packing
from tests.kernels.conftest import host_machines, run_node_on
from tests.kernels.conv.half_cases import BIG, CASES, LITTLE, TRANSPOSED, X86, case
from tests.kernels.emulated_steps import EmulatedNode, emulated_node, run_emulated

Array = NDArray[Any]
BF16 = DTYPES["bf16"]
NUMBERS = range(len(CASES) + len(TRANSPOSED))
HOSTS = host_machines()


def on_host(node: EmulatedNode, inputs: Mapping[str, Array], number: int) -> Array:
    """The output of a case's node on one of this machine's kinds."""
    (of_graph,) = node.graph.nodes
    machine = HOSTS[number % len(HOSTS)]
    packing = Packing(16 if machine.arch == "x86_64" else 8)
    (computed,) = run_node_on(machine, of_graph, node.graph, inputs, parts=2, packing=packing, optimised=False)
    return computed


def widened(node: EmulatedNode) -> EmulatedNode:
    """The same node and numbers in f32."""
    b, graph, (of_graph,) = GraphBuilder("wide"), node.graph, node.graph.nodes
    names = []
    for name in of_graph.inputs:
        if name in graph.constants:
            names.append(b.constant(graph.constants[name].astype(np.float32), name))
        else:
            names.append(b.input(name, TensorType("f32", graph.shape(name))) if name else "")
    attrs: dict[str, Any] = dict(of_graph.attrs)
    wide = b.finish([b.add(of_graph.op, names, **attrs)])
    return EmulatedNode(wide, {name: array.astype(np.float32) for name, array in node.inputs.items()}, ())


@pytest.mark.sample(5)
@pytest.mark.parametrize("number", NUMBERS)
def test_products_are_those_of_f32_rounded_once(number: int) -> None:
    node, inputs = case(number, "bf16")
    computed = on_host(node, node.inputs, number)
    wide = widened(node)
    in_single = on_host(wide, wide.inputs, number)
    assert computed.dtype == BF16
    assert computed.tobytes() == in_single.astype(BF16).tobytes()
    (of_graph,) = node.graph.nodes
    given = [None if array is None else array.astype(np.float64) for array in inputs[: len(of_graph.inputs)]]
    (exact,) = evaluate(of_graph, given, wide=True)
    np.testing.assert_allclose(computed.astype(np.float64), exact, rtol=2.0**-8 * 1.001, atol=1e-4)


def test_avx512_tiles_end_in_half_a_vector() -> None:
    """LLVM takes the code for AVX-512 on every host; 5 channels take half a vector."""
    b = GraphBuilder("narrow")
    w = b.constant(np.ones((21, 5), np.float32).astype(BF16))
    node = emulated_node(b.finish([b.add("matmul", [b.input("x", TensorType("bf16", (7, 21))), w])]), {}, lanes=16)
    module = ir.Module("narrow")
    for step in node.steps:
        emit(module, step.spec, X86, None)
    text = str(module)
    llvm.parse_assembly(text).verify()
    assert "llvm.fma.v8f32" in text and "llvm.fma.v16f32" not in text


@pytest.mark.long
def test_arm_cores_compute_the_bits_of_this_machine(tmp_path: Path) -> None:
    numbers = [0, 3, 8, 9, 13, 16]
    nodes = [case(number, "bf16")[0] for number in numbers]
    here = [on_host(node, node.inputs, number).tobytes() for node, number in zip(nodes, numbers, strict=True)]
    for machine in (LITTLE, BIG):
        there = run_emulated(nodes, machine, tmp_path / machine.name)
        assert [array.tobytes() for array in there] == here, machine.name


def test_infinite_and_large_numbers() -> None:
    """A sum beyond the range is infinite, and NaN stays NaN."""
    x = np.array([[3e38, 3e38, 1], [1e-40, 1, 1], [np.nan, 0, 0], [np.inf, 1, 1]], np.float32).astype(BF16)
    b = GraphBuilder("large")
    w = b.constant(np.ones((3, 5), np.float32).astype(BF16))
    graph = b.finish([b.add("matmul", [b.input("x", TensorType("bf16", x.shape)), w])])
    sums = on_host(EmulatedNode(graph, {"x": x}, ()), {"x": x}, 0).astype(np.float32)
    np.testing.assert_array_equal(sums[:, 0], [np.inf, 2, np.nan, np.inf])
