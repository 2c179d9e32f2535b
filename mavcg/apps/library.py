"""Builder of an application's library: each network's engine, one memory for all, pipelines of partitions."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mavcg import __version__
from mavcg.apps.application_file import ApplicationFile
from mavcg.apps.library_buffers import memory_json
from mavcg.apps.library_documents import conversion_json, paging_json, stored_weights_json
from mavcg.apps.library_plan import LibraryPlan, check_memory, plan_library
from mavcg.apps.service.periods_note import periodic_json
from mavcg.apps.service.program_entry import programs_json
from mavcg.apps.stage_balance import StageBalance
from mavcg.choose.lowering.kernel_code import KernelCode, version_symbols
from mavcg.choose.lowering.pack_weights import packed_pool
from mavcg.files.scratch import scratch_folder
from mavcg.files.worker_processes import run_tasks
from mavcg.model.kernel_levels import library_kernels
from mavcg.model.link import selector_task_of
from mavcg.model.model_request import ModelRequest, code_context
from mavcg.model.note import model_note
from mavcg.objects.inspection import loaded_bytes, note_assembly
from mavcg.objects.library import link_shared
from mavcg.objects.link_options import LinkOptions
from mavcg.runtime.application_text import ApplicationProgram, application_tables
from mavcg.runtime.companions import check_companions, library_stem, write_application_companions
from mavcg.runtime.made_with import made_with
from mavcg.runtime.model_build import application_task, constants_task, engine_task
from mavcg.runtime.model_header import constants_symbol, network_symbol
from mavcg.runtime.model_text import EngineOptions, default_spin_us
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.model_program import Program
from mavcg.specs.tile_plan import TilePlan
from mavcg.toolchain.codegen import assemble


@dataclass(frozen=True)
class ApplicationResult:
    """A built library, with its note; sizes in bytes. memory: its buffers and weights (memory_json)."""

    output: Path
    application: ApplicationProgram
    companions: tuple[Path, ...]
    library_bytes: int
    loaded_bytes: int
    seconds: float
    note: Mapping[str, Any]
    memory: Mapping[str, Any]


def build_application(
    file: ApplicationFile, request: ModelRequest, progress: Callable[[str], None] = lambda message: None
) -> ApplicationResult:
    """Build one library of all networks of an application.

    request: options of a model build; its model and shapes are ignored, its output is the library. Raises: MavcgError
    for bad models, names that collide in C, settings that only `mavcg app plan` supports, or a memory limit that is not
    met; nothing is written then.
    """
    started = time.monotonic()
    check_companions(library_stem(request.output), request.output, cpp=False)
    library = plan_library(file, request, progress)
    check_memory(file, library)
    networks, application = library.networks, library.application
    specs = tuple(dict.fromkeys(spec for network in networks for spec in network.specs))
    tiles = TilePlan({key: macro for network in networks for key, macro in network.tiles.tiles.items()})
    with scratch_folder("mavcg-app-") as folder:
        pool, symbol = library.weights, constants_symbol(networks[0].program)
        packing = partial(packed_pool, pool)
        context = code_context(request, folder, progress)
        shared_tasks = [application_task(application_tables(application), request.target, folder)]
        shared_tasks.append(constants_task(packing, pool.end, symbol, request.target, folder, str(file.path)))
        for number in range(len(networks)):
            (folder / f"network-{number}").mkdir()
        kernels, shared = library_kernels(specs, library.machines, tiles, context, shared_tasks)
        last = [selector_task_of(kernels, request.target, folder)]
        for number, network in enumerate(networks):
            options = EngineOptions(
                request.threads,
                default_spin_us(request.board),
                network_symbol(network.program.name),
                in_application=True,
                constants=symbol,
                pages=() if library.paging is None else library.paging.pages[number],
                base_extensions=library.base_extensions,
            )
            own, needs = folder / f"network-{number}", kernels.needs
            last.append(engine_task(network.program, needs, kernels.core_set, request.target, own, options))
        engines = run_tasks(last, request.workers, progress)
        note = _note(file, library, kernels, request.output)
        notes = [note, *({"made_with": made_with(entry.file, application=True)} for entry in file.networks)]
        note_objects = [folder / f"note-{number}.o" for number in range(len(notes))]
        for document, path in zip(notes, note_objects, strict=True):
            assemble(note_assembly(document, request.target), path, request.target, "the library's note")
        progress(f"linking {request.output}")
        objects = [*kernels.objects, *shared, *engines, *note_objects]
        link_shared(objects, request.output, request.target, options=LinkOptions(strip=request.strip))
    companions = write_application_companions(application, request.output, request.threads)
    return ApplicationResult(
        request.output,
        application,
        companions,
        request.output.stat().st_size,
        loaded_bytes(request.output),
        time.monotonic() - started,
        note,
        memory_json(library),
    )


def _note(file: ApplicationFile, library: LibraryPlan, kernels: KernelCode, output: Path) -> dict[str, Any]:
    application = library.application
    code = kernels.code_bytes()
    notes = []
    for network, balance, placed, weight_bytes, entry in zip(
        library.networks, library.balances, application.networks, library.own_weights, file.networks, strict=True
    ):
        own = model_note(network, kernels)
        own["weight_bytes"] = weight_bytes
        own["stored_weights"] = stored_weights_json(network)
        own["conversion"] = conversion_json(network)
        own["code_bytes"] = _code_bytes(network.specs, tuple(kernels.tiles), code)
        own["phases"] = len(placed.program.phases) or len(placed.program.steps)
        own["arena_offset"] = placed.arena_offset
        own["scratch_offset"] = placed.scratch_offset
        own["conflicts_with"] = [file.networks[n].name for n in sorted(placed.conflicts_with)]
        if entry.periodic is not None:
            own["periodic"] = periodic_json(entry.periodic)
        if placed.program.stages:
            own["pipeline"] = pipeline_note(placed.program, balance)
        notes.append(own)
    return {
        "mavcg": __version__,
        "application": application.name,
        "arena_bytes": application.arena_bytes,
        "scratch_bytes": application.scratch_bytes,
        "weight_bytes": library.weight_bytes,
        "separate_weight_bytes": sum(library.own_weights),
        "weights_resident": paging_json(library.paging),
        "separate_arena_bytes": sum(network.program.arena_bytes for network in application.networks),
        "networks": notes,
        **({"programs": programs_json(file.programs, output)} if file.programs else {}),
    }


def _code_bytes(specs: Sequence[KernelSpec], labels: Sequence[str], code: Mapping[str, int]) -> int:
    """Return the bytes of code of these kernels' versions; networks may share kernels."""
    return sum(code.get(symbol, 0) for symbol in version_symbols(specs, labels))


def pipeline_note(program: Program, balance: StageBalance | None) -> dict[str, Any]:
    """Return a pipeline's stages and the buffers between them; sizes in bytes, times in ms.

    stages: first step and number of steps; cores, threads and time if they were predicted. ring_bytes: of the buffers
    between stages, with all copies.
    """
    stages = []
    for number, stage in enumerate(program.stages):
        own: dict[str, Any] = {
            "partition": f"{program.name}.{number}",
            "first": program.steps[stage.begin].name,
            "first_step": stage.begin,
            "steps": stage.end - stage.begin,
        }
        if balance is not None:
            own |= {"cores": list(stage.cores), "threads": stage.threads, "predicted_ms": round(balance.ms[number], 6)}
        stages.append(own)
    note: dict[str, Any] = {
        "stages": stages,
        "rings": [{"offset": r.offset, "bytes": r.stride, "copies": r.copies} for r in program.rings],
        "ring_bytes": sum(ring.stride * ring.copies for ring in program.rings),
    }
    if balance is not None:
        note["predicted_per_second"] = round(balance.per_second, 3)
    return note
