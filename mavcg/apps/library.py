"""Builder of an application's library: each network's engine, one memory for all, pipelines of partitions."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mavcg import __version__
from mavcg.apps.application_file import ApplicationFile, NetworkEntry
from mavcg.apps.buildable import check_buildable, check_precision, parallel_pairs
from mavcg.apps.scheduled_model import scheduled_model
from mavcg.apps.stage_balance import StageBalance
from mavcg.apps.stage_note import pipeline_note
from mavcg.apps.stage_plan import PipelinedModel, pipeline_of
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.worker_processes import run_tasks
from mavcg.lowering.kernel_code import KernelCode, kernel_code, kernel_tasks, version_symbols
from mavcg.lowering.pack_weights import packed_weights
from mavcg.lowering.row_phases import ArenaTooLargeError
from mavcg.memory.shared_placement import place_together
from mavcg.model_pipeline.link import bands_note
from mavcg.model_pipeline.model_request import ModelRequest
from mavcg.model_pipeline.note import model_note
from mavcg.model_pipeline.prepare import PreparedModel, prepare_model
from mavcg.objects.binaries import loaded_bytes, note_assembly
from mavcg.objects.library import link_shared
from mavcg.objects.link_options import LinkOptions
from mavcg.predict.depth_first import OFF
from mavcg.profiles.load import load_cores
from mavcg.runtime.application_text import ApplicationProgram, PlacedNetwork, application_tables, check_names
from mavcg.runtime.companions import check_companions, library_stem, write_application_companions
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.made_with import made_with
from mavcg.runtime.model_build import application_task, engine_tasks, selector_task
from mavcg.runtime.model_names import network_symbol
from mavcg.runtime.model_text import SCRATCH_ALIGN, default_spin_us
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.model_program import Program
from mavcg.specs.tile_plan import TilePlan
from mavcg.toolchain.codegen import assemble

ARENA_ALIGN = 4096  # of csrc/engine.h


@dataclass(frozen=True)
class ApplicationResult:
    """A built library, with its note; sizes in bytes."""

    output: Path
    application: ApplicationProgram
    companions: tuple[Path, ...]
    library_bytes: int
    loaded_bytes: int
    seconds: float
    note: Mapping[str, Any]


def build_application(
    file: ApplicationFile, request: ModelRequest, progress: Callable[[str], None] = lambda message: None
) -> ApplicationResult:
    """Build one library of all networks of an application.

    request: options of a model build; its model and shapes are ignored, its output is the library. Raises: MavcgError
    for bad models, names that collide in C, settings that only `mavcg app plan` supports, or a memory limit that is not
    met; nothing is written then.
    """
    started = time.monotonic()
    name = library_stem(request.output)
    check_buildable(file)
    check_names(name, [entry.name for entry in file.networks])
    check_companions(name, request.output, cpp=False)
    pairs = parallel_pairs(file)
    pipelined = [_prepare_pipelined(file, entry, request, progress) for entry in file.networks]
    networks, balances = [model.prepared for model in pipelined], [model.balance for model in pipelined]
    application = place_networks(name, [network.planned.program for network in networks], pairs)
    if file.memory is not None and _excess(file, application) > 0:
        networks = _by_parts(file, networks, request, pairs, progress)
        application = place_networks(name, [network.planned.program for network in networks], pairs)
        _check_limit(file, application)
    machines, core_set = networks[0].machines, CoreSet(request.cores)
    specs = tuple(dict.fromkeys(spec for network in networks for spec in network.planned.specs))
    tiles = TilePlan({key: macro for network in networks for key, macro in network.tiles.tiles.items()})
    with scratch_folder("mavcg-app-") as folder:
        shared_tasks: list[Any] = [
            selector_task(core_set, load_cores(), request.target, folder),
            application_task(application_tables(application), request.target, folder),
        ]
        for number, network in enumerate(networks):
            own = folder / f"network-{number}"
            own.mkdir()
            planned = network.planned
            shared_tasks += engine_tasks(
                planned.program, partial(packed_weights, planned.memory, planned.lowered.graph.constants),
                version_symbols(planned.specs, tuple(machines)), core_set, request.target, own, request.threads,
                default_spin_us(request.board), network_symbol(planned.program.name), in_application=True,
            )  # fmt: skip
        tasks = kernel_tasks(specs, machines, request.cores, request.target, folder, request.tuning, tiles)
        objects = run_tasks([*shared_tasks, *tasks], request.workers, progress)
        kernels = kernel_code(objects[len(shared_tasks) :], machines, tiles)
        note = _note(file, application, networks, balances, kernels)
        notes = [note, *({"made_with": made_with(entry.file, application=True)} for entry in file.networks)]
        note_objects = [folder / f"note-{number}.o" for number in range(len(notes))]
        for document, path in zip(notes, note_objects, strict=True):
            assemble(note_assembly(document, request.target), path, request.target, "the library's note")
        progress(f"linking {request.output}")
        objects = [*kernels.objects, *objects[: len(shared_tasks)], *note_objects]
        link_shared(objects, request.output, request.target, options=LinkOptions(strip=request.strip))
    companions = write_application_companions(application, request.output, request.threads)
    return ApplicationResult(
        request.output, application, companions, request.output.stat().st_size, loaded_bytes(request.output),
        time.monotonic() - started, note,
    )  # fmt: skip


def place_networks(name: str, programs: Sequence[Program], together: frozenset[frozenset[int]]) -> ApplicationProgram:
    """Place the networks' arenas and scratch in one memory. together: pairs that may run at the same time.

    Nothing is live between two runs, so networks that never run together start at the same byte.
    """
    arena = place_together([program.arena_bytes for program in programs], together, ARENA_ALIGN)
    scratch = place_together(
        [-(-program.scratch_bytes // SCRATCH_ALIGN) * SCRATCH_ALIGN for program in programs], together, SCRATCH_ALIGN
    )
    placed = (
        PlacedNetwork(
            program, arena.offsets[n], scratch.offsets[n],
            frozenset(m for m in range(len(programs)) if frozenset((n, m)) not in together),
        )
        for n, program in enumerate(programs)
    )  # fmt: skip
    return ApplicationProgram(name, tuple(placed), arena.extent, scratch.extent)


def _prepare(
    file: ApplicationFile, entry: NetworkEntry, request: ModelRequest, progress: Callable[[str], None]
) -> PreparedModel:
    own = replace(request, model=entry.file, shapes=entry.shapes)
    if entry.partitions:  # stages do not divide steps
        own = replace(own, depth_first=OFF)
    try:
        return prepare_model(own, entry.name, lambda message: progress(f"{entry.name}: {message}"))
    except ArenaTooLargeError:
        raise
    except MavcgError as error:
        raise type(error)(f"{file.path}: line {entry.line}: network '{entry.name}': {error}") from error


def _prepare_pipelined(
    file: ApplicationFile, entry: NetworkEntry, request: ModelRequest, progress: Callable[[str], None]
) -> PipelinedModel:
    """Prepare a network, and cut it into the stages of a pipeline if it has partitions."""
    if entry.partitions or entry.schedules:  # stages run layer by layer, schedules in the given order
        request = replace(request, image_rows=bool(entry.schedules), depth_first="off")
    prepared = _prepare(file, entry, request, progress)
    check_precision(entry, prepared.choice.graph, f"{file.path}: line {entry.line}: network '{entry.name}'")
    if entry.schedules:
        prepared = scheduled_model(entry, prepared)
    if not entry.partitions:
        return PipelinedModel(prepared, None)
    return pipeline_of(file, entry, prepared, request, progress)


def _by_parts(
    file: ApplicationFile,
    networks: Sequence[PreparedModel],
    request: ModelRequest,
    pairs: frozenset[frozenset[int]],
    progress: Callable[[str], None],
) -> list[PreparedModel]:
    """Return the networks; those whose arena exceeds the memory left beside all weights are computed by parts of rows.

    Pipelines, networks with a schedule, and networks that run at the same time as others stay unchanged.
    """
    objects = list(networks)
    room = (file.memory or 0) - sum(network.planned.program.constants_bytes for network in networks)
    for number, entry in enumerate(file.networks):
        alone = not entry.partitions and not entry.schedules and not any(number in pair for pair in pairs)
        if alone and room > 0 and objects[number].planned.program.arena_bytes > room:
            with contextlib.suppress(ArenaTooLargeError):
                objects[number] = _prepare(file, entry, replace(request, max_arena_bytes=room), progress)
    return objects


def _excess(file: ApplicationFile, application: ApplicationProgram) -> int:
    """Return the bytes of weights and buffers beyond the limit."""
    weights = sum(network.program.constants_bytes for network in application.networks)
    return weights + application.arena_bytes - (file.memory or 0)


def _check_limit(file: ApplicationFile, application: ApplicationProgram) -> None:
    weights = sum(network.program.constants_bytes for network in application.networks)
    total = weights + application.arena_bytes
    if _excess(file, application) > 0:
        raise MavcgError(
            f"{file.path}: memory = {file.memory} bytes: the library takes {total}: {weights} of packed weights and "
            f"{application.arena_bytes} of buffers, the least found with layers by parts of rows; raise memory, "
            "leave a network out, or pack fewer weights by --max-error 0"
        )


def _note(
    file: ApplicationFile,
    application: ApplicationProgram,
    networks: Sequence[PreparedModel],
    balances: Sequence[StageBalance | None],
    kernels: KernelCode,
) -> dict[str, Any]:
    code = kernels.code_bytes()
    notes = []
    for network, balance, placed in zip(networks, balances, application.networks, strict=True):
        own = model_note(network.planned, kernels, network.choice.selection) | bands_note(network)
        own["code_bytes"] = _code_bytes(network.planned.specs, tuple(network.machines), code)
        own["phases"] = len(placed.program.phases) or len(placed.program.steps)
        own["arena_offset"] = placed.arena_offset
        own["scratch_offset"] = placed.scratch_offset
        own["conflicts_with"] = [file.networks[n].name for n in sorted(placed.conflicts_with)]
        if placed.program.stages:
            own["pipeline"] = pipeline_note(placed.program, balance)
        notes.append(own)
    return {
        "mavcg": __version__,
        "application": application.name,
        "arena_bytes": application.arena_bytes,
        "scratch_bytes": application.scratch_bytes,
        "weight_bytes": sum(network.program.constants_bytes for network in application.networks),
        "separate_arena_bytes": sum(network.program.arena_bytes for network in application.networks),
        "networks": notes,
    }


def _code_bytes(specs: Sequence[KernelSpec], labels: Sequence[str], code: Mapping[str, int]) -> int:
    """Return the bytes of code of these kernels' versions; networks may share kernels."""
    return sum(code.get(symbol, 0) for symbol in version_symbols(specs, labels))
