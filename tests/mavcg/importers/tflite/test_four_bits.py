"""Constants of int4: with a scale for each channel or block, packed where a kernel reads them so, near LiteRT's."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg
from mavcg.cli.app import run as command
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.reference import run
from mavcg.passes.graph.quantized import eight_bit
from tests.conftest import examples
from tests.mavcg.importers.tflite.conftest import Writer, litert

OF_EIGHT_BITS = 0.02  # of the largest result: two roundings of activations to 8 bits, each by another scale


def numbers_of(*shape: int) -> Any:
    return np.random.default_rng(1).integers(-8, 8, shape).astype(np.int8)


def scales_of(*shape: int) -> Any:
    return np.random.default_rng(2).uniform(0.01, 0.1, shape).astype(np.float16).astype(np.float32)


def dense(m: Writer, tokens: int, numbers: Any, scales: Any, block: int, **options: Any) -> int:
    """A FULLY_CONNECTED of f32 with a bias."""
    bias = np.linspace(-1, 1, len(numbers)).astype(np.float32)
    weights = m.four_bit(numbers, scales, block)
    x = m.input((tokens, numbers.shape[1]))
    return m.op("FULLY_CONNECTED", [x, weights, m.constant(bias)], options="FullyConnectedOptions", **options)


def real(numbers: Any, scales: Any, block: int) -> Any:
    return numbers * (np.repeat(scales, block, 1) if block else np.reshape(scales, (-1, 1))).astype(np.float64)


@pytest.mark.parametrize(("block", "depth"), [(0, 96), (0, 37), (32, 128), (64, 128), (16, 48)])
def test_fully_connected(writer: Writer, check: Any, block: int, depth: int) -> None:
    numbers, scales = numbers_of(7, depth), scales_of(7, depth // block) if block else scales_of(7)
    act = int(block != 16)  # LiteRT's kernel of short blocks leaves it out
    data = writer.bytes(dense(writer, 3, numbers, scales, block, fusedActivationFunction=act))
    graph = check.load(data)
    (product,) = (n for n in graph.nodes if n.op == "block_matmul")
    assert (product.attr("bits"), product.attr("block")) == (4, block or -(-depth // 32) * 32)
    x = np.random.default_rng(3).standard_normal((3, depth)).astype(np.float32)
    exact = np.maximum(0 if act else -np.inf, x @ real(numbers, scales, block).T + np.linspace(-1, 1, 7))
    (ours,), (theirs,) = run(graph, x), litert(data, [x], xnnpack=True)
    for made in (ours, theirs):
        assert np.abs(made - exact).max() <= OF_EIGHT_BITS / 2 * np.abs(exact).max()
    assert np.abs(ours - theirs).max() <= OF_EIGHT_BITS * np.abs(exact).max()


@pytest.mark.parametrize("depth", [96, 37])
def test_two_bits(writer: Writer, check: Any, depth: int) -> None:
    """Weights of 2 bits give results near LiteRT's and near the exact ones, as those of 4 bits do."""
    numbers, scales = np.random.default_rng(1).integers(-2, 2, (7, depth)).astype(np.int8), scales_of(7)
    inputs = [writer.input((3, depth)), writer.four_bit(numbers, scales, bits=2)]
    data = writer.bytes(writer.op("FULLY_CONNECTED", inputs, options="FullyConnectedOptions"))
    graph = check.load(data)
    (product,) = (n for n in graph.nodes if n.op == "block_matmul")
    assert product.attr("bits") == 2
    x = np.random.default_rng(3).standard_normal((3, depth)).astype(np.float32)
    exact = x @ real(numbers, scales, 0).T
    (ours,), (theirs,) = run(graph, x), litert(data, [x])
    for made in (ours, theirs):
        assert np.abs(made - exact).max() <= OF_EIGHT_BITS / 2 * np.abs(exact).max()


def test_after_dequantize_the_input_stays_f32(writer: Writer, check: Any) -> None:
    numbers, scales = numbers_of(8, 64), scales_of(1)
    w = writer.op("DEQUANTIZE", [writer.four_bit(numbers, scales)], shape=())
    writer.graph.tensors[w].shape = [8, 64]
    y = writer.op("FULLY_CONNECTED", [writer.input((2, 64)), w], options="FullyConnectedOptions")
    graph = check.agrees(writer.bytes(y))
    (product,) = (n for n in graph.nodes if n.op != "reshape")
    assert product.op == "block_matmul" and not product.attr("quantize")


def test_beside_eight_bit_activations_it_is_an_eight_bit_product(writer: Writer, check: Any) -> None:
    numbers, scales = numbers_of(6, 20), scales_of(6)
    bias = np.arange(-3, 3).astype(np.int32) * 100
    inputs = [writer.input((2, 20), "i8", 0.05, 3), writer.four_bit(numbers, scales)]
    inputs.append(writer.constant(bias, "i32", scales * np.float32(0.05), 0, 0))
    y = writer.op("FULLY_CONNECTED", inputs, ("i8", 0.2, 1), options="FullyConnectedOptions")
    graph = check.agrees(writer.bytes(y))
    assert Counter(n.op for n in eight_bit(graph).nodes) == {"qmatmul": 1}


