"""The program pipeline: builds a multi-versioned library from sources or IR, hot functions and cores.

What few builds need (assembly files, bitcode, the shared selector) is imported where it is used.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.assembly.tuning_options import FAST, Tuning
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.store import NOTHING_KEPT, EntryStore
from mavcg.hardware.core import Core
from mavcg.hardware.feature_levels import ALL_LEVELS
from mavcg.objects.elf import note_assembly as json_note
from mavcg.objects.inspection import HAS_SETTINGS, growth_percent, imports_of, loaded_bytes, note_assembly, protection
from mavcg.objects.library import link_relocatable, link_shared
from mavcg.objects.link_options import LinkOptions
from mavcg.passes.asm.transforms.remove_definitions import defined_symbols
from mavcg.profiles.load import load_cores
from mavcg.program.hot_functions import inexact_notes, match_hot
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.level_versions import with_next_levels
from mavcg.program.lto import Lto
from mavcg.program.objects import ModuleObjects, ObjectOptions, build_objects, compile_plain
from mavcg.program.sources.asm_unit import AsmUnit
from mavcg.program.sources.compile_commands import CompileUnit
from mavcg.program.sources.headers import is_zig, machine_matches, machine_of
from mavcg.program.sources.to_assembly import PlainAssembly
from mavcg.program.sources.to_ir import Compiler, IrModule, compile_to_ir, refuse_foreign_openmp
from mavcg.program.version_choice import Gains, VersionLimits
from mavcg.program.version_failures import FunctionFailures, VersionFailures
from mavcg.program.version_growth import allowed_growth
from mavcg.program.version_needs import VersionNeeds
from mavcg.program.versions import VersionedModule, VersionOptions, make_versions
from mavcg.runtime.build import linked_selector, runtime_object, selector_ir
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.made_with import made_with
from mavcg.toolchain.codegen import assemble, default_workers
from mavcg.toolchain.target import Target

if TYPE_CHECKING:
    from mavcg.program.asm_module import AsmModule

Progress = Callable[[str], None]


class NothingToVersion(MavcgError):
    """Raised if the input defines none of the hot functions."""


@dataclass(frozen=True)
class BuildRequest:
    """Everything that a build depends on.

    Args:
        output: .so, or .o for an object to be linked elsewhere.
        cores: cores that get their own version, in addition to the generic one.
        hot: functions to be versioned, hottest first.
        units, ir_files, asm_units: the inputs.
        limits, gains: limits on versions, and measured gains (version_choice).
        per_core_rounding: True if fast-math may round differently per core.
        tuning: options of the machine passes.
        code_flags: code generation flags, such as -ffunction-sections.
        keep_debug: True to keep debug information of the units.
        own: assembly by the own compiler of the only unit, which provides all functions but the hot ones.
        notes: messages about the selection of the inputs.
        link: options for the link of a library.
        runtime: the selector: "static" or, without MAVCG_CPU_MAP and MAVCG_TRACE, "small", both linked into the
            output; "shared": libmavcg_rt.so.
        workers: number of compilers that run at a time.
        lto: if the output is to be LLVM bitcode, whose code the program's link generates; None for machine code.
        code: where the code of versions is kept, and found again.
    """

    output: Path
    target: Target
    cores: tuple[Core, ...]
    hot: tuple[HotSymbol, ...]
    units: tuple[CompileUnit, ...] = ()
    ir_files: tuple[Path, ...] = ()
    asm_units: tuple[AsmUnit, ...] = ()
    compiler: Compiler = field(default_factory=Compiler)
    limits: VersionLimits = field(default_factory=VersionLimits)
    gains: Gains = field(default_factory=dict)
    per_core_rounding: bool = False
    tuning: Tuning = FAST
    code_flags: tuple[str, ...] = ("-fPIC",)
    keep_debug: bool = False
    own: PlainAssembly | None = None
    notes: tuple[str, ...] = ()
    link: LinkOptions = LinkOptions()
    runtime: str = "static"
    workers: int = field(default_factory=default_workers)
    lto: Lto | None = None
    code: EntryStore = NOTHING_KEPT


@dataclass(frozen=True)
class BuildResult:
    """The result of a build, with what reports need; sizes are in bytes, counted in the linked files.

    not_found: hot functions that the input does not define. notes: messages for the user. runtime_bytes: size of the
    selector. total_bytes: of the output. single_library_bytes: of the library without versions; None for an object.
    needed_libraries, needed_symbols: imports of the output. seconds: duration of the build. cpu_seconds: processor time
    of the build, compilers included.
    """

    output: Path
    target: Target
    cores: tuple[Core, ...]
    hot: tuple[HotSymbol, ...]
    modules: tuple[ModuleObjects, ...]
    not_found: tuple[HotSymbol, ...]
    notes: tuple[str, ...]
    runtime_bytes: int
    total_bytes: int
    single_library_bytes: int | None
    needed_libraries: tuple[str, ...]
    needed_symbols: tuple[str, ...]
    seconds: float
    cpu_seconds: float

    @property
    def module_bytes(self) -> tuple[int, int]:
        """Bytes of the input's code (without versions, with versions and dispatchers), without the selector."""
        single = sum(module.single_bytes for module in self.modules)
        return single, sum(module.multi_bytes for module in self.modules)

    @property
    def growth_percent(self) -> float:
        """Bytes that versions, dispatchers and runtime add, in percent of the single-version build."""
        summaries = [module.summary for module in self.modules]
        return growth_percent(summaries, self.runtime_bytes, self.total_bytes, self.single_library_bytes)


