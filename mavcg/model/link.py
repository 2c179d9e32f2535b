"""The last stage of the model pipeline: objects -> a library with its note, header and companion files."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mavcg.choose.lowering.kernel_code import KernelCode
from mavcg.choose.plan import Plan
from mavcg.files.worker_processes import Task
from mavcg.hardware.core import GENERIC, Core
from mavcg.model.aar import write_aar
from mavcg.model.dump import dump
from mavcg.model.model_request import CodeContext, ModelRequest
from mavcg.model.note import model_note
from mavcg.model.precision import needs_half_cores, precision_json, used_precision
from mavcg.objects.inspection import loaded_bytes, note_assembly
from mavcg.objects.library import link_shared
from mavcg.objects.link_options import LinkOptions
from mavcg.profiles.load import load_cores
from mavcg.runtime.companions import program_version, write_companions
from mavcg.runtime.model_build import selector_task
from mavcg.runtime.model_text import EngineOptions, default_spin_us
from mavcg.runtime.needs import base_extensions
from mavcg.toolchain.codegen import assemble
from mavcg.toolchain.target import Target


@dataclass(frozen=True)
class ModelResult:
    """A built library.

    operators: number of nodes by operator after all passes. library_bytes: size of the file. loaded_bytes: size in a
    program's image. companions: header, pkg-config and CMake files. note: the description inside the library.
    """

    output: Path
    target: Target
    cores: tuple[Core, ...]
    plan: Plan
    operators: Mapping[str, int]
    companions: tuple[Path, ...]
    library_bytes: int
    loaded_bytes: int
    seconds: float
    note: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code_bytes(self) -> int:
        """Loaded bytes without the packed weights, as counted by `mavcg inspect`."""
        return self.loaded_bytes - self.plan.program.constants_bytes


def link_model(
    plan: Plan,
    request: ModelRequest,
    parts: Sequence[Path],
    kernels: KernelCode,
    facts: Mapping[str, Any],
    context: CodeContext,
    started: float,
) -> ModelResult:
    """Link a library from its objects, and write its header and other companion files beside it.

    parts: objects of constants, selector and engine. facts: made_with of the model's file. started: by
    time.monotonic. Raises: ToolError.
    """
    dump("generate_code", kernels)
    dump("pack_weights", f"{len(plan.memory.constants)} constants, {plan.memory.constants_bytes} bytes\n")
    note = model_note(plan, kernels) | {
        "precision": precision_json(plan, request.precision, request.cores),
        "made_with": facts,
    }
    link_with_note((*kernels.objects, *parts), note, request.output, request.strip, context)
    companions = write_companions(plan.program, request.output, request.threads)
    if request.aar is not None:
        version = program_version(plan.program)
        companions = (*companions, write_aar(request.aar, request.output, companions, version, request.target))
    return ModelResult(
        request.output,
        request.target,
        request.cores,
        plan,
        dict(Counter(node.op for node in plan.graph.nodes).most_common()),
        tuple(companions),
        request.output.stat().st_size,
        loaded_bytes(request.output),
        time.monotonic() - started,
        note,
    )


def selector_task_of(kernels: KernelCode, target: Target, folder: Path) -> Task[Path]:
    """Return the task that compiles the selector, which knows what the kernels' versions need."""
    return selector_task(kernels.needs, kernels.core_set, load_cores(target.arch), target, folder)


def engine_options(plan: Plan, request: ModelRequest) -> EngineOptions:
    """Return the facts that are fixed in the library's engine."""
    in_half = needs_half_cores(used_precision(request.precision, request.cores))
    base = base_extensions(plan.machines[GENERIC]) if in_half else ()
    return EngineOptions(request.threads, default_spin_us(request.board), base_extensions=base)


def link_with_note(
    objects: Sequence[Path], note: Mapping[str, Any], output: Path, strip: bool, context: CodeContext
) -> None:
    """Link these objects and the note to the library."""
    target, note_object = context.target, context.folder / "model-note.o"
    assemble(note_assembly(note, target), note_object, target, "the library's note")
    context.progress(f"linking {output}")
    linked = [*objects, note_object]
    # Bionic's symbols are known when linking; on other systems the C library is resolved at load time.
    strict = ("-Wl,-z,defs",) if target.system == "linux-android" else ()
    link_shared(linked, output, target, options=LinkOptions(strict, strip=strip))
    dump("link", "".join(f"{path.name}\n" for path in linked))
