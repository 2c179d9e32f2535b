"""Any macro-tile gives the bits that the plain one gives: blocks of rows, channels and terms change no sum."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Graph, Node, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.conv.tiling import LEAST_SHARING, register_tiling, share_bytes
from mavcg.kernels.gemm.sum_blocks import block_terms, cut_at
from mavcg.kernels.gemm.tile import Sum
from mavcg.kernels.registry import emit, lower
from mavcg.specs.kernel import Machine, Packing, View, dense_view
from mavcg.specs.packed_constant import constant_array
from mavcg.specs.tile_plan import MacroTile, Order
from tests.conftest import examples
from tests.kernels.conftest import Compiled, host_machines, run_node_on

Array = NDArray[Any]


def up_to(most: int) -> st.SearchStrategy[int | None]:
    """A size of a block, or None for all."""
    return st.none() | st.integers(1, most)


MACROS = st.builds(
    MacroTile,
    mc=up_to(9),
    nc=up_to(70),
    kc=up_to(200),
    order=st.sampled_from(Order),
    prefetch_distance_bytes=st.sampled_from([None, 64, 4096, 100_000]),
    call_rows=st.integers(1, 9),
    nr=up_to(70),
)


def node_of(op: str, arrays: dict[str, Array], constants: set[str], **attrs: Any) -> tuple[Graph, Node]:
    """One node that reads these arrays in their order; None of them is left out."""
    b = GraphBuilder("test")
    types = {np.dtype(DTYPES[name]): name for name in ("f32", "i8", "u8", "i32")}
    names = [
        b.constant(array, name) if name in constants else b.input(name, TensorType(types[array.dtype], array.shape))
        for name, array in arrays.items()
    ]
    graph = b.finish([b.add(op, names, **attrs)])
    return graph, graph.nodes[-1]


def assert_same_bytes(
    graph: Graph,
    node: Node,
    arrays: dict[str, Array],
    macro: MacroTile,
    parts: int = 1,
    views: dict[str, View] | None = None,
    optimised: bool = False,
) -> None:
    """Assert that the bytes are those without a macro-tile, in one range and in `parts`.

    optimised: the tiled kernel is compiled as by a build.
    """
    machine = host_machines()[-1]
    inputs = {name: array for name, array in arrays.items() if name in graph.inputs}
    plain = run_node_on(machine, node, graph, inputs, views, packing=Packing(16), optimised=False)
    tiled = run_node_on(machine, node, graph, inputs, views, parts, Packing(16), macro, optimised=optimised)
    assert np.isfinite(plain[0]).all() and tiled[0].tobytes() == plain[0].tobytes(), str(macro)


def f32(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


@settings(max_examples=examples(8, 4))
@given(st.data(), MACROS)
def test_any_macro_tile_of_any_convolution(data: st.DataObject, macro: MacroTile) -> None:
    def pick(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    groups, kernel, stride = pick(1, 2), (pick(1, 3), pick(1, 3)), (pick(1, 2), pick(1, 2))
    dilation = (pick(1, 2), pick(1, 2))
    in_ch, out_ch, images = pick(1, 40), pick(1, 70), pick(1, 2)
    out = [pick(1, 9), pick(1, 9)]
    size = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(out, stride, dilation, kernel, strict=True)]
    rng = np.random.default_rng(in_ch * out_ch)
    arrays = {"x": f32(rng, images, *size, in_ch * groups), "w": f32(rng, out_ch * groups, *kernel, in_ch)}
    arrays |= {"bias": f32(rng, out_ch * groups), "residual": f32(rng, images, *out, out_ch * groups)}
    graph, node = node_of(
        "conv2d",
        arrays,
        {"w", "bias"} if pick(0, 3) else set(),
        pads=(0, 0, 0, 0),
        groups=groups,
        stride=stride,
        dilation=dilation,
        act="relu" if pick(0, 1) else "sigmoid",
    )
    assert_same_bytes(graph, node, arrays, macro, pick(1, 4))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "x, w, macro",
    [
        # Blocks of a row of taps.
        pytest.param(
            (1, 9, 9, 24), (40, 3, 3, 24), MacroTile(2, 32, 72, prefetch_distance_bytes=512), marks=pytest.mark.long
        ),
        ((1, 9, 9, 24), (40, 3, 3, 24), MacroTile(3, 16, 20, Order.CHANNELS)),  # a shorter block at a run's end
        ((1, 9, 9, 24), (40, 3, 3, 24), MacroTile(kc=144)),  # two rows of taps, then one
        ((1, 4, 4, 64), (200, 3, 3, 64), MacroTile(nc=64, kc=64)),  # by channels, all rows
        pytest.param((1, 7, 7, 64), (200, 3, 3, 64), MacroTile(2, 48, 192, Order.CHANNELS), marks=pytest.mark.long),
        ((1, 1, 1, 700), (100, 1, 1, 700), MacroTile(kc=256, prefetch_distance_bytes=4096)),
    ],
)
def test_blocks_at_their_edges(x: tuple[int, ...], w: tuple[int, ...], macro: MacroTile, thorough: bool) -> None:
    rng = np.random.default_rng(1)
    arrays = {"x": f32(rng, *x), "w": f32(rng, *w), "bias": f32(rng, w[0])}
    graph, node = node_of("conv2d", arrays, {"w", "bias"}, pads=(0, 0, 0, 0), act="gelu", act_args=(0.0,))
    assert_same_bytes(graph, node, arrays, macro, 3, optimised=thorough or macro.kc == 256)


@settings(max_examples=examples(6, 3))
@given(st.data(), MACROS)
def test_rows_cut_into_parts_give_the_same_bytes(data: st.DataObject, macro: MacroTile) -> None:
    """Whatever the ranges: within a row, from one row into the next or far behind it, with a shorter last part."""

    def pick(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    out, kernel, in_ch, out_ch, images = [pick(4, 7), pick(1, 9)], pick(2, 3), pick(1, 20), pick(17, 90), pick(1, 2)
    rng = np.random.default_rng(in_ch * out_ch)
    arrays = {
        "x": f32(rng, images, *(n + kernel - 1 for n in out), in_ch),
        "w": f32(rng, out_ch, kernel, kernel, in_ch),
    }
    arrays |= {"bias": f32(rng, out_ch), "residual": f32(rng, images, *out, out_ch)}
    graph, node = node_of("conv2d", arrays, {"w", "bias"}, pads=(0, 0, 0, 0), act="relu")
    panels = pick(1, -(-out_ch // 16) - 1)
    cut = replace(macro, nc=16 * panels - pick(0, 15), parts=-(-out_ch // (16 * panels)))
    assert_same_bytes(graph, node, arrays, cut, pick(1, 23), optimised=not pick(0, 5))


def test_every_range_of_parts_is_computed_and_nothing_else() -> None:
    """All ranges of 4 rows in 3 parts, of which the last is shorter."""
    rng = np.random.default_rng(5)
    arrays = {"x": f32(rng, 1, 4, 3, 8), "w": f32(rng, 40, 1, 1, 8)}
    graph, node = node_of("conv2d", arrays, {"w"}, pads=(0, 0, 0, 0))
    views = {name: View("f32", (1, 4, 3, n), (0, 3 * n, n, 1)) for name, n in ((node.inputs[0], 8), (node.output, 40))}
    (step,) = lower(node, graph, views, Packing(16))
    # The kernel takes rows of pixels here, not all of them as one: as wide as a piece of a 1x1 convolution is.
    assert isinstance(step.spec, Conv2d)
    step = replace(step, spec=replace(step.spec, x=views[node.inputs[0]], out=views[node.output]))
    assert step.spec.rows == 4
    compiled = Compiled([step], host_machines()[0], MacroTile(nc=16, parts=3), optimised=False)
    weights = next(constant_array(o.constant, graph.constants) for o in step.operands if o.constant is not None)
    expected = np.einsum("hwi,oi->hwo", arrays["x"][0].astype(np.float64), arrays["w"][:, 0, 0].astype(np.float64))
    for begin in range(13):
        for end in range(begin, 13):
            out = np.full((4, 3, 40), np.nan, np.float32)
            compiled.run(step, [arrays["x"].ctypes.data, weights.ctypes.data, out.ctypes.data], [(begin, end)])
            done = np.zeros((4, 40), bool)
            for part in range(begin, end):
                done[part // 3, part % 3 * 16 : part % 3 * 16 + 16] = True
            assert (np.isfinite(out) == done[:, None, :]).all(), (begin, end)
            assert np.allclose(np.where(np.isfinite(out), out, expected), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.spread
@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize("macro", [MacroTile(), MacroTile(2, 48, 192, Order.CHANNELS), MacroTile(2, 32, 64)])
def test_panels_cut_into_rows_of_pixels_give_the_same_bytes(macro: MacroTile, parts: int) -> None:
    """Work that is cut along output channels, of five rows of pixels; the last panel is shorter."""
    rng = np.random.default_rng(6)
    arrays = {"x": f32(rng, 1, 7, 6, 64), "w": f32(rng, 200, 3, 3, 64), "bias": f32(rng, 200)}
    graph, node = node_of("conv2d", arrays, {"w", "bias"}, pads=(0, 0, 0, 0), act="relu")
    for ranges in (1, 4 + parts):
        assert_same_bytes(graph, node, arrays, replace(macro, parts=parts), ranges)


@pytest.mark.parametrize(
    ("x", "groups", "macro"),
    [
        ((1, 8, 8, 16), 1, MacroTile(nc=16, parts=2)),  # 33 channels are 3 parts of 16
        ((1, 8, 8, 16), 2, MacroTile(nc=32, parts=2)),
        ((1, 7, 7, 1200), 1, MacroTile(parts=3)),  # rows of work are panels, and all pixels one row
    ],
)
def test_parts_that_a_row_has_not_are_refused(x: tuple[int, ...], groups: int, macro: MacroTile) -> None:
    out_ch = 33 if x[1] == 8 and groups == 1 else 128
    with pytest.raises(MavcgError, match="cannot be cut into [23] parts of (16|32|all) channels"):
        spec_text(host_machines()[0], x, (out_ch, 1, 1, x[3] // groups), macro, groups=groups)


def test_partial_sums_lie_in_the_output_wherever_that_lies() -> None:
    """The output inside a wider buffer, whose other elements nobody touches (run_node_on checks that)."""
    rng = np.random.default_rng(2)
    arrays = {"x": f32(rng, 2, 6, 7, 20), "w": f32(rng, 19, 3, 3, 20), "bias": f32(rng, 19)}
    graph, node = node_of("conv2d", arrays, {"w", "bias"}, pads=(0, 0, 0, 0))
    views = {node.output: View("f32", (2, 4, 5, 19), (1000, 200, 30, 1))}
    assert_same_bytes(graph, node, arrays, MacroTile(1, 16, 30, prefetch_distance_bytes=64), 2, views)


@pytest.mark.parametrize("vector_bytes, registers, arch", [(16, 32, "aarch64"), (64, 32, "x86_64")])
def test_the_same_bytes_on_other_machines(vector_bytes: int, registers: int, arch: str) -> None:
    rng = np.random.default_rng(3)
    arrays = {"x": f32(rng, 1, 8, 11, 24), "w": f32(rng, 52, 3, 3, 24), "bias": f32(rng, 52)}
    graph, node = node_of("conv2d", arrays, {"w", "bias"}, pads=(0, 0, 0, 0), act="relu")
    other_machine = replace(host_machines()[0], vector_bytes=vector_bytes, vector_registers=registers, arch=arch)
    plain = run_node_on(host_machines()[0], node, graph, {"x": arrays["x"]}, packing=Packing(16))
    for macro in (MacroTile(2, 32, 24, prefetch_distance_bytes=1024), MacroTile(1, 16, 50, Order.CHANNELS, nr=32)):
        tiled = run_node_on(
            other_machine, node, graph, {"x": arrays["x"]}, None, 2, Packing(16), macro, optimised=False
        )
        assert tiled[0].tobytes() == plain[0].tobytes()


@settings(max_examples=examples(5, 3))
@given(MACROS, st.integers(1, 60), st.integers(1, 70), st.integers(1, 300))
def test_any_macro_tile_of_any_product(macro: MacroTile, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(m * n)
    arrays = {"a": f32(rng, 2, m, k), "b": f32(rng, 2, k, n), "bias": f32(rng, n)}
    graph, node = node_of("matmul", arrays, set(), act="relu")
    assert_same_bytes(graph, node, arrays, macro, 2)


@settings(max_examples=examples(5, 3))
@given(st.data(), MACROS)
def test_any_macro_tile_of_any_8_bit_convolution(data: st.DataObject, macro: MacroTile) -> None:
    def pick(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    assert_same_bytes_8_bit(
        macro, pick(1, 2), pick(1, 3), pick(1, 2), pick(1, 40), pick(1, 70), [pick(1, 9), pick(1, 9)], pick(1, 4)
    )


def test_register_tiles_of_8_bits_are_whole_panels() -> None:
    assert_same_bytes_8_bit(MacroTile(nr=24), 1, 1, 1, 5, 33, [1, 2], 1)


@settings(max_examples=examples(6, 3))
@given(st.data(), MACROS)
def test_rows_of_8_bits_cut_into_parts_give_the_same_bytes(data: st.DataObject, macro: MacroTile) -> None:
    def pick(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    out_ch = pick(17, 90)
    panels = pick(1, -(-out_ch // 16) - 1)
    cut = replace(macro, nc=16 * panels - pick(0, 15), parts=-(-out_ch // (16 * panels)))
    assert_same_bytes_8_bit(cut, 1, pick(2, 3), pick(1, 2), pick(1, 20), out_ch, [pick(4, 7), pick(1, 9)], pick(1, 23))


@pytest.mark.spread
@pytest.mark.parametrize(("rows", "parts", "ranges"), [(3, 2, 1), (3, 2, 7), (3, 3, 11), (2, 2, 5)])
@pytest.mark.parametrize("macro", [MacroTile(order=Order.CHANNELS), MacroTile(1, order=Order.ROWS)])
def test_panels_of_8_bits_cut_into_rows_of_pixels_give_the_same_bytes(
    macro: MacroTile, rows: int, parts: int, ranges: int
) -> None:
    """Five panels of output channels, the last one shorter; of three rows the second of two parts is one."""
    assert_same_bytes_8_bit(replace(macro, parts=parts), 1, 2, 1, 20, 70, [rows, 5], ranges)


def on_a_line(array: Array) -> Array:
    """A copy that begins on a cache line, as packed constants do."""
    raw = np.zeros(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    raw[start : start + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
    return raw[start : start + array.nbytes]


def test_every_range_of_parts_of_8_bits_is_computed_and_nothing_else() -> None:
    """All ranges of 4 rows in 3 parts, of which the last is shorter."""
    rng = np.random.default_rng(7)
    x, weights = rng.integers(0, 256, (1, 5, 4, 8)).astype(np.uint8), rng.integers(-9, 10, (40, 2, 2, 8))
    arrays: dict[str, Array] = {"x": x, "w": weights.astype(np.int8), "bias": np.zeros(40, np.int32)}
    arrays["multiplier"] = np.full(40, 2**-7, np.float32)
    graph, node = node_of(
        "qconv2d",
        arrays,
        {"w", "bias", "multiplier"},
        pads=(0, 0, 0, 0),
        groups=1,
        stride=(1, 1),
        x_zero=0,
        out_zero=128,
        lo=1,
        hi=255,
        to="u8",
    )
    views = {name: dense_view(graph.types[name]) for name in (*node.inputs, *node.outputs) if name}
    (step,) = lower(node, graph, views, Packing(16))
    assert step.spec.rows == 4
    compiled = Compiled([step], host_machines()[0], MacroTile(nc=16, parts=3), optimised=False)
    windows = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.int64), (2, 2), (0, 1))
    sums = np.einsum("hwiyx,oyxi->hwo", windows, weights)
    expected = np.clip(np.rint(sums * 2**-7) + 128, 1, 255)
    out = np.zeros((4, 3, 40), np.uint8)
    tensors = {node.inputs[0]: x, node.output: out}
    kept = [
        tensors[o.tensor] if o.constant is None else on_a_line(constant_array(o.constant, graph.constants))
        for o in step.operands
    ]
    for begin in range(13):
        for end in range(begin, 13):
            out[:] = 0  # which no output is
            compiled.run(step, [array.ctypes.data for array in kept], [(begin, end)])
            done = np.zeros((4, 40), bool)
            for part in range(begin, end):
                done[part // 3, part % 3 * 16 : part % 3 * 16 + 16] = True
            assert (out == np.where(done[:, None, :], expected, 0)).all(), (begin, end)


def test_parts_that_a_row_of_8_bits_has_not_are_refused() -> None:
    for groups, channels in ((1, 33), (2, 32)):  # 33 channels are 3 parts of 16; with groups there are none
        with pytest.raises(MavcgError, match="cannot be cut into 2 parts of 16 channels"):
            assert_same_bytes_8_bit(MacroTile(nc=16, parts=2), groups, 1, 1, 8, channels, [5, 5], 1)


def assert_same_bytes_8_bit(
    macro: MacroTile, groups: int, kernel: int, stride: int, in_ch: int, out_ch: int, out: list[int], parts: int
) -> None:
    """assert_same_bytes of a convolution of 8-bit numbers; in_ch, out_ch: channels of a group."""
    size = [(n - 1) * stride + kernel for n in out]
    rng = np.random.default_rng(in_ch * out_ch)
    arrays: dict[str, Array] = {
        "x": rng.integers(0, 256, (1, *size, in_ch * groups)).astype(np.uint8),
        "w": rng.integers(-127, 128, (out_ch * groups, kernel, kernel, in_ch)).astype(np.int8),
        "bias": rng.integers(-5000, 5000, out_ch * groups).astype(np.int32),
        "multiplier": rng.uniform(1e-4, 1e-3, out_ch * groups).astype(np.float32),
    }
    graph, node = node_of(
        "qconv2d",
        arrays,
        {"w", "bias", "multiplier"},
        pads=(0, 0, 0, 0),
        groups=groups,
        stride=(stride, stride),
        x_zero=7,
        out_zero=3,
        lo=0,
        hi=255,
        to="u8",
    )
    assert_same_bytes(graph, node, arrays, macro, parts)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), up_to(2000))
def test_blocks_are_no_longer_than_kc_and_end_with_the_sum(counts: list[int], kc: int | None) -> None:
    total = Sum(tuple((count, 4) for count in counts))
    usual, *rest = block_terms(total, kc)
    cut = cut_at(total, kc)

    assert usual <= kc if kc is not None and kc < total.length else usual == total.length
    if cut is None:
        assert rest == [] and usual == total.length
        return
    level, iterations = cut
    outside = Sum(total.levels[:level]).length
    assert outside * (total.levels[level][0] // iterations * usual + sum(rest)) == total.length


X86 = Machine("x86", "x86_64", "x86-64-v3", vector_bytes=32, vector_registers=16)
LITTLE = Machine("little", "aarch64", "cortex-a55", ("+neon",), in_order=True)
BIG = Machine("big", "aarch64", "cortex-a76", ("+neon",))


def spec_text(machine: Machine, x: tuple[int, ...], w: tuple[int, ...], macro: MacroTile, **attrs: Any) -> str:
    """The code of a convolution."""
    arrays = {"x": f32(np.random.default_rng(0), *x), "w": f32(np.random.default_rng(0), *w)}
    graph, node = node_of("conv2d", arrays, {"w"}, pads=(0, 0, 0, 0), **attrs)
    views = {name: dense_view(graph.types[name]) for name in (*node.inputs, *node.outputs) if name}
    (step,) = lower(node, graph, views, Packing(16))
    module = ir.Module("test")
    emit(module, step.spec, machine, macro)
    return str(module)


def test_weights_are_prefetched_only_where_the_plan_says() -> None:
    def text(pixels: int, macro: MacroTile) -> str:
        return spec_text(X86, (1, 1, pixels, 8), (128, 1, 1, 8), macro)

    assert "llvm.prefetch" not in text(2, MacroTile()) + text(64, MacroTile())
    alone = text(2, MacroTile(prefetch_distance_bytes=4096))  # one register tile: its own weights
    assert "i64 4096" in alone and "llvm.prefetch" in text(2, MacroTile(prefetch_distance_bytes=64))
    shared = text(64, MacroTile(prefetch_distance_bytes=4096))  # many share the asking for the next channels' weights
    assert "i64 4096" not in shared and "llvm.prefetch" in shared


@pytest.mark.parametrize("pixels", [2, 41, 64])
def test_register_tiles_together_ask_for_all_of_the_next_weights_and_little_more(pixels: int) -> None:
    graph, node = node_of(
        "conv2d",
        {"x": f32(np.random.default_rng(0), 1, 1, pixels, 64), "w": f32(np.random.default_rng(0), 128, 1, 1, 64)},
        {"w"},
        pads=(0, 0, 0, 0),
    )
    views = {name: dense_view(graph.types[name]) for name in (*node.inputs, *node.outputs) if name}
    (step,) = lower(node, graph, views, Packing(16))
    assert isinstance(step.spec, Conv2d)
    macro = MacroTile(prefetch_distance_bytes=4096)
    tiling, _ = register_tiling(step.spec, X86, macro, 128)
    tiles, chunk_bytes = tiling.widths.count + tiling.widths.count_less, tiling.vectors * 8 * 4
    asked = share_bytes(step.spec, macro, chunk_bytes, tiles)
    if tiles < LEAST_SHARING:
        assert asked == 0
    else:
        assert chunk_bytes <= asked * tiles < chunk_bytes + tiles


@pytest.mark.parametrize(
    ("machine", "pixels", "in_ch", "out_ch", "kernel", "asked"),
    [
        (X86, 64, 147, 256, 1, True),  # rows of 37 KB, which many chunks pass over
        (X86, 56, 64, 256, 1, False),  # 14 KB: near after the first chunk
        (X86, 56, 64, 16, 1, True),  # and where that is the only one
        (X86, 64, 147, 256, 3, False),  # windows overlap
        (LITTLE, 64, 147, 256, 1, False),
        (BIG, 56, 64, 256, 1, True),
        (BIG, 64, 3, 32, 3, True),  # a first layer, whose loads no hardware prefetcher follows
        (BIG, 64, 32, 512, 3, False),
        (LITTLE, 64, 3, 32, 3, True),
    ],
)
def test_inputs_are_prefetched_where_they_come_from_afar(
    machine: Machine, pixels: int, in_ch: int, out_ch: int, kernel: int, asked: bool
) -> None:
    side = (64 + kernel - 1, pixels + kernel - 1)
    text = spec_text(machine, (1, *side, in_ch), (out_ch, kernel, kernel, in_ch), MacroTile())

    assert ("llvm.prefetch" in text) == asked