def build_program(request: BuildRequest, progress: Progress = lambda message: None) -> BuildResult:
    """Build the library. Raises: MavcgError for invalid input; no output is then written."""
    started, cpu_started = time.monotonic(), _cpu_seconds()
    if request.lto is not None:
        _refuse_in_bitcode(request)
    with scratch_folder("mavcg-build-") as folder:
        modules = _read_inputs(request, progress)
        assembly = _read_assembly(request)
        assembled = [name for module in assembly for name in module.function_names]
        hot, not_found = match_hot(request.hot, [module.text for module in modules], assembled)
        core_set = CoreSet(request.cores, small=request.runtime == "small")
        built = [_build_module(module, hot, core_set, request, folder, progress) for module in modules]
        built += [_build_assembly(module, hot, core_set, request, folder, progress) for module in assembly]
        _check_something_versioned(built, not_found)
        objects = [path for module in built for path in module.objects]
        facts: dict[str, Any] = {}
        single_bytes: int | None = None
        shared_note: tuple[str, ...] = ()
        if core_sets := list(dict.fromkeys(core_set for module in built for core_set in module.core_sets)):
            progress("compiling the run-time selector")
            selector = _selector_objects(core_sets, request, folder)
            facts = {"runtime": {path.stem: loaded_bytes(path) for path in selector}}
            if request.runtime == "small":
                facts[HAS_SETTINGS] = False
            objects += selector
            if request.runtime == "shared":
                from mavcg.runtime.shared import build_shared_runtime

                runtime_library = build_shared_runtime(request.target, folder)
                shared_note = (_shared_note(request, loaded_bytes(runtime_library)),)
                request = replace(request, link=replace(request.link, runtime=runtime_library))
        if request.lto is None and request.output.suffix != ".o":
            progress("linking the single-version library, to compare sizes")
            single_bytes = facts["single_library_bytes"] = _single_library_bytes(built, request, folder)
        if facts:
            facts["made_with"] = made_with(selector=request.runtime != "shared")
            note = folder / "library-note.o"
            assemble(note_assembly(facts, request.target), note, request.target, "the library's note")
            objects.append(note)
        progress(f"linking {request.output}")
        if request.lto is None:
            libraries, symbols = _link(objects, request)
            total_bytes = loaded_bytes(request.output)
        else:
            libraries, symbols, total_bytes = (), (), sum(map(loaded_bytes, objects))
            _write_bitcode(built, core_sets, facts, request, folder, modules[0].opt_level)
    notes = (*request.notes, *inexact_notes(hot), *_source_notes(modules), *_protection_notes(request), *shared_note)
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
    )


def _refuse_in_bitcode(request: BuildRequest) -> None:
    """Raise MavcgError for what versions in bitcode cannot have."""
    where = request.output.name
    if request.target.system == "macos":
        raise MavcgError(f"{where}: versions in bitcode are made for Linux and Android only; leave out -flto or .bc")
    if request.asm_units:
        raise MavcgError(
            f"{where}: bitcode holds no assembly; build {request.asm_units[0].source.name} as an object (.o)"
        )
    if request.runtime == "shared":
        raise MavcgError(f"{where}: --runtime shared is for machine code; bitcode has the selector in it, leave it out")


