"""Fusion of networks: every node once, groups that fit; tiles; the order of the searches."""

from pathlib import Path

import numpy as np
import pytest

from mavcg.accelerators.concats import placements
from mavcg.accelerators.fusion.costs import ModelledGroupCosts
from mavcg.accelerators.fusion.group_shape import GraphFacts, group_shape, is_convex
from mavcg.accelerators.fusion.opportunities import opportunities, template_embeddings, whole_groups
from mavcg.accelerators.fusion.plan import FusionChoices, accelerator_edges, choose_fusion
from mavcg.accelerators.fusion.templates import read_templates
from mavcg.accelerators.fusion.tiling import best_tile, paper_tile, whole_tile
from mavcg.accelerators.fusion.work import group_work
from mavcg.accelerators.groups import GroupTooLarge
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.target import IsaTarget, find_target
from mavcg.accelerators.xgraph import XGraph, XNode
from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from tests.mavcg.accelerators.small_network import network
from tests.mavcg.accelerators.xgraph_text import parse_xgraph

ZU2 = find_target("zu2")


@pytest.fixture(scope="module", name="graph")
def small_network() -> XGraph:
    return xgraph_of(network(), dense_on_host=False)


@pytest.fixture(scope="module", name="choices")
def chosen(graph: XGraph) -> FusionChoices:
    return choose_fusion(graph, ZU2, read_templates(), ModelledGroupCosts(ZU2))


@pytest.mark.parametrize("search", ["exact", "paper", "greedy", "none"])
def test_every_node_is_in_one_group_after_what_it_reads(choices: FusionChoices, search: str) -> None:
    plan = choices.plan(search)
    done: set[str] = set()
    edges = accelerator_edges(choices.graph)
    for group in plan.groups:
        assert not done & set(group.nodes)
        assert all(a in done or a in group.nodes for a, b in edges if b in group.nodes)
        done.update(group.nodes)
    assert done == {node.name for node in choices.graph.nodes if node.on_accelerator}
    assert plan.cost == pytest.approx(choices.paths[search].cost)


def test_the_order_of_searches(choices: FusionChoices) -> None:
    costs = {name: path.cost for name, path in choices.paths.items()}

    assert costs["exact"] <= costs["paper"] <= costs["none"]
    assert costs["exact"] < costs["none"]
    assert choices.paths["exact"].optimal
    # All of this network fits on chip, but for the node that the CPU computes in its middle.
    assert {group.template for group in choices.plan("exact").groups} & {"whole", "conv+conv"}


def test_screening_keeps_what_gains(graph: XGraph, choices: FusionChoices) -> None:
    costs = ModelledGroupCosts(ZU2)
    screened = choose_fusion(graph, ZU2, read_templates(), costs, screen=costs)

    assert screened.paths["none"].cost == choices.paths["none"].cost
    assert screened.paths["exact"].cost == choices.paths["exact"].cost
    assert len(screened.candidates) < len(choices.candidates)


def test_groups_are_convex_and_fit(graph: XGraph) -> None:
    facts = GraphFacts(graph)
    for one in opportunities(facts, ZU2, read_templates()):
        assert is_convex(facts, one.nodes)
        if one.template == "whole":
            assert whole_tile(group_shape(facts, one.nodes), ZU2) is not None


def residual(rows: int, channels: int) -> XGraph:
    """The figure 8 of the paper: two convolutions and their sum."""
    text = f"""xgraph net {{
  %x = input() shape=[1, {rows}, {rows}, 64]
  %y = input() shape=[1, {rows}, {rows}, 64]
  %a = eltwise(%x) shape=[1, {rows}, {rows}, 64] op="copy"
  %b = eltwise(%y) shape=[1, {rows}, {rows}, 64] op="copy"
  %sum = eltwise(%a, %b) shape=[1, {rows}, {rows}, 64] op="add"
  %p = max_pool(%sum) shape=[1, {rows // 2}, {rows // 2}, 64] kernel=[2, 2] stride=[2, 2]
  return %p
}}
"""
    return parse_xgraph(text)


