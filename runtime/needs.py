"""Finds what versions need of the machine, from their code or their compiler, and the bits for it in the core table.

The bits of x86-64 are those of csrc/x86_needs.h, which csrc/needs.c compares with CPUID and XCR0.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.extensions import HWCAP_BITS, hwcap_words
from mavcg.runtime.amalgamation import SOURCES
from mavcg.runtime.coreset import NEED_WORDS, CoreSet
from mavcg.toolchain.kept_answers import kept_answer
from mavcg.toolchain.zig import zig_command

if TYPE_CHECKING:
    from mavcg.specs.kernel import Machine

X86_BASE = "x86-64-v3"  # LLVM's name of what the generic versions of kernels are compiled for
_LINE = re.compile(r"^need (\d+) (\d+) (\S+)$", re.MULTILINE)
_TILES = re.compile(r"^tiles (\S+)$", re.MULTILINE)


def needs_words(core_set: CoreSet) -> dict[str, tuple[int, ...]]:
    """Return the bits that each core's version needs, as table_text takes them.

    Raises: MavcgError for an extension that no bit shows.
    """
    words = {}
    for core, needs in zip(core_set.cores, core_set.needs, strict=False):
        if core.arch == "aarch64":
            words[core.name] = (*hwcap_words(needs), *(0,) * (NEED_WORDS - 4))
        else:
            words[core.name] = cpuid_words(needs)
    return words


def cpuid_words(extensions: Iterable[str]) -> tuple[int, ...]:
    """Return the bits that these extensions of x86-64 need, by LLVM's names.

    Raises: MavcgError for an extension that no bit shows.
    """
    words = [0] * NEED_WORDS
    for name in extensions:
        if name not in cpuid_bits():
            raise MavcgError(
                f"extension {name}: has no bit in the words of CPUID that are read; leave it out of the code, "
                f'or add "-{name}" to llvm_features of the core'
            )
        for word, bit in cpuid_bits()[name]:
            words[word] |= 1 << bit
    return tuple(words)


@cache
def cpuid_bits() -> dict[str, list[tuple[int, int]]]:
    """Return LLVM's name of an extension -> its bits, as (word, bit)."""
    bits: dict[str, list[tuple[int, int]]] = {}
    for word, bit, name in _LINE.findall((SOURCES / "x86_needs.h").read_text()):
        bits.setdefault(name, []).append((int(word), int(bit)))
    return bits


def base_needs(arch: str, extensions: Iterable[str] = ()) -> tuple[int, ...]:
    """Return the bits that every version of a library needs, in words as of needs_words.

    extensions: LLVM's names of those that its generic versions use beyond Armv8.0-A, or X86_BASE. Raises: MavcgError
    for an extension that no bit shows.
    """
    if arch == "aarch64":
        return (*hwcap_words(extensions), *(0,) * (NEED_WORDS - 4))
    words = zip(llvm_needs(X86_BASE, ()), cpuid_words(extensions), strict=True)
    return tuple(base | own for base, own in words)


def base_extensions(generic: "Machine") -> tuple[str, ...]:
    """Return LLVM's names of the extensions that a generic version may use beyond Armv8.0-A, or X86_BASE."""
    if generic.arch == "x86_64":
        own = compiler_extensions(generic.llvm_cpu, generic.llvm_features)
        return tuple(sorted(own - compiler_extensions(X86_BASE, ())))
    return tuple(name[1:] for name in generic.llvm_features if name[0] == "+" and name[1:] in HWCAP_BITS)


