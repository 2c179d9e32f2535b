"""Builds one library of a model in several sizes: `mavcg build MODEL --shape x=1..8x3x224x224`."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mavcg.importers.load import import_model
from mavcg.lowering.machines import machines_for
from mavcg.lowering.step_list import PlannedModel
from mavcg.model_pipeline.dump import dump
from mavcg.model_pipeline.model_request import ModelRequest
from mavcg.model_pipeline.partial_library import PartEntry, link_parts
from mavcg.model_pipeline.prepare import choose_for
from mavcg.model_pipeline.sizes import size_text
from mavcg.objects.binaries import loaded_bytes
from mavcg.runtime.companions import check_companions, library_stem, write_sized_companions


@dataclass(frozen=True)
class SizedResult:
    """The library that was built. planned: the program of each size. weight_bytes: packed weights of all sizes, equal
    ones once."""

    request: ModelRequest
    planned: tuple[PlannedModel, ...]
    companions: tuple[Path, ...]
    weight_bytes: int
    library_bytes: int
    loaded_bytes: int
    seconds: float


def build_sized(request: ModelRequest, progress: Callable[[str], None] = lambda message: None) -> SizedResult:
    """Build the library. Raises: MavcgError (bad input, an operator that is not there) with nothing written."""
    started = time.monotonic()
    name = library_stem(request.output)
    check_companions(name, request.output)
    machines = machines_for(request.cores, request.target)
    entries = []
    for number, size in enumerate(request.sizes):
        progress(f"reading {request.model.name}, {size_text(size)}")
        graph = import_model(request.model, size, request.weights)
        graph = replace(graph, name=name if number == 0 else f"{name}_size{number}")
        dump("import", graph)
        entries.append(PartEntry(choose_for(graph, request, machines, progress)))
    linked = link_parts(request, entries, None, machines, progress)
    programs = [planned.program for planned in linked.planned]
    companions = write_sized_companions(programs, request.output, request.threads)
    return SizedResult(
        request, linked.planned, companions, linked.weight_bytes, request.output.stat().st_size,
        loaded_bytes(request.output), time.monotonic() - started,
    )  # fmt: skip


def sized_json(result: SizedResult) -> dict[str, Any]:
    """The document of `mavcg build MODEL --json` for several sizes; sizes in bytes are counted."""
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
                "inputs": [{"name": t.name, "type": str(t.type)} for t in planned.program.inputs],
                "outputs": [{"name": t.name, "type": str(t.type)} for t in planned.program.outputs],
            }
            for size, planned in zip(request.sizes, result.planned, strict=True)
        ],
        "files": [str(path) for path in (request.output, *result.companions)],
    }


def sized_lines(result: SizedResult) -> list[str]:
    """Return the report for people."""
    document = sized_json(result)
    lines = [
        f"{document['output']} for {document['target']}, {document['library_bytes'] / 1e6:.2f} MB, "
        f"{len(document['sizes'])} sizes, weights {document['weight_bytes'] / 1e6:.2f} MB together"
    ]
    return lines + [f"  {each['shape']}: arena {each['arena_bytes'] / 1e6:.2f} MB" for each in document["sizes"]]
