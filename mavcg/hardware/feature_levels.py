"""Feature levels of a core: the extensions with which it may have versions of its own, where a kernel hides the others.

A version runs only where the kernel offers what it uses. A core of which a vendor, a hypervisor or a boot option hides
extensions has the same MIDR_EL1, so that one core needs several versions: the selector takes the first that can run.

| level | what it has |
|---|---|
| cortex-a710-sve2 | all of the core, with the optional extensions |
| cortex-a710 | what the core's file has: the core's own level |
| cortex-a710-noi8mm | without 8-bit matrix products and bfloat16 |
| cortex-a710-v81 | of Armv8.1 and cryptography alone: without dot products and half precision, too |
| cortex-a710-base | what the program was built for |
| x86-64: -noamx | of libraries: without AMX's tiles, which the system must permit |
| x86-64: -avx2 | without AVX-512, too |
"""

from collections.abc import Iterable
from dataclasses import replace

from mavcg.errors import MavcgError
from mavcg.hardware.core import Core, LoadPolicy

NO_LEVELS, MODELLED_LEVELS, ALL_LEVELS = LEVELS = ("one", "modelled", "all")  # values of --versions

_MATRIX = frozenset({"bf16", "i8mm"})
_ARMV8_1 = frozenset({"aes", "crc", "lse", "rdm", "sha2"})
_TILES = ("amx",)  # beginnings of names
_AFTER_AVX2 = ("amx", "avx10", "avx512")
# What disabling the base of the architecture would take away; every program for x86-64 is built for these.
X86_64 = frozenset({"cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "x87"})


def parse_levels(text: str | None) -> str:
    """Return the levels that --versions names, MODELLED_LEVELS by default. Raises: MavcgError for another word."""
    if text is not None and text not in LEVELS:
        raise MavcgError(f"--versions {text}: is not {', '.join(LEVELS[:-1])} or {LEVELS[-1]}; give one of them")
    return text or MODELLED_LEVELS


def lower_levels(core: Core, extensions: Iterable[str]) -> tuple[Core, ...]:
    """Return the levels below a core, the richest first; a level that would equal the one above it is left out.

    extensions: LLVM's names of what code for the core may use: its own for AArch64, its compiler's for x86-64.
    """
    own = frozenset(extensions) - X86_64
    if core.arch == "x86_64":
        without = {"noamx": _TILES, "avx2": _AFTER_AVX2}
        kept = {
            suffix: frozenset(name for name in own if not name.startswith(begins)) for suffix, begins in without.items()
        }
    else:
        kept = {"noi8mm": own - _MATRIX, "v81": own & _ARMV8_1}
    levels: list[Core] = []
    above = own
    for suffix, names in {**kept, "base": frozenset[str]()}.items():
        if names < above:
            features = (*core.llvm_features, *(f"-{name}" for name in sorted(own - names)))
            levels.append(_level(core, suffix, features, names))
            above = names
    return tuple(levels)


def top_level(core: Core) -> Core | None:
    """Return the level with the core's optional extensions; None for a core without any.

    The machine passes do not know these extensions, nor do the models: its code stays as the compiler has it.
    """
    if not core.optional_extensions:
        return None
    off = {f"-{name}" for name in core.optional_extensions}
    features = tuple(entry for entry in core.llvm_features if entry not in off)
    suffix = "sve2" if "sve2" in core.optional_extensions else "sve"
    level = _level(core, suffix, features, (*core.extensions, *core.optional_extensions))
    return replace(level, policy=LoadPolicy())


def _level(core: Core, suffix: str, features: tuple[str, ...], extensions: Iterable[str]) -> Core:
    """Return a core without what it is recognised by: the selector recognises the core itself, and tries its levels."""
    return replace(
        core,
        name=f"{core.name}-{suffix}",
        level_of=core.name,
        llvm_features=features,
        extensions=tuple(sorted(extensions)),
        midr=(),
        x86_models=(),
        x86_kind=None,
        stand_ins=(),
    )