def _write_bitcode(
    built: Sequence[ModuleObjects],
    core_sets: Sequence[CoreSet],
    facts: dict[str, Any],
    request: BuildRequest,
    folder: Path,
    level: str | None,
) -> None:
    """Write the modules with their versions and the selector as one bitcode file, whose code a link generates.

    level: the program's -O level; None if unknown.
    """
    from mavcg.program.bitcode import link_ir, selector_in_groups, write_bitcode

    assert request.lto is not None
    texts = [text for module in built for text in module.ir_texts]
    if core_sets:
        texts += selector_in_groups(selector_ir(core_sets, load_cores(request.target.arch), request.target))
    notes = [module.summary for module in built if module.choices or module.refused] + ([facts] if facts else [])
    linked = link_ir(texts, [json_note(note) for note in notes])
    write_bitcode(
        linked,
        request.output,
        request.target,
        "3" if level == "fast" else level or "2",
        request.lto,
        request.code_flags,
    )


def _cpu_seconds() -> float:
    """Return the processor time of this process and of those that it waited for."""
    return sum(os.times()[:4])


def _selector_objects(core_sets: Sequence[CoreSet], request: BuildRequest, folder: Path) -> list[Path]:
    """Compile the selector with the tables of these core sets.

    Objects of a program may have several tables, and those that other builds add: they share the selector's code.
    """
    if request.runtime == "shared":
        unit = "shared_set"
    else:
        unit = "runtime" if len(core_sets) == 1 and request.output.suffix != ".o" else "linked_set"
    all_cores = load_cores(request.target.arch)
    tables = [runtime_object(core_set, all_cores, request.target, folder, unit) for core_set in core_sets]
    has_part = unit == "linked_set" and request.target.system != "macos"
    return [linked_selector(request.target, folder, request.runtime == "small"), *tables] if has_part else tables


def _single_library_bytes(built: Sequence[ModuleObjects], request: BuildRequest, folder: Path) -> int:
    """Return the loaded bytes of the library linked without versions."""
    out = folder / "single" / request.output.name
    out.parent.mkdir()
    objects = [path for module in built for path in module.single]
    link_shared(objects, out, request.target, _cxx_compiler(request), request.link)
    return loaded_bytes(out)


def _protection_notes(request: BuildRequest) -> list[str]:
    """Return a note if a linked object without branch protection removes the library's mark for it."""
    if request.lto or request.target.system == "macos" or request.output.suffix == ".o" or protection(request.output):
        return []
    return [
        f"{request.output.name} is not marked for branch protection: something in it was compiled without it, such as "
        "ziglang's libc++ or a file with flags of its own"
    ]


def _shared_note(request: BuildRequest, runtime_bytes: int) -> str:
    from mavcg.runtime.shared import SONAME

    command = f"mavcg runtime --target {request.target.zig_name} -o FOLDER"
    need = "its program must be linked with -lmavcg_rt" if request.output.suffix == ".o" else "it needs it at load"
    return f"the selector is {SONAME}, {runtime_bytes} bytes for all libraries of a process; {need}: {command}"


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


def _with_source_lines(reasons: Mapping[str, str], module: IrModule, request: BuildRequest) -> dict[str, str]:
    """Return function -> its reason after "FILE:LINE: ", where the front end tells the line of its definition.

    IR without debug information is made anew from its source, with lines.
    """
    from mavcg.passes.ir.source_lines import line_of_function

    text = module.text
    unit = next((unit for unit in request.units if unit.source == module.source), None)
    if "!DISubprogram(" not in text and unit is not None:
        text = compile_to_ir(unit, request.target, request.compiler, keep_debug=True).text
    places = {name: line_of_function(text, name) for name in reasons}
    return {name: f"{places[name]}: {reason}" if places[name] else reason for name, reason in reasons.items()}


