"""Read and write the CPU and features in a function's attribute text.

The bit-identity rule (docs/design/one-answer.md) decides about floating-point extensions: a version may use one
only where every version may, that is, where the program's own base features have it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mavcg.hardware.core import Core

# Features that only tune (schedule, fusion, preferences): ziglang writes its CPU's into every function, and there they
# would be forced onto every core. Clang writes none of them. Names as in LLVM's AArch64Features.td and X86.td.
_TUNING = re.compile(
    r"(fuse-|fast-|faster-|slow-|prefer-|avoid-|use-|tuning-|zcm-|zcz|no-zcz|lea-|disable-|arith-|false-deps-"
    r"|no-bypass-delay|aggressive-|max-interleave-)"
    r"|(a320|addr-lsl-slow-14|allow-light-256-bit|alternate-sextload-cvt-f32-pattern|alu-lsl-fast"
    r"|ascend-store-address|balance-fp-ops|branch-hint|branchfusion|no-sve-fp-ld1r|olympus|cmp-bcc-fusion|custom-cheap-as-move|enable-select-opt|exynos-cheap-as-move"
    r"|force-32bit-jump-tables|idivl-to-divb|idivq-to-divl|ldp-aligned-only|macrofusion|pad-short-functions"
    r"|predictable-select-expensive|sbb-dep-breaking|stp-aligned-only|store-pair-suppress|vzeroupper)$"
)
# On in every LLVM CPU of the architecture, so that switching one off is the program's wish and not zig's long list.
_BASELINE = {"aarch64": {"neon", "fp-armv8"}, "x86_64": {"x87", "mmx", "sse", "sse2"}}
# Half-precision and bfloat16 arithmetic rounds in other places with these than without.
_NARROW_FLOAT = {
    "aarch64": ("fullfp16", "fp16fml", "bf16"),
    "x86_64": ("avx512fp16", "avx512bf16", "avxneconvert"),
}
_CPU_ATTRIBUTES = re.compile(r' ?"(?:target-cpu|tune-cpu|target-features)"="[^"]*"')
# clang -O0 marks every function so; a version that is not optimised would be no version.
_UNOPTIMISED = re.compile(r"(?:^| )(?:optnone|noinline)(?= |$)")


@dataclass(frozen=True)
class CpuChoice:
    """The CPU attributes of a version: LLVM names, features each with its sign."""

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
    """Return the signed entries of "target-features" in an attribute text; () where there is none."""
    match = re.search(r'"target-features"="([^"]*)"', attributes)
    return tuple(entry for entry in match[1].split(",") if entry) if match else ()


def base_features(features: Iterable[str], arch: str) -> tuple[str, ...]:
    """Return the ISA and ABI features that a program requires of every core: those that it was compiled with.

    Negative entries stay only where they switch off what every LLVM CPU has (-neon of a kernel module); ziglang
    lists everything that its CPU lacks, which must not switch off what a core has.
    """
    return tuple(
        entry
        for entry in features
        if (entry[0] == "+" and not _TUNING.match(entry[1:])) or (entry[0] == "-" and entry[1:] in _BASELINE[arch])
    )


def choose_cpu(core: Core, base: Iterable[str], narrow_floats: bool) -> CpuChoice:
    """Return the cpu attributes of `core`'s version of a function: what the program demands comes last and wins, so
    that a core's "-dotprod" does not take away what the program was compiled with.

    base: `base_features` of the function. narrow_floats: whether the function computes in half or bfloat, so that
    extensions which round differently have to be left out unless the base has them.
    """
    base = tuple(base)
    left_out = [f"-{f}" for f in _NARROW_FLOAT[core.arch] if f"+{f}" not in base] if narrow_floats else []
    return CpuChoice(core.llvm_cpu, core.llvm_tune, tuple(dict.fromkeys([*core.llvm_features, *left_out, *base])))


def fused_types(arch: str, base: Iterable[str]) -> frozenset[str]:
    """Return the scalar types whose multiply-add is one fused instruction in every version: single and double always on
    AArch64, on x86 with FMA3; half with the extension for it."""
    base = tuple(base)
    if arch == "aarch64":
        return frozenset({"float", "double"} | ({"half"} if "+fullfp16" in base else set()))
    return frozenset({"float", "double"} if "+fma" in base else ()) | ({"half"} if "+avx512fp16" in base else set())


def without_cpu(attributes: str) -> str:
    """Return attribute text without the cpu attributes, and without clang -O0's marks where it has both of them."""
    text = _CPU_ATTRIBUTES.sub("", attributes)
    if re.search(r"(?:^| )optnone(?= |$)", text):
        text = _UNOPTIMISED.sub("", text)
    return text.strip()


def has_attribute(attributes: str, name: str) -> bool:
    """True if an enum attribute such as "cold" stands in the text; strings in quotes do not count."""
    return re.search(rf"(?:^|\s){name}(?=\s|\(|$)", re.sub(r'"[^"]*"', "", attributes)) is not None


def cpu_attributes_of(attributes: str) -> str:
    """Return the cpu attributes of an attribute text, as written: what the program itself was compiled for."""
    return " ".join(match.strip() for match in _CPU_ATTRIBUTES.findall(attributes))
