"""Makes the compiler's jobs for the versions of a module's functions, with explicit rounding."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from mavcg.assembly.version_tuning import TuningJob, has_open_inline, why_untouched
from mavcg.files.store import NOTHING_KEPT, EntryStore
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.feature_levels import X86_64
from mavcg.passes.ir.arithmetic import (
    declare_fma,
    explicit_fmuladd,
    fuse_contracted,
    has_fast_math,
    has_fmuladd,
    has_narrow_floats,
    has_ordered_reduction,
    sums_of_products,
    without_fast_math,
)
from mavcg.passes.ir.attributes import base_features, choose_cpu, cpu_attributes_of, features_of, fused_types
from mavcg.passes.ir.clone import Version, make_version
from mavcg.passes.ir.definition_text import relabel_module, with_cpu
from mavcg.passes.ir.hot_module import HotModule, version_symbol
from mavcg.passes.ir.module_text import ModuleText, parse_module
from mavcg.runtime.needs import usable_extensions
from mavcg.toolchain.codegen import CodegenJob, Failure, canonical, compile_all
from mavcg.toolchain.target import Target


@dataclass(frozen=True)
class VersionJobs:
    """Makes the compiler's jobs for the versions of a module's functions.

    per_core_rounding: True if fast-math may round differently per core. code: where compiled code is kept.
    """

    hot: HotModule
    target: Target
    opt_level: str
    per_core_rounding: bool
    code: EntryStore = NOTHING_KEPT
    _made: dict[tuple[str, str], Version] = field(default_factory=dict, init=False, repr=False, compare=False)

    def version(self, name: str, label: str) -> Version:
        """Return the module of a version, as make_version does; it is made once."""
        if (name, label) not in self._made:
            self._made[name, label] = make_version(self.hot, name, label)
        return self._made[name, label]

    def may_round_differently(self, name: str) -> bool:
        """True if the optimiser may choose a function's rounding: by fast-math flags, or by llvm.fmuladd where every
        version has a fused multiply-add; where none has one, all round twice."""
        version = self.version(name, GENERIC)
        text = definitions_text(version.module)
        is_fused = has_fmuladd(text) and bool(self._fused_types(version))
        return not self.per_core_rounding and (has_fast_math(text) or is_fused)

    def rounds_differently(self, name: str, optimised: str) -> bool:
        """True if the optimiser has chosen the rounding, so that all versions must be made from the same optimised IR.

        With fast-math: always. With llvm.fmuladd: if it became part of an ordered reduction (vector or interleaved),
        where LLVM does not fuse it although it fuses the loop's remainder; elsewhere all versions fuse it alike.
        """
        version = self.version(name, GENERIC)
        if has_fast_math(definitions_text(version.module)):
            return True
        fused = self._fused_types(version)
        if not fused or has_ordered_reduction(optimised):
            return bool(fused)
        split = sums_of_products(optimised, fused)
        if not split:
            return False
        # The program's own sums of products count too, although no multiply-add is split there.
        text = self._explicit(version, str(with_cpu(version.module, self._cpu_texts(version, None))))
        [explicit] = compile_all([replace(self._job(name, GENERIC, text), emit="ir")], 1, lambda: None, self.code)
        return isinstance(explicit, Failure) or split > sums_of_products(explicit, fused)

    def optimise_once_job(self, name: str) -> CodegenJob:
        version = self.version(name, GENERIC)
        text = str(with_cpu(version.module, self._cpu_texts(version, None)))
        return replace(self._job(name, GENERIC, text), emit="ir")

    def version_job(self, name: str, core: Core | None, common: str | None) -> CodegenJob:
        label = core.name if core else GENERIC
        version = self.version(name, label)
        if common is None:
            text = str(with_cpu(version.module, self._cpu_texts(version, core)))
            return self._job(name, label, self._explicit(version, text))
        module = relabel_module(canonical(common), GENERIC, label)
        module = parse_module(fuse_contracted(str(module), self._fused_types(version)))
        texts = self._cpu_texts(version, core)
        fallback = texts[version.symbol]
        with_cpus = with_cpu(module, {s: texts.get(s, fallback) for s in module.definitions()})
        text = canonical(without_fast_math(self._explicit(version, str(with_cpus))))
        return replace(self._job(name, label, text), optimise=False)

    def tuning_job(self, name: str, core: Core, asm: str, generic_asm: str) -> TuningJob:
        version, generic = self.version(name, core.name), version_symbol(self.hot, name, GENERIC)
        ir = str(version.module)
        return TuningJob(core, asm, version.symbol, generic_asm, generic, why_untouched(ir), has_open_inline(ir))

    def limited_to(self, needs: Collection[str], name: str, core: Core, text: str) -> str:
        """Return a version's IR, whose attributes then allow what its code needs beyond its base, and nothing else.

        Code that is generated later, by a link, cannot need more. An extension that is switched off takes those along
        that build on it, and one that is switched on brings those that it builds on: so the needed ones come last.
        """
        version = self.version(name, core.name)
        own = {entry[1:] for origin in version.origins.values() for entry in self._base(origin) if entry[0] == "+"}
        usable = usable_extensions(core) | {e[1:] for e in base_features(core.llvm_features, core.arch)}
        off = [f"-{extension}" for extension in sorted(usable - set(needs) - own - X86_64)]
        on = [f"+{extension}" for extension in sorted(needs)]
        kept = [entry for entry in core.llvm_features if f"-{entry[1:]}" not in off and entry not in on]
        limited = replace(core, llvm_features=(*kept, *off, *on))
        texts = self._cpu_texts(version, limited)
        module = parse_module(text)
        return str(with_cpu(module, {s: texts.get(s, texts[version.symbol]) for s in module.definitions()}))

    def _explicit(self, version: Version, text: str) -> str:
        """Make arithmetic that LLVM leaves to the target explicit, unless rounding may differ per core."""
        if self.per_core_rounding:
            return text
        return declare_fma(explicit_fmuladd(text, self._fused_types(version)))

    def _fused_types(self, version: Version) -> frozenset[str]:
        """Return the scalar types whose multiply-add is fused in every version of this function."""
        by_function = [fused_types(self.target.arch, self._base(origin)) for origin in version.origins.values()]
        return frozenset.intersection(*by_function)

    def _base(self, origin: str) -> tuple[str, ...]:
        attributes = self.hot.attributes(origin)
        return base_features(features_of(attributes), self.target.arch)

    def _cpu_texts(self, version: Version, core: Core | None) -> dict[str, str]:
        if core is None:
            own = {s: self.hot.attributes(o) for s, o in version.origins.items()}
            return {symbol: cpu_attributes_of(attributes) for symbol, attributes in own.items()}
        narrow = has_narrow_floats(definitions_text(version.module))
        return {s: choose_cpu(core, self._base(o), narrow).text for s, o in version.origins.items()}

    def _job(self, name: str, label: str, text: str) -> CodegenJob:
        action = f"compiling {name} for {label}"
        return CodegenJob(text, self.target, action, self.opt_level)


def definitions_text(module: ModuleText) -> str:
    """Return the text of all function definitions of a module."""
    return "\n".join(entity.text for entity in module.entities.values() if entity.kind == "define")


def adding_products(hot: HotModule, functions: Sequence[str], arch: str) -> dict[str, bool]:
    """Return function that sums floating-point products -> True if every version has a fused multiply-add for them."""
    has_fused = {}
    for name in functions:
        version = make_version(hot, name, GENERIC)
        text = definitions_text(version.module)
        if has_fmuladd(text) or (" fmul " in text and re.search(r" f(add|sub) ", text)):
            attributes = hot.attributes(name)
            has_fused[name] = bool(fused_types(arch, base_features(features_of(attributes), arch)))
    return has_fused
