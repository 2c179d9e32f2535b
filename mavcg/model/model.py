"""The model pipeline: an ONNX, TFLite or Caffe file and cores -> an engine library with its header, stage by stage.

The stages that decide are STAGES in stages.py, the last is in link.py; MAVCG_DUMP=<stage> prints what each makes.
"""

import time
from functools import partial
from pathlib import Path
from typing import Any

from mavcg.choose.lowering.kernel_code import KernelCode
from mavcg.choose.lowering.pack_weights import packed_weights
from mavcg.choose.plan import Plan
from mavcg.files.scratch import scratch_folder
from mavcg.files.worker_processes import Task, run_tasks, started_tasks
from mavcg.model.kernel_levels import library_kernels
from mavcg.model.link import ModelResult, engine_options, link_model, selector_task_of
from mavcg.model.model_request import CodeContext, ModelRequest, Progress, code_context
from mavcg.model.stages import plan_model
from mavcg.runtime.companions import check_companions, library_stem
from mavcg.runtime.made_with import made_with
from mavcg.runtime.model_build import constants_task, engine_task
from mavcg.runtime.model_header import constants_symbol
from mavcg.runtime.model_text import EngineOptions
from mavcg.toolchain.target import Target


def build_model(request: ModelRequest, progress: Progress = lambda message: None) -> ModelResult:
    """Build the library. Raises: MavcgError (bad input, unsupported operator); nothing is written then."""
    started = time.monotonic()
    name = library_stem(request.output)
    check_companions(name, request.output)
    with scratch_folder("mavcg-model-") as folder:
        # Independent of all stages, so this task runs beside them.
        early: list[Task[Any]] = [Task("hashing the model", partial(made_with, request.model))]
        with started_tasks(early, 1 if request.workers > 1 else 0) as early_results:
            plan = plan_model(request, name, progress)
            context = code_context(request, folder, progress)
            packing = packing_task(plan, request.target, folder)
            kernels, weights = library_kernels(plan.specs, plan.machines, plan.tiles, context, [packing])
            tasks = part_tasks(plan, kernels, engine_options(plan, request), context)
            parts = (*weights, *run_tasks(tasks, request.workers, progress))
            [facts] = early_results()
        return link_model(plan, request, parts, kernels, facts, context, started)


def packing_task(plan: Plan, target: Target, folder: Path) -> Task[Path]:
    """Return the task that packs a model's weights into an object."""
    pack = partial(packed_weights, plan.memory, plan.lowered.graph.constants)
    program, symbol = plan.program, constants_symbol(plan.program)
    return constants_task(pack, program.constants_bytes, symbol, target, folder, f"model {program.name}")


def part_tasks(plan: Plan, kernels: KernelCode, options: EngineOptions, context: CodeContext) -> tuple[Task[Path], ...]:
    """Return the tasks that compile what depends on the kernels' versions: the selector and the engine."""
    target, folder = context.target, context.folder
    engine = engine_task(plan.program, kernels.needs, kernels.core_set, target, folder, options)
    return selector_task_of(kernels, target, folder), engine
