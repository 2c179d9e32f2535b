"""Kernels over the first rows of an image, as many as a run has: columns of pixels, and edges that a word tells."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.graph import DTYPES, Graph, Node, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.layout import dense_strides
from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.builder.emit import I64, PTR, const, element
from mavcg.kernels.conv.blocks import SHORT_RUN
from mavcg.kernels.conv.spec import MANY_WEIGHTS, Conv2d
from mavcg.kernels.conv.tiling import register_tiling
from mavcg.kernels.gemm import micro_kernel
from mavcg.kernels.gemm.tile import pack
from mavcg.kernels.registry import lower
from mavcg.kernels.tensor.pad import PadBorder
from mavcg.specs.kernel import Machine, Operand, Step, View
from mavcg.specs.row_kernel import RowKernel, transpose_image
from mavcg.specs.tile_plan import MacroTile
from tests.kernels.conftest import Buffer, Compiled, RunNode, host_machines

Array = NDArray[Any]
WIDTH = 37
LINE = 16  # f32 elements of a cache line


def convolution(dtype: str, channels: int, kernel: int, stride: int, depthwise: bool) -> tuple[Graph, Node, Array]:
    """A convolution along a row of pixels, with a bias."""
    rng, b = np.random.default_rng(channels + kernel), GraphBuilder("test")
    shape = (1, 1, WIDTH, channels)
    weights_shape = (channels, 1, kernel, 1) if depthwise else (19, 1, kernel, channels)
    window: dict[str, Any] = {"stride": (1, stride), "dilation": (1, 2), "groups": channels if depthwise else 1}
    if dtype == "f32":
        x, weights = (rng.standard_normal(s).astype(np.float32) for s in (shape, weights_shape))
        bias = rng.standard_normal(weights_shape[0]).astype(np.float32)
        inputs = [b.input("x", TensorType("f32", shape)), *map(b.constant, (weights, bias))]
        node = b.add("conv2d", inputs, **window)
    else:
        x = rng.integers(0, 256, shape).astype(np.uint8)
        weights = rng.integers(-127, 128, weights_shape).astype(np.int8)
        ends = rng.integers(-500, 500, weights_shape[0]).astype(np.int32), np.full(weights_shape[0], 2**-8, np.float32)
        inputs = [b.input("x", TensorType("u8", shape)), *map(b.constant, (weights, *ends))]
        node = b.add("qconv2d", inputs, **window, x_zero=9, out_zero=128, lo=1, hi=255, to="u8")
    graph = b.finish([node])
    return graph, graph.nodes[-1], x


@pytest.mark.parametrize("kernel, stride", [(1, 2), (3, 1), (11, 3)])
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "u8"])
@pytest.mark.parametrize("channels", [5, 70])
@pytest.mark.sample(8)
def test_a_column_of_pixels_has_the_bits_of_a_row(
    run_node: RunNode, dtype: str, channels: int, kernel: int, stride: int, depthwise: bool
) -> None:
    """Tiles extend over its rows of one pixel, wherever a thread's rows begin and end."""
    graph, node, x = convolution(dtype, channels, kernel, stride, depthwise)

    def column(*args: Any) -> tuple[Step, ...]:
        (step,) = lower(*args)
        spec: Any = transpose_image(cast(RowKernel, step.spec))
        assert spec.rows == spec.out.shape[1] > 3
        return (replace(step, spec=replace(spec, free_rows=True) if hasattr(spec, "free_rows") else spec),)

    (row,) = run_node(node, graph, {"x": x})
    for parts in (1, 3):
        (rows,) = run_node(node, graph, {"x": x}, None, parts, lowering=column)
        assert rows.tobytes() == row.tobytes()


