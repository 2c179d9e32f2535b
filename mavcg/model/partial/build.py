"""Builds the largest subgraphs of a model that can be built as one library; another runtime computes the rest.

This is `mavcg build MODEL --partial`.
"""

import time
from collections.abc import Iterator, Sequence

from mavcg.choose.lengths.samples import ReadGraph
from mavcg.choose.plan import Plan
from mavcg.files.whole_file import write_whole
from mavcg.graph.counts import Dimension
from mavcg.importers.load import is_tflite
from mavcg.model.link_programs import ProgramEntry, link_programs
from mavcg.model.model_request import Progress, plan_context
from mavcg.model.partial.onnx_parts import plan_onnx
from mavcg.model.partial.part_lengths import choose_part
from mavcg.model.partial.planned_parts import PartialResult, PlannedParts
from mavcg.model.partial.request import PartialRequest
from mavcg.model.partial.tflite_parts import plan_tflite
from mavcg.model.sizes import size_text
from mavcg.objects.inspection import loaded_bytes


def build_partial(request: PartialRequest, progress: Progress = lambda message: None) -> PartialResult:
    """Build the library and write the model.

    Raises: MavcgError (bad input, nothing to build); nothing is written then.
    """
    started = time.monotonic()
    build = request.build
    context = plan_context(build, progress)
    progress(f"reading {build.model.name}")

    def choose(read: ReadGraph, dimensions: Sequence[Dimension]) -> Plan:
        return choose_part(read, dimensions, context)

    planned = (plan_tflite if is_tflite(build.model) else plan_onnx)(request, choose)
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


def _size_shares(request: PartialRequest, planned: PlannedParts) -> Iterator[tuple[str, float]]:
    """Yield each of several sizes with its subgraphs' share of multiply-accumulates."""
    weights = [node.macs or 0 for node in planned.plan.nodes]
    for number, size in enumerate(request.build.sizes):
        nodes = (i for entry in planned.entries if entry.size_of_request == number for i in entry.plan_nodes)
        yield size_text(size), planned.plan.share(sum(weights[i] for i in nodes))
