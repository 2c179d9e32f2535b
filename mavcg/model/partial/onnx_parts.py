"""Plans the subgraphs of an ONNX model and of graphs inside of its nodes, and the model in which nodes replace them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mavcg.importers.declared_shapes import GivenShapes
from mavcg.importers.onnx_file import import_model
from mavcg.importers.onnx_proto import load_model
from mavcg.importers.onnx_support import ModelSupport
from mavcg.model.link_programs import ProgramEntry
from mavcg.model.model_request import ModelRequest
from mavcg.model.partial.node_sets import convex_sets
from mavcg.model.partial.onnx_branches import Branch, branches_of, with_bodies, with_free_inputs
from mavcg.model.partial.onnx_files import onnx_files
from mavcg.model.partial.onnx_lengths import OnnxLengths
from mavcg.model.partial.onnx_nodes import branch_macs, branch_nodes, nodes_of_sizes, onnx_nodes, read_support
from mavcg.model.partial.onnx_subgraphs import (
    OperatorNode,
    make_subgraph,
    rewritten_model,
    staying_nodes,
    subgraph_model,
)
from mavcg.model.partial.part_lengths import named_lengths, reader_of
from mavcg.model.partial.plan import Nodes, PartialPlan, PlanNode, join_plans, plan_subgraphs
from mavcg.model.partial.planned_parts import Choose, Division, Made, PlannedParts, check_any, subgraph_name
from mavcg.model.partial.request import PartialRequest
from mavcg.model.sizes import size_text
from mavcg.runtime.drop_in_text import NO_FILE


@dataclass(frozen=True)
class _OnnxGraph:
    """A graph of an ONNX model: the main one, or one inside of a node.

    supports: in each size; at the longest lengths of bounded dimensions. written: of the graph as it is written, whose
    free dimensions stay free with several sizes or lengths. nodes: as they are divided. first: number of its first node
    among those of all graphs. lengths: of a model with bounded dimensions.
    """

    supports: tuple[ModelSupport, ...]
    written: ModelSupport
    nodes: tuple[PlanNode, ...]
    first: int = 0
    lengths: OnnxLengths | None = None


def plan_onnx(request: PartialRequest, choose: Choose) -> PlannedParts:
    """Plan the subgraphs of an ONNX model, and the model in which nodes replace them.

    Raises: MavcgError where the file cannot be read, or no subgraph can be built.
    """
    build = request.build
    graph = _main_graph(build)
    supports, written, nodes = graph.supports, graph.written, graph.nodes
    # In several sizes the graphs inside of nodes stay as they are.
    branches = () if build.sizes or build.bounds else branches_of(supports[0], build.model)
    nodes = tuple(
        replace(node, macs=0) if any(branch.node == i for branch in branches) else node for i, node in enumerate(nodes)
    )
    macs = sum(node.macs or 0 for node in nodes) + sum(map(branch_macs, branches))
    plans: list[Division] = []
    bodies, first = _plan_bodies(request, choose, branches, len(nodes), macs, plans)
    main = with_bodies(written, bodies)
    supports = (main,) if written is supports[0] else supports
    plan, model = _plan_graph(request, choose, replace(graph, supports=supports, written=main, nodes=nodes), macs)
    plan = join_plans([plan, *plans])
    check_any(request, plan)
    model = with_free_inputs(model, load_model(build.model))
    entries = tuple(entry for subgraph in plan.subgraphs for entry in subgraph.made)
    return PlannedParts(plan, entries, NO_FILE, model, onnx_files(build.model))


def _main_graph(build: ModelRequest) -> _OnnxGraph:
    """Return the main graph of a model, in each size or for its bounded dimensions. Raises: as read_support."""
    if build.bounds is not None:
        lengths = OnnxLengths(build, named_lengths(build))
        return _OnnxGraph(
            (lengths.longest_support(),), lengths.written_support(), tuple(lengths.nodes()), lengths=lengths
        )
    sizes = build.sizes or (build.shapes,)
    supports = tuple(read_support(build.model, size) for size in sizes)
    written = supports[0] if len(sizes) == 1 else read_support(build.model, _equal_shapes(sizes))
    nodes = nodes_of_sizes(supports, [size_text(size) for size in sizes]) if build.sizes else onnx_nodes(supports[0])
    return _OnnxGraph(supports, written, tuple(nodes))


def _plan_bodies(
    request: PartialRequest,
    choose: Choose,
    branches: Sequence[Branch],
    first: int,
    macs: int,
    plans: list[Division],
) -> tuple[dict[int, dict[str, Any]], int]:
    """Plan the graphs inside of nodes, add the plans to `plans`, and return the models of the changed ones.

    first: number of their first node. Returns the models by node and attribute, and the next number of a node.
    """
    bodies: dict[int, dict[str, Any]] = {}
    for branch in branches:
        number = len(plans)
        nodes = branch_nodes(branch)
        plans.append(PartialPlan(tuple(nodes), (), (), 0, 0))  # its place, before those of the graphs inside of it
        inside, next_first = _plan_bodies(request, choose, branch.inside, first + len(nodes), macs, plans)
        support = with_bodies(branch.support, inside)
        plan, model = _plan_graph(request, choose, _OnnxGraph((support,), support, tuple(nodes), first), macs)
        plans[number] = plan
        if plan.subgraphs or inside:
            bodies.setdefault(branch.node, {})[branch.attribute] = model
        first = next_first
    return bodies, first


def _plan_graph(request: PartialRequest, choose: Choose, graph: _OnnxGraph, macs: int) -> tuple[Division, Any]:
    """Plan the subgraphs of a graph; return the plan, and the model of the graph with one node for each of them."""
    build = request.build
    supports, written, nodes = graph.supports, graph.written, graph.nodes
    supported = frozenset(i for i, node in enumerate(nodes) if not node.why and not node.known)

    def make_entries(chosen: Nodes, staying: frozenset[int]) -> Made:
        name = subgraph_name(request, graph.first + chosen[0])
        subgraphs = [make_subgraph(support, chosen, staying) for support in supports]
        if graph.lengths is not None:
            read, digest = graph.lengths.part_graphs(chosen, staying, name)
            plans = [choose(read, graph.lengths.named.dimensions)]
        else:
            models = [subgraph_model(s, own, name) for s, own in zip(supports, subgraphs, strict=True)]
            digest = hashlib.sha256(b"".join(m.SerializeToString(deterministic=True) for m in models)).hexdigest()[:32]
            names = [name if number == 0 else f"{name}_size{number}" for number in range(len(supports))]
            graphs = [replace(import_model(m, build.model), name=n) for m, n in zip(models, names, strict=True)]
            plans = [choose(reader_of(imported), ()) for imported in graphs]
        return tuple(
            ProgramEntry(
                chosen_plan,
                digest,
                op=name,
                size=i,
                size_of_request=i,
                plan_nodes=tuple(graph.first + node for node in chosen),
                input_names=subgraphs[i].inputs,
                output_names=subgraphs[i].outputs,
            )
            for i, chosen_plan in enumerate(plans)
        )

    guess = staying_nodes(written, supports[0], supported)
    plan = plan_subgraphs(
        nodes, written.outputs, request.min_share, lambda chosen: make_entries(chosen, guess), convex_sets, macs
    )
    # The outputs of a subgraph depend on the nodes that stay, which are known only now.
    replaced = frozenset(i for subgraph in plan.subgraphs for i in subgraph.nodes)
    staying = staying_nodes(written, supports[0], replaced)
    operators, subgraphs = [], []
    for planned in plan.subgraphs:
        border = make_subgraph(supports[0], planned.nodes, staying)
        same = border == make_subgraph(supports[0], planned.nodes, guess)
        made = planned.made if same else make_entries(planned.nodes, staying)
        subgraphs.append(replace(planned, made=made))
        operators.append(OperatorNode(border, made[0].op, made[0].fingerprint))
    sized = supports[0] if build.sizes or graph.lengths else None
    model = rewritten_model(written, operators, build.model.parent, sized)
    return replace(plan, subgraphs=tuple(subgraphs)), model


def _equal_shapes(sizes: Sequence[Mapping[str, tuple[int, ...]]]) -> GivenShapes:
    """Return the shapes that all sizes share; the others stay as in the file, which was compared in each size."""
    equal = {name: shape for name, shape in sizes[0].items() if all(size[name] == shape for size in sizes)}
    return GivenShapes(equal, ignore_declared=True)
