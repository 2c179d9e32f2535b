"""Runs lowered graphs on this machine, compiled in memory: all rows of their steps, or the first ones."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.choose.lowering.free_rows import FreeRows, with_free_rows
from mavcg.choose.lowering.lower import LoweredGraph, lower_graph
from mavcg.graph import DTYPES, Graph
from mavcg.importers.onnx_file import import_onnx
from mavcg.memory.node_order import order_nodes
from mavcg.model.bounded_graph import check_graphs
from mavcg.model.bounded_values import LENGTH, with_length_input
from mavcg.model.precision import F32, optimised_graph
from mavcg.passes.graph.attention import fuse_attention
from mavcg.specs.count import Count, lengths_in, value_at
from mavcg.specs.dimension import Dimension
from mavcg.specs.kernel import Machine, Packing, Step
from mavcg.specs.packed_constant import constant_array
from tests.kernels.conftest import Compiled, host_machines

Array = NDArray[Any]
Shapes = Mapping[str, Sequence[int | None]]  # of the inputs; None: the bounded dimension
GUARD = 256  # bytes behind a buffer that nobody may write


def packing() -> Packing:
    return Packing(lanes=16 if host_machines()[0].arch == "x86_64" else 8)


def optimised(graph: Graph) -> Graph:
    return optimised_graph(fuse_attention(graph, dynamic=True), F32)


def read(path: Path, shapes: Shapes, length: int) -> Graph:
    """The graph of a model for a length."""
    given = {name: tuple(length if d is None else d for d in shape) for name, shape in shapes.items()}
    return import_onnx(path, given)


def free_rows_of(path: Path, shapes: Shapes, dimension: Dimension) -> FreeRows:
    """Return what a build makes of a file: its graphs for several lengths are compared, rewritten and lowered."""
    read_any = with_length_input(lambda length: read(path, shapes, length), dimension)
    most = read_any(dimension.most)
    checked = check_graphs(most, read_any, dimension)
    other = optimised(checked.other)
    longest = order_nodes(optimised(most)).graph
    by_output = {node.outputs: node for node in other.nodes}
    other = Graph(
        other.name,
        other.inputs,
        other.outputs,
        tuple(by_output[node.outputs] for node in longest.nodes),
        other.types,
        other.constants,
    )
    lowered = [lower_graph(graph, packing()) for graph in (longest, other)]
    return with_free_rows(lowered[0], lowered[1], dimension, checked.length, checked.axes, checked.windows)


def compiled_for(lowered: LoweredGraph, machine: Machine) -> Compiled:
    return Compiled([Step(step.spec, step.operands) for step in lowered.steps], machine, optimised=False)


def run_rows(
    lowered: LoweredGraph,
    compiled: Compiled,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, int],
    rows: Sequence[int],
    length: int = 0,
) -> list[bytes]:
    """The bytes of the outputs after the first rows of every step, of kernels that may read the length.

    outputs: bytes of each that are asked for; nothing may be written behind them. Buffers are full of NaNs at first.
    """
    graph, buffers = lowered.graph, {}
    fault = np.zeros(1, np.uint32)
    for root in {location.root for location in lowered.storage.locations.values()}:
        size = outputs.get(root, graph.types[root].bytes)
        store = np.full(size + GUARD + 64, 0xFF, np.uint8)
        start = -store.ctypes.data % 64
        buffers[root] = store[start : start + size + GUARD]
        if root in inputs:
            buffers[root] = np.frombuffer(bytearray(inputs[root].tobytes() + b"\xff" * GUARD), np.uint8)
    if LENGTH in buffers:
        buffers[LENGTH] = np.array([length], np.uint32).view(np.uint8)
    kept: list[Array] = []
    most = max(lowered.workspaces().values(), default=0)
    workspace = np.full(most + GUARD + 64, 0xFF, np.uint8)
    for step, count in zip(lowered.steps, rows, strict=True):
        pointers = []
        for operand in step.operands:
            if operand.fault_word:
                pointers.append(fault.ctypes.data)
                continue
            if operand.count is not None:
                kept.append(np.array([_value(operand.count, length)], np.uint32))
                pointers.append(kept[-1].ctypes.data)
                continue
            if operand.constant is not None:
                data = np.frombuffer(constant_array(operand.constant, graph.constants).tobytes(), np.uint8)
                raw = np.zeros(data.size + 64, np.uint8)
                start = -raw.ctypes.data % 64
                raw[start : start + data.size] = data
                kept.append(raw)
                pointers.append(raw.ctypes.data + start + operand.offset)
                continue
            if operand.workspace_bytes:
                pointers.append(workspace.ctypes.data + -workspace.ctypes.data % 64 + operand.offset)
                continue
            location = lowered.storage.locations[operand.tensor]
            item = DTYPES[graph.types[operand.tensor].dtype].itemsize
            pointers.append(int(buffers[location.root].ctypes.data) + location.offset * item + operand.offset)
        compiled.run(Step(step.spec, step.operands), pointers, [(0, count // 2), (count // 2, count)])
    assert not fault[0], "an index of this test does not exist"
    results = []
    for name in graph.outputs:
        size = outputs[name]
        assert bytes(buffers[name][size : size + GUARD]) == b"\xff" * GUARD, f"%{name} was written behind its end"
        results.append(bytes(buffers[name][:size]))
    return results


def first_rows(free: FreeRows, length: int) -> list[int]:
    """The rows of each step for a length."""
    return [
        step.spec.rows if count is None else _value(count, length)
        for step, count in zip(free.lowered.steps, free.counts, strict=True)
    ]


def _value(count: Count, length: int) -> int:
    return value_at(count, dict.fromkeys(lengths_in(count), length))


def results_of_lengths(
    path: Path,
    shapes: Shapes,
    dimension: Dimension,
    inputs: Mapping[int, Mapping[str, Array]],
    same_bits: Collection[int],
) -> dict[int, tuple[list[bytes], list[bytes]]]:
    """(outputs by the first rows of the longest length's kernels, outputs by the kernels of a fixed length) by length.

    inputs: of each length. same_bits: the lengths for which there are kernels of their own; others have no second
    list.
    """
    machine, free = host_machines()[0], free_rows_of(path, shapes, dimension)
    compiled = compiled_for(free.lowered, machine)
    results = {}
    for length, arrays in inputs.items():
        types = optimised(read(path, shapes, length)).types
        sizes = {name: types[name].bytes for name in free.lowered.graph.outputs}
        rows = first_rows(free, length)
        results[length] = run_rows(free.lowered, compiled, arrays, sizes, rows, length), list[bytes]()
        if length in same_bits:
            fixed = lower_graph(optimised(read(path, shapes, length)), packing())
            own = compiled_for(fixed, machine)
            whole = [step.spec.rows for step in fixed.steps]
            results[length] = results[length][0], run_rows(fixed, own, arrays, sizes, whole)
    return results
