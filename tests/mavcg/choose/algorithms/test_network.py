"""Graphs as networks of images: scenarios, pads, dummies, what is fixed, what is left out."""

import pytest

from mavcg.choose.algorithms.dt_graph import Size
from mavcg.choose.algorithms.network import Kind, Network, network_of
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.networks import NAMES, network
from mavcg.passes.graph.pipeline import optimise
from mavcg.specs.primitive import AxisWindow, Scenario


def image(*shape: int, dtype: str = "f32") -> TensorType:
    return TensorType(dtype, (1, *shape))


class Small:
    """A graph of convolutions with weights as inputs."""

    def __init__(self, *shape: int, dtype: str = "f32", batch: int = 1) -> None:
        self.b = GraphBuilder("small")
        self.x = self.b.input("x", TensorType(dtype, (batch, *shape)))

    def conv(self, x: str, m: int, kernel: tuple[int, int] = (3, 3), residual: str = "", **attrs: object) -> str:
        name = f"w{len(self.b.types)}"
        c, dtype = self.b.types[x].shape[3], self.b.types[x].dtype
        w = self.b.input(name, TensorType(dtype, (m, *kernel, c // int(str(attrs.get("groups", 1))))))
        inputs = (x, w, "", residual) if residual else (x, w)
        return self.b.add("conv2d", inputs, f"c{len(self.b.types)}", **attrs)  # type: ignore[arg-type]

    def network(self, *outputs: str) -> Network:
        return network_of(self.b.finish(outputs))


def edges(network: Network) -> list[tuple[str, str, bool]]:
    return [(network.nodes[e.source].op, network.nodes[e.target].op, e.residual) for e in network.links]


def test_a_convolution_is_a_scenario_between_the_ends_of_the_network() -> None:
    s = Small(9, 8, 6)
    graph = s.network(s.conv(s.x, 4, pads=(1, 1, 1, 1), stride=(2, 2), groups=2))
    (conv,) = graph.convolutions

    assert conv.scenario == Scenario(6, 9, 8, 2, 3, 4, 1, 2)
    assert edges(graph) == [("input", "conv2d", False), ("conv2d", "output", False)]
    assert [link.size for link in graph.links] == [Size(6, 9, 8), Size(4, 5, 4)]
    assert [node.kind for node in graph.nodes.values()] == [Kind.FIXED, Kind.CONVOLUTION, Kind.FIXED]


def test_pads_become_the_convolutions_own_where_they_are_the_same_all_round() -> None:
    s = Small(9, 8, 6)
    pad = s.b.add("pad", (s.x,), before=(0, 2, 2, 0), after=(0, 2, 2, 0))
    even = s.network(s.conv(pad, 4, (5, 5)))
    s = Small(9, 8, 6)
    pad = s.b.add("pad", (s.x,), before=(0, 0, 0, 0), after=(0, 1, 1, 0))
    uneven = s.network(s.conv(pad, 4))

    assert even.convolutions[0].scenario == Scenario(6, 9, 8, 1, 5, 4, 2)
    assert edges(even) == [("input", "conv2d", False), ("conv2d", "output", False)]
    assert uneven.convolutions[0].scenario == Scenario(6, 10, 9, 1, 3, 4)
    assert [e[:2] for e in edges(uneven)] == [("input", "pad"), ("pad", "conv2d"), ("conv2d", "output")]


def test_a_pad_that_somebody_else_reads_stays_for_him() -> None:
    s = Small(9, 8, 6)
    pad = s.b.add("pad", (s.x,), before=(0, 1, 1, 0), after=(0, 1, 1, 0))
    pool = s.b.add("max_pool2d", (pad,), kernel=(3, 3))
    graph = s.network(s.conv(pad, 6), pool)

    assert graph.convolutions[0].scenario == Scenario(6, 9, 8, 1, 3, 6, 1)
    assert sorted(e[:2] for e in edges(graph)) == [
        ("conv2d", "output"),
        ("input", "conv2d"),
        ("input", "pad"),
        ("max_pool2d", "output"),
        ("pad", "max_pool2d"),
    ]


def test_a_pad_of_other_than_zeros_is_a_node() -> None:
    s = Small(9, 8, 6)
    pad = s.b.add("pad", (s.x,), before=(0, 1, 1, 0), after=(0, 1, 1, 0), value=1.0)
    graph = s.network(s.conv(pad, 6))

    assert graph.convolutions[0].scenario == Scenario(6, 11, 10, 1, 3, 6)


def test_a_residual_is_read_in_the_layout_of_the_output() -> None:
    s = Small(9, 8, 6)
    graph = s.network(s.conv(s.x, 6, residual=s.x, pads=(1, 1, 1, 1)))

    assert edges(graph)[:2] == [("input", "conv2d", False), ("input", "conv2d", True)]


def test_dummies_take_any_layout_unless_the_order_of_memory_matters_to_them() -> None:
    s = Small(9, 8, 6)
    conv = s.conv(s.x, 4)
    pool = s.b.add("max_pool2d", (conv,), kernel=(2, 2))
    flat = s.b.add("reshape", (pool,), shape=(1, 6 * 5 * 4))
    graph = s.network(flat)
    kinds = {node.op: node.kind for node in graph.nodes.values()}

    assert kinds == {
        "input": Kind.FIXED,
        "conv2d": Kind.CONVOLUTION,
        "max_pool2d": Kind.ANY_LAYOUT,
        "reshape": Kind.FIXED,
    }


@pytest.mark.parametrize(
    ("attrs", "shape", "why"),
    [
        ({"pads": (0, 0, 1, 1)}, (9, 8, 6), "has pads of 0, 0, 1, 1"),
        ({"pads": (1, 0, 0, 0)}, (9, 8, 6), "has pads of 1, 0, 0, 0"),
    ],
)
def test_what_no_scenario_describes_stays_in_the_engines_order_and_says_why(
    attrs: dict[str, tuple[int, ...]], shape: tuple[int, ...], why: str
) -> None:
    s = Small(*shape)
    graph = s.network(s.conv(s.x, 4, **attrs))  # type: ignore[arg-type]

    assert not graph.convolutions
    assert [node.why for node in graph.left_out] == [why]
    assert edges(graph) == [("input", "conv2d", False), ("conv2d", "output", False)]


@pytest.mark.parametrize(
    ("attrs", "scenario"),
    [
        ({"stride": (1, 2)}, Scenario(6, 9, 8, 1, 3, 4, across=AxisWindow(3, 2))),
        ({"dilation": (2, 1)}, Scenario(6, 9, 8, 1, 3, 4, dilation=2, across=AxisWindow(3))),
        ({"kernel": (1, 7), "pads": (0, 3, 0, 3)}, Scenario(6, 9, 8, 1, 1, 4, across=AxisWindow(7, 1, 3))),
        ({"kernel": (7, 1), "pads": (3, 0, 3, 0)}, Scenario(6, 9, 8, 1, 7, 4, 3, across=AxisWindow(1))),
        ({"pads": (1, 2, 1, 2)}, Scenario(6, 9, 8, 1, 3, 4, 1, across=AxisWindow(3, 1, 2))),
    ],
)
def test_axes_with_windows_of_their_own(attrs: dict[str, tuple[int, ...]], scenario: Scenario) -> None:
    s = Small(9, 8, 6)
    graph = s.network(s.conv(s.x, 4, **attrs))  # type: ignore[arg-type]

    assert [node.scenario for node in graph.convolutions] == [scenario]


def test_a_batch_is_a_scenario_and_its_images_are_converted_one_by_one() -> None:
    s = Small(9, 8, 6, batch=2)
    graph = s.network(s.conv(s.x, 4))

    assert [node.scenario for node in graph.convolutions] == [Scenario(6, 9, 8, 1, 3, 4, batch=2)]
    assert [link.size for link in graph.links] == [Size(6, 9, 8, 2), Size(4, 7, 6, 2)]


@pytest.mark.parametrize("name", NAMES)
def test_the_built_in_networks_are_read_whole(name: str) -> None:
    graph: Graph = optimise(network(name))
    found = network_of(graph)
    convolutions = [node for node in graph.nodes if node.op == "conv2d"]

    assert len(found.convolutions) == len(convolutions) and not found.left_out
    assert not any(node.op == "pad" for node in found.nodes.values() if node.kind is Kind.FIXED)
    ends = {name for link in found.links for name in (link.source, link.target)}
    assert ends == set(found.nodes)
    for node in convolutions:
        (scenario,) = {n.scenario for n in found.convolutions if n.name == (node.origin or node.output)}
        assert scenario is not None
        assert graph.shape(node.output)[1:] == (scenario.out_h, scenario.out_w, scenario.m)
