"""legalise: whatever primitives and layouts are chosen, the graph computes what it did."""

from random import Random
from typing import Any

import numpy as np
import pytest

from bench.jit import host_machine
from bench.program_runner import ProgramRunner
from mavcg.choose.algorithms.network import Kind, network_of
from mavcg.choose.lowering.lower import lower_graph
from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.layout import Layout
from mavcg.graph.ops.nodes import verify
from mavcg.graph.reference import run
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.passes.graph.legalise import ChosenPrimitive, LayoutChoice, legalise
from mavcg.passes.graph.pads import explicit_padding
from mavcg.specs.kernel import Packing

BLOCK = 16


class RandomNetwork:
    """A network of convolutions with branches, residuals, concats, pools, and channels that fill no blocks."""

    def __init__(self, seed: int) -> None:
        self.pick = Random(seed)
        self.rng = np.random.default_rng(seed)
        self.b = GraphBuilder(f"random{seed}")
        self.images = [
            self.b.input("x", TensorType("f32", (self.pick.choice([1, 1, 2]), 9, 11, self.pick.choice([3, 5, 16, 24]))))
        ]

    def numbers(self, *shape: int) -> str:
        return self.b.constant(self.rng.normal(0, 0.5, shape).astype(np.float32))

    def graph(self, nodes: int) -> Graph:
        for _ in range(nodes):
            x = self.pick.choice(self.images[-3:])
            self.images.append(self.one(x))
        outputs = [self.images[-1]] + [t for t in self.images[1:-1] if self.pick.random() < 0.1]
        return explicit_padding(self.b.finish(outputs))

    def one(self, x: str) -> str:
        pick, b = self.pick, self.b
        _, h, w, c = b.types[x].shape
        kinds = ["conv", "conv", "conv", "conv", "pool", "unary", "binary", "concat", "reduce", "slice", "pad", "scale"]
        kind = pick.choice(kinds)
        same = [t for t in self.images if b.types[t] == b.types[x]]
        if kind == "conv":
            return self.conv(x)
        if kind == "pool" and min(h, w) >= 3:
            pads = pick.choice([(0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 1, 1)])
            op = pick.choice(["max_pool2d", "avg_pool2d"])
            more: dict[str, Any] = {"count_pads": pick.choice([(0, 0, 0, 0), pads])} if op == "avg_pool2d" else {}
            kernel = pick.choice([(3, 3), (2, 2), (3, 2)])
            return b.add(op, [x], kernel=kernel, stride=pick.choice([(1, 1), (2, 2), (2, 1)]), pads=pads, **more)
        if kind == "unary":
            op = pick.choice(["relu", "sigmoid", "tanh", "hard_swish", "clip"])
            bounds: dict[str, Any] = {"lo": pick.choice([-1.0, 0.5]), "hi": 2.0} if op == "clip" else {}
            return b.add(op, [x], **bounds)
        if kind == "binary":
            return b.add(pick.choice(["add", "mul", "max", "sub"]), [x, pick.choice(same)])
        if kind == "concat":
            axis = pick.choice([3, 3, 1, 2])
            mates = [t for t in self.images if _fits(b.types[t].shape, b.types[x].shape, axis)]
            return b.add("concat", [pick.choice(mates) for _ in range(pick.randint(1, 3))], axis=axis)
        if kind == "reduce":
            pooled = b.add(pick.choice(["reduce_mean", "reduce_max"]), [x], axes=[1, 2], keepdims=True)
            return b.add("mul", [x, pooled])
        if kind == "slice" and c > 2:
            first = pick.choice([0, 1, BLOCK if c > BLOCK else 0])
            return b.add("slice", [x], starts=[0, 0, 0, first], stops=[1, h, w, c], steps=[1, 1, 1, 1])
        if kind == "pad":
            return b.add("pad", [x], before=[0, 1, 0, 0], after=[0, 0, 2, pick.choice([0, 1])], value=0.5)
        constant = self.numbers(*pick.choice([(c,), (1, 1, 1, 1), (1, h, w, 1), (h, w, c), ()]))
        return b.add(pick.choice(["add", "mul", "prelu"]), [x, constant])

    def conv(self, x: str) -> str:
        pick, b = self.pick, self.b
        _, h, w, c = b.types[x].shape
        k = pick.choice([(1, 1), (1, 1), (3, 3), (3, 3), (3, 3), (5, 5), (1, 7), (7, 1), (3, 1)])
        pad = pick.choice([(k[0] // 2, k[1] // 2), (0, 0), (1, 1)])
        if h + 2 * pad[0] < k[0] or w + 2 * pad[1] < k[1]:
            k, pad = (1, 1), (0, 0)
        groups = pick.choice([1, 1, 1, c, 2 if c % 2 == 0 else 1])
        m = c if groups == c else pick.choice([7, 16, 20, 32]) * groups
        stride = pick.choice([(1, 1), (1, 1), (1, 1), (2, 2), (1, 2)])
        out = b.add(
            "conv2d",
            [x, self.numbers(m, *k, c // groups), self.numbers(m)],
            pads=pad * 2,
            stride=stride,
            groups=groups,
            act=pick.choice(["", "relu", "sigmoid"]),
        )
        mates = [t for t in self.images if b.types[t] == b.types[out]]
        if not mates or pick.random() < 0.5:
            return out
        residual = pick.choice(mates)
        return b.add(
            "conv2d",
            [x, self.numbers(m, *k, c // groups), "", residual],
            pads=pad * 2,
            stride=stride,
            groups=groups,
            act="relu",
        )


def _fits(a: tuple[int, ...], b: tuple[int, ...], axis: int) -> bool:
    return all(m == n for i, (m, n) in enumerate(zip(a, b, strict=True)) if i != axis)


def random_choice(graph: Graph, seed: int, block: int = BLOCK) -> LayoutChoice:
    """Any primitive that applies, any layout that is possible, some nodes left alone, some conversions in two steps."""
    pick = Random(seed)
    network = network_of(graph, block)
    primitives, layouts, chains = {}, {}, {}
    for node in network.nodes.values():
        if node.kind is Kind.CONVOLUTION and pick.random() < 0.85:
            assert node.scenario is not None
            able = [p for p in all_primitives() if p.applies(node.scenario)]
            layout = pick.choice([p.layout_in for p in able])
            one = pick.choice([p for p in able if p.layout_in is layout])
            primitives[node.tensor] = ChosenPrimitive(
                one.name, one.layout_in, one.layout_out, node.image, node.scenario.pads
            )
        elif node.kind is Kind.ANY_LAYOUT:
            layouts[node.tensor] = pick.choice(node.layouts)
    made = {name: one.layout_out for name, one in primitives.items()} | layouts
    for tensor in graph.types:
        for wanted in Layout:
            begin = made.get(tensor, Layout.HWC)
            between = pick.choice(list(Layout))
            if wanted is not begin and between not in (begin, wanted) and pick.random() < 0.4:
                chains[tensor, wanted] = (begin, between, wanted)
    return LayoutChoice(block, primitives, layouts, chains)


def close(found: tuple[Array, ...], wanted: tuple[Array, ...], tolerance: float) -> None:
    for a, b in zip(found, wanted, strict=True):
        scale = np.abs(b).max() or 1.0
        assert a.shape == b.shape and np.abs(a - b).max() <= tolerance * scale


def inputs_of(graph: Graph, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 1, graph.shape(name)).astype(np.float32) for name in graph.inputs]


@pytest.mark.parametrize("seed", range(40))
def test_any_choice_computes_the_same_by_definition(seed: int) -> None:
    graph = RandomNetwork(seed).graph(Random(seed).randint(2, 9))
    choice = random_choice(graph, seed)
    legal = legalise(graph, choice)
    verify(legal)
    assert Graph.parse(str(legal), legal.constants) == legal
    assert legal.inputs == graph.inputs and legal.outputs == graph.outputs
    given = inputs_of(graph)
    close(run(legal, *given, wide=True), run(graph, *given, wide=True), 1e-6)


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(100, 112))
def test_any_choice_computes_the_same_by_kernels(seed: int) -> None:
    machine = host_machine()
    graph = RandomNetwork(seed).graph(Random(seed).randint(2, 6))
    legal = legalise(graph, random_choice(graph, seed))
    runner = ProgramRunner(lower_graph(legal, Packing(BLOCK)), machine, parts=3)
    given = inputs_of(graph)
    output = runner.run(*given)
    assert [one.shape for one in output] == [graph.shape(name) for name in graph.outputs]
    close(output, run(graph, *given, wide=True), 1e-3)


def test_an_input_in_chw_is_read_as_it_is() -> None:
    b = GraphBuilder("entry")
    x = b.input("x", TensorType("f32", (1, 3, 8, 9)))
    image = b.add("transpose", [x], perm=[0, 2, 3, 1])
    weights = b.constant(np.random.default_rng(0).normal(0, 1, (4, 3, 3, 3)).astype(np.float32))
    graph = b.finish([b.add("conv2d", [image, weights]), b.add("relu", [image])])
    conv = graph.producers()[graph.outputs[0]]
    primitive = ChosenPrimitive("sum2d_columns_chw_chw", Layout.CHW, Layout.CHW, image, (0, 0))
    legal = legalise(graph, LayoutChoice(BLOCK, {conv.output: primitive}, {image: Layout.CHW}))
    ops = [node.op for node in legal.nodes]
    assert ops.count("transpose") == 0 and ops.count("convert_layout") == 2  # for relu, and of the result
    assert next(node for node in legal.nodes if node.op == "primitive_conv2d").inputs[0] == "x"
    given = inputs_of(graph)
    close(run(legal, *given, wide=True), run(graph, *given, wide=True), 1e-6)


def test_readers_of_one_layout_share_a_conversion_and_its_way() -> None:
    b = GraphBuilder("shared")
    x = b.input("x", TensorType("f32", (1, 8, 9, 5)))
    weights = b.constant(np.random.default_rng(0).normal(0, 1, (4, 1, 1, 5)).astype(np.float32))
    outs = [b.add("conv2d", [x, weights]) for _ in range(3)]
    graph = b.finish(outs)
    chosen = {out: ChosenPrimitive("sum2d_columns_chw_chw", Layout.CHW, Layout.CHW, x, (0, 0)) for out in outs[:2]}
    blocked = next(p for p in all_primitives() if p.layout_in is Layout.CHWC and p.layout_out is Layout.CHWC)
    chosen[outs[2]] = ChosenPrimitive(blocked.name, Layout.CHWC, Layout.CHWC, x, (0, 0))
    chains = {(x, Layout.CHWC): (Layout.HWC, Layout.CHW, Layout.CHWC)}
    legal = legalise(graph, LayoutChoice(BLOCK, chosen, {}, chains))
    made = [(n.attr("layout_from"), n.attr("layout_to")) for n in legal.nodes if n.op == "convert_layout"]
    assert sorted(made) == [("CHW", "CHWc"), ("CHW", "HWC"), ("CHW", "HWC"), ("CHWc", "HWC"), ("HWC", "CHW")]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (LayoutChoice(16, {}, {"y": Layout.CHWC}), "cannot be done in CHWc; it can in CHW, HCW, HWC"),
        (LayoutChoice(16, {}, {"y": Layout.CHW}, {("x", Layout.CHW): (Layout.HCW, Layout.CHW)}), "does not lead there"),
    ],
)
def test_what_cannot_be_is_refused(choice: LayoutChoice, words: str) -> None:
    graph = Graph.parse("graph g {\n  input %x: f32[1,4,5,3]\n  %y: f32[1,4,5,3] = sigmoid(%x)\n  return %y\n}\n")
    with pytest.raises(MavcgError, match=words):
        legalise(graph, choice)
