"""Links several programs of one model, its subgraphs or its sizes, to one library; kernels and constants are shared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mavcg import __version__
from mavcg.choose.lowering.kernel_code import KernelCode
from mavcg.choose.lowering.memory_plan import ConstantPool
from mavcg.choose.lowering.pack_weights import packed_pool
from mavcg.choose.plan import Plan
from mavcg.files.scratch import scratch_folder
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.model.dump import dump
from mavcg.model.kernel_levels import library_kernels
from mavcg.model.link import engine_options, link_with_note, selector_task_of
from mavcg.model.model_request import ModelRequest, PlanContext, code_context
from mavcg.model.note import model_note
from mavcg.model.stages import LAY_OUT, LAY_OUT_LENGTHS, run_stages
from mavcg.runtime.companions import library_stem
from mavcg.runtime.drop_in_text import DropInFile, DropInPart, ModelFile, part_symbol, parts_text, sizes_text
from mavcg.runtime.made_with import made_with
from mavcg.runtime.model_build import constants_task, drop_in_task, engine_task, sizes_task
from mavcg.runtime.model_header import constants_symbol
from mavcg.specs.model_program import Program
from mavcg.specs.tile_plan import TilePlan


@dataclass(frozen=True)
class ProgramEntry:
    """A program to be linked: the model, or a subgraph, in one size.

    plan: after the stages CHOOSE, or lower_for_lengths with a bounded dimension. The others describe a subgraph.
    fingerprint: of the node in an ONNX model. nodes, inputs, outputs, op, size, input_names, output_names, graph: as in
    DropInPart. size_of_request: number of the size among the requested ones. plan_nodes: positions in the model.
    """

    plan: Plan
    fingerprint: str = ""
    nodes: tuple[int, ...] = ()
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    op: str = ""
    size: int = 0
    size_of_request: int = 0
    plan_nodes: tuple[int, ...] = ()
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    graph: int = 0


@dataclass(frozen=True)
class LinkedPrograms:
    """The programs, in the order of the entries.

    weight_bytes: of all packed constants, shared ones counted once.
    """

    planned: tuple[Plan, ...]
    weight_bytes: int


def link_programs(
    build: ModelRequest,
    entries: Sequence[ProgramEntry],
    file: DropInFile | None,
    context: PlanContext,
    model_files: Sequence[ModelFile] = (),
) -> LinkedPrograms:
    """Compile all programs, which share kernels and constants, and link the library.

    file: the model's file if the other runtime reads it too; None for a library without entries for other runtimes,
    whose entries are the sizes of one model. model_files: files from which an ONNX model was read.
    """
    pool, machines = ConstantPool(), context.board.machines
    whole = replace(context, pool=pool)
    planned = tuple(
        run_stages(entry.plan, whole, LAY_OUT if entry.plan.lengths is None else LAY_OUT_LENGTHS) for entry in entries
    )
    specs = tuple(dict.fromkeys(spec for model in planned for spec in model.specs))
    tiles = TilePlan({key: macro for model in planned for key, macro in model.tiles.tiles.items()})
    planned = tuple(replace(model, program=replace(model.program, constants_bytes=pool.end)) for model in planned)
    parts = [_drop_in_part(model.program, entry) for model, entry in zip(planned, entries, strict=True)]
    with scratch_folder("mavcg-model-") as folder:
        symbol = constants_symbol(planned[0].program)
        beside = [
            sizes_task(sizes_text(parts), build.target, folder)
            if file is None
            else drop_in_task(parts_text(build.output.name, parts, file, model_files), build.target, folder),
            constants_task(partial(packed_pool, pool), pool.end, symbol, build.target, folder, str(build.model)),
        ]
        code = code_context(build, folder, context.progress)
        kernels, shared = library_kernels(specs, machines, tiles, code, beside)
        last = [selector_task_of(kernels, build.target, folder), *_engine_tasks(build, planned, kernels, folder)]
        engines = run_tasks(last, build.workers, context.progress)
        dump("generate_code", kernels)
        notes = [model_note(model, kernels) for model in planned]
        note = {
            "mavcg": __version__,
            "model": library_stem(build.output),
            "weight_bytes": pool.end,
            "sizes" if file is None else "subgraphs": notes,
            "made_with": made_with(build.model),
        }
        link_with_note([*kernels.objects, *shared, *engines], note, build.output, build.strip, code)
    return LinkedPrograms(planned, pool.end)


def _drop_in_part(program: Program, entry: ProgramEntry) -> DropInPart:
    return DropInPart(
        program,
        entry.fingerprint,
        entry.nodes,
        entry.inputs,
        entry.outputs,
        entry.op,
        entry.size,
        entry.input_names,
        entry.output_names,
        entry.graph,
    )


def _engine_tasks(
    build: ModelRequest, planned: Sequence[Plan], kernels: KernelCode, folder: Path
) -> Iterator[Task[Path]]:
    """Yield the tasks that compile each program's engine."""
    symbol = constants_symbol(planned[0].program)
    for number, model in enumerate(planned):
        own_folder = folder / str(number)
        own_folder.mkdir()
        yield engine_task(
            model.program,
            kernels.needs,
            kernels.core_set,
            build.target,
            own_folder,
            replace(engine_options(model, build), part=part_symbol(model.program), constants=symbol),
        )
