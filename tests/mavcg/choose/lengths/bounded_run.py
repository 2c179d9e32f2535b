"""Runs lowered graphs on this machine, compiled in memory: all rows of their steps, or the first ones."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from mavcg.choose.lengths.any_length import lower_any_length
from mavcg.choose.lengths.length_numbers import length_input
from mavcg.choose.lengths.sampled_graphs import sampled_graphs
from mavcg.choose.lowering.lower import LoweredGraph, lower_graph
from mavcg.graph import DTYPES, Graph
from mavcg.graph.counts import Dimension, value_at
from mavcg.importers.onnx_file import import_onnx
from mavcg.importers.tflite_file import import_tflite
from mavcg.memory.node_order import order_nodes
from mavcg.model.precision import F32, optimised_graph
from mavcg.passes.graph.attention import fuse_attention
from mavcg.specs.kernel import Machine, Packing, Step
from mavcg.specs.packed_constant import constant_array
from tests.kernels.conftest import Compiled, host_machines
from tests.mavcg.choose.lengths.bounded_models import Images

Array = NDArray[Any]
Shapes = Mapping[str, Sequence[int | str | None]]  # of the inputs; None: the bounded dimension, or its name
Lengths = int | tuple[int, ...]  # of the bounded dimension, or of each of them
Dimensions = Dimension | Sequence[Dimension]
GUARD = 256  # bytes behind a buffer that nobody may write


def packing() -> Packing:
    return Packing(lanes=16 if host_machines()[0].arch == "x86_64" else 8)


def optimised(graph: Graph) -> Graph:
    return optimised_graph(fuse_attention(graph, dynamic=True), F32)


def all_of(dimensions: Dimensions) -> list[Dimension]:
    return [dimensions] if isinstance(dimensions, Dimension) else list(dimensions)


def by_name(lengths: Lengths, dimensions: Dimensions) -> dict[str, int]:
    """Lengths in steps, by the names of their dimensions."""
    each = (lengths,) if isinstance(lengths, int) else lengths
    return {d.name: length // d.step for d, length in zip(all_of(dimensions), each, strict=True)}


def read(path: Path, shapes: Shapes, dimensions: Dimensions, lengths: Mapping[str, int]) -> Graph:
    """The graph of a model for lengths in steps."""
    elements = {d.name: lengths[d.name] * d.step for d in all_of(dimensions)}
    (first, *_) = elements.values()
    given = {
        name: tuple(first if d is None else d if isinstance(d, int) else elements[d] for d in shape)
        for name, shape in shapes.items()
    }
    return import_tflite(path, given) if path.suffix == ".tflite" else import_onnx(path, given)


def lowered_for_lengths(
    path: Path, shapes: Shapes, dimensions: Dimensions, rewritten: Callable[[Graph], Graph] = optimised
) -> LoweredGraph:
    """Return what a build makes of a file: its graphs for several lengths are compared, rewritten and lowered."""
    sampled = sampled_graphs(lambda lengths: read(path, shapes, dimensions, lengths), all_of(dimensions))
    most, *others = map(rewritten, sampled.graphs)
    return lower_any_length([order_nodes(most).graph, *others], sampled, packing())


def compiled_for(lowered: LoweredGraph, machine: Machine) -> Compiled:
    return Compiled([Step(step.spec, step.operands) for step in lowered.steps], machine, optimised=False)


def run_rows(
    lowered: LoweredGraph,
    compiled: Compiled,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, int],
    rows: Sequence[int],
    lengths: Mapping[str, int] = {},
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
    for name in graph.inputs:
        if name.startswith(length_input("")):  # of an axis: its count as text
            count = eval(name.removeprefix(length_input("")).replace("/", "//"), {}, dict(lengths))
            buffers[name] = np.array([count], np.uint32).view(np.uint8)
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
                kept.append(np.array([value_at(operand.count, lengths)], np.uint32))
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


def first_rows(lowered: LoweredGraph, lengths: Mapping[str, int]) -> list[int]:
    """The rows of each step for lengths."""
    return [step.spec.rows if step.row_count is None else value_at(step.row_count, lengths) for step in lowered.steps]


def results_of_lengths(
    path: Path,
    shapes: Shapes,
    dimensions: Dimensions,
    inputs: Mapping[Any, Mapping[str, Array]],
    same_bits: Collection[Lengths],
    rewritten: Callable[[Graph], Graph] = optimised,
    machine: Machine | None = None,
) -> dict[Any, tuple[list[bytes], list[bytes]]]:
    """(outputs by the kernels for all lengths, outputs by the kernels of fixed lengths) by Lengths.

    inputs: of each Lengths. same_bits: those for which there are kernels of their own; others have no second list.
    rewritten: what passes make of a graph. machine: None for this one.
    """
    machine, free = machine or host_machines()[0], lowered_for_lengths(path, shapes, dimensions, rewritten)
    compiled = compiled_for(free, machine)
    results = {}
    for key, arrays in inputs.items():
        lengths = by_name(key, dimensions)
        graph = rewritten(read(path, shapes, dimensions, lengths))
        sizes = {name: graph.types[name].bytes for name in free.graph.outputs}
        rows = first_rows(free, lengths)
        results[key] = run_rows(free, compiled, arrays, sizes, rows, lengths), list[bytes]()
        if key in same_bits:
            fixed = lower_graph(graph, packing())
            own = compiled_for(fixed, machine)
            whole = [step.spec.rows for step in fixed.steps]
            results[key] = results[key][0], run_rows(fixed, own, arrays, sizes, whole)
    return results


def assert_right(
    path: Path,
    shape: tuple[int | None, ...],
    dimension: Dimension,
    lengths: tuple[int, ...],
    same_bits: tuple[int, ...] | None = None,
) -> None:
    """Compare values with onnxruntime's at these lengths, and bits with kernels for `same_bits` (None: for all)."""
    rng = np.random.default_rng(3)
    inputs = {
        n: {"x": rng.standard_normal([n if d is None else d for d in shape]).astype(np.float32)}
        for n in dict.fromkeys(lengths)
    }
    assert_same(path, {"x": shape}, dimension, inputs, lengths if same_bits is None else same_bits)