@pytest.mark.parametrize("machine", host_machines(), ids=lambda machine: machine.name)
def test_tiles_of_a_run_prefetch_the_next_weights_in_even_shares(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cache line of the next weights is prefetched as often as any other, in runs of several lengths."""
    terms, channels, longest, one = 64, 256, 200, (1, 1)
    weights, counts = np.zeros(terms * channels + LINE, np.float32), np.zeros(terms * channels // LINE * 2, np.int64)
    first = (weights.ctypes.data + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES

    def count(b: ir.IRBuilder, base: ir.Value, offset_bytes: int) -> None:
        line = b.udiv(b.add(b.ptrtoint(base, I64), const(offset_bytes - first)), const(LINE_BYTES))
        place = element(b, b.inttoptr(const(counts.ctypes.data), PTR), line, I64)
        b.store(b.add(b.load(place, typ=I64), const(1)), place)

    monkeypatch.setattr(micro_kernel, "prefetch", count)
    x, out = (View("f32", (1, longest, 1, n), dense_strides((1, longest, 1, n))) for n in (terms, channels))
    spec = Conv2d(x, out, None, one, one, one, 1, LINE, False, True, "", (), free_rows=True)
    step, macro = Step(spec, ()), MacroTile(prefetch_distance_bytes=4096, call_rows=longest)
    tiling, _ = register_tiling(spec, machine, macro, channels)
    chunk = tiling.vectors * machine.vector_bytes * terms // LINE_BYTES
    compiled = Compiled([step], machine, macro, optimised=False)
    arrays = [np.zeros(longest * n, np.float32) for n in (terms, channels)]
    for rows in (SHORT_RUN, 50, 101, longest):
        counts[:] = 0
        compiled.run(step, [arrays[0].ctypes.data, first, arrays[1].ctypes.data], [(0, rows)])
        often = counts[chunk : channels * terms // LINE]
        assert often.min() >= 1 and often.max() <= 2 * often.mean() + 1, f"{rows} rows"


@pytest.mark.parametrize("machine", host_machines(), ids=lambda machine: machine.name)
@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_runs_of_few_pixels_have_the_bits_of_one_length(machine: Machine, columns: int) -> None:
    """Many weights and one to sixteen pixels, in rows of a few: some runs are one register tile, others are several."""
    taps, channels, out_channels = min(columns, 3), 264 // min(columns, 3) ** 2, 250
    longest = 16 // columns
    rng, kernel, one = np.random.default_rng(columns), (taps, taps), (1, 1)
    shapes = (1, longest + taps - 1, columns + taps - 1, channels), (1, longest, columns, out_channels)
    x, out = (View("f32", shape, dense_strides(shape)) for shape in shapes)
    free = Conv2d(x, out, None, kernel, one, one, 1, LINE, False, True, "", (), free_rows=True)
    assert free.weight_bytes >= MANY_WEIGHTS and free.single_pixels == (columns == 1) != free.short_rows
    steps = Step(free, ()), Step(replace(free, free_rows=False), ())
    compiled = Compiled(steps, machine, MacroTile(call_rows=longest), optimised=False)

    image, filters = rng.standard_normal(x.shape), rng.standard_normal((out_channels, *kernel, channels))
    elements = -(-out_channels // LINE) * LINE * taps**2 * channels
    packed = Buffer(View("f32", (elements,), (1,)), None)
    packed.inner[...] = pack(filters.astype(np.float32), 1, LINE).reshape(elements)
    given, fixed = Buffer(x, image.astype(np.float32)), Buffer(out, None)
    compiled.run(steps[1], [given.pointer, packed.pointer, fixed.pointer], [(0, steps[1].spec.rows)])
    windows = np.lib.stride_tricks.sliding_window_view(given.inner.astype(np.float64), kernel, (1, 2))
    np.testing.assert_allclose(fixed.inner, np.einsum("nyxcij,oijc->nyxo", windows, filters), 1e-3, 1e-3)
    for rows in range(1, longest + 1):
        run = Buffer(View("f32", (1, rows, columns, out_channels), out.strides), None)
        compiled.run(steps[0], [given.pointer, packed.pointer, run.pointer], [(0, rows)])
        run.assert_surroundings_untouched()
        assert run.inner.tobytes() == fixed.inner[:, :rows].tobytes(), f"{rows} rows"


@pytest.mark.parametrize("op", ["max_pool2d", "avg_pool2d", "qavg_pool2d"])
@pytest.mark.parametrize("height", [3, 8])
def test_pools_end_where_a_run_says(run_node: RunNode, op: str, height: int) -> None:
    """With pads below that count in the divisor and pads that do not, as of the ceil mode."""
    window: dict[str, Any] = {"kernel": (3, 2), "stride": (2, 1), "dilation": (1, 1), "pads": (1, 0, 2, 0)}
    if op != "max_pool2d":
        window["count_pads"] = (1, 0, 1, 0)
    if op == "qavg_pool2d":
        window |= {"multiplier": 0.7, "x_zero": 3, "out_zero": 5, "lo": 0, "hi": 255, "to": "u8"}
    dtype, b, shape = "u8" if op[0] == "q" else "f32", GraphBuilder("test"), (1, height, 5, 9)
    x = (np.random.default_rng(0).random(shape) * 200).astype(DTYPES[dtype])
    graph = b.finish([b.add(op, [b.input("x", TensorType(dtype, shape))], **window)])

    def counted(*args: Any) -> tuple[Step, ...]:
        (step,) = lower(*args)
        pool: Any = step.spec
        taller = View(dtype, (1, 90, 5, 9), pool.x.strides)
        word = Operand(constant=np.array([height], np.uint32))
        spec = replace(pool, x=taller, counts_rows=True)
        return (replace(step, spec=spec, operands=(*step.operands, word)),)

    (fixed,) = run_node(graph.nodes[-1], graph, {"x": x})
    (free,) = run_node(graph.nodes[-1], graph, {"x": x}, lowering=counted)
    assert free.tobytes() == fixed.tobytes()


@pytest.mark.parametrize("machine", host_machines(), ids=lambda machine: machine.name)
@pytest.mark.parametrize("bits", [7, None])
@pytest.mark.parametrize("longest", [(1, 9, 4, 3), (1, 1, 9, 3)])
@pytest.mark.sample(4)
def test_a_border_follows_the_rows_of_a_run(machine: Machine, bits: int | None, longest: tuple[int, ...]) -> None:
    """Two rows above and one below, and one column on the left of an image with several; nothing else is written."""
    axis = 1 if longest[1] > 1 else 2
    before, after = (tuple(n if i == axis else 0 for i in range(4)) for n in (2, 1))
    if axis == 1:
        before = (0, 2, 1, 0)
    view = View("u8", longest, dense_strides(longest))
    spec = PadBorder(view, before, after, bits, counts_rows=True)
    compiled = Compiled([Step(spec, ())], machine)
    fill = np.array([7], np.uint8)
    for rows in range(3, longest[axis] + 1):
        image, word = np.zeros(longest, np.uint8), np.array([rows], np.uint32)
        pointers = [array.ctypes.data for array in ((image, word) if bits else (image, fill, word))]
        compiled.run(Step(spec, ()), pointers, [(rows // 2, rows), (0, rows // 2)])
        inside = tuple(
            slice(low, (rows if i == axis else n) - high)
            for i, (n, low, high) in enumerate(zip(longest, before, after, strict=True))
        )
        expected = np.zeros(longest, np.uint8)
        expected[tuple(slice(rows) if i == axis else slice(None) for i in range(4))] = 7
        expected[inside] = 0
        np.testing.assert_array_equal(image, expected)
