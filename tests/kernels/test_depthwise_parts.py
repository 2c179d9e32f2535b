"""Depthwise convolutions whose rows have parts: every range of rows of channel groups gives the bytes of the whole."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node, TensorType
from mavcg.graph_builder import GraphBuilder
from mavcg.kernel import Machine, Packing, dense_view
from mavcg.kernels.registry import lower
from mavcg.tile_plan import MacroTile
from tests.kernels.conftest import Compiled, host_machines, run_node_on

Array = NDArray[Any]
HOST = host_machines()[-1]


def depthwise(
    dtype: str, channels: int, out: tuple[int, int], kernel: int = 3, stride: int = 1, images: int = 1
) -> tuple[Graph, Node, Array]:
    """The node of a convolution of each channel by itself, and its input."""
    rng, b = np.random.default_rng(channels), GraphBuilder("test")
    shape = (images, *((n - 1) * stride + kernel for n in out), channels)
    window: dict[str, Any] = {"pads": (0, 0, 0, 0), "groups": channels, "stride": (stride, stride)}
    x = b.input("x", TensorType(dtype, shape))
    if dtype == "f32":
        array: Array = rng.standard_normal(shape).astype(np.float32)
        constants = [rng.standard_normal(n).astype(np.float32) for n in ((channels, kernel, kernel, 1), channels)]
        node = b.add("conv2d", [x, *map(b.constant, constants)], **window, act="relu")
    else:
        array = rng.integers(0, 256, shape).astype(np.uint8)
        weights = rng.integers(-127, 128, (channels, kernel, kernel, 1)).astype(np.int8)
        ends = rng.integers(-500, 500, channels).astype(np.int32), np.full(channels, 2**-6, np.float32)
        window |= {"x_zero": 9, "out_zero": 128, "lo": 1, "hi": 255, "to": "u8"}
        node = b.add("qconv2d", [x, *map(b.constant, (weights, *ends))], **window)
    graph = b.finish([node])
    return graph, graph.nodes[-1], array


def groups_of(dtype: str, channels: int, lines: int) -> MacroTile:
    """Groups of so many lines of channels: of 16 in f32, of 32 in 8 bits."""
    size = lines * (16 if dtype == "f32" else 32)
    return MacroTile(out_channels=size, parts=-(-channels // size))


@settings(max_examples=8)
@given(st.data())
def test_rows_of_channel_groups_give_the_same_bytes(data: st.DataObject) -> None:
    def pick(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    dtype, channels = data.draw(st.sampled_from(["f32", "u8"])), pick(33, 300)
    graph, node, x = depthwise(dtype, channels, (pick(1, 9), pick(1, 9)), pick(1, 5), pick(1, 2), pick(1, 2))
    macro = groups_of(dtype, channels, pick(1, max(1, channels // 33)))
    plain = run_node_on(HOST, node, graph, {"x": x}, packing=Packing(16), optimised=False)
    cut = run_node_on(HOST, node, graph, {"x": x}, None, pick(1, 23), Packing(16), macro, optimised=False)
    assert plain[0].tobytes() == cut[0].tobytes()


@pytest.mark.parametrize("machine", [HOST, replace(HOST, vector_bytes=16)], ids=["long vectors", "short vectors"])
@pytest.mark.parametrize(("dtype", "channels"), [("f32", 77), ("f32", 64), ("f32", 256), ("u8", 101), ("u8", 96)])
def test_every_range_is_computed_and_nothing_else(dtype: str, channels: int, machine: Machine) -> None:
    """All ranges of 3 rows of up to 4 groups: few channels (64) are taken row by row, 256 as well on x86."""
    graph, node, x = depthwise(dtype, channels, (3, 2), 3)
    macro = groups_of(dtype, channels, 4 if channels == 256 else 2 if dtype == "f32" else 1)
    views = {name: dense_view(graph.types[name]) for name in (*node.inputs, node.output) if name}
    (step,) = lower(node, graph, views, Packing(16))
    compiled = Compiled([step], machine, macro, optimised=False)
    out, nothing = np.empty((3, 2, channels), x.dtype), np.nan if dtype == "f32" else 0
    tensors = {node.inputs[0]: x, node.output: out}
    kept = [
        on_a_line(graph.constants[o.tensor] if o.constant is None else o.constant)
        if o.tensor not in tensors
        else tensors[o.tensor]
        for o in step.operands
    ]
    expected = run_node_on(machine, node, graph, {"x": x}, packing=Packing(16), optimised=False)[0][0]
    units = 3 * macro.parts
    for begin in range(units + 1):
        for end in range(begin, units + 1):
            out[:] = nothing
            compiled.run(step, [array.ctypes.data for array in kept], [(begin, end)])
            done = np.zeros((3, channels), bool)
            for unit in range(begin, end):
                first = unit // 3 * macro.out_channels
                done[unit % 3, first : first + macro.out_channels] = True
            assert out.tobytes() == np.where(done[:, None, :], expected, nothing).astype(out.dtype).tobytes(), (
                begin,
                end,
            )


def on_a_line(array: Array) -> Array:
    """A copy that begins on a cache line, as packed constants do."""
    raw = np.zeros(array.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64
    raw[start : start + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
    return raw[start : start + array.nbytes]


@pytest.mark.parametrize(
    "macro", [MacroTile(out_channels=8, parts=10), MacroTile(out_channels=32, parts=2), MacroTile(parts=2)]
)
@pytest.mark.parametrize("dtype", ["f32", "u8"])
def test_parts_that_are_no_groups_of_whole_lines_are_refused(dtype: str, macro: MacroTile) -> None:
    graph, node, x = depthwise(dtype, 77, (3, 3))
    with pytest.raises(MavcgError, match="has no (2|10) parts of"):
        run_node_on(HOST, node, graph, {"x": x}, packing=Packing(16), macro=macro, optimised=False)
