"""Facts about a core type: how it is identified, its options for LLVM, figures with units and sources."""

from dataclasses import dataclass

MODEL_ERROR = "model.error"  # key of the fact, in percent
# Groups of published figures of silicon that the pipeline model is compared with, by the prefix of their facts' keys.
# Each group has the facts error, figures, held_out_error and held_out_figures.
SILICON_GROUPS = {"": "calls and loops", "changes_": "changes in time", "instructions_": "instructions"}
INSTRUCTIONS = "instructions"
SILICON_UNITS = {
    f"model.{prefix}{key}": unit
    for prefix in SILICON_GROUPS
    for key, unit in (
        ("error", "percent"),
        ("figures", "figures"),
        ("held_out_error", "percent"),
        ("held_out_figures", "figures"),
    )
}
# Of kernels of projects that are held out whole (bench/silicon/blind.toml).
BLIND_ERROR, BLIND_FIGURES = "model.blind_error", "model.blind_figures"
SILICON_UNITS |= {BLIND_ERROR: "percent", BLIND_FIGURES: "figures"}
CONFIDENCE = "model.confidence"
GRADES = ("measured by instruction", "vendor's guide", "LLVM's table", "assumed")  # of a core's timing, best first
GENERIC = "generic"  # label of the version that every core can run; cores unknown to a library run it


@dataclass(frozen=True)
class Midr:
    """A rule by which MIDR_EL1 identifies a core.

    Fields as in the Arm Architecture Reference Manual, MIDR_EL1: implementer [31:24], variant [23:20], part [15:4]. The
    range of variants includes both ends: an A55 r0 (variant 0) behaves as an A53, r1 and later do not.
    """

    implementer: int
    part: int
    variant_min: int = 0
    variant_max: int = 15

    def matches(self, midr: int) -> bool:
        """Return True if this 32-bit MIDR_EL1 value is this core's."""
        variant = midr >> 20 & 0xF
        return (
            midr >> 24 & 0xFF == self.implementer
            and midr >> 4 & 0xFFF == self.part
            and self.variant_min <= variant <= self.variant_max
        )


@dataclass(frozen=True)
class X86Model:
    """The x86 processors with a core type, as CPUID and /proc/cpuinfo identify them.

    vendor: "GenuineIntel" or "AuthenticAMD". family, models: display family and models, with the extended fields added.
    """

    vendor: str
    family: int
    models: tuple[int, ...]

    def matches(self, vendor: str, family: int, model: int) -> bool:
        """Return True if a processor with these identifiers has this core type."""
        return vendor == self.vendor and family == self.family and model in self.models


@dataclass(frozen=True)
class Fact:
    """A figure about a core with its unit and source. key: its dotted path in the TOML file, such as issue.width."""

    key: str
    value: int | float | bool | str
    unit: str
    source: str


@dataclass(frozen=True)
class GroupErrors:
    """Errors of the pipeline model against a group of published figures of silicon.

    figures, held_out_figures: number of figures compared, in all and held out. mean_abs_error, held_out_error: mean
    relative errors, 0.09 for 9 %. Held-out figures are those that no fact was fitted to; None if there are none.
    """

    figures: int
    mean_abs_error: float
    held_out_figures: int
    held_out_error: float | None


@dataclass(frozen=True)
class SiliconErrors(GroupErrors):
    """Errors of the pipeline model against all published figures of a core.

    They cover kernels (calls, loops and changes in time), or single instructions if there are no figures of kernels.
    kinds: errors of each group, by its name in SILICON_GROUPS. blind_figures, blind_error: of kernels of projects that
    are held out whole, which are in none of the others; None if there are none.
    """

    kinds: dict[str, GroupErrors]
    blind_figures: int = 0
    blind_error: float | None = None


