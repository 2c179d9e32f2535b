"""Builds the largest subgraphs of a model that can be built as one library, for the runtime that has the rest:
`mavcg build MODEL --partial`."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole
from mavcg.graph import Graph
from mavcg.importers.load import is_tflite
from mavcg.importers.onnx_file import import_model
from mavcg.importers.tflite_support import part_graph, tflite_support
from mavcg.lowering.machines import machines_for
from mavcg.lowering.step_list import PlannedModel
from mavcg.model_pipeline.choose_algorithms import AlgorithmChoice
from mavcg.model_pipeline.model import ModelRequest, choose_for, dump
from mavcg.model_pipeline.partial_library import PartEntry, link_parts
from mavcg.objects.binaries import loaded_bytes
from mavcg.partial.convex import convex_sets
from mavcg.partial.onnx_nodes import onnx_nodes, read_support
from mavcg.partial.onnx_subgraphs import OperatorNode, make_subgraph, rewritten_model, subgraph_model
from mavcg.partial.plan import Nodes, PartialPlan, plan_subgraphs
from mavcg.partial.tflite_nodes import tflite_nodes
from mavcg.partial.tflite_sets import delegate_sets
from mavcg.runtime.companions import library_stem
from mavcg.runtime.drop_in_text import NO_FILE, DropInFile
from mavcg.runtime.model_text import api_name

Progress = Callable[[str], None]
Choose = Callable[[Graph], AlgorithmChoice]


@dataclass(frozen=True)
class PartialRequest:
    """Everything that a partial build depends on. build: as of a whole model; also: where the ONNX model that calls the
    library is written, None for a TFLite file, which stays as it is; min_share: of the multiply-accumulates, 0 to 1,
    that a subgraph has at least."""

    build: ModelRequest
    also: Path | None
    min_share: float


@dataclass(frozen=True)
class PartialResult:
    """The library and the model that were written. planned: the subgraphs, in the plan's order."""

    request: PartialRequest
    plan: PartialPlan[PartEntry]
    planned: tuple[PlannedModel, ...]
    library_bytes: int
    loaded_bytes: int
    seconds: float


def build_partial(request: PartialRequest, progress: Progress = lambda message: None) -> PartialResult:
    """Build the library and write the model. Raises: MavcgError (bad input, nothing to build) with nothing written."""
    started = time.monotonic()
    build = request.build
    machines = machines_for(build.cores, build.target)
    progress(f"reading {build.model.name}")

    def choose(graph: Graph) -> AlgorithmChoice:
        dump("import", graph)
        return choose_for(graph, build, machines, progress)

    plan, file, model = (_plan_tflite if is_tflite(build.model) else _plan_onnx)(request, choose)
    planned = link_parts(build, [each.made for each in plan.subgraphs], file, machines, progress)
    if request.also is not None and model is not None:
        write_whole(request.also, model.SerializeToString(), "--also")
    return PartialResult(
        request, plan, planned, build.output.stat().st_size, loaded_bytes(build.output), time.monotonic() - started
    )


def _plan_onnx(request: PartialRequest, choose: Choose) -> tuple[PartialPlan[PartEntry], DropInFile, Any]:
    """Plan the subgraphs of an ONNX model. Returns them, no file, and the model with nodes in their place."""
    build = request.build
    support = read_support(build.model, build.shapes)

    def attempt(nodes: Nodes) -> PartEntry:
        model = subgraph_model(support, make_subgraph(support, nodes), _name(request, nodes))
        graph = replace(import_model(model, build.model), name=_name(request, nodes))
        digest = hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()
        return PartEntry(choose(graph), digest[:32])

    plan = plan_subgraphs(onnx_nodes(support), support.outputs, request.min_share, attempt, convex_sets)
    _check_any(request, plan)
    operators = [
        OperatorNode(make_subgraph(support, each.nodes), _name(request, each.nodes), each.made.fingerprint)
        for each in plan.subgraphs
    ]
    return plan, NO_FILE, rewritten_model(support, operators, build.model.parent)


def _plan_tflite(request: PartialRequest, choose: Choose) -> tuple[PartialPlan[PartEntry], DropInFile, None]:
    """Plan the subgraphs of a TFLite file. Returns them, and the file as the delegate recognises it."""
    support = tflite_support(request.build.model)
    anchor = support.anchor
    if anchor is None:
        raise MavcgError(f"{request.build.model}: has no constants, by which the delegate would recognise it")

    def attempt(nodes: Nodes) -> PartEntry:
        graph, inputs, outputs = part_graph(support, nodes, _name(request, nodes))
        return PartEntry(choose(replace(graph, name=_name(request, nodes))), "", nodes, inputs, outputs)

    outputs = [str(index) for index in support.model.outputs]
    plan = plan_subgraphs(tflite_nodes(support), outputs, request.min_share, attempt, delegate_sets)
    _check_any(request, plan)
    return plan, DropInFile(support.data, len(support.operators), anchor.tensor, anchor.offset), None


def _name(request: PartialRequest, nodes: Nodes) -> str:
    """Return a subgraph's name: the library's and the position of its first node."""
    return f"{api_name(library_stem(request.build.output))}_{nodes[0]}"


def _check_any(request: PartialRequest, plan: PartialPlan[PartEntry]) -> None:
    """Raise MavcgError that states why no subgraph is left to build."""
    if plan.subgraphs:
        return
    most = "; ".join(f"{left.count} {left.op}: {left.why}" for left in plan.left[:3])
    ways = "--shape fixes free dimensions, --min-share 0 takes subgraphs of any size"
    raise MavcgError(f"{request.build.model}: no subgraph can be built ({most}); {ways}")
