"""Builds many models for many boards as tasks on workers: prepares libraries, compiles kernels, links libraries.

A module of kernels that several libraries have is compiled once, and not at all if an earlier build stored its object.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.store import EntryStore, open_store
from mavcg.files.whole_file import write_whole
from mavcg.lab.farm.library_tasks import (
    EmittedModule,
    LibraryTask,
    LinkedFiles,
    LinkTask,
    PreparedLibrary,
    Refusal,
    compile_modules,
    link_libraries,
    prepare_libraries,
)
from mavcg.lab.jobs.engine import Engine
from mavcg.lab.jobs.sources_digest import compiler_digest
from mavcg.model.model_request import ModelRequest, plan_context
from mavcg.model.reading import file_graph, read_sampled_graphs
from mavcg.model.stages import keeps_loops
from mavcg.runtime.companions import check_companions, library_stem
from mavcg.runtime.made_with import made_with

Progress = Callable[[str], None]
MOST_BYTES = 2_000_000_000  # of kept objects


@dataclass(frozen=True)
class FarmResult:
    """The result of a build of many libraries.

    results: for each request, the library or the reason why it cannot be built. modules: number of modules in all
    libraries. distinct: number of distinct modules. kept: number of those from earlier builds. kernels,
    compiled_kernels: number of kernel versions in all modules, and in the compiled ones. seconds: duration.
    """

    requests: tuple[ModelRequest, ...]
    results: tuple[LinkedFiles | Refusal, ...]
    modules: int
    distinct: int
    kept: int
    kernels: int
    compiled_kernels: int
    seconds: float


def build_farm(
    requests: Sequence[ModelRequest], engine: Engine, store: EntryStore, progress: Progress = lambda message: None
) -> FarmResult:
    """Build the requested libraries; one that cannot be built is a Refusal in the result, the others are written.

    Raises: MavcgError for files that cannot be read or written, and for failures of the engine's workers.
    """
    started = time.monotonic()
    for request in requests:
        check_companions(library_stem(request.output), request.output)
    tasks = library_tasks(requests, progress)
    prepared: dict[int, PreparedLibrary] = {}
    results: dict[int, LinkedFiles | Refusal] = {}

    def on_prepared(task: Sequence[LibraryTask], done: Sequence[PreparedLibrary | Refusal]) -> None:
        for item, result in zip(task, done, strict=True):
            if isinstance(result, Refusal):
                results[item.number] = result
            else:
                prepared[item.number] = result
        progress(f"prepared {len(prepared) + len(results)} of {len(tasks)} libraries")

    engine.run(prepare_libraries, tasks, 1, on_prepared)
    ir = [module for number in sorted(prepared) for module in prepared[number].ir]
    objects, to_compile = _kept_objects(ir, store)
    distinct, kept = len(objects) + len(to_compile), len(objects)
    refused: dict[str, Refusal] = {}

    def on_compiled(task: Sequence[EmittedModule], done: Sequence[bytes | Refusal]) -> None:
        for item, result in zip(task, done, strict=True):
            if isinstance(result, Refusal):
                refused[item.digest] = result
            else:
                objects[item.digest] = result
                store.put(item.digest, result)
        progress(f"compiled {len(objects) + len(refused) - kept} of {len(to_compile)} modules of kernels")

    engine.run(compile_modules, to_compile, 1, on_compiled)
    to_link = []
    for number, library in prepared.items():
        if reasons := [refused[module.digest] for module in library.ir if module.digest in refused]:
            results[number] = reasons[0]
        else:
            content = tuple(objects[module.digest] for module in library.ir)
            to_link.append(LinkTask(tasks[number], library, content))

    def on_linked(task: Sequence[LinkTask], done: Sequence[LinkedFiles | Refusal]) -> None:
        for item, result in zip(task, done, strict=True):
            results[item.task.number] = result
            if isinstance(result, LinkedFiles):
                _write(requests[item.task.number], result)
        progress(f"linked {len(results)} of {len(tasks)} libraries")

    engine.run(link_libraries, to_link, 1, on_linked)
    store.trim()
    return FarmResult(
        tuple(requests),
        tuple(results[number] for number in range(len(tasks))),
        len(ir),
        distinct,
        kept,
        sum(module.kernels for module in ir),
        sum(module.kernels for module in to_compile),
        time.monotonic() - started,
    )


def open_objects() -> EntryStore:
    """Return the user's store of compiled modules, by their digests: kernels/<digest of compiler and sources>."""
    return open_store("kernels", compiler_digest()[:16], most_bytes=MOST_BYTES)


def library_tasks(requests: Sequence[ModelRequest], progress: Progress) -> list[LibraryTask]:
    """Return the tasks of the libraries, reading each model once. Raises: MavcgError for an unreadable file."""
    of_model: dict[Any, LibraryTask] = {}  # the first one of each model, which is read for it
    tasks: list[LibraryTask] = []
    build = secrets.token_hex(8)
    for number, request in enumerate(requests):
        loops = keeps_loops(plan_context(request, progress))  # as a single build for this board reads it
        key = (request.model, repr(request.shapes), repr(request.bounds), request.states, request.weights, loops)
        if key not in of_model:
            progress(f"reading {request.model.name}")
            of_model[key] = LibraryTask(number, build, _read_model(request, loops), made_with(request.model))
        first = of_model[key]
        own = replace(request, graph=first.request.graph, sampled=first.request.sampled, workers=1, weights=None)
        tasks.append(LibraryTask(number, build, own, first.facts))
    return tasks


def _read_model(request: ModelRequest, loops: bool) -> ModelRequest:
    """Return a request with its model's graph, or those for a sample of lengths. Raises: as import_model."""
    if request.bounds is None:
        return replace(request, graph=file_graph(request, loops))
    return replace(request, sampled=read_sampled_graphs(request, request.bounds, library_stem(request.output)))


def _kept_objects(ir: Sequence[EmittedModule], store: EntryStore) -> tuple[dict[str, bytes], list[EmittedModule]]:
    """Return digest -> object in the store, and the distinct other modules, the longest first."""
    objects: dict[str, bytes] = {}
    missing: dict[str, EmittedModule] = {}
    for module in ir:
        if module.digest in objects or module.digest in missing:
            continue
        content = store.get(module.digest)
        if content is None:
            missing[module.digest] = module
        else:
            objects[module.digest] = content
    return objects, sorted(missing.values(), key=lambda module: -len(module.text))


def _write(request: ModelRequest, library: LinkedFiles) -> None:
    """Write a library's files, the library last. Raises: MavcgError if a file cannot be written."""
    for name, content in reversed(library.files):
        path = request.output.parent / name
        write_whole(path, content, "-o")
    try:
        request.output.chmod(0o755)
    except OSError as error:
        raise MavcgError(f"-o {request.output}: cannot be made executable ({error.strerror})") from error