@dataclass(frozen=True)
class LoadPolicy:
    """The machine passes, and load splitting in LLVM IR, that a core's file enables; none by default.

    split: True to split 128-bit vector loads into `ldr d`, `ldr x` and `ins`. unpair: True to replace `ldp` by two
    loads. schedule: True to reorder instructions, in straight-line code and in loops. split_in_ir: True for the same
    split before LLVM's code generation, without conditions, in innermost loops. sources: the reason, by field.
    """

    split: bool = False
    unpair: bool = False
    schedule: bool = False
    split_in_ir: bool = False
    sources: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Core:
    """A core type, from profiles/cores/<name>.toml.

    arch: "aarch64" or "x86_64".
    order: "in" (the schedule we emit is the schedule that runs) or "out" (of order).
    llvm_cpu: what goes into the "target-cpu" attribute.
    llvm_tune: "tune-cpu", where LLVM's nearest scheduling model is another CPU's; None: same as llvm_cpu.
    llvm_features: entries added to "target-features", each with its sign, such as "+slow-paired-128".
    stand_ins: core names whose version this core runs when a library has none of its own, best first; each of
        them uses only instructions that this core has.
    x86_kind: "core" or "atom" for the two core types of an Intel hybrid (CPUID leaf 0x1A), else None.
    x86_models: the x86 processors that hold this core; on a hybrid, x86_kind says which of their two cores it is.
    note: what a user should know, such as "LLVM dropped this CPU; nearest model".
    extensions: LLVM's names of the instruction set extensions that code for this core may use; AArch64 only.
    optional_extensions: further ones that the silicon has, and a vendor may switch off under the same MIDR_EL1.
    level_of: for a feature level (feature_levels.py), the core that it is a level of; "" for the core itself.
    facts: figures for the cost models; a missing one is absent. The timings of its instructions are many and used
        seldom: mavcg.profiles.timing.load_timing reads them.
    policy: the machine passes that run on its code.
    sources: where the facts above come from, by fact name.
    """

    name: str
    arch: str
    order: str
    llvm_cpu: str
    description: str
    midr: tuple[Midr, ...] = ()
    llvm_tune: str | None = None
    llvm_features: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()
    x86_kind: str | None = None
    note: str = ""
    sources: tuple[tuple[str, str], ...] = ()
    x86_models: tuple[X86Model, ...] = ()
    facts: tuple[Fact, ...] = ()
    extensions: tuple[str, ...] = ()
    policy: LoadPolicy = LoadPolicy()
    optional_extensions: tuple[str, ...] = ()
    level_of: str = ""

    @property
    def core_type(self) -> str:
        """Return the name of the core, also for a feature level of it."""
        return self.level_of or self.name

    @property
    def model_error(self) -> float | None:
        """Return the error of the pipeline model against published cycles of silicon, 0.09 for 9 %; None if unknown.

        That on projects which no fact was fitted to, where the core has figures of some.
        """
        blind = self._relative(BLIND_ERROR)
        return blind if blind is not None else self._relative(MODEL_ERROR)

    @property
    def confidence(self) -> str | None:
        """Return the grade of the core's timing, one of GRADES; None if its file states none."""
        grade = self._fact(CONFIDENCE)
        return None if grade is None else str(grade)

    @property
    def silicon(self) -> SiliconErrors | None:
        """Return the errors against published figures; None if the core's file states no number of figures."""
        kinds = {name: errors for prefix, name in SILICON_GROUPS.items() if (errors := self._group_errors(prefix))}
        counted = [errors for name, errors in kinds.items() if name != INSTRUCTIONS] or list(kinds.values())
        if not counted:
            return None
        figures, held_out = (sum(e.figures for e in counted), sum(e.held_out_figures for e in counted))
        mean = sum(e.figures * e.mean_abs_error for e in counted) / figures
        of_held = sum(e.held_out_figures * e.held_out_error for e in counted if e.held_out_error is not None)
        return SiliconErrors(
            figures,
            round(mean, 6),
            held_out,
            round(of_held / held_out, 6) if held_out else None,
            kinds,
            int(self._fact(BLIND_FIGURES) or 0),
            self._relative(BLIND_ERROR),
        )

    def _group_errors(self, prefix: str) -> GroupErrors | None:
        figures, error = self._fact(f"model.{prefix}figures"), self._relative(f"model.{prefix}error")
        if figures is None or error is None:
            return None
        held_out = self._fact(f"model.{prefix}held_out_figures")
        return GroupErrors(int(figures), error, int(held_out or 0), self._relative(f"model.{prefix}held_out_error"))

    def _fact(self, key: str) -> int | float | bool | str | None:
        return next((fact.value for fact in self.facts if fact.key == key), None)

    def _relative(self, key: str) -> float | None:
        """Return a fact in percent as a fraction."""
        figure = self._fact(key)
        return None if figure is None else round(float(figure) / 100, 6)
