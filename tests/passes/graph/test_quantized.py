"""8-bit graphs as both formats write them: computed on the 8-bit numbers, within one quantum of what f32 gives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.graph import DTYPES, Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.ops.nodes import verify
from mavcg.graph.reference import run
from mavcg.passes.graph.pads import explicit_padding
from mavcg.passes.graph.prune import prune
from mavcg.passes.graph.quantized import eight_bit
from mavcg.passes.graph.quantized_sums import fuse_quantized_sums, scale_of


class Model:
    """A graph of dequantize, operators, quantize."""

    def __init__(self, dtype: str, seed: int = 0) -> None:
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)
        self.b = GraphBuilder("qdq")

    def number(self, array: Any, dtype: str = "f32") -> str:
        return self.b.constant(np.asarray(array, DTYPES[dtype]))

    def format(self, scale: float, zero: int) -> tuple[str, str]:
        return self.number(scale), self.number(zero + (128 if self.dtype == "u8" else 0), self.dtype)

    def input(self, shape: tuple[int, ...], scale: float = 0.05, zero: int = -3, name: str = "x") -> str:
        return self.dequantize(self.b.input(name, TensorType(self.dtype, shape)), scale, zero)

    def dequantize(self, q: str, scale: float, zero: int) -> str:
        return self.b.add("dequantize", (q, *self.format(scale, zero)))

    def quantize(self, x: str, scale: float = 0.07, zero: int = 5) -> str:
        return self.b.add("quantize", (x, *self.format(scale, zero)), to=self.dtype)

    def weights(self, shape: tuple[int, ...], axis: int, zero: int = 0, dtype: str = "i8") -> str:
        low = 0 if dtype == "u8" else -127
        q = self.number(self.rng.integers(low, low + 254, shape), dtype)
        scale = self.number(self.rng.uniform(0.002, 0.01, shape[axis]))
        return self.b.add("dequantize", (q, scale, self.number(np.full(shape[axis], zero), dtype)), axis=axis)


def checked(model: Model, outputs: list[str], quanta: int = 1) -> Graph:
    """The graph after the pass; its results are compared with those before."""
    graph = model.b.finish(outputs)
    after = prune(eight_bit(graph))
    verify(after)
    rng = np.random.default_rng(7)
    arrays = []
    for name in graph.inputs:
        info = np.iinfo(DTYPES[graph.types[name].dtype])
        arrays.append(rng.integers(info.min, info.max + 1, graph.shape(name)).astype(info.dtype))
    for wanted, found in zip(run(graph, *arrays), run(explicit_padding(after), *arrays), strict=True):
        assert wanted.dtype == found.dtype
        distance = np.abs(wanted.astype(np.int64) - found.astype(np.int64))
        assert distance.max() <= quanta and (distance > 0).mean() < 0.02
        assert len(np.unique(wanted)) > 3, "nothing to compare: the example saturates"
    return after


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("act", ["", "relu", "clip"])
@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("bias", ["", "f32", "i32"])
def test_convolution(dtype: str, act: str, groups: int, bias: str) -> None:
    m = Model(dtype)
    x, w = m.input((1, 6, 5, 6)), m.weights((6, 3, 3, 6 // groups), 0)
    b = m.number(m.rng.uniform(-1, 1, 6)) if bias == "f32" else ""
    if bias == "i32":
        stored = m.number(m.rng.integers(-999, 999, 6), "i32")
        b = m.b.add("dequantize", (stored, m.number(np.full(6, 0.0004)), m.number(np.zeros(6), "i32")), axis=0)
    y = m.b.add("conv2d", (x, w, b), pads=(1, 1, 1, 0), stride=(2, 1), groups=groups)
    bounds: dict[str, Any] = {"lo": 0.0, "hi": 3.0} if act == "clip" else {}
    y = m.b.add(act, (y,), **bounds) if act else y
    after = checked(m, [m.quantize(y)])
    assert ops(after) == ["qconv2d"]
    node = after.nodes[0]
    assert (node.attr("lo") == node.attr("out_zero")) == (act != "")


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("turned", [False, True])
def test_product_after_flattening(dtype: str, turned: bool) -> None:
    m = Model(dtype)
    flat = m.b.add("reshape", (m.input((2, 3, 2, 4)),), shape=(2, 24))
    w = m.weights((5, 24) if turned else (24, 5), 0 if turned else 1)
    y = m.b.add("matmul", (flat, w, m.number(m.rng.uniform(-1, 1, 5))), transpose_b=turned)
    assert ops(checked(m, [m.quantize(y)])) == ["reshape", "qmatmul"]


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 1)])
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_pairs(op: str, shape: tuple[int, ...], dtype: str) -> None:
    m = Model(dtype)
    a, b = m.input((2, 3, 4)), m.input(shape, 0.03, 11, "z")
    y = m.b.add("relu", (m.b.add(op, (a, b)),)) if op == "add" else m.b.add(op, (a, b))
    assert ops(checked(m, [m.quantize(y, 0.083)])) == ["qmul" if op == "mul" else "qadd"]


@pytest.mark.parametrize("op", ["avg_pool2d", "reduce_mean"])
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_means(op: str, dtype: str) -> None:
    m = Model(dtype)
    attrs: dict[str, Any] = {"kernel": (3, 2), "pads": (1, 0, 1, 1)} if op == "avg_pool2d" else {"axes": (1, 2)}
    y = m.b.add(op, (m.input((2, 7, 6, 5)),), **attrs)
    found = ops(checked(m, [m.quantize(y, 0.03)]))
    assert found == ["qavg_pool2d" if op == "avg_pool2d" else "qmean"]


FUNCTIONS: dict[str, Callable[[Model, str], str]] = {
    "sigmoid": lambda m, x: m.b.add("sigmoid", (x,)),
    "tanh": lambda m, x: m.b.add("tanh", (x,)),
    "leaky_relu": lambda m, x: m.b.add("leaky_relu", (x,), alpha=0.1),
    "hard_swish": lambda m, x: m.b.add("hard_swish", (x,)),
    "spelt out": lambda m, x: m.b.add("mul", (x, m.b.add("sigmoid", (m.b.add("mul", (x, m.number(1.7))),)))),
    "another format": lambda m, x: x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_functions_of_one_tensor_are_tables(name: str, dtype: str) -> None:
    m = Model(dtype)
    y = FUNCTIONS[name](m, m.input((40, 30)))
    after = checked(m, [m.quantize(y, 0.02)], quanta=0)
    assert ops(after) == ["lookup"]
    assert after.types["table.1"].shape == (256,)


def test_a_bound_in_the_same_format_is_a_clip_and_nothing_is_nothing() -> None:
    m = Model("i8")
    relu = m.b.add("relu", (m.input((40, 30)),))
    assert ops(checked(m, [m.quantize(relu, 0.05, -3)], quanta=0)) == ["clip"]
    m = Model("u8")
    relu = m.b.add("relu", (m.input((40, 30), 0.05, -128),))
    image = m.b.add("reshape", (m.quantize(relu, 0.05, -128),), shape=(1, 40, 30, 1))
    graph = m.b.finish([m.b.add("max_pool2d", (image,), kernel=(2, 2))])
    assert ops(prune(eight_bit(graph))) == ["reshape", "max_pool2d"]


def test_moves_stay_in_eight_bits() -> None:
    m = Model("u8")
    x = m.input((1, 4, 6, 2))
    x = m.b.add("max_pool2d", (x,), kernel=(2, 2), pads=(0, 1, 1, 0))
    x = m.b.add("pad", (x,), before=(0, 1, 0, 0), after=(0, 0, 2, 0))
    x = m.b.add("transpose", (x,), perm=(0, 3, 1, 2))
    x = m.b.add("slice", (x,), starts=(0, 0, 1, 0), stops=(1, 2, 4, 6), steps=(1, 1, 2, 1))
    after = checked(m, [m.quantize(x, 0.05, -3)], quanta=0)
    assert ops(after) == ["max_pool2d", "pad", "transpose", "slice"]
    assert after.nodes[1].attr("value") == 125.0  # the zero point


def test_concat_of_other_formats_goes_through_tables() -> None:
    m = Model("i8")
    parts = [m.input((3, 9)), m.input((3, 9), 0.06, 1, "z"), m.input((3, 9), 0.05, -3, "u")]
    y = m.b.add("concat", parts, axis=1)
    after = checked(m, [m.quantize(y, 0.05, -3)], quanta=0)
    assert ops(after) == ["lookup", "concat"]


def test_what_cannot_be_done_in_eight_bits_stays() -> None:
    def assert_unchanged(make: Callable[[Model], list[str]]) -> None:
        m = Model("u8")
        graph = m.b.finish(make(m))
        assert str(eight_bit(graph)) == str(graph)

    def conv(m: Model, x: str, w: str) -> str:
        return m.b.add("conv2d", (x, w))

    assert_unchanged(lambda m: [m.quantize(conv(m, m.input((1, 4, 4, 2)), m.weights((2, 1, 1, 2), 0, zero=3)))])
    assert_unchanged(
        lambda m: [m.quantize(conv(m, m.input((1, 4, 4, 2)), m.weights((2, 1, 1, 2), 3)))]
    )  # scales by input
    assert_unchanged(
        lambda m: [conv(m, m.input((1, 4, 4, 2)), m.weights((2, 1, 1, 2), 0))]
    )  # nothing rounds the result

    def read_twice(m: Model) -> list[str]:
        y = conv(m, m.input((1, 4, 4, 2)), m.weights((2, 1, 1, 2), 0))
        return [m.quantize(y), y]

    assert_unchanged(read_twice)
    assert_unchanged(lambda m: [m.quantize(m.b.add("softmax", (m.input((3, 4)),), axis=1), 0.01)])
    assert_unchanged(lambda m: [m.quantize(m.b.add("add", (m.input((3, 4)), m.number(np.arange(4.0)))))])


def test_weights_around_128_become_i8() -> None:
    m = Model("u8")
    y = m.b.add("conv2d", (m.input((1, 4, 4, 8)), m.weights((4, 1, 1, 8), 0, zero=128, dtype="u8")))
    after = checked(m, [m.quantize(y, 0.03)])
    assert ops(after) == ["qconv2d"] and after.types[after.nodes[0].inputs[1]].dtype == "i8"


def test_sums_that_could_wrap_around_stay_in_f32() -> None:
    m = Model("u8")
    w = m.b.add("dequantize", (m.number(np.full((140000, 2), 127), "i8"), m.number(0.01), m.number(0, "i8")))
    graph = m.b.finish([m.quantize(m.b.add("matmul", (m.input((1, 140000)), w)))])
    assert str(eight_bit(graph)) == str(graph)


@pytest.mark.parametrize("groups", [1, 6])
@pytest.mark.parametrize("stored", [True, False])
def test_a_bias_with_which_sums_could_wrap_around_is_added_in_f32(groups: int, stored: bool) -> None:
    """Two channels are dead: their weights are so small that the bias in their units is near the end of i32."""
    m = Model("u8")
    scales = np.array([0.004, 1e-9, 0.003, 1e-9, 0.005, 0.002], np.float32)
    q = m.number(m.rng.integers(-127, 128, (6, 3, 3, 6 // groups)), "i8")
    w = m.b.add("dequantize", (q, m.number(scales), m.number(np.zeros(6), "i8")), axis=0)
    units = scales * np.float32(0.05)
    whole = np.array([300, 2**31 - 1, -500, -(2**31), 40, 9])
    if stored:
        b = m.b.add("dequantize", (m.number(whole, "i32"), m.number(units), m.number(np.zeros(6), "i32")), axis=0)
    else:
        b = m.number(np.where(np.abs(whole) > 1000, 4 * whole, whole) * units)
    y = m.b.add("conv2d", (m.input((1, 6, 5, 6)), w, b), groups=groups)
    after = checked(m, [m.quantize(y)])
    assert ops(after) == ["qconv2d"]
    bias, shift = (after.constants[after.nodes[0].inputs[i]] for i in (2, 4))
    assert [*np.flatnonzero(shift)] == [1, 3] and not bias[[1, 3]].any() and bias[[0, 2, 4, 5]].all()


@pytest.mark.parametrize("op", ["add", "sub"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kernel", [1, 3])
def test_a_sum_is_fused_into_the_convolution_before_it(op: str, first: bool, kernel: int) -> None:
    m = Model("u8")
    x = m.input((1, 6, 5, 6))
    pads = (kernel // 2,) * 4
    y = m.b.add("conv2d", (x, m.weights((6, kernel, kernel, 6), 0), m.number(m.rng.uniform(-1, 1, 6))), pads=pads)
    own = m.dequantize(m.quantize(m.b.add("relu", (y,))), 0.07, 5)
    y = m.b.add(op, (own, x) if first else (x, own))
    graph = m.b.finish([m.quantize(m.b.add("clip", (y,), lo=-4.0, hi=7.0), 0.09, 3)])
    before = prune(eight_bit(graph))
    after = prune(fuse_quantized_sums(before))
    verify(after)
    assert (ops(before), ops(after)) == (["qconv2d", "qadd"], ["qconv2d"])
    image = np.random.default_rng(3).integers(0, 256, (1, 6, 5, 6)).astype(np.uint8)
    (wanted,), (found,) = run(explicit_padding(before), image), run(explicit_padding(after), image)
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(wanted)) > 20


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_a_change_of_scale_before_a_concat_is_fused(dtype: str) -> None:
    m = Model(dtype)
    x = m.input((1, 4, 4, 6))
    parts = []
    for scale, zero in ((0.07, 5), (0.11, -20), (0.0613, -7)):
        y = m.b.add("conv2d", (x, m.weights((6, 1, 1, 6), 0)))
        parts.append(m.dequantize(m.quantize(m.b.add("relu", (y,)) if zero == -7 else y, scale, zero), scale, zero))
    graph = m.b.finish([m.quantize(m.b.add("concat", parts, axis=3), 0.11, -20)])
    before = prune(eight_bit(graph))
    after = prune(fuse_quantized_sums(before))
    verify(after)
    assert sorted(ops(before)) == ["concat", *["lookup"] * 2, *["qconv2d"] * 3]
    assert sorted(ops(after)) == ["concat", *["qconv2d"] * 3]
    info = np.iinfo(DTYPES[dtype])
    image = np.random.default_rng(3).integers(info.min, info.max + 1, (1, 4, 4, 6)).astype(info.dtype)
    np.testing.assert_array_equal(run(after, image)[0], run(before, image)[0])


@given(
    scale=st.floats(0.015625, 3, width=32),
    zero=st.integers(-128, 127),
    own_zero=st.integers(-128, 127),
    odd=st.booleans(),
)
def test_a_table_gives_its_scale_or_none(scale: float, zero: int, own_zero: int, odd: bool) -> None:
    own = np.arange(-128, 128) - own_zero
    entries = np.clip(np.rint(own.astype(np.float32) * np.float32(scale)) + zero, -128, 127).astype(np.int64)
    if odd:  # no table of one scale
        entries[[0, -1]] = entries[[-1, 0]]
    found = scale_of(own, entries, int(entries[own_zero + 128]))
    assert found is None if odd and entries[0] != entries[-1] else True
    if found is not None:
        made = np.rint(own.astype(np.float32) * np.float32(found)) + zero
        np.testing.assert_array_equal(np.clip(made, entries.min(), entries.max()), entries)


def test_a_sum_of_a_result_that_is_read_twice_or_broadcast_stays() -> None:
    def ops_of(make: Callable[[Model, str], list[str]]) -> list[str]:
        m = Model("u8")
        y = m.b.add("conv2d", (m.input((1, 4, 4, 6)), m.weights((6, 1, 1, 6), 0)))
        return ops(prune(fuse_quantized_sums(prune(eight_bit(m.b.finish(make(m, m.quantize(y))))))))

    def add(m: Model, q: str, other: str) -> str:
        return m.quantize(m.b.add("add", (m.dequantize(q, 0.07, 5), other)), 0.1)

    assert ops_of(lambda m, q: [add(m, q, m.input((1, 4, 4, 6), name="z")), q]) == ["qconv2d", "qadd"]
    assert ops_of(lambda m, q: [add(m, q, m.input((1, 4, 1, 6), name="z"))]) == ["qconv2d", "qadd"]
    assert ops_of(lambda m, q: [add(m, q, m.dequantize(q, 0.07, 5))]) == ["qconv2d", "qadd"]
    assert ops_of(lambda m, q: [add(m, q, m.input((1, 4, 4, 6), name="z"))]) == ["qconv2d"]


def test_the_pad_of_a_padded_image_is_its_zero_point() -> None:
    m = Model("i8")
    y = m.b.add("conv2d", (m.input((1, 3, 3, 2)), m.weights((2, 3, 3, 2), 0)), pads=(1, 1, 1, 1))
    after = explicit_padding(checked(m, [m.quantize(y)]))
    assert ops(after) == ["pad", "qconv2d"]
    assert after.nodes[0].attr("value") == -3.0


FORMATS = [(0.05, -3), (0.02, -128), (0.11, 40)]


def random_step(m: Model, pool: list[str]) -> str:
    """Something that rounds nothing, or rounds as a table does: results must be equal bit by bit."""
    rng, x = m.rng, pool[-1] if m.rng.random() < 0.7 else str(m.rng.choice(pool))
    shape = m.b.types[x].shape
    kind = int(rng.integers(0, 10))
    if kind == 0:
        return m.b.add("clip", (x,), lo=float(rng.uniform(-3, 0)), hi=float(rng.uniform(0.5, 4)))
    if kind == 1:
        return m.b.add("relu", (x,))
    if kind == 2:
        return m.b.add(str(rng.choice(["sigmoid", "tanh", "hard_swish", "leaky_relu"])), (x,))
    if kind == 3:
        return m.b.add("mul", (m.number(1.3), x))
    if kind == 4:
        return m.b.add("reshape", (x,), shape=(1, shape[2], shape[1], shape[3]))
    if kind == 5:
        return m.b.add("transpose", (x,), perm=(0, 2, 1, 3))
    if kind == 6:
        value = float(rng.choice([0.0, 1.0, 0.3]))
        return m.b.add("pad", (x,), before=(0, 1, 0, 0), after=(0, 0, 1, 1), value=value)
    if kind == 7:
        return m.b.add("max_pool2d", (x,), kernel=(2, 2), pads=(1, 0, 0, 1))
    if kind == 8:
        scale, zero = FORMATS[int(rng.integers(0, 3))]
        return m.dequantize(m.quantize(x, scale, zero), scale, zero)
    like = [n for n in pool if m.b.types[n].shape == shape]
    return m.b.add("concat", (x, str(rng.choice(like))), axis=3)


def test_random_graphs_of_exact_steps_give_the_same_bits() -> None:
    fewer = 0
    for seed in range(120):
        m = Model(["i8", "u8"][seed % 2], seed)
        pool = [m.input((1, 4, 6, 2)), m.input((1, 4, 6, 2), 0.02, -128, "z")]
        for _ in range(int(m.rng.integers(2, 9))):
            pool.append(random_step(m, pool))
        scale, zero = FORMATS[int(m.rng.integers(0, 3))]
        graph = m.b.finish([m.quantize(pool[-1], scale, zero), m.quantize(pool[-2], 0.05, -3)])
        after = prune(eight_bit(graph))
        verify(after)
        arrays = [m.rng.integers(0, 256, (1, 4, 6, 2)).astype(np.uint8).view(DTYPES[m.dtype]) for _ in graph.inputs]
        for wanted, found in zip(run(graph, *arrays), run(after, *arrays), strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=f"seed {seed}\n{graph}\n{after}")
        fewer += ops(graph).count("dequantize") > ops(after).count("dequantize")
    assert fewer > 60
