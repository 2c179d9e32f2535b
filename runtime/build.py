"""Compile the selector of a core set for a target."""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.store import kept_file, own_code_folder
from mavcg.hardware.core import Core
from mavcg.runtime.amalgamation import unit_text, write_unit
from mavcg.runtime.coreset import RUNTIME_ABI, CoreSet, table_text
from mavcg.runtime.needs import needs_words
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, package_version, protection_flags, run_zig, zig_program

# The runtime needs no libc: freestanding keeps the compiler from putting in calls of memset.
RUNTIME_FLAGS = (
    "-std=c11",
    "-Os",
    "-fPIC",
    "-ffreestanding",
    "-fno-builtin",
    "-fvisibility=hidden",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-Wall",
    "-Wextra",
    "-Werror",
)


def runtime_object(
    core_set: CoreSet, all_cores: Mapping[str, Core], target: Target, out_dir: Path, unit: str = "runtime"
) -> Path:
    """Compile the runtime of a core set, and return the object's path, out_dir/mavcg_runtime_<tag>.o.

    unit: "runtime" for a selector of its own; "linked_set" or "shared_set" (amalgamation.py) for the set's part only,
    which calls linked_selector's object or libmavcg_rt.so; these are for ELF targets. A small core set gets the small
    unit in place of the first two.
    all_cores: every known core by name, for stand-ins and for MAVCG_CPU_MAP. All undefined symbols of the object are
    weak, so that it links with any libc, or none.
    Raises: MavcgError if a core of the set has another architecture than the target; ToolError if compilation fails.
    """
    for core in core_set.cores:
        if core.arch != target.arch:
            raise MavcgError(
                f"core {core.name}: is {core.arch}, and --target {target.zig_name} is not; name cores of one arch"
            )
    same_arch = {name: core for name, core in all_cores.items() if core.arch == target.arch}
    out = out_dir / f"mavcg_runtime_{core_set.tag}.o"
    table = table_text(core_set, same_arch, needs_words(core_set))
    if target.system == "macos":  # Mach-O has no groups; its weak definitions merge one by one
        return compile_runtime("runtime", table, target, out)
    group = {"runtime": "mavcg_runtime", "linked_set": "mavcg_set", "shared_set": "mavcg_shared"}[unit]
    if core_set.small:
        unit = {"runtime": "small", "linked_set": "small_set"}[unit]
    return _cached_object(unit, table, target, f"{group}_{core_set.tag}", out)


def linked_selector(target: Target, out_dir: Path, small: bool = False) -> Path:
    """Compile the selector that several core sets of one link share (unit linked_set); return the object's path.

    small: True for small core sets.
    """
    name, unit = _linked_selector_name(small), "small_selector" if small else "linked_selector"
    return _cached_object(unit, "", target, name, out_dir / f"{name}.o")


def _linked_selector_name(small: bool) -> str:
    return f"mavcg_selector_{RUNTIME_ABI}{'_small' * small}"


def selector_ir(core_sets: Sequence[CoreSet], all_cores: Mapping[str, Core], target: Target) -> dict[str, str]:
    """Return comdat group -> LLVM IR: the selector that core sets of a link share, and each set's table; for ELF.

    Each module's definitions are to go into its group, which is that of the same code in native objects. Either all
    core sets are small or none.
    """
    small = any(core_set.small for core_set in core_sets)
    units = {_linked_selector_name(small): ("small_selector" if small else "linked_selector", "")}
    for core_set in core_sets:
        same_arch = {name: core for name, core in all_cores.items() if core.arch == target.arch}
        table = table_text(core_set, same_arch, needs_words(core_set))
        units[f"mavcg_set_{core_set.tag}"] = ("small_set" if small else "linked_set", table)
    more = ("-S", "-emit-llvm", "-Wno-unused-command-line-argument")
    return {group: _cached_text(unit, table, target, more) for group, (unit, table) in units.items()}


