"""Random quantised networks, inputs and targets for the accelerator's tests."""

import random
from dataclasses import dataclass, replace

import numpy as np

from mavcg.accelerators.fixed_point import ROUNDINGS, multiplier_of
from mavcg.accelerators.shapes import check_xgraph, result_shape
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import CONVOLUTIONS, Parameters, XGraph, XNode
from mavcg.graph import Array, Graph, TensorType
from mavcg.graph.ops import make_node


def random_target(chance: random.Random) -> IsaTarget:
    """A target with odd sizes: from two lanes up, small memories, any number of banks."""
    ic, oc = chance.choice((1, 2, 3, 4, 8, 12, 16)), chance.choice((1, 2, 4, 5, 8, 12, 16))
    banks = chance.choice((1, 2, 4, 7, 8))
    kib = chance.choice((2, 4, 16, 64))
    return IsaTarget(
        name="random",
        description="",
        frequency_mhz=chance.choice((100.0, 330.0)),
        ic_parallel=2 * ic,
        oc_parallel=oc,
        rows_parallel=chance.choice((1, 2, 3, 4, 8)),
        batch=chance.choice((1, 3)),
        input_bytes=kib * 1024 * banks,
        weight_bytes=banks * max(2048, 8 * ic * oc),
        output_bytes=kib * 512 * banks,
        banks=banks,
        pool_parallel=chance.choice((1, 16, 48)),
        misc_parallel=chance.choice((1, 7, 48)),
        ddr_gb_per_s=chance.choice((0.1, 2.9, 50.0)),
        ddr_latency_cycles=chance.choice((0, 10, 100)),
        rounding=chance.choice(ROUNDINGS),
        dense=chance.choice(("cpu", "accelerator")),
    )


@dataclass
class _Maker:
    chance: random.Random
    nodes: list[XNode]
    parameters: dict[str, Parameters]

    def shape(self, name: str) -> tuple[int, ...]:
        return next(n.shape for n in self.nodes if n.name == name)

    def radix(self, name: str) -> int:
        return next(n.radix for n in self.nodes if n.name == name) or 0

    def add(self, node: XNode) -> str | None:
        """Append a node, its shape inferred; None where its inputs do not allow it."""
        from mavcg.errors import MavcgError

        shapes = [self.shape(name) for name in node.inputs]
        try:
            shaped = replace(node, shape=(1, 1, 1, node.shape[-1]))
            shape = result_shape(XGraph("r", (), ()), shaped, shapes)
        except MavcgError:
            return None
        if shape[1] * shape[2] * shape[3] > 60_000:
            return None
        self.nodes.append(replace(shaped, shape=shape))
        return node.name


def _activation(chance: random.Random) -> tuple[str, tuple[float, ...]]:
    return chance.choice((("", ()), ("relu", ()), ("clip", (-0.5, 6.0)), ("leaky", (0.1,))))


