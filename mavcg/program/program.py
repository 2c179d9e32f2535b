"""The program pipeline: builds a multi-versioned library from sources or IR, hot functions and cores.

Its steps: build_module.py, and link_program.py; what they pass on: build_values.py. What few builds need (assembly
files, bitcode, the shared selector) is imported where it is used.
"""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.files.scratch import scratch_folder
from mavcg.objects.inspection import loaded_bytes
from mavcg.program.build_module import build_assembly, build_module
from mavcg.program.build_values import BuildRequest, BuildResult, NothingToVersion, Progress
from mavcg.program.hot_functions import inexact_notes, match_hot
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.link_program import (
    library_facts,
    link_output,
    note_objects,
    protection_notes,
    refuse_in_bitcode,
    selector_objects,
    single_library_bytes,
    with_shared_runtime,
    write_bitcode_output,
)
from mavcg.program.objects import ModuleObjects
from mavcg.program.sources.compile_commands import CompileUnit
from mavcg.program.sources.to_ir import IrModule, compile_to_ir
from mavcg.runtime.coreset import CoreSet
from mavcg.toolchain.target import Target

if TYPE_CHECKING:
    from mavcg.program.asm_module import AsmModule


def build_program(request: BuildRequest, progress: Progress = lambda message: None) -> BuildResult:
    """Build the library. Raises: MavcgError for invalid input; no output is then written."""
    started, cpu_started = time.monotonic(), _cpu_seconds()
    if request.lto is not None:
        refuse_in_bitcode(request)
    with scratch_folder("mavcg-build-") as folder:
        modules = _read_inputs(request, progress)
        assembly = _read_assembly(request)
        assembled = [name for module in assembly for name in module.function_names]
        hot, not_found = match_hot(request.hot, [module.text for module in modules], assembled)
        core_set = CoreSet(request.cores, small=request.runtime == "small")
        built = [build_module(module, hot, core_set, request, folder, progress) for module in modules]
        built += [build_assembly(module, hot, core_set, request, folder, progress) for module in assembly]
        _check_something_versioned(built, not_found)
        core_sets = list(dict.fromkeys(core_set for module in built for core_set in module.core_sets))
        selector = selector_objects(core_sets, request, folder, progress)
        if core_sets and request.runtime == "shared":
            request, shared_notes = with_shared_runtime(request, folder)
        else:
            shared_notes = ()
        single_bytes = single_library_bytes(built, request, folder, progress)
        facts = library_facts(selector, single_bytes, request)
        objects = [path for module in built for path in module.objects]
        objects += [*selector, *note_objects(facts, request, folder)]
        progress(f"linking {request.output}")
        if request.lto is None:
            libraries, symbols = link_output(objects, request)
            total_bytes = loaded_bytes(request.output)
        else:
            libraries, symbols, total_bytes = (), (), sum(map(loaded_bytes, objects))
            write_bitcode_output(built, core_sets, facts, request, modules[0].opt_level)
    notes = (*request.notes, *inexact_notes(hot), *_source_notes(modules), *protection_notes(request), *shared_notes)
    return BuildResult(
        request.output,
        request.target,
        request.cores,
        tuple(hot),
        tuple(built),
        tuple(not_found),
        notes,
        sum(facts.get("runtime", {}).values()),
        total_bytes,
        single_bytes,
        libraries,
        symbols,
        time.monotonic() - started,
        _cpu_seconds() - cpu_started,
        tuple(path for module in modules for path in module.inputs),
    )


def _cpu_seconds() -> float:
    """Return the processor time of this process and of those that it waited for."""
    return sum(os.times()[:4])


def _source_notes(modules: Sequence[IrModule]) -> list[str]:
    """Return the notes from making IR, each once, with the list of its sources."""
    sources: dict[str, list[str]] = {}
    for module in modules:
        for note in module.notes:
            sources.setdefault(note, []).append(module.source.name)
    return [f"{', '.join(dict.fromkeys(names))}: {note}" for note, names in sources.items()]


def _read_inputs(request: BuildRequest, progress: Progress) -> list[IrModule]:
    def compile_unit(unit: CompileUnit) -> IrModule:
        module = compile_to_ir(unit, request.target, request.compiler, request.keep_debug)
        progress(f"compiled {unit.source.name} to LLVM IR")
        return module

    with ThreadPoolExecutor(request.workers) as pool:
        compiled = list(pool.map(compile_unit, request.units))
    return [*compiled, *(_load_protected(path, request.target) for path in request.ir_files)]


def _read_assembly(request: BuildRequest) -> "list[AsmModule]":
    if not request.asm_units:
        return []
    from mavcg.program.asm_module import read_asm_module

    return [read_asm_module(unit, request.target) for unit in request.asm_units]


def _load_protected(path: Path, target: Target) -> IrModule:
    """Load IR of the user's, and add the branch protection that C sources are compiled with."""
    from mavcg.passes.ir.protection import protect
    from mavcg.program.sources.load_ir import load_ir

    module = load_ir(path)
    return module if target.system == "macos" else replace(module, text=protect(module.text, target.arch))


def _check_something_versioned(built: Sequence[ModuleObjects], not_found: Sequence[HotSymbol]) -> None:
    if not any(module.choices or module.refused for module in built):
        raise NothingToVersion(
            "nothing to version: none of the hot functions is defined in the input; add the sources that hold them "
            f"({', '.join(s.given_name for s in not_found[:4]) or 'the profile names none'})"
        )
