"""8-bit depthwise convolutions whose rows have parts: every range of parts gives the bytes of the whole."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels.registry import lower
from mavcg.specs.kernel import Machine, Packing, dense_view
from mavcg.specs.packed_constant import constant_array
from mavcg.specs.tile_plan import MacroTile
from tests.kernels.conftest import Compiled, host_machines, run_node_on

Array = NDArray[Any]
HOST = host_machines()[-1]


def depthwise(
    channels: int, out: tuple[int, int], kernel: int = 3, stride: int = 1, images: int = 1
) -> tuple[Graph, Node, Array]:
    """The node of a convolution of each channel by itself, and its input. No output is 0."""
    rng, b = np.random.default_rng(channels), GraphBuilder("test")
    array = rng.integers(0, 256, (images, *((n - 1) * stride + kernel for n in out), channels)).astype(np.uint8)
    weights = rng.integers(-127, 128, (channels, kernel, kernel, 1)).astype(np.int8)
    ends = rng.integers(-500, 500, channels).astype(np.int32), np.full(channels, 2**-6, np.float32)
    inputs = [b.input("x", TensorType("u8", array.shape)), *map(b.constant, (weights, *ends))]
    node = b.add(
        "qconv2d",
        inputs,
        pads=(0, 0, 0, 0),
        groups=channels,
        stride=(stride, stride),
        x_zero=9,
        out_zero=128,
        lo=1,
        hi=255,
        to="u8",
    )
    graph = b.finish([node])
    return graph, graph.nodes[-1], array


def parts_of_vectors(channels: int, vectors: int) -> MacroTile:
    """Parts of so many of the longest vectors, which are 32 channels."""
    return MacroTile(nc=32 * vectors, parts=-(-channels // (32 * vectors)))


@pytest.mark.long
@settings(max_examples=8)
@given(st.data())
def test_rows_in_parts_give_the_same_bytes(data: st.DataObject) -> None:
    def pick(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    channels = pick(33, 300)
    graph, node, x = depthwise(channels, (pick(1, 9), pick(1, 9)), pick(1, 5), pick(1, 2), pick(1, 2))
    macro = parts_of_vectors(channels, pick(1, channels // 33))
    plain = run_node_on(HOST, node, graph, {"x": x}, packing=Packing(16), optimised=False)
    cut = run_node_on(HOST, node, graph, {"x": x}, None, pick(1, 23), Packing(16), macro, optimised=False)
    assert plain[0].tobytes() == cut[0].tobytes()


@pytest.mark.parametrize("machine", [HOST, replace(HOST, vector_bytes=16)], ids=["long vectors", "short vectors"])
@pytest.mark.parametrize("channels", [96, 101, 129])
def test_every_range_is_computed_and_nothing_else(channels: int, machine: Machine) -> None:
    """All ranges of 3 rows in 3 to 5 parts, of which the last may be shorter."""
    graph, node, x = depthwise(channels, (3, 2), 3)
    macro = parts_of_vectors(channels, 1)
    assert macro.nc is not None
    views = {name: dense_view(graph.types[name]) for name in (*node.inputs, node.output) if name}
    (step,) = lower(node, graph, views, Packing(16))
    compiled = Compiled([step], machine, macro, optimised=False)
    out = np.empty((3, 2, channels), x.dtype)
    tensors = {node.inputs[0]: x, node.output: out}
    kept = [
        tensors[o.tensor] if o.constant is None else on_a_line(constant_array(o.constant, graph.constants))
        for o in step.operands
    ]
    expected = run_node_on(machine, node, graph, {"x": x}, packing=Packing(16), optimised=False)[0][0]
    units = 3 * macro.parts
    for begin in range(units + 1):
        for end in range(begin, units + 1):
            out[:] = 0
            compiled.run(step, [array.ctypes.data for array in kept], [(begin, end)])
            done = np.zeros((3, channels), bool)
            for unit in range(begin, end):
                first = unit % macro.parts * macro.nc
                done[unit // macro.parts, first : first + macro.nc] = True
            assert (out == np.where(done[:, None, :], expected, 0)).all(), (begin, end)


def on_a_line(array: Array) -> Array:
    """A copy that begins on a cache line, as packed constants do."""
    raw = np.zeros(array.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64
    raw[start : start + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
    return raw[start : start + array.nbytes]


@pytest.mark.parametrize("macro", [MacroTile(nc=8, parts=10), MacroTile(nc=32, parts=2), MacroTile(parts=2)])
def test_parts_that_are_no_whole_vectors_or_not_as_many_are_refused(macro: MacroTile) -> None:
    graph, node, x = depthwise(77, (3, 3))
    with pytest.raises(MavcgError, match="cannot be cut into (2|10) parts of (8|32|all) channels"):
        run_node_on(HOST, node, graph, {"x": x}, packing=Packing(16), macro=macro, optimised=False)
