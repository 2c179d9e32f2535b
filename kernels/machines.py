"""Descriptions of a build's cores for emitters (Machine), and the packing that all cores share."""

from collections.abc import Iterable, Sequence

from mavcg.errors import MavcgError
from mavcg.hardware.core import GENERIC, Core
from mavcg.runtime.needs import X86_BASE, llvm_needs, x86_needs
from mavcg.specs.kernel import Machine, Packing
from mavcg.toolchain.target import Target

# (word, bit) of CPUID, as in runtime/csrc/x86_needs.h.
_FMA, _AVX2, _AVX512 = (0, 12), (1, 5), ((1, 16), (1, 30), (1, 31))
_VNNI, _AVX512_BF16 = ((2, 11), (4, 4)), (4, 5)
_X86_VECTORS = {64: 32, 32: 16}  # bytes of a vector register -> number of registers


def packing_for(target: Target, machines: Iterable[Machine] = ()) -> Packing:
    """Return the packing of an architecture, for a build of these machines.

    Panels have the width of the longest f32 vector on x86, and of two NEON registers on AArch64. The 8-bit weights of a
    sum may lie in groups of eight terms if at least half of the cores multiply matrices of them: dot products of the
    other versions then unpack what they load.
    """
    matrix = [machine.matrix_product for machine in machines if machine.name != GENERIC]
    return Packing(16 if target.arch == "x86_64" else 8, 8 if matrix and 2 * sum(matrix) >= len(matrix) else 4)


def machines_for(cores: Sequence[Core], target: Target) -> dict[str, Machine]:
    """Return the machines of a build by label: "generic" and each core.

    Raises: MavcgError for an x86 core without AVX2 and FMA.
    """
    return {GENERIC: _generic(target)} | {core.name: _machine(core) for core in cores}


def _generic(target: Target) -> Machine:
    if target.arch == "x86_64":
        return _x86(GENERIC, X86_BASE, (), llvm_needs(X86_BASE, ()))
    return Machine(GENERIC, target.arch, "generic", ("+neon",))


def _machine(core: Core) -> Machine:
    if core.arch == "x86_64":
        return _x86(core.name, core.llvm_cpu, core.llvm_features, x86_needs(core))

    def has(extension: str) -> bool:
        return extension in core.extensions and f"-{extension}" not in core.llvm_features

    return Machine(
        core.name,
        core.arch,
        core.llvm_cpu,
        core.llvm_features,
        in_order=core.order == "in",
        dot_product=has("dotprod"),
        matrix_product=has("dotprod") and has("i8mm"),
    )


def _x86(name: str, cpu: str, features: tuple[str, ...], cpuid_words: tuple[int, ...]) -> Machine:
    def has(feature: tuple[int, int]) -> bool:
        word, bit = feature
        return bool(cpuid_words[word] >> bit & 1)

    if not (has(_FMA) and has(_AVX2)):
        raise MavcgError(f"--cores {name}: has no AVX2 or FMA, which a model library needs on x86; name later cores")
    vector_bytes = 64 if all(map(has, _AVX512)) else 32
    registers = _X86_VECTORS[vector_bytes]
    return Machine(
        name,
        "x86_64",
        cpu,
        features,
        vector_bytes,
        registers,
        dot_product=any(map(has, _VNNI)),
        bf16_dot=vector_bytes == 64 and has(_AVX512_BF16),
    )