def assert_same(
    path: Path,
    shapes: Shapes,
    dimension: Dimensions,
    inputs: Mapping[Any, Mapping[str, Any]],
    of_own: Collection[Lengths],
) -> None:
    """Compare values with onnxruntime's, and bits with kernels for the lengths `of_own`. inputs: of each length."""
    reference = onnxruntime.InferenceSession(str(path))
    for length, (ours, fixed) in results_of_lengths(path, shapes, dimension, inputs, of_own).items():
        assert ours == (fixed or ours), f"the bits of length {length}"
        for have, want in zip(ours, reference.run(None, dict(inputs[length])), strict=True):
            near = np.frombuffer(have, want.dtype).reshape(want.shape)
            assert np.abs(near - want).max() <= 1e-4 * max(1.0, np.abs(want).max())


def assert_images(
    path: Path,
    net: Images,
    bounds: Mapping[str, tuple[int, int]],
    lengths: Sequence[tuple[int, ...]],
    same_bits: Sequence[tuple[int, ...]],
) -> None:
    """Compare a network at these lengths, and its bits at `same_bits`. bounds: of the dimensions in its shape."""
    rng = np.random.default_rng(3)
    inputs = {}
    for each in lengths:
        known = dict(zip(bounds, each, strict=True))
        shape = [known[length] if isinstance(length, str) else int(length or 1) for length in net.shape]
        inputs[each] = {"x": rng.standard_normal(shape).astype(np.float32)}
    dimensions = [Dimension(name, *ends) for name, ends in bounds.items()]
    assert_same(net.save(path / "m.onnx"), {"x": net.shape}, dimensions, inputs, same_bits)
