"""Builds the largest subgraphs of a model that can be built as one library; another runtime computes the rest.

This is `mavcg build MODEL --partial`.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole
from mavcg.graph import Graph
from mavcg.importers.declared_shapes import GivenShapes
from mavcg.importers.load import is_tflite
from mavcg.importers.onnx_file import import_model
from mavcg.importers.onnx_proto import load_model
from mavcg.importers.onnx_support import ModelSupport
from mavcg.importers.tflite_support import TfliteSupport, part_graph, tflite_support
from mavcg.model.dump import dump
from mavcg.model.link_programs import ProgramEntry, link_programs
from mavcg.model.model_request import Progress, plan_context
from mavcg.model.partial.node_sets import convex_sets, delegate_sets
from mavcg.model.partial.onnx_branches import Branch, branches_of, with_bodies, with_free_inputs
from mavcg.model.partial.onnx_files import onnx_files
from mavcg.model.partial.onnx_nodes import branch_macs, branch_nodes, nodes_of_sizes, onnx_nodes, read_support
from mavcg.model.partial.onnx_subgraphs import (
    OperatorNode,
    make_subgraph,
    rewritten_model,
    staying_nodes,
    subgraph_model,
)
from mavcg.model.partial.plan import Nodes, PartialPlan, PlanNode, join_plans, plan_subgraphs
from mavcg.model.partial.request import PartialRequest
from mavcg.model.partial.tflite_nodes import tflite_nodes
from mavcg.model.sizes import size_text
from mavcg.model.stages import CHOOSE, run_stages
from mavcg.objects.inspection import loaded_bytes
from mavcg.runtime.companions import library_stem
from mavcg.runtime.drop_in_text import NO_FILE, DropInFile, ModelFile
from mavcg.runtime.model_header import api_name

Choose = Callable[[Graph], Plan]
Made = tuple[ProgramEntry, ...]  # a subgraph, in each size
Division = PartialPlan[Made]


@dataclass(frozen=True)
class PartialResult:
    """A library, and the model that was written.

    plan: of the first size. planned: the plan's programs, in order. sizes: with several sizes, the share of
    multiply-accumulates of each.
    """

    request: PartialRequest
    plan: Division
    planned: tuple[Plan, ...]
    sizes: tuple[tuple[str, float], ...]
    weight_bytes: int
    library_bytes: int
    loaded_bytes: int
    seconds: float


@dataclass(frozen=True)
class _Planned:
    """A library to be linked.

    plan: of the first size. entries: of all sizes, the sizes of one operator next to each other, first size first.
    model: to be written. model_files: the user's files.
    """

    plan: Division
    entries: tuple[ProgramEntry, ...]
    file: DropInFile
    model: Any = None
    model_files: tuple[ModelFile, ...] = ()


def build_partial(request: PartialRequest, progress: Progress = lambda message: None) -> PartialResult:
    """Build the library and write the model.

    Raises: MavcgError (bad input, nothing to build); nothing is written then.
    """
    started = time.monotonic()
    build = request.build
    context = plan_context(build, progress)
    progress(f"reading {build.model.name}")

    def choose(graph: Graph) -> Plan:
        dump("import", graph)
        return run_stages(Plan(graph, context.board.machines), context, CHOOSE)

    planned = (_plan_tflite if is_tflite(build.model) else _plan_onnx)(request, choose)
    linked = link_programs(build, planned.entries, planned.file, context, planned.model_files)
    if request.also is not None and planned.model is not None:
        write_whole(request.also, planned.model.SerializeToString(), "--also")
    programs = dict(zip(map(_entry_key, planned.entries), linked.planned, strict=True))
    return PartialResult(
        request,
        planned.plan,
        tuple(programs[_entry_key(subgraph.made[0])] for subgraph in planned.plan.subgraphs),
        tuple(_size_shares(request, planned)),
        linked.weight_bytes,
        build.output.stat().st_size,
        loaded_bytes(build.output),
        time.monotonic() - started,
    )


def _entry_key(entry: ProgramEntry) -> str:
    return entry.plan.graph.name


def _size_shares(request: PartialRequest, planned: _Planned) -> Iterator[tuple[str, float]]:
    """Yield each of several sizes with its subgraphs' share of multiply-accumulates."""
    weights = [node.macs or 0 for node in planned.plan.nodes]
    for number, size in enumerate(request.build.sizes):
        nodes = (i for entry in planned.entries if entry.size_of_request == number for i in entry.plan_nodes)
        yield size_text(size), planned.plan.share(sum(weights[i] for i in nodes))


@dataclass(frozen=True)
class _OnnxGraph:
    """A graph of an ONNX model: the main one, or one inside of a node.

    supports: in each size. written: of the graph as it is written, whose free dimensions stay free if there are several
    sizes. nodes: as they are divided. first: number of its first node among those of all graphs.
    """

    supports: tuple[ModelSupport, ...]
    written: ModelSupport
    nodes: tuple[PlanNode, ...]
    first: int = 0


