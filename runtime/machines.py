"""Descriptions of a build's cores for emitters (Machine), and the packing that all cores share."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from mavcg.errors import MavcgError
from mavcg.hardware.core import GENERIC, Core
from mavcg.runtime.needs import X86_BASE, llvm_needs, tile_extensions, x86_needs
from mavcg.specs.kernel import BF16_PAIR_TERMS, BF16_TERMS, BF16_TILE_TERMS, Machine, Packing
from mavcg.toolchain.target import Target, default_target

# (word, bit) of CPUID, as in runtime/csrc/x86_needs.h.
_FMA, _AVX2, _AVX512 = (0, 12), (1, 5), ((1, 16), (1, 30), (1, 31))
_VNNI, _AVX512_BF16 = ((2, 11), (4, 4)), (4, 5)
_AVX512_FP16 = (3, 23)
# LLVM CPUs on which VDPBF16PS is taken to beat f32 multiply-adds: Zen 4 and later. An Emerald Rapids takes four times
# as long for it as for a multiply-add, in independent instructions of 64 bytes, and it has but twice the products.
_FAST_BF16_PAIRS = "znver"
# LLVM CPUs that start two multiply-adds of 64 bytes a cycle; of others with AVX-512 one is assumed. Servers of Intel
# have a second unit of 64 bytes, at port 5, where client cores only join two pipes of 32 bytes; Zen 4 takes two cycles
# of such pipes. Source: LLVM's X86ScheduleZnver4.td; Intel, "64 and IA-32 Architectures Optimization Reference Manual",
# 248966, chapter on AVX-512.
_TWO_WIDE_PIPES = (
    *("skylake-avx512", "cascadelake", "cooperlake", "icelake-server"),
    *("sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d"),
    "znver5",
)
HALF = "fullfp16"  # LLVM's name of FEAT_FP16: vectors of f16 in arithmetic
# What the generic version is compiled for where kernels compute in f16: LLVM's CPU and features.
_HALF_BASE = {"aarch64": ("generic", ("+neon", f"+{HALF}")), "x86_64": ("x86-64-v4", ("+avx512fp16",))}
# Return addresses are signed in a form that every core executes. `retaa` saves an instruction of a call, but keeps all
# kernels of a library from running where a kernel of the system hides pointer authentication.
_NO_RETAA = ("-pauth",)
_X86_VECTORS = {64: 32, 32: 16}  # bytes of a vector register -> number of registers

# Channels of AArch64's panels of products of one pixel: eight f32 vectors, or four of f16, whose multiply-adds hide
# their latency.
PIXEL_LANES = 32


def packing_for(target: Target, machines: Iterable[Machine] = ()) -> Packing:
    """Return the packing of an architecture, for a build of these machines.

    Panels have the width of the longest f32 vector on x86, and of two NEON registers on AArch64. The 8-bit weights of a
    sum may lie in groups of eight terms if at least half of the cores multiply matrices of them: dot products of the
    other versions then unpack what they load. The bf16 weights lie in groups if all cores multiply pairs,
    matrices or tiles of bf16: a core without the instruction takes others for the same bits, which is left to the
    generic version. Runs of 8-bit inputs are filled for tiles if any core has them. 8-bit weights may be in two parts
    if no core of x86 has dot products, which need the whole ones. On AArch64 products of one pixel have wider panels.
    Winograd's blocks are long on x86, where that was measured; a phone's threads would need twice the scratch.
    """
    named = [machine for machine in machines if machine.name != GENERIC]
    matrix = [machine.matrix_product for machine in named]
    return Packing(
        16 if target.arch == "x86_64" else 8,
        8 if matrix and 2 * sum(matrix) >= len(matrix) else 4,
        _bf16_terms(target, named) if named else 1,
        any(machine.int8_tiles for machine in named),
        target.arch == "x86_64" and bool(named) and not any(machine.dot_product for machine in named),
        0 if target.arch == "x86_64" else PIXEL_LANES,
        target.arch == "x86_64",
    )


def _bf16_terms(target: Target, named: Sequence[Machine]) -> int:
    """Return the most terms of a bf16 sum that an instruction of all these machines takes at once."""
    if all(machine.bf16_tiles for machine in named):
        return BF16_TILE_TERMS
    if all(machine.bf16_dot for machine in named):
        return BF16_PAIR_TERMS if target.arch == "x86_64" else BF16_TERMS
    return 1


def block_of(machine: Machine) -> int:
    """Return the channels per block of CHWc layouts in libraries for the machine's architecture."""
    return packing_for(default_target(machine.arch)).lanes


def machines_for(cores: Sequence[Core], target: Target) -> dict[str, Machine]:
    """Return the machines of a build by label: "generic" and each core.

    Raises: MavcgError for an x86 core without AVX2 and FMA.
    """
    return {GENERIC: _generic(target)} | {core.name: _machine(core) for core in cores}


def cores_without_half(cores: Sequence[Core]) -> tuple[str, ...]:
    """Return the names of the cores that have no arithmetic of f16 vectors (FEAT_FP16, AVX512-FP16)."""
    return tuple(core.name for core in cores if not _has_half(core))


def _has_half(core: Core) -> bool:
    if core.arch == "x86_64":
        return _has(x86_needs(core), _AVX512_FP16)
    return HALF in core.extensions and f"-{HALF}" not in core.llvm_features


def with_half(machine: Machine) -> Machine:
    """Return a build's machine for kernels that compute in f16, which every version then does.

    Conversions between operations, which a machine without the arithmetic needs, would not round a fused multiply-add
    as the instruction does. So the generic version has the arithmetic, too, and the library is refused where it is not
    offered. A core's own version has it by the core's features.
    """
    if machine.name != GENERIC:
        return machine
    cpu, features = _HALF_BASE[machine.arch]
    if machine.arch == "x86_64":
        return _x86(GENERIC, cpu, features, llvm_needs(cpu, features))
    return replace(machine, llvm_cpu=cpu, llvm_features=features, half=True)


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
        (*core.llvm_features, *_NO_RETAA) if has("pauth") else core.llvm_features,
        in_order=core.order == "in",
        dot_product=has("dotprod"),
        matrix_product=has("dotprod") and has("i8mm"),
        bf16_dot=has("bf16"),
        half=has(HALF),
    )


def _x86(name: str, cpu: str, features: tuple[str, ...], cpuid_words: tuple[int, ...]) -> Machine:
    has = partial(_has, cpuid_words)
    if not (has(_FMA) and has(_AVX2)):
        raise MavcgError(f"--cores {name}: has no AVX2 or FMA, which a model library needs on x86; name later cores")
    vector_bytes = 64 if all(map(has, _AVX512)) else 32
    registers = _X86_VECTORS[vector_bytes]
    tiles = tile_extensions(cpu, features) if vector_bytes == 64 else frozenset[str]()
    return Machine(
        name,
        "x86_64",
        cpu,
        features,
        vector_bytes,
        registers,
        dot_product=any(map(has, _VNNI)),
        bf16_dot=vector_bytes == 64 and has(_AVX512_BF16) and cpu.startswith(_FAST_BF16_PAIRS),
        int8_tiles={"amx-tile", "amx-int8"} <= tiles,
        bf16_tiles={"amx-tile", "amx-bf16"} <= tiles,
        half=vector_bytes == 64 and has(_AVX512_FP16),
        two_wide_pipes=vector_bytes == 64 and cpu in _TWO_WIDE_PIPES,
    )


def _has(cpuid_words: Sequence[int], feature: tuple[int, int]) -> bool:
    word, bit = feature
    return bool(cpuid_words[word] >> bit & 1)