def kernel_extensions(objects: Iterable[Path], allowed: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Return the extensions that kernels' versions need beyond what all generic versions may use, by linkage name.

    They are read from the machine code. allowed: as of allowed_extensions; where code is not all understood, it counts.
    """
    from mavcg.objects.code_extensions import function_extensions  # NumPy, which detection does without

    found = {name: needs for path in objects for name, needs in function_extensions(path).items()}
    base = allowed.get(GENERIC, frozenset())
    return {
        name: (allowed.get(name.rpartition(".")[2], frozenset()) if needs is None else needs) - base
        for name, needs in found.items()
    }


def allowed_extensions(cores: "Iterable[Core | Machine]") -> dict[str, frozenset[str]]:
    """Return version -> extensions that the compiler may use for it, for x86-64's kernels; empty for AArch64.

    All of AArch64's code is understood: every instruction has the same size.
    """
    own = {c.name: kernel_compiler_extensions(c.llvm_cpu, c.llvm_features) for c in cores if c.arch == "x86_64"}
    return {GENERIC: compiler_extensions(X86_BASE, ()), **own} if own else {}


def x86_needs(core: Core) -> tuple[int, ...]:
    """Return the CPUID bits of the instruction sets that code for this core may use, in words as in csrc/x86_needs.h.

    Raises: ToolError if the compiler does not know the core's LLVM CPU.
    """
    return llvm_needs(core.llvm_cpu, core.llvm_features)


def llvm_needs(cpu: str, features: tuple[str, ...]) -> tuple[int, ...]:
    """Return the CPUID bits, as x86_needs, for an LLVM CPU and features in LLVM's spelling."""
    return compiler_needs(_zig_cpu(cpu, features))


def compiler_extensions(cpu: str, features: tuple[str, ...]) -> frozenset[str]:
    """Return LLVM's names of the instruction sets that x86_needs checks for an LLVM CPU and features."""
    return frozenset(name for _, _, name in _needs_lines(_zig_cpu(cpu, features)))


def tile_extensions(cpu: str, features: tuple[str, ...]) -> frozenset[str]:
    """Return LLVM's names of the instruction sets with tile registers that an LLVM CPU and features have.

    Only kernels that name their instructions use them, where the system permits it (csrc/tile_permission.h).
    """
    return frozenset(_TILES.findall(_listed_needs(_zig_cpu(cpu, features))))


def usable_extensions(core: Core) -> frozenset[str]:
    """Return LLVM's names of the extensions that the compiler may use for a core, or for a feature level of one."""
    if core.arch == "aarch64" or core.level_of:
        return frozenset(core.extensions)
    return compiler_extensions(core.llvm_cpu, core.llvm_features)


def kernel_usable_extensions(core: Core) -> frozenset[str]:
    """Return LLVM's names of the extensions that a library's kernels may use for a core, or for a feature level."""
    if core.arch == "aarch64" or core.level_of:
        return frozenset(core.extensions)
    return kernel_compiler_extensions(core.llvm_cpu, core.llvm_features)


def kernel_compiler_extensions(cpu: str, features: tuple[str, ...]) -> frozenset[str]:
    """Return LLVM's names of the extensions that x86-64's kernels may use for an LLVM CPU and features."""
    return compiler_extensions(cpu, features) | tile_extensions(cpu, features)


def _zig_cpu(cpu: str, features: tuple[str, ...]) -> str:
    """Return a CPU with features in ziglang's spelling, as icelake_server or znver4-avx512f-sse4_2."""
    changes = (entry[0] + entry[1:].replace("-", "_").replace(".", "_") for entry in features)
    return cpu.replace("-", "_") + "".join(changes)


def compiler_needs(cpu: str) -> tuple[int, ...]:
    """Return the CPUID bits, as x86_needs, for a CPU in ziglang's spelling."""
    words = [0] * NEED_WORDS
    for word, bit, _ in _needs_lines(cpu):
        words[word] |= 1 << bit
    return tuple(words)


def _needs_lines(cpu: str) -> tuple[tuple[int, int, str], ...]:
    """Return (word, bit, name) of each line that csrc/x86_needs.h has for a CPU in ziglang's spelling."""
    return tuple((int(word), int(bit), name) for word, bit, name in _LINE.findall(_listed_needs(cpu)))


@cache
def _listed_needs(cpu: str) -> str:
    """Return the lines that csrc/x86_needs.h has for a CPU in ziglang's spelling."""
    action = f"listing the instruction sets of {cpu}"
    source = SOURCES / "x86_needs.h"
    command = [*zig_command("cc"), "-target", "x86_64-linux-musl", f"-mcpu={cpu}", "-E", "-P", str(source)]
    return kept_answer(command, action, source.read_bytes())