def _plan_onnx(request: PartialRequest, choose: Choose) -> _Planned:
    """Plan the subgraphs of an ONNX model, and the model in which nodes replace them."""
    build = request.build
    sizes = build.sizes or (build.shapes,)
    supports = tuple(read_support(build.model, size) for size in sizes)
    written = supports[0] if len(sizes) == 1 else read_support(build.model, _equal_shapes(sizes))
    nodes = nodes_of_sizes(supports, [size_text(size) for size in sizes]) if build.sizes else onnx_nodes(supports[0])
    # In several sizes the graphs inside of nodes stay as they are.
    branches = () if build.sizes else branches_of(supports[0], build.model)
    nodes = [
        replace(node, macs=0) if any(branch.node == i for branch in branches) else node for i, node in enumerate(nodes)
    ]
    macs = sum(node.macs or 0 for node in nodes) + sum(map(branch_macs, branches))
    plans: list[Division] = []
    bodies, first = _plan_bodies(request, choose, branches, len(nodes), macs, plans)
    main = with_bodies(written, bodies)
    supports = (main,) if written is supports[0] else supports
    plan, model = _plan_graph(request, choose, _OnnxGraph(supports, main, tuple(nodes)), macs)
    plan = join_plans([plan, *plans])
    _check_any(request, plan)
    model = with_free_inputs(model, load_model(build.model))
    entries = tuple(entry for subgraph in plan.subgraphs for entry in subgraph.made)
    return _Planned(plan, entries, NO_FILE, model, onnx_files(build.model))


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
        name = _name(request, graph.first + chosen[0])
        subgraphs = [make_subgraph(support, chosen, staying) for support in supports]
        models = [subgraph_model(s, own, name) for s, own in zip(supports, subgraphs, strict=True)]
        digest = hashlib.sha256(b"".join(m.SerializeToString(deterministic=True) for m in models)).hexdigest()[:32]
        names = [name if number == 0 else f"{name}_size{number}" for number in range(len(supports))]
        graphs = [replace(import_model(m, build.model), name=n) for m, n in zip(models, names, strict=True)]
        return tuple(
            ProgramEntry(
                choose(imported),
                digest,
                op=name,
                size=i,
                size_of_request=i,
                plan_nodes=tuple(graph.first + node for node in chosen),
                input_names=subgraphs[i].inputs,
                output_names=subgraphs[i].outputs,
            )
            for i, imported in enumerate(graphs)
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
    sized = supports[0] if build.sizes else None
    model = rewritten_model(written, operators, build.model.parent, sized)
    return replace(plan, subgraphs=tuple(subgraphs)), model


def _equal_shapes(sizes: Sequence[Mapping[str, tuple[int, ...]]]) -> GivenShapes:
    """Return the shapes that all sizes share; the others stay as in the file, which was compared in each size."""
    equal = {name: shape for name, shape in sizes[0].items() if all(size[name] == shape for size in sizes)}
    return GivenShapes(equal, ignore_declared=True)


def _plan_tflite(request: PartialRequest, choose: Choose) -> _Planned:
    """Plan the subgraphs of a TFLite file in each size, and the data by which the delegate recognises the file."""
    build = request.build
    first, file = None, NO_FILE
    entries: list[ProgramEntry] = []
    for number, size in enumerate(build.sizes or (build.shapes,)):
        support = tflite_support(build.model, size)
        if support.anchor is None:
            raise MavcgError(f"{build.model}: has no constants by which the delegate could recognise it")
        file = DropInFile(support.data, len(support.operators), support.anchor.tensor, support.anchor.offset)
        plan = _plan_tflite_size(request, support, number, len({entry.size for entry in entries}), choose)
        first = first or plan
        entries += [entry for subgraph in plan.subgraphs for entry in subgraph.made]
    assert first is not None
    return _Planned(first, tuple(entries), file)


def _plan_tflite_size(
    request: PartialRequest, support: TfliteSupport, number: int, dense: int, choose: Choose
) -> Division:
    """Plan the subgraphs of a TFLite file in one size.

    number: of the size. dense: its number among sizes with subgraphs.
    """

    def attempt(nodes: Nodes) -> Made:
        op = _name(request, nodes[0])
        name = op if number == 0 else f"{op}_size{number}"
        graph, inputs, outputs = part_graph(support, nodes, name)
        chosen = choose(replace(graph, name=name))
        return (ProgramEntry(chosen, "", nodes, inputs, outputs, op, dense, number, nodes),)

    outputs = [str(index) for index in support.model.outputs]
    plan = plan_subgraphs(tflite_nodes(support), outputs, request.min_share, attempt, delegate_sets)
    if number == 0:
        _check_any(request, plan)
    return plan


def _name(request: PartialRequest, first: int) -> str:
    """Return a subgraph's name: the library's, with the number of its first node."""
    return f"{api_name(library_stem(request.build.output))}_{first}"


def _check_any(request: PartialRequest, plan: Division) -> None:
    """Raise MavcgError with the reasons if no subgraph can be built."""
    if plan.subgraphs:
        return
    most = "; ".join(f"{left.count} {left.op}: {left.why}" for left in plan.left[:3])
    remedies = "--shape fixes free dimensions, --min-share 0 takes subgraphs of any size"
    raise MavcgError(f"{request.build.model}: no subgraph can be built ({most}); {remedies}")
