"""Makes the output of a build: its objects with selector and note, linked as a library, an object or bitcode."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.objects.elf import note_assembly as json_note
from mavcg.objects.inspection import HAS_SETTINGS, imports_of, loaded_bytes, note_assembly, protection
from mavcg.objects.library import link_relocatable, link_shared
from mavcg.profiles.load import load_cores
from mavcg.program.build_values import BuildRequest, Progress
from mavcg.program.objects import ModuleObjects, own_level
from mavcg.program.sources.headers import is_zig, machine_matches, machine_of
from mavcg.runtime.build import linked_selector, runtime_object, selector_ir
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.made_with import made_with
from mavcg.toolchain.codegen import assemble


def refuse_in_bitcode(request: BuildRequest) -> None:
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


def selector_objects(
    core_sets: Sequence[CoreSet], request: BuildRequest, folder: Path, progress: Progress
) -> list[Path]:
    """Compile the selector with the tables of these core sets; return its objects, none if no function is dispatched.

    Objects of a program may have several tables, and those that other builds add: they share the selector's code.
    """
    if not core_sets:
        return []
    progress("compiling the run-time selector")
    if request.runtime == "shared":
        unit = "shared_set"
    else:
        unit = "runtime" if len(core_sets) == 1 and request.output.suffix != ".o" else "linked_set"
    all_cores = load_cores(request.target.arch)
    tables = [runtime_object(core_set, all_cores, request.target, folder, unit) for core_set in core_sets]
    has_part = unit == "linked_set" and request.target.system != "macos"
    return [linked_selector(request.target, folder, request.runtime == "small"), *tables] if has_part else tables


def with_shared_runtime(request: BuildRequest, folder: Path) -> tuple[BuildRequest, tuple[str, ...]]:
    """Return the request with the shared selector among the libraries of its link, and a note for the user."""
    from mavcg.runtime.shared import SONAME, build_shared_runtime

    library = build_shared_runtime(request.target, folder)
    command = f"mavcg runtime --target {request.target.zig_name} -o FOLDER"
    need = "its program must be linked with -lmavcg_rt" if request.output.suffix == ".o" else "it needs it at load"
    note = f"the selector is {SONAME}, {loaded_bytes(library)} bytes for all libraries of a process; {need}: {command}"
    return replace(request, link=replace(request.link, runtime=library)), (note,)


def single_library_bytes(
    built: Sequence[ModuleObjects], request: BuildRequest, folder: Path, progress: Progress
) -> int | None:
    """Return the loaded bytes of the library linked without versions; None for an object and bitcode."""
    if request.lto is not None or request.output.suffix == ".o":
        return None
    progress("linking the single-version library, to compare sizes")
    out = folder / "single" / request.output.name
    out.parent.mkdir()
    objects = [path for module in built for path in module.single]
    link_shared(objects, out, request.target, _cxx_compiler(request), request.link)
    return loaded_bytes(out)


def library_facts(selector: Sequence[Path], single_bytes: int | None, request: BuildRequest) -> dict[str, Any]:
    """Return the document of the output's own note, which `mavcg inspect` reads; {} for none."""
    facts: dict[str, Any] = {}
    if selector:
        facts["runtime"] = {path.stem: loaded_bytes(path) for path in selector}
        if request.runtime == "small":
            facts[HAS_SETTINGS] = False
    if single_bytes is not None:
        facts["single_library_bytes"] = single_bytes
    return {**facts, "made_with": made_with(selector=request.runtime != "shared")} if facts else {}


def note_objects(facts: Mapping[str, Any], request: BuildRequest, folder: Path) -> list[Path]:
    """Return the object of the output's own note; none without facts."""
    if not facts:
        return []
    note = folder / "library-note.o"
    assemble(note_assembly(facts, request.target), note, request.target, "the library's note")
    return [note]


def link_output(objects: Sequence[Path], request: BuildRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Link the output; return the libraries and symbols that it imports."""
    if request.output.suffix == ".o":
        link_relocatable(objects, request.output, request.target)
    else:
        link_shared(objects, request.output, request.target, _cxx_compiler(request), request.link)
    libraries, symbols = imports_of(request.output)
    return tuple(libraries), tuple(symbols)


def write_bitcode_output(
    built: Sequence[ModuleObjects],
    core_sets: Sequence[CoreSet],
    facts: Mapping[str, Any],
    request: BuildRequest,
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
    write_bitcode(linked, request.output, request.target, own_level(level), request.lto, request.code_flags)


def _cxx_compiler(request: BuildRequest) -> tuple[str, ...] | None:
    """Return the g++ whose C++ library the program uses: its units' compiler, for IR this machine's; None for zig's."""
    requested = request.compiler.headers or request.compiler.command
    own = [unit.compiler for unit in request.units if unit.is_cxx]
    for compiler in [requested] if requested else [*own, ("g++",)]:
        if not is_zig(compiler) and machine_matches(machine_of(compiler), request.target):
            return compiler
    return None


def protection_notes(request: BuildRequest) -> list[str]:
    """Return a note if a linked object without branch protection removes the library's mark for it."""
    if request.lto or request.target.system == "macos" or request.output.suffix == ".o" or protection(request.output):
        return []
    return [
        f"{request.output.name} is not marked for branch protection: something in it was compiled without it, such as "
        "ziglang's libc++ or a file with flags of its own"
    ]
