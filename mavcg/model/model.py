"""The model pipeline: an ONNX, TFLite or Caffe file and cores -> an engine library with its header, stage by stage.

The stages that decide are STAGES in stages.py, the last is in link.py; MAVCG_DUMP=<stage> prints what each makes.
"""

import time
from functools import partial
from pathlib import Path
from typing import Any

from mavcg.choose.lowering.kernel_code import kernel_tasks, version_symbols
from mavcg.choose.lowering.pack_weights import packed_weights
from mavcg.choose.plan import Plan
from mavcg.files.scratch import scratch_folder
from mavcg.files.worker_processes import Task, run_tasks, started_tasks
from mavcg.model.link import ModelResult, engine_options, link_model
from mavcg.model.model_request import ModelRequest, Progress
from mavcg.model.stages import plan_model
from mavcg.runtime.companions import check_companions, library_stem
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.made_with import made_with
from mavcg.runtime.model_build import engine_tasks


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
            tasks = kernel_tasks(
                plan.specs,
                plan.machines,
                request.cores,
                request.target,
                folder,
                request.tuning,
                plan.tiles,
            )
            part_task_list = part_tasks(plan, request, folder)
            objects: list[Any] = run_tasks([*part_task_list, *tasks], request.workers, progress)
            [facts] = early_results()
        parts, kernels = objects[: len(part_task_list)], objects[len(part_task_list) :]
        return link_model(plan, request, parts, kernels, facts, folder, started, progress)


def part_tasks(plan: Plan, request: ModelRequest, folder: Path) -> tuple[Task[Path], ...]:
    """Return the tasks that compile a library's objects other than kernels and the selector."""
    return engine_tasks(
        plan.program,
        partial(packed_weights, plan.memory, plan.lowered.graph.constants),
        version_symbols(plan.specs, tuple(plan.machines)),
        CoreSet(request.cores),
        request.target,
        folder,
        engine_options(plan, request),
    )
