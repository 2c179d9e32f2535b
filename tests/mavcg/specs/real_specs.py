"""Specs as lowering gives them, of all families: from random graphs, random scenarios and random 8-bit nodes."""

import random
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.differential.graphs import random_part
from bench.differential.part import model_of
from mavcg.choose.lowering.lower import lower_graph
from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Graph
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.layout import dense_strides
from mavcg.graph.parts import TensorType
from mavcg.importers.load import import_model
from mavcg.kernels.primitives.convert import conversions, lower_conversion
from mavcg.kernels.primitives.foreign_gemm import foreign_primitives
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.kernels.registry import lower
from mavcg.passes.graph.pipeline import optimise
from mavcg.specs.foreign_library import ForeignLibrary
from mavcg.specs.kernel import KernelSpec, Packing, View, dense_view
from mavcg.specs.primitive import Scenario
from tests.kernels.primitives.cases import EPILOGUES, scenarios_of

GRAPHS = 160  # random graphs that have kernels of every family


def specs_of_random_graph(number: int, lanes: int) -> tuple[KernelSpec, ...]:
    """The kernels of a random ONNX graph; none where a model of these operators is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model_of([random_part(0, number, 17)]).SerializeToString())
        try:
            return lower_graph(optimise(import_model(path, {})), Packing(lanes)).specs
        except MavcgError:
            return ()


def specs_of_primitive(number: int, seed: int) -> tuple[KernelSpec, ...]:
    """The stages of a primitive, counted through all of them, on a random scenario."""
    primitive = all_primitives()[number % len(all_primitives())]
    scenario, pick = _scenario(number % len(all_primitives()), seed % 3), random.Random(seed)
    weights = np.ones(scenario.weights_shape, np.float32)
    lowered = primitive.lower(scenario, weights, pick.choice(EPILOGUES), pick.choice((4, 8, 16)))
    return tuple(stage.spec for stage in lowered.stages)


def specs_of_foreign() -> tuple[KernelSpec, ...]:
    """The stages of primitives that call a library, which need not be there."""
    libraries = (
        ForeignLibrary("openblas", "0.3.34", "012345", "/usr/lib/libopenblas.so.0", "cblas_sgemm"),
        ForeignLibrary("mine", "", "abcdef", "/usr/lib/libmine.so", "cblas_sgemm64_", True),
    )
    scenario = Scenario(3, 5, 6, 2, 3, 4, 1)
    weights = np.ones(scenario.weights_shape, np.float32)
    made = [one.lower(scenario, weights, EPILOGUES[-1], 8) for each in libraries for one in foreign_primitives(each)]
    return tuple(stage.spec for lowered in made for stage in lowered.stages)


@cache
def _scenario(primitive: int, seed: int) -> Scenario:
    return scenarios_of(all_primitives()[primitive], 1, seed)[0]


def specs_of_conversion(seed: int) -> tuple[KernelSpec, ...]:
    """The kernel of a conversion between two layouts."""
    pick = random.Random(seed)
    sizes = [pick.randint(1, 40) for _ in range(3)]
    return (lower_conversion(pick.choice(conversions()), sizes[0], sizes[1], sizes[2], pick.choice((4, 8))).spec,)


def specs_of_eight_bits(seed: int) -> tuple[KernelSpec, ...]:
    """The kernels of 8-bit operators, and of copies between tensors with gaps."""
    pick = random.Random(seed)
    return tuple(spec for graph in _eight_bit_graphs(pick) for spec in _specs_with_gaps(graph, pick))


def _specs_with_gaps(graph: Graph, pick: random.Random) -> Iterator[KernelSpec]:
    gap = pick.choice((0, 3))
    views = {}
    for name, tensor in graph.types.items():
        wider = (*tensor.shape[:-1], tensor.shape[-1] + gap) if tensor.shape else ()
        constant = name in graph.constants or not tensor.shape
        views[name] = dense_view(tensor) if constant else View(tensor.dtype, tensor.shape, dense_strides(wider))
    for node in graph.nodes:
        yield from (step.spec for step in lower(node, graph, views, Packing(16)))


def _block_products(pick: random.Random, channels: int, side: int) -> Graph:
    bits, blocks = pick.choice((4, 8)), -(-channels // 16)
    b = GraphBuilder("blocks")
    w, scales = np.zeros((side, blocks * 2 * bits), np.uint8), np.full((side, blocks), pick.choice((0.1, 0.5)))
    names = [b.input("x", TensorType("f32", (2, channels))), b.constant(w), b.constant(scales.astype(np.float32))]
    names += [b.constant(np.zeros((side, blocks), np.uint8))] if pick.random() < 0.5 else []
    return b.finish([b.add("block_matmul", names, bits=bits, block=16, quantize=pick.random() < 0.7)])


def _expanded_blocks(pick: random.Random, depth: int, rows: int) -> Graph:
    bits, blocks = pick.choice((4, 8)), -(-depth // 16)
    b = GraphBuilder("expanded")
    types = [TensorType("u8", (rows, blocks * 2 * bits)), TensorType("f32", (rows, blocks))]
    types += [TensorType("u8", (rows, blocks))] if pick.random() < 0.5 else []
    names = [b.input(name, kind) for name, kind in zip(("w", "s", "z"), types, strict=False)]
    return b.finish([b.add("expand_blocks", names, bits=bits, block=16, depth=depth)])


def _eight_bit_graphs(pick: random.Random) -> Iterator[Graph]:
    dtype, to = pick.choice(("i8", "u8")), pick.choice(("i8", "u8"))
    channels, side = pick.randint(1, 40), pick.randint(3, 9)
    result: dict[str, Any] = {"out_zero": 5, "lo": -7 if to == "i8" else 3, "hi": 100, "to": to}
    mean = {"x_zero": pick.randint(0, 9), "multiplier": pick.uniform(0.001, 3), **result}
    window = {"kernel": (2, 2), "stride": (pick.randint(1, 2),) * 2}

    def graph(op: str, *constants: Any, **attrs: Any) -> Graph:
        b = GraphBuilder("eight_bits")
        x = b.input("x", TensorType(dtype, (1, side, side, channels)))
        return b.finish([b.add(op, [x, *map(b.constant, constants)], **attrs)])

    def ends(outputs: int) -> tuple[Any, Any]:
        return np.zeros(outputs, np.int32), np.full(outputs, 2**-6, np.float32)

    def weights(*shape: int) -> Any:
        return np.ones(shape, np.int8)

    yield graph("qmean", axes=pick.choice(((1, 2), (3,))), keepdims=True, **mean)
    yield graph("qavg_pool2d", **window, **mean)
    yield graph("lookup", np.zeros(256, np.int8))
    yield graph("cumulative_sum", axis=pick.randint(0, 3), reverse=pick.random() < 0.5)
    yield graph("qmatmul", weights(channels, 5), *ends(5), x_zero=3, **result)
    yield graph("qconv2d", weights(8, 3, 3, channels), *ends(8), pads=(0,) * 4, x_zero=3, **result)
    yield graph(
        "qconv2d", weights(channels, 3, 3, 1), *ends(channels), pads=(0,) * 4, groups=channels, x_zero=3, **result
    )
    zero, wide = np.zeros((), np.int8 if dtype == "i8" else np.uint8), np.ones((8, 3, 3, channels), np.int16)
    yield graph("iconv2d", wide, zero, pads=(0,) * 4)
    yield graph("iconv2d", wide[:1, :, :, :1].repeat(channels, 0), zero, pads=(0,) * 4, groups=channels)
    yield graph("imatmul", wide[:, 0, 0, :].T, zero)
    b = GraphBuilder("trees")
    rules = np.array([[pick.randint(0, 2), 1, 2, pick.choice((0, 3, 8))], [0, 0, 0, -1], [0, 0, 0, -1]], np.int32)
    real = pick.choice(("f32", "f64"))
    names = [b.input("x", TensorType(real, (side, 3))), *map(b.constant, (rules, np.zeros(3, DTYPES[real])))]
    yield b.finish([b.add("tree_leaves", [*names, b.constant(np.zeros(channels, np.int32))])])
    b = GraphBuilder("range")
    yield b.finish([b.add("dynamic_range", [b.input("x", TensorType("f32", (side, channels)))])])
    b = GraphBuilder("products")
    names = [b.input(name, TensorType(kind, (2, side, side))) for name, kind in (("a", dtype), ("b", "i8"))]
    yield b.finish([b.add("qmatmul", [*names, *map(b.constant, ends(side))], x_zero=3, **result)])
    yield graph("gather", np.array([0, 2, 1], np.int64), axis=pick.randint(1, 2))
    b = GraphBuilder("indices")
    name = b.input("i", TensorType("i64", (side, 2)))
    flat = b.add("flat_index", [name], lengths=(3, channels), strides=(channels, 1), offsets=(0,))
    rows = [b.input(name, TensorType(dtype, (length, 4))) for name, length in (("x", 3 * channels), ("u", side))]
    yield b.finish([b.add("scatter", [rows[0], flat, rows[1]], reduction=pick.choice(("none", "add", "max")))])
    b = GraphBuilder("selection")
    boxes, scores = (b.input(n, TensorType("f32", s)) for n, s in (("b", (1, side, 4)), ("s", (1, channels, side))))
    limits = [b.constant(np.float32(0.5)), "", b.input("most", TensorType("i64", ())), ""]
    chosen = b.add("suppress_boxes", [boxes, scores, *limits], bound=side, centred=pick.random() < 0.5)
    flags = b.add("reshape", [b.add("less", [chosen, chosen])], shape=(channels * side,))
    yield b.finish([b.add("true_places", [flags])])
    b = GraphBuilder("attention")
    query, *others = (b.input(name, TensorType("f32", (1, side, 2, channels))) for name in ("q", "k", "v"))
    mask = b.input("mask", TensorType("f32", (1, 1, 1, side)))
    yield b.finish([b.add("attention", [query, *others, pick.choice((mask, ""))], scale=0.25)])
    yield graph("pad", before=(0, 1, 0, 0), after=(0, 1, 2, 0), mode=pick.choice(("edge", "reflect")))
    yield graph("reshape", shape=(side, 1, channels, side))
    yield _block_products(pick, channels, side)
    yield _expanded_blocks(pick, channels, side)
