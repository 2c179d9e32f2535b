"""Builds one library of a model in several sizes: `mavcg build MODEL --shape x=1,4,8x3x224x224`."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mavcg.choose.limits.arena_limit import ArenaTooLargeError
from mavcg.choose.plan import Plan
from mavcg.graph import Graph
from mavcg.importers.load import import_model
from mavcg.model.aar import write_aar
from mavcg.model.dump import dump
from mavcg.model.link_programs import ProgramEntry, link_programs
from mavcg.model.model_request import ModelRequest, PlanContext, plan_context
from mavcg.model.sizes import Shape, size_text
from mavcg.model.stages import CHOOSE, run_stages
from mavcg.objects.inspection import loaded_bytes
from mavcg.passes.graph.states import without_counts, without_states
from mavcg.runtime.companions import (
    check_companions,
    companions_sentence,
    library_stem,
    program_version,
    write_sized_companions,
)


@dataclass(frozen=True)
class SizedResult:
    """A built library.

    planned: program of each size. weight_bytes: packed weights of all sizes, equal ones counted once.
    """

    request: ModelRequest
    planned: tuple[Plan, ...]
    companions: tuple[Path, ...]
    weight_bytes: int
    library_bytes: int
    loaded_bytes: int
    seconds: float


def build_sized(request: ModelRequest, progress: Callable[[str], None] = lambda message: None) -> SizedResult:
    """Build the library. Raises: MavcgError (bad input, unsupported operator); nothing is written then."""
    started = time.monotonic()
    name = library_stem(request.output)
    check_companions(name, request.output)
    context = plan_context(request, progress)
    entries = []
    for number, size in enumerate(request.sizes):
        progress(f"reading {request.model.name}, {size_text(size)}")
        graph = import_model(request.model, size, request.weights)
        graph = without_states(graph, f"{request.model}: --shape: each of several sizes has contexts of its own")
        graph = without_counts(graph, f"{request.model}: --shape: the sizes of a library have fixed outputs")
        graph = replace(graph, name=name if number == 0 else f"{name}_size{number}")
        dump("import", graph)
        entries.append(ProgramEntry(_choose_within(graph, size, context)))
    linked = link_programs(request, entries, None, context)
    programs = [planned.program for planned in linked.planned]
    companions = write_sized_companions(programs, request.output, request.threads)
    if request.aar is not None:
        version = program_version(*programs)
        companions = (*companions, write_aar(request.aar, request.output, companions, version, request.target))
    return SizedResult(
        request,
        linked.planned,
        companions,
        linked.weight_bytes,
        request.output.stat().st_size,
        loaded_bytes(request.output),
        time.monotonic() - started,
    )


def _choose_within(graph: Graph, size: Mapping[str, Shape], context: PlanContext) -> Plan:
    """Choose how each node of a size is computed. Raises: MavcgError naming the size that exceeds the arena's limit."""
    try:
        return run_stages(Plan(graph, context.board.machines), context, CHOOSE)
    except ArenaTooLargeError as error:
        raise ArenaTooLargeError(f"{size_text(size)}: {error}", error.least_bytes) from error


def sized_json(result: SizedResult) -> dict[str, Any]:
    """Return the document of `mavcg build MODEL --json` for several sizes; sizes are counted, in bytes."""
    request = result.request
    return {
        "output": str(request.output),
        "target": request.target.zig_name,
        "seconds": round(result.seconds, 3),
        "weight_bytes": result.weight_bytes,
        "library_bytes": result.library_bytes,
        "loaded_bytes": result.loaded_bytes,
        "sizes": [
            {
                "shape": size_text(size),
                "arena_bytes": planned.program.arena_bytes,
                "phases": len(planned.program.phases) or len(planned.program.steps),
                "inputs": [{"name": t.name, "type": str(t.type)} for t in planned.program.inputs],
                "outputs": [{"name": t.name, "type": str(t.type)} for t in planned.program.outputs],
            }
            for size, planned in zip(request.sizes, result.planned, strict=True)
        ],
        "files": [str(path) for path in (request.output, *result.companions)],
    }


def sized_lines(result: SizedResult) -> list[str]:
    """Return the lines of the report for people."""
    document, request = sized_json(result), result.request
    lines = [
        f"{document['output']} for {document['target']}, {document['library_bytes'] / 1e6:.2f} MB, "
        f"{len(document['sizes'])} sizes, weights {document['weight_bytes'] / 1e6:.2f} MB together"
    ]
    lines += [f"  {size['shape']}: arena {size['arena_bytes'] / 1e6:.2f} MB" for size in document["sizes"]]
    return [*lines, f"beside it: {companions_sentence(library_stem(request.output), result.companions)}"]