def _windowed(m: _Maker, name: str, kind: str, source: str) -> str | None:
    c, in_ch = m.chance, m.shape(source)[-1]
    kernel = (c.choice((1, 1, 2, 3, 3, 5)), c.choice((1, 1, 2, 3, 3, 5)))
    if kind == "dense":
        kernel = (m.shape(source)[1], m.shape(source)[2])
        if kernel[0] * kernel[1] * in_ch > 600:
            return None
    drawn = [c.randrange(0, (kernel[i % 2] + 1) // 2 + 1) if kind != "dense" else 0 for i in range(4)]
    if kind in ("max_pool", "avg_pool"):
        drawn = [min(pad, kernel[i % 2] - 1) for i, pad in enumerate(drawn)]
    pads = (drawn[0], drawn[1], drawn[2], drawn[3])
    dilation = c.choice(((1, 1), (1, 1), (2, 1), (2, 3))) if kind in ("conv", "depthwise", "deconv") else (1, 1)
    stride = (c.choice((1, 1, 2, 3)), c.choice((1, 1, 2))) if kind != "dense" else (1, 1)
    act, args = _activation(c)
    groups, out_ch = 1, c.choice((1, 3, 5, 8, 12, 16, 17, 24, 40))
    if kind == "depthwise":
        if in_ch == 1:
            return None
        groups, out_ch = in_ch, in_ch * c.choice((1, 1, 2))
    elif kind == "conv" and in_ch % 2 == 0 and in_ch > 2 and c.random() < 0.2:
        groups, out_ch = 2, 2 * max(1, out_ch // 2)
    depth = in_ch // groups
    node = XNode(
        name, kind, (source,), (1, 1, 1, out_ch), kernel, stride, dilation, pads, groups=groups, act=act, act_args=args
    )
    if kind == "avg_pool":
        node = replace(node, count_pads=c.choice(((0, 0, 0, 0), pads)))
    in_radix = m.radix(source)
    if kind in ("max_pool", "avg_pool"):
        return m.add(replace(node, radix=in_radix + c.choice((-1, 0, 0, 1))))
    random_numbers = np.random.default_rng(c.randrange(1 << 30))
    weight_radix = c.choice(((7,), tuple(c.randrange(4, 9) for _ in range(out_ch))))
    multipliers: tuple[int, ...] = ()
    own = random.Random(repr((name, out_ch, weight_radix)))  # leaves the network as it is without multipliers
    if own.random() < 0.25:  # scales that are no powers of two
        weight_radix = tuple(own.randrange(17, 22) for _ in range(out_ch))
        multipliers = tuple(
            own.choice((1, 1 << 15, (1 << 16) - 1, own.randrange(1 << 13, 1 << 16))) for _ in range(out_ch)
        )
    made = m.add(replace(node, radix=c.randrange(1, 6), weight_radix=weight_radix, multipliers=multipliers))
    if made is not None:
        weights = random_numbers.integers(-128, 128, (out_ch, *kernel, 1 if kind == "depthwise" else depth), np.int8)
        bias = random_numbers.integers(-(1 << 12), 1 << 12, out_ch, np.int32)
        m.parameters[name] = Parameters(weights, bias)
    return made


def random_network(chance: random.Random, nodes: int = 7) -> XGraph:
    """A checked network of a few random nodes of all kinds that the accelerator has."""
    size = (1, chance.randrange(1, 24), chance.randrange(1, 24), chance.choice((1, 3, 4, 7, 16, 33)))
    m = _Maker(chance, [XNode("x", "input", (), size, radix=chance.randrange(2, 6))], {})
    kinds = (
        "conv",
        "conv",
        "conv",
        "depthwise",
        "deconv",
        "dense",
        "max_pool",
        "avg_pool",
        "eltwise",
        "eltwise",
        "concat",
        "concat",
        "upsample",
        "reorganise",
    )
    tries = 0
    while len(m.nodes) <= nodes and tries < 200:
        tries += 1
        name, kind = f"n{len(m.nodes)}", chance.choice(kinds)
        source = chance.choice([n.name for n in m.nodes][-4:])
        same = [n.name for n in m.nodes if n.shape == m.shape(source)]
        joinable = [n.name for n in m.nodes if n.shape[:3] == m.shape(source)[:3]]
        act, args = _activation(chance)
        shape = m.shape(source)
        if kind == "eltwise":
            op = chance.choice(("add", "add", "sub", "mul", "max", "min", "copy"))
            inputs: tuple[str, ...] = (source,) if op == "copy" else (source, chance.choice(same))
            m.add(
                XNode(
                    name,
                    kind,
                    inputs,
                    shape,
                    op=op,
                    act=act,
                    act_args=args,
                    radix=min(m.radix(i) for i in inputs) - chance.choice((0, 1)),
                )
            )
        elif kind == "concat":
            inputs = tuple(chance.choice(joinable) for _ in range(chance.choice((1, 2, 3))))
            m.add(XNode(name, kind, inputs, shape, radix=m.radix(inputs[0]) - chance.choice((0, 0, 1))))
        elif kind in ("upsample", "reorganise"):
            factor = (chance.choice((1, 2, 3)), chance.choice((1, 2)))
            m.add(XNode(name, kind, (source,), shape, factor=factor, act=act, act_args=args, radix=m.radix(source)))
        else:
            _windowed(m, name, kind, source)
    read = {i for n in m.nodes for i in n.inputs}
    outputs = [n.name for n in m.nodes if n.kind != "input" and (n.name not in read or chance.random() < 0.1)]
    graph = XGraph("random", tuple(m.nodes), tuple(outputs), m.parameters)
    own = random.Random(repr(m.nodes))  # leaves the network as it is without an 8-bit file's scales
    if own.random() < 0.25:
        graph = with_file_scales(graph, own)
    check_xgraph(graph)
    return graph


def with_file_scales(graph: XGraph, chance: random.Random) -> XGraph:
    """The network with a scale and a zero point for each tensor, as 8-bit files have them."""
    keeps = ("max_pool", "upsample", "reorganise", "concat")
    groups = {node.name: {node.name} for node in graph.nodes}
    for node in graph.nodes:
        for name in node.inputs if node.kind in keeps else ():
            joined = groups[node.name] | groups[name]
            groups.update(dict.fromkeys(joined, joined))
    symmetric = {node.inputs[0] for node in graph.nodes if node.kind == "deconv"}
    formats: dict[str, tuple[float, int]] = {}
    for node in graph.nodes:
        zero = 0 if groups[node.name] & symmetric else chance.choice((-128, -128, 127, 0, chance.randrange(-128, 128)))
        made = chance.choice((0.02, 0.1, 1.0)), zero
        formats |= {name: made for name in groups[node.name] if name not in formats}
    nodes = {}
    for node in graph.nodes:
        changed = replace(node, radix=0, scale=formats[node.name][0], zero=formats[node.name][1])
        count = node.channels if node.kind in CONVOLUTIONS else len(node.inputs)
        factors = [multiplier_of(chance.uniform(0.0005, 1.5)) for _ in range(count)]
        if node.kind in CONVOLUTIONS:
            multipliers, shifts = zip(*factors, strict=True)
            changed = replace(changed, multipliers=multipliers, weight_radix=shifts)
        elif node.kind == "eltwise":
            multipliers = tuple(chance.choice((1, factor[0], chance.randrange(1, 1 << 16))) for factor in factors)
            changed = replace(changed, multipliers=multipliers, weight_radix=(chance.randrange(10, 30),))
        elif node.kind == "avg_pool":
            changed = replace(changed, ratio=chance.uniform(0.2, 3))
        nodes[node.name] = changed
    return graph.with_nodes(nodes)


def with_batch(graph: XGraph, images: int) -> XGraph:
    """The network for a batch of images."""
    return graph.with_nodes({node.name: replace(node, shape=(images, *node.shape[1:])) for node in graph.nodes})


def with_host_nodes(graph: XGraph, chance: random.Random) -> XGraph:
    """The network with a node of the CPU behind some of its nodes, which readers read instead; both are outputs."""
    nodes, hosts, outputs = list[XNode](), dict[str, Graph](), list(graph.outputs)
    now: dict[str, str] = {}
    for node in graph.nodes:
        nodes.append(replace(node, inputs=tuple(now.get(name, name) for name in node.inputs)))
        if chance.random() < 0.3:
            name, types = f"{node.name}.sin", dict.fromkeys("xy", TensorType("f32", node.shape))
            hosts[name] = Graph("sin", ("x",), ("y",), (make_node("sin", ("x",), ("y",), name),), types)
            host = XNode(name, "host", (node.name,), node.shape, op="sin", radix=node.radix)
            nodes.append(replace(host, scale=node.scale, zero=node.zero))
            now[node.name] = name
            if node.name in outputs:
                outputs.append(name)
    made = replace(graph, nodes=tuple(nodes), outputs=tuple(outputs), hosts=hosts)
    check_xgraph(made)
    return made


def random_inputs(graph: XGraph, seed: int) -> dict[str, Array]:
    """int8 values for each input."""
    numbers = np.random.default_rng(seed)
    return {node.name: numbers.integers(-128, 128, node.shape, np.int8) for node in graph.inputs()}


def random_dag(seed: int, most: int = 7) -> XGraph:
    """Sums and CPU nodes of one shape, with random inputs; some results are the network's."""
    chance = random.Random(seed)
    nodes = [XNode("x", "input", (), (1, 1, 1, 4))]
    for number in range(chance.randrange(1, most + 1)):
        count = min(len(nodes), chance.choice((1, 2, 2)))
        inputs = tuple(node.name for node in chance.sample(nodes, count))
        kind = chance.choice(("host", "eltwise"))
        nodes.append(XNode(f"n{number}", kind, inputs, (1, 1, 1, 4), op="add" if count == 2 else "copy"))
    read = {name for node in nodes for name in node.inputs}
    outputs = tuple(n.name for n in nodes[1:] if n.name not in read or chance.random() < 0.2)
    return XGraph("dag", tuple(nodes), outputs)