def test_a_fused_group_moves_less() -> None:
    graph = residual(56, 64)
    facts = GraphFacts(graph)
    alone = [best_tile(group_shape(facts, (name,)), ZU2) for name in ("sum", "p")]
    fused = best_tile(group_shape(facts, ("sum", "p")), ZU2)

    assert fused is not None and all(one is not None for one in alone)
    size = 56 * 56 * 64
    assert [one[1].ddr_bytes for one in alone if one] == [3 * size, size + size // 4]
    assert fused[1].ddr_bytes == 2 * size + size // 4


def test_a_tensor_that_is_read_outside_is_no_inner_one() -> None:
    graph = residual(8, 64)
    text_outputs = XGraph(graph.name, graph.nodes, ("p", "sum"))
    facts = GraphFacts(text_outputs)

    found = {nodes for _, nodes in template_embeddings(facts, read_templates())}

    assert frozenset(("sum", "p")) not in found
    assert frozenset(("sum", "p")) in set(whole_groups(facts, ZU2))


def test_the_papers_tile_is_that_of_equation_5(graph: XGraph) -> None:
    facts = GraphFacts(graph)
    for node in graph.nodes:
        if node.kind not in ("conv", "deconv"):
            continue
        shape = group_shape(facts, (node.name,))
        tile_and_work = paper_tile(shape, ZU2)
        assert tile_and_work is not None
        tile, work = tile_and_work
        assert (tile.rows, tile.in_ch) == (4, 12)
        assert tile.out_ch == min(12, node.channels)
        assert tile.columns == node.shape[2]  # all of it fits here
        best = best_tile(shape, ZU2)
        assert best is not None and best[1].cycles(ZU2) <= work.cycles(ZU2)


def test_the_papers_tile_is_narrower_where_buffers_are_small() -> None:
    """A map of 128 channels and 300 columns: 6 rows of it are more than half of the buffer."""
    x = XNode("x", "input", (), (1, 300, 300, 128))
    p = XNode("p", "conv", ("x",), (1, 298, 298, 12), (3, 3))
    shape = group_shape(GraphFacts(XGraph("net", (x, p), ("p",))), ("p",))

    tile_and_work = paper_tile(shape, ZU2)

    assert tile_and_work is not None
    tile, _ = tile_and_work
    assert tile.columns < 298
    for columns, fits in ((tile.columns, True), (tile.columns + 1, False)):
        wider = group_work(shape, type(tile)(tile.rows, columns, tile.out_ch, tile.in_ch, tile.order), ZU2)
        assert (wider is not None) == fits


def test_weights_are_loaded_again_where_they_do_not_stay(graph: XGraph) -> None:
    node = XNode("y", "conv", ("x",), (1, 16, 16, 512), (3, 3), pads=(1, 1, 1, 1))
    x = XNode("x", "input", (), (1, 16, 16, 256))
    facts = GraphFacts(XGraph("net", (x, node), ("y",)))
    shape = group_shape(facts, ("y",))
    once = shape.weight_bytes(node)
    tile_and_work = paper_tile(shape, ZU2)

    assert once == 512 * (9 * 256 + 4) > ZU2.weight_bytes
    assert tile_and_work is not None
    tile, work = tile_and_work
    # The input stays on chip whole, so ranges of channels pass one after another and weights come once.
    assert tile.order == "channels_rows_columns" and work.weight_bytes == once
    rows_first = group_work(shape, type(tile)(4, 16, 12, 12, "rows_columns_channels"), ZU2)
    assert rows_first is not None and rows_first.weight_bytes == 4 * once
    assert work.conv_cycles == 4 * 16 * -(-512 // 12) * -(-256 // 12) * 9


def test_what_does_not_fit_is_refused(graph: XGraph, tmp_path: Path) -> None:
    tiny = IsaTarget(**{**ZU2.__dict__, "input_bytes": 256, "output_bytes": 256})

    with pytest.raises(GroupTooLarge, match="not even its smallest tile fits"):
        choose_fusion(graph, tiny, read_templates(), ModelledGroupCosts(tiny))


@pytest.mark.parametrize(
    "text,message",
    [
        ("", "template: missing; add"),
        ('[template.t]\nnodes = { a = "convolution" }', 'nodes.a: "convolution" is no kind'),
        ("[template.t]\nnodes = { a = 1 }", "write"),
        ('[template.t]\nnodes = { a = "conv" }\nedges = [["a", "b"]]', 'edges: "b" is not a vertex; vertices are a'),
        ('[template.t]\nnodes = { a = "conv" }\ncontext = ["a"]', "leaves no vertex"),
        ('[template.t]\nnodes = { a = "conv" }\nkernel = { a = 0 }', "above 0"),
        ('[template.t]\nnodes = { a = "conv" }\nkernels = { a = 1 }', "no such key"),
        ('[kinds]\nx = ["y"]', "kinds are"),
        ("template = 3", "is not a table"),
    ],
)
def test_wrong_templates_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.toml"
    path.write_text(text)

    with pytest.raises(MavcgError, match=message) as error:
        read_templates(path)
    assert str(path) in str(error.value)


def test_limits_of_a_template_count(tmp_path: Path, graph: XGraph) -> None:
    path = tmp_path / "t.toml"
    path.write_text('[template.t]\nnodes = { a = "conv", b = "depthwise" }\nedges = [["a", "b"]]\nkernel = { b = 3 }\n')
    facts = GraphFacts(graph)
    assert {nodes for _, nodes in template_embeddings(facts, read_templates(path))} == set()  # c1 is read twice
    path.write_text('[template.t]\nnodes = { a = "max_pool", b = "*" }\nedges = [["a", "b"]]\nkernel = { a = 3 }\n')
    assert len({nodes for _, nodes in template_embeddings(facts, read_templates(path))}) == 1
    path.write_text('[template.t]\nnodes = { a = "max_pool", b = "*" }\nedges = [["a", "b"]]\nkernel = { a = 2 }\n')
    assert not list(template_embeddings(facts, read_templates(path)))


def test_a_concat_without_copies_costs_nothing(graph: XGraph) -> None:
    costs = ModelledGroupCosts(ZU2)
    name = next(node.name for node in graph.nodes if node.kind == "concat")
    total_cost = costs.cost(graph, (name,))

    assert total_cost is not None and total_cost.cost == 0
    assert {placements(graph)[part].root for part in graph.by_name()[name].inputs} == {name}


def test_what_stands_for_one_operator_runs_as_one_group() -> None:
    """Maps of 1 MB that do not fit on chip: a gate and its product, a repeated value and its product, upsampling."""
    b = GraphBuilder("net")
    x = b.input("x", TensorType("f32", (1, 128, 128, 64)))
    swish = b.add("hard_swish", (x,), "swish")
    value = b.input("value", TensorType("f32", (1, 1, 1, 64)))
    excited = b.add("mul", (swish, value), "excited")
    rows = np.arange(256) // 2 - 1 + np.arange(256) % 2
    index = np.clip(np.stack([rows, rows + 1], axis=1), 0, 127).astype(np.int32)
    weight = np.where(np.arange(256)[:, None] % 2 == 0, [0.25, 0.75], [0.75, 0.25]).astype(np.float32)
    graph = xgraph_of(b.finish((b.add("resample", (excited, b.constant(index), b.constant(weight)), "up", axis=1),)))

    choices = choose_fusion(graph, ZU2, read_templates(), ModelledGroupCosts(ZU2), ("exact",))

    groups = {group.nodes for group in choices.plan("exact").groups}
    assert ("x.gate", "swish") in groups
    assert ("excited.repeat", "excited") in groups
    assert ("up.twice", "up.wide", "up") in groups