@pytest.mark.parametrize("dtype", ["i8", "f32"])
def test_convolution(writer: Writer, check: Any, dtype: str) -> None:
    numbers, scales = numbers_of(5, 3, 3, 4), scales_of(5)
    quantised = dtype == "i8"
    x = writer.input((1, 6, 6, 4), *(("i8", 0.05, 3) if quantised else ("f32",)))
    bias = writer.constant(np.arange(5) * 90, "i32", scales * np.float32(0.05)) if quantised else None
    inputs = [x, writer.four_bit(numbers, scales), writer.constant(np.ones(5, np.float32)) if bias is None else bias]
    out = ("i8", 0.2, 1) if quantised else "f32"
    data = writer.bytes(writer.op("CONV_2D", inputs, out, options="Conv2DOptions", padding=0, strideH=1, strideW=1))
    if quantised:
        assert Counter(n.op for n in eight_bit(check.agrees(data)).nodes) == {"qconv2d": 1}
        return
    image = np.random.default_rng(3).standard_normal((1, 6, 6, 4)).astype(np.float32)
    (ours,), (theirs,) = run(check.load(data), image), litert(data, [image])
    assert np.abs(ours - theirs).max() <= OF_EIGHT_BITS * np.abs(theirs).max()


@pytest.mark.parametrize("scales", [scales_of(10), scales_of(1)])
def test_embedding_lookup(writer: Writer, check: Any, scales: Any) -> None:
    y = writer.op("EMBEDDING_LOOKUP", [writer.input((3,), "i32"), writer.four_bit(numbers_of(10, 38), scales)])
    graph = check.agrees(writer.bytes(y), [np.array([1, 9, 4], np.int32)])
    assert "expand_blocks" in {n.op for n in graph.nodes}
    assert max(array.nbytes for array in graph.constants.values()) == 10 * 64 // 2


@pytest.mark.long
def test_a_built_library_has_four_bits_for_a_weight(
    writer: Writer, check: Any, tmp_path: Path, cores: tuple[str, str]
) -> None:
    numbers, scales = numbers_of(128, 256), scales_of(128, 8)
    data = writer.bytes(dense(writer, 2, numbers, scales, 32))
    graph: Graph = check.load(data)
    x = np.random.default_rng(3).standard_normal((2, 256)).astype(np.float32)
    library = tmp_path / "libdense.so"
    assert command(["build", str(check.path), "--cores", cores[0], "-o", str(library), "--jobs", "1"]) == 0
    with mavcg.load(library) as model:
        (made,) = model.run(x)
    (defined,) = run(graph, x)
    assert np.abs(made - defined).max() <= 1e-6 * np.abs(defined).max()
    packed = sum(n.nbytes for n in graph.constants.values())
    assert packed <= 128 * 256 // 2 + 4 * 128 * 8 + 4 * 128


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"blockSize": 48}, r"blocks of 48 do not divide the last dimension of \[7, 128\]"),
        ({"blockSize": 0}, "blocks of 0"),
        ({"scales": 99}, "its scales are tensor 99, but there are"),
        ({"scales": 0}, r"its scales, tensor 0 't0', are int4\[7, 128\]; a constant f16\(7, 4\)"),
        ({"zeroPoints": 0}, ""),
    ],
)
def test_blocks_that_cannot_be(writer: Writer, check: Any, changed: dict[str, int], problem: str) -> None:
    y = dense(writer, 3, numbers_of(7, 128), scales_of(7, 4), 32)
    details = writer.graph.tensors[0].quantization.details
    for name, number in changed.items():
        setattr(details, name, number)
    data = writer.bytes(y)
    if not problem:
        check.load(data)
        return
    with pytest.raises(MavcgError, match=f"tensor 0 't0': {problem}"):
        check.load(data)


def test_zero_points_of_blocks_are_refused_unless_zero(writer: Writer, check: Any) -> None:
    x = writer.input((1, 128))
    zeros = [writer.tensor((7, 4), "i8", data=np.full((7, 4), n, np.int8)) for n in (0, 1)]
    weights = writer.four_bit(numbers_of(7, 128), scales_of(7, 4), 32, zeros[0])
    y = writer.op("FULLY_CONNECTED", [x, weights], options="FullyConnectedOptions")
    check.load(writer.bytes(y))
    writer.graph.tensors[weights].quantization.details.zeroPoints = zeros[1]
    with pytest.raises(MavcgError, match="its zero points, tensor 2 't2', are not all 0"):
        check.load(writer.bytes(y))


def test_a_buffer_of_another_length(writer: Writer, check: Any) -> None:
    y = dense(writer, 3, numbers_of(7, 128), scales_of(7), 0)
    writer.graph.tensors[0].shape = [7, 127]
    with pytest.raises(MavcgError, match=r"int4\[7, 127\] takes 445 bytes; its buffer has 448"):
        check.load(writer.bytes(y))


def test_computed_numbers_of_four_bits_are_refused(writer: Writer, check: Any) -> None:
    y = writer.op("QUANTIZE", [writer.input((2, 8))], ("i4", 0.1, 0))
    with pytest.raises(MavcgError, match="int4"):
        check.load(writer.bytes(y))


def test_damaged_blocks_end_in_an_error_or_a_graph(writer: Writer, check: Any) -> None:
    """A bit of the file is changed, at many places."""
    data = writer.bytes(dense(writer, 1, numbers_of(2, 64), scales_of(2, 2), 32))
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.choice(len(data), examples(250, 25), replace=False):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        try:
            check.load(bytes(damaged))
        except MavcgError:
            refused += 1
    assert refused
