"""Read and write the CPU and features in a function's attribute text.

So that all versions compute the same bits (docs/design/one-answer.md), a version may use a floating-point extension
that rounds differently only if every version may: if the program was compiled with it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mavcg.hardware.core import Core
from mavcg.hardware.extensions import INVISIBLE

# Features that only tune (schedule, fusion, preferences). ziglang writes those of its CPU into every function, which
# would force them onto every core; clang does not write them. Names as in LLVM's AArch64Features.td and X86.td.
_TUNING = re.compile(
    r"(fuse-|fast-|faster-|slow-|prefer-|avoid-|use-|tuning-|zcm-|zcz|no-zcz|lea-|disable-|arith-|false-deps-"
    r"|no-bypass-delay|aggressive-|max-interleave-)"
    r"|(a320|addr-lsl-slow-14|allow-light-256-bit|alternate-sextload-cvt-f32-pattern|alu-lsl-fast"
    r"|ascend-store-address|balance-fp-ops|branch-hint|branchfusion|no-sve-fp-ld1r|olympus|cmp-bcc-fusion|custom-cheap-as-move|enable-select-opt|exynos-cheap-as-move"
    r"|force-32bit-jump-tables|idivl-to-divb|idivq-to-divl|ldp-aligned-only|macrofusion|pad-short-functions"
    r"|predictable-select-expensive|sbb-dep-breaking|stp-aligned-only|store-pair-suppress|vzeroupper)$"
)
# Features of every LLVM CPU of the architecture: only the program itself disables one, never zig's long list.
_BASELINE = {"aarch64": {"neon", "fp-armv8"}, "x86_64": {"x87", "mmx", "sse", "sse2"}}
# With these features, half-precision and bfloat16 arithmetic rounds at other points than without them.
_NARROW_FLOAT = {
    "aarch64": ("fullfp16", "fp16fml", "bf16"),
    "x86_64": ("avx512fp16", "avx512bf16", "avxneconvert"),
}
_CPU_ATTRIBUTES = re.compile(r' ?"(?:target-cpu|tune-cpu|target-features)"="[^"]*"')
# clang -O0 gives every function these; they are removed, because versions differ only when they are optimised.
_UNOPTIMISED = re.compile(r"(?:^| )(?:optnone|noinline)(?= |$)")


@dataclass(frozen=True)
class CpuChoice:
    """The CPU attributes of a version: LLVM's names of CPU and tuning CPU, and features with "+" or "-"."""

    cpu: str
    tune: str | None
    features: tuple[str, ...]

    @property
    def text(self) -> str:
        """The attributes as IR text."""
        parts = [f'"target-cpu"="{self.cpu}"']
        if self.tune:
            parts.append(f'"tune-cpu"="{self.tune}"')
        if self.features:
            parts.append(f'"target-features"="{",".join(self.features)}"')
        return " ".join(parts)


def features_of(attributes: str) -> tuple[str, ...]:
    """Return the entries of "target-features" in an attribute text, with their signs; () if it has none."""
    match = re.search(r'"target-features"="([^"]*)"', attributes)
    return tuple(entry for entry in match[1].split(",") if entry) if match else ()


def base_features(features: Iterable[str], arch: str) -> tuple[str, ...]:
    """Return the ISA and ABI features that a program was compiled with, and so requires of every core.

    A negative entry stays only if it disables a feature of every LLVM CPU (-neon in a kernel module); ziglang lists all
    features that its CPU lacks, which must not disable features of a core.
    """
    return tuple(
        entry
        for entry in features
        if (entry[0] == "+" and not _TUNING.match(entry[1:])) or (entry[0] == "-" and entry[1:] in _BASELINE[arch])
    )


def choose_cpu(core: Core, base: Iterable[str], narrow_floats: bool) -> CpuChoice:
    """Return the CPU attributes of `core`'s version of a function.

    base: `base_features` of the function; they come last and win, so that a core's "-dotprod" does not disable a
    feature that the program was compiled with. narrow_floats: True if the function computes in half or bfloat;
    extensions that round differently are then disabled unless the base has them. So are extensions that no instruction
    shows: the selector could not tell that the version depends on them.
    """
    base = tuple(base)
    names = [name for name in INVISIBLE if name in core.extensions]
    names += _NARROW_FLOAT[core.arch] if narrow_floats else ()
    left_out = [f"-{name}" for name in names if f"+{name}" not in base]
    return CpuChoice(core.llvm_cpu, core.llvm_tune, tuple(dict.fromkeys([*core.llvm_features, *left_out, *base])))


def fused_types(arch: str, base: Iterable[str]) -> frozenset[str]:
    """Return the scalar types whose multiply-add is one fused instruction in every version.

    float and double: on AArch64 always, on x86-64 with FMA3. half: with the extension for half-precision arithmetic.
    """
    base = tuple(base)
    if arch == "aarch64":
        return frozenset({"float", "double"} | ({"half"} if "+fullfp16" in base else set()))
    return frozenset({"float", "double"} if "+fma" in base else ()) | ({"half"} if "+avx512fp16" in base else set())


def without_cpu(attributes: str) -> str:
    """Return attribute text without CPU attributes, and without noinline and optnone if it has optnone (clang -O0)."""
    text = _CPU_ATTRIBUTES.sub("", attributes)
    if re.search(r"(?:^| )optnone(?= |$)", text):
        text = _UNOPTIMISED.sub("", text)
    return text.strip()


def has_attribute(attributes: str, name: str) -> bool:
    """True if an attribute text has the enum attribute `name`, such as "cold", outside of quoted strings."""
    return re.search(rf"(?:^|\s){name}(?=\s|\(|$)", re.sub(r'"[^"]*"', "", attributes)) is not None


def cpu_attributes_of(attributes: str) -> str:
    """Return the CPU attributes of an attribute text as written: the CPU that the program was compiled for."""
    return " ".join(match.strip() for match in _CPU_ATTRIBUTES.findall(attributes))
