"""The tasks of a build of many libraries on workers: prepare a library, compile a module of kernels, link a library.

Each task is a function of frozen values, which may be called twice. The repr of a value has only its identifying
fields, because an engine names its tasks by it.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mavcg.choose.lowering.kernel_code import (
    KERNEL_FLAGS,
    OBJECT_NAME,
    UNSCHEDULED_FLAGS,
    CodeSettings,
    KernelModule,
    compile_kernels,
    kernel_code,
    kernel_modules,
    version_symbol,
)
from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.worker_processes import run_tasks
from mavcg.kernels.builder.emit import kernel_name
from mavcg.lab.jobs.remote_tasks import is_worker
from mavcg.model.kernel_levels import with_levels
from mavcg.model.link import engine_options, link_model
from mavcg.model.model import packing_task, part_tasks
from mavcg.model.model_request import ModelRequest, code_context
from mavcg.model.report import model_json
from mavcg.model.stages import plan_model
from mavcg.runtime.companions import library_stem

_FLAGS = frozenset((*KERNEL_FLAGS, *UNSCHEDULED_FLAGS))


@dataclass(frozen=True)
class LibraryTask:
    """A library to be built.

    number, build: identify it among those of this build, and of other builds on the same workers. request: with the
    graph or the sampled ones, so that workers do not read the model's file. facts: "made_with" of the model's file.
    """

    number: int
    build: str
    request: ModelRequest = field(repr=False, compare=False)
    facts: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class EmittedModule:
    """A module of kernels to be compiled. digest: of everything that its object depends on. kernels: their number."""

    digest: str
    kernels: int
    text: str = field(repr=False, compare=False)
    symbol: str = field(repr=False, compare=False)
    settings: CodeSettings = field(repr=False, compare=False)


@dataclass(frozen=True)
class PreparedLibrary:
    """A library before code generation. modules: in the order of the link. ir: the emitted module of each."""

    plan: Plan
    modules: tuple[KernelModule, ...]
    ir: tuple[EmittedModule, ...]


@dataclass(frozen=True)
class LinkTask:
    """A library to be linked, with the objects of its modules."""

    task: LibraryTask
    library: PreparedLibrary = field(repr=False, compare=False)
    objects: tuple[bytes, ...] = field(repr=False, compare=False)


@dataclass(frozen=True)
class LinkedFiles:
    """A library's files, (name, contents), the library first; and its report, as from model_json."""

    files: tuple[tuple[str, bytes], ...]
    document: Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """The reason why a library cannot be built."""

    reason: str


def prepare_libraries(items: tuple[LibraryTask, ...]) -> tuple[PreparedLibrary | Refusal, ...]:
    """Select primitives and plan memory for libraries, and emit their kernels."""
    return tuple(_choose_and_plan(item.request) for item in items)


def _choose_and_plan(request: ModelRequest) -> PreparedLibrary | Refusal:
    try:
        _refuse_paths(request)
        plan = plan_model(request, library_stem(request.output), _quiet)
        modules = kernel_modules(
            plan.specs,
            plan.machines,
            request.cores,
            request.target,
            request.tuning,
            plan.tiles,
        )
        return PreparedLibrary(plan, tuple(modules), tuple(map(ir_module, modules)))
    except MavcgError as error:
        return Refusal(str(error))


def ir_module(module: KernelModule) -> EmittedModule:
    """Emit a module's IR, with the digest of IR, target, core and settings, which decide its object."""
    text, settings = module.text(), module.settings
    symbol = version_symbol(kernel_name(module.specs[0]), module.label)
    return EmittedModule(module_digest(text, symbol, settings), len(module.specs), text, symbol, settings)


def module_digest(text: str, symbol: str, settings: CodeSettings) -> str:
    """Return the digest by which the object of a module is known."""
    inputs = (text, symbol, settings.target, settings.tuned, settings.tuning, settings.flags)
    return hashlib.sha256("\0".join(map(repr, inputs)).encode(errors="surrogateescape")).hexdigest()


def compile_modules(items: tuple[EmittedModule, ...]) -> tuple[bytes | Refusal, ...]:
    """Compile modules; return the contents of their objects."""
    return tuple(_compile_module(item) for item in items)


def _compile_module(item: EmittedModule) -> bytes | Refusal:
    with scratch_folder("mavcg-farm-") as folder:
        try:
            if other := [flag for flag in item.settings.flags if flag not in _FLAGS]:
                raise MavcgError(f"{other[0]}: is no flag of kernels; workers take no others")
            compile_kernels(item.text, item.symbol, item.settings, folder / OBJECT_NAME)
        except MavcgError as error:
            return Refusal(str(error))
        return (folder / OBJECT_NAME).read_bytes()


def link_libraries(items: tuple[LinkTask, ...]) -> tuple[LinkedFiles | Refusal, ...]:
    """Compile the feature levels and the engines of these libraries, pack their weights and link them."""
    return tuple(_link_library(item) for item in items)


def _link_library(item: LinkTask) -> LinkedFiles | Refusal:
    started, request, library = time.monotonic(), item.task.request, item.library
    with scratch_folder("mavcg-farm-") as folder:
        objects, out = folder / "objects", folder / "library"
        objects.mkdir()
        out.mkdir()
        try:
            _refuse_paths(request)
            own = replace(request, output=out / request.output.name)
            kernels = []
            for module, ir, content in zip(library.modules, library.ir, item.objects, strict=True):
                path = objects / f"{_plain_name(module.name)}.o"
                path.write_bytes(content)
                kernels.append(module.kernel_object(path, ir.text))
            plan = library.plan
            code = kernel_code(kernels, plan.machines, plan.tiles, own.cores)
            context = code_context(own, objects, _quiet)
            code = with_levels(code, plan.specs, plan.machines, context)
            engine = part_tasks(plan, code, engine_options(plan, own), context)
            parts = run_tasks([packing_task(plan, own.target, objects), *engine], own.workers)
            done = link_model(plan, own, parts, code, item.task.facts, context, started)
        except MavcgError as error:
            return Refusal(str(error))
        paths = (done.output, *done.companions)
        here = replace(done, output=request.output, companions=_move_files(done.companions, request.output.parent))
        return LinkedFiles(tuple((path.name, path.read_bytes()) for path in paths), model_json(here))


def _refuse_paths(request: ModelRequest) -> None:
    """Raise MavcgError for a request by which a worker would read or write files other than its own."""
    _plain_name(request.output.name)
    of_files = (request.aar, request.weights, request.calibration.folder, request.db if is_worker() else None)
    if (request.graph or request.sampled) is None or any(path is not None for path in of_files):
        raise MavcgError(f"{request.output.name}: workers read and write no files; send the graph alone")


def _plain_name(name: str) -> str:
    """Return a name that stays in its folder. Raises: MavcgError for any other."""
    if not name or name.startswith(".") or Path(name).name != name or "\0" in name:
        raise MavcgError(f"{name!r}: is no name of a file; workers write no other files")
    return name


def _move_files(paths: Sequence[Path], folder: Path) -> tuple[Path, ...]:
    return tuple(folder / path.name for path in paths)


def _quiet(message: str) -> None:
    """Ignore a progress message, because tasks are counted by the process that sends them."""