def _cached_text(unit: str, table: str, target: Target, more_flags: tuple[str, ...]) -> str:
    """Compile a unit to text, or read it from the cache."""

    def compile_text(path: Path) -> None:
        compile_runtime(unit, table, target, path, more_flags)

    parts = _content(unit, table, target, " ".join(more_flags))
    with own_code_folder() as folder:
        return kept_file(folder, f"selector-{parts}.ll", compile_text).read_text()


def _cached_object(unit: str, table: str, target: Target, group: str, out: Path) -> Path:
    """Compile a unit with all sections in one group to the file out, or copy it from the cache."""

    def compile_in_group(object_file: Path) -> None:
        more = ("-S", "-Wno-unused-command-line-argument")
        assembly = compile_runtime(unit, table, target, object_file.with_suffix(".s"), more)
        assembly.write_text(in_one_group(assembly.read_text(), group))
        # By its name alone: the assembler writes the path it was given into the object.
        arguments = [*machine_flags(target), "-g0", "-c", assembly.name, "-o", object_file.name]
        run_zig("cc", arguments, "assembling the runtime", object_file.parent)
        assembly.unlink()

    # The selector depends on the core set alone, and takes longer to compile than a small program's versions.
    content = _content(unit, table, target, group)
    out.parent.mkdir(parents=True, exist_ok=True)
    with own_code_folder() as folder:
        shutil.copyfile(kept_file(folder, f"selector-{content}.o", compile_in_group), out)
    return out


def _content(unit: str, table: str, target: Target, form: str) -> str:
    """Return a digest of all that a compiled unit depends on; form: its group, or how it is written."""
    flags = [*machine_flags(target), *PLAIN_CODE_FLAGS, *protection_flags(target), *RUNTIME_FLAGS]
    parts = [unit_text(unit), table, target.zig_name, form, " ".join(flags), zig_program(), package_version("ziglang")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def compile_runtime(unit: str, table: str, target: Target, out: Path, more_flags: tuple[str, ...] = ("-c",)) -> Path:
    """Compile a unit of amalgamation.py with this core table to the file out, and return out.

    The file appears whole or not at all. more_flags: further flags of the compiler.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(".mavcg-runtime-", out.parent) as scratch:
        (Path(scratch) / "mavcg_core_table.h").write_text(table)
        made = Path(scratch) / out.name
        flags = [*machine_flags(target), *PLAIN_CODE_FLAGS, *protection_flags(target), *RUNTIME_FLAGS, *more_flags]
        arguments = [*flags, f"-I{scratch}", str(write_unit(unit, scratch)), "-o", str(made)]
        run_zig("cc", arguments, f"compiling the runtime for {target.zig_name}")
        os.replace(made, out)
    return out


_SECTION = re.compile(r'^(\s*\.section\s+[^,\n]+,"[a-zA-Z]*)",([@%]\w+)(,\d+)?$', re.MULTILINE)


def in_one_group(assembly: str, name: str) -> str:
    """Return ELF assembly with every section in the group `name`.

    A linker keeps one copy of a group: if several objects contain the runtime, the program has it once.

    .section .text.f,"ax",@progbits     ->     .section .text.f,"axG",@progbits,name,comdat
    """
    return _SECTION.sub(lambda m: m[0] if ".note" in m[1] else f'{m[1]}G",{m[2]}{m[3] or ""},{name},comdat', assembly)


def machine_flags(target: Target) -> list[str]:
    """Return the compiler's flags for the target.

    For Android, clang always calls compiler-rt for atomics on aarch64 (no flag of zig's prevents it). The runtime needs
    no libc, so it is compiled as for musl, without x18, which Android's ABI reserves, and without calls of bcmp, which
    bionic lacks; MAVCG_BIONIC says which C library it will run with.
    """
    if target.system != "linux-android":
        return ["-target", target.zig_name]
    reserved = ["-ffixed-x18"] if target.arch == "aarch64" else []
    return ["-target", f"{target.arch}-linux-musl", "-DMAVCG_BIONIC", "-fno-builtin-bcmp", *reserved]