def _build_module(
    module: IrModule,
    hot: Sequence[HotSymbol],
    core_set: CoreSet,
    request: BuildRequest,
    folder: Path,
    progress: Progress,
) -> ModuleObjects:
    names = [symbol.name for symbol in hot]
    if request.own:  # a function that its compiler inlined everywhere is not in the object: versions inline it, too
        present = defined_symbols(request.own.text)
        names = [name for name in names if name in present]
    elif module.foreign_openmp:  # all of the object would be clang's
        refuse_foreign_openmp(module, request.units[0].compiler[0])
    source = module.source.name

    def step() -> None:
        progress(f"compiling versions of {source}")

    if request.own:
        plain = request.own.plain
    else:
        plain = compile_plain(module.text, source, module.opt_level, request.target, folder, request.code_flags)
        step()
    options = VersionOptions(
        request.cores,
        request.target,
        request.workers,
        request.per_core_rounding,
        request.tuning,
        not module.foreign_openmp,
        request.lto is not None,
        allowed_growth(request.limits, loaded_bytes(plain)),
        request.limits.levels == ALL_LEVELS,
        request.code,
    )

    def next_levels(versions: VersionedModule, needs: VersionNeeds) -> VersionedModule:
        return with_next_levels(versions, needs, options, request.limits.levels, step)

    failures = VersionFailures()
    while True:
        versions = make_versions(
            module.text,
            source,
            module.opt_level,
            [name for name in names if name not in failures.reasons],
            options,
            step,
        )
        failed = {**failures.reasons, **{name: versions.refused[name] for name in versions.unplaced}}
        placed = _with_source_lines(failed, module, request) if failed else {}
        versions = replace(versions, refused={**versions.refused, **placed})
        try:
            module_objects = build_objects(
                plain,
                versions,
                module.opt_level,
                _object_options(request, core_set, folder, hot),
                request.code_flags,
                request.own,
                next_levels,
                step,
            )
            break
        except FunctionFailures as error:
            failures.reasons |= error.reasons
            failures.add_hosts(versions.hot.module, names)
            if not failures.reasons.keys() & set(versions.hot.hot):
                raise
    if module_objects.whole:
        refuse_foreign_openmp(module, request.units[0].compiler[0])
    if request.lto is not None and not module_objects.ir_texts:
        return replace(module_objects, ir_texts=(module.text,))
    return module_objects


def _build_assembly(
    module: "AsmModule",
    hot: Sequence[HotSymbol],
    core_set: CoreSet,
    request: BuildRequest,
    folder: Path,
    progress: Progress,
) -> ModuleObjects:
    from mavcg.program.asm_objects import build_asm_objects

    def step() -> None:
        progress(f"tuning {module.source}")

    options = _object_options(request, core_set, folder, hot)
    return build_asm_objects(module, [symbol.name for symbol in hot], request.tuning, options, step)


def _object_options(request: BuildRequest, core_set: CoreSet, folder: Path, hot: Sequence[HotSymbol]) -> ObjectOptions:
    shares = {symbol.name: symbol.share for symbol in hot}
    return ObjectOptions(
        core_set, request.target, folder, request.limits, request.gains, shares, request.workers, request.code
    )


def _check_something_versioned(built: Sequence[ModuleObjects], not_found: Sequence[HotSymbol]) -> None:
    if not any(module.choices or module.refused for module in built):
        raise NothingToVersion(
            "nothing to version: none of the hot functions is defined in the input; add the sources that hold them "
            f"({', '.join(s.given_name for s in not_found[:4]) or 'the profile names none'})"
        )


def _link(objects: Sequence[Path], request: BuildRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if request.output.suffix == ".o":
        link_relocatable(objects, request.output, request.target)
    else:
        link_shared(objects, request.output, request.target, _cxx_compiler(request), request.link)
    libraries, symbols = imports_of(request.output)
    return tuple(libraries), tuple(symbols)


def _cxx_compiler(request: BuildRequest) -> tuple[str, ...] | None:
    """Return the g++ whose C++ library the program uses: its units' compiler, for IR this machine's; None for zig's."""
    requested = request.compiler.headers or request.compiler.command
    own = [unit.compiler for unit in request.units if unit.is_cxx]
    for compiler in [requested] if requested else [*own, ("g++",)]:
        if not is_zig(compiler) and machine_matches(machine_of(compiler), request.target):
            return compiler
    return None
