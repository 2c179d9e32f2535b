"""The cores that a library has versions for: their ids, the names of the runtime's symbols, their table as C.

It is pure: values in, text out. The generated code and the C runtime (csrc/mavcg_runtime.h) share the names in this
module.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.errors import MavcgError
from mavcg.hardware.core import Core, Midr
from mavcg.runtime.c_arrays import static_array
from mavcg.text.safe_text import c_string, comment

RUNTIME_ABI = 2  # MAVCG_ABI of csrc/mavcg_runtime.h: layout of the data that objects of one core set share
TABLE_CPUS = 8192  # MAVCG_CPUS: CPU numbers that a dispatcher looks up by itself

SLOW_ID = 0  # versions[0] calls the runtime
GENERIC_ID = 1
FIRST_CORE_ID = 2
NEED_WORDS = 7  # MAVCG_NEED_WORDS of csrc/internal.h
X86_VENDORS = {"": "X86_ANY_VENDOR", "GenuineIntel": "X86_INTEL", "AuthenticAMD": "X86_AMD"}
X86_KINDS = {"": "X86_NO_KIND", "core": "X86_CORE", "atom": "X86_ATOM"}

MAX_CORES = 255 - FIRST_CORE_ID + 1  # ids are bytes


@dataclass(frozen=True)
class CoreSet:
    """The core types that a library has a version for, besides the generic version.

    cores: in the order of their ids, which begin at FIRST_CORE_ID; each feature level of a core
    (mavcg.hardware.feature_levels) is a core with an id of its own, and of one core's levels the best comes first.
    needs: for each core, LLVM's names of the extensions that its version's instructions need beyond what generic may
    use; () if no version needs any. private: True if one library holds all that refers to the set's table: the needs
    are then no part of the table's name. small: True for the selector without settings (MAVCG_SMALL in
    csrc/internal.h), which has a table of its own.
    Raises: MavcgError for a repeated name, for "generic", and for more than MAX_CORES.
    """

    cores: tuple[Core, ...]
    needs: tuple[tuple[str, ...], ...] = ()
    private: bool = False
    small: bool = False

    def __post_init__(self) -> None:
        if self.needs and len(self.needs) != len(self.cores):
            raise MavcgError(f"cores: {len(self.cores)} cores, and needs of {len(self.needs)}; give those of each core")
        names = self.names
        for name in names:
            if names.count(name) > 1 or name == "generic":
                raise MavcgError(f"cores: {name} comes twice; name each core once (generic is always there)")
        if len(names) > MAX_CORES:
            raise MavcgError(f"cores: {len(names)} are named, but a library holds versions for at most {MAX_CORES}")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the core names by id, from FIRST_CORE_ID on."""
        return tuple(core.name for core in self.cores)

    @property
    def version_count(self) -> int:
        """Return the length of a dispatcher's table: slow path, generic version, and a version for each core."""
        return FIRST_CORE_ID + len(self.cores)

    def with_needs(self, needs: Mapping[str, Iterable[str]], private: bool = False) -> "CoreSet":
        """Return the set with these needs, by core name; a core that is missing in them needs nothing."""
        by_core = tuple(tuple(sorted(needs.get(name, ()))) for name in self.names)
        return replace(self, needs=by_core if any(by_core) else (), private=private)

    def ids_for(self, core_type: str) -> tuple[int, ...]:
        """Return the ids of the versions for a core, its own and those of its feature levels, the best first."""
        return tuple(FIRST_CORE_ID + i for i, core in enumerate(self.cores) if core.core_type == core_type)

    def at_or_above(self, level: Core) -> tuple[Core, ...]:
        """Return the cores of the set that are levels of a core from the best to this one."""
        ladder = [core for core in self.cores if core.core_type == level.core_type]
        return tuple(ladder[: ladder.index(level) + 1])

    def id_of(self, name: str) -> int:
        """Return the id of "generic" or of a core of this set. Raises: KeyError for any other name."""
        ids = {"generic": GENERIC_ID} | {core: FIRST_CORE_ID + i for i, core in enumerate(self.names)}
        return ids[name]

    @property
    def tag(self) -> str:
        """Return 16 hexadecimal digits that name this core set in symbols.

        Objects with the same tag share one table, so the tag depends on all that must agree between them: the core
        names in the order of their ids, what their versions need, and the layout of the shared data.
        """
        stated = () if self.private else self.needs
        needs = [f"{name} needs {' '.join(own)}" for name, own in zip(self.names, stated, strict=False) if own]
        text = "\n".join([f"mavcg runtime {RUNTIME_ABI}{' small' * self.small}", *self.names, *needs])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class RuntimeSymbols:
    """Linkage names of a core set's runtime, all hidden.

    rseq_offset: i64. core_of_cpu: [TABLE_CPUS x i8]. select: ptr (ptr desc).
    """

    rseq_offset: str
    core_of_cpu: str
    select: str


def symbols(core_set: CoreSet) -> RuntimeSymbols:
    """Return the symbols that dispatchers of this core set refer to."""
    return RuntimeSymbols(*(f"mavcg_{stem}_{core_set.tag}" for stem in ("rseq_offset", "core_of_cpu", "select")))


def versions_for(core: Core, core_set: CoreSet, needs: Mapping[str, Sequence[int]]) -> Iterator[int]:
    """Yield the ids of the versions that a core may run, the best first.

    These are its own versions and those of its stand-ins, up to the first one that needs nothing. needs: as in
    table_text; the selector passes over a version whose needs the machine does not meet.
    """
    for name in (core.name, *core.stand_ins):
        for number in core_set.ids_for(name):
            yield number
            if not any(needs.get(core_set.names[number - FIRST_CORE_ID], ())):
                return


def stand_in_id(core: Core, core_set: CoreSet) -> int:
    """Return the id of the version that a core runs by its profile: its own, else that of its first stand-in.

    A stand-in's version may use extensions that not all revisions of this core have: an early A75 has no dot product.
    Such a stand-in is passed over.
    """
    for name in (core.name, *core.stand_ins):
        if name in core_set.names:
            version = core_set.cores[core_set.names.index(name)]
            off = {feature[1:] for feature in version.llvm_features if feature.startswith("-")}
            if name == core.name or set(version.extensions) - off <= set(core.extensions):
                return core_set.id_of(name)
    return GENERIC_ID


def known_cores(core_set: CoreSet, all_cores: Mapping[str, Core]) -> list[Core]:
    """Return the set's cores, then all others by name. A core of the set hides another core with its name."""
    others = [core for name, core in sorted(all_cores.items()) if name not in core_set.names]
    return [*(core for core in core_set.cores if not core.level_of), *others]


@dataclass(frozen=True)
class MidrRule:
    """A rule that recognises a core.

    midr: pattern for MIDR_EL1. number: id of a version that the core may run. core: its name.
    """

    midr: Midr
    number: int
    core: str


def midr_rules(
    core_set: CoreSet, all_cores: Mapping[str, Core], needs: Mapping[str, Sequence[int]]
) -> Iterator[MidrRule]:
    """Yield the rules that lead to a version. Those of the set's own cores come first: the first match counts."""
    for core in known_cores(core_set, all_cores):
        for midr in core.midr:
            for number in versions_for(core, core_set, needs):
                yield MidrRule(midr, number, core.name)


@dataclass(frozen=True)
class X86Rule:
    """A rule that recognises x86 processors that run a version.

    vendor, family, lo, hi: vendor, family and range of models; vendor "" matches any processor. kind: core type of a
    hybrid ("core", "atom"); "" for a processor that is not a hybrid. number: id of a version that it may run. core:
    name of the recognised core.
    """

    vendor: str
    kind: str
    number: int
    family: int
    lo: int
    hi: int
    core: str


def x86_rules(
    core_set: CoreSet, all_cores: Mapping[str, Core], needs: Mapping[str, Sequence[int]]
) -> Iterator[X86Rule]:
    """Yield the rules that lead to a version, as midr_rules does, for x86.

    A core with a kind but no models is recognised by its kind alone."""
    for core in known_cores(core_set, all_cores):
        kind = core.x86_kind or ""
        for number in versions_for(core, core_set, needs):
            for entry in core.x86_models:
                for lo, hi in ranges(entry.models):
                    yield X86Rule(entry.vendor, kind, number, entry.family, lo, hi, core.name)
            if kind and not core.x86_models:
                yield X86Rule("", kind, number, 0, 0, 0, core.name)


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the numbers as inclusive ranges: 1, 2, 3, 7 is (1, 3), (7, 7)."""
    joined: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if joined and number == joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], number)
        else:
            joined.append((number, number))
    return joined


def table_text(
    core_set: CoreSet, all_cores: Mapping[str, Core], needs: Mapping[str, Sequence[int]] | None = None
) -> str:
    """Return the text of mavcg_core_table.h, in which csrc/names.c and csrc/needs.c look cores up.

    all_cores: every known core by name; cores outside of the set are recognised for their stand-ins, and so that
    MAVCG_CPU_MAP may name them. needs: for each core of the set, NEED_WORDS words of bits that its version needs
    (csrc/internal.h); a core that is missing here needs nothing.
    """
    needs = needs or {}
    midr_lines = [
        f"{{0x{rule.midr.implementer:02x}, {rule.midr.variant_min}, {rule.midr.variant_max}, {rule.number}, "
        f"0x{rule.midr.part:03x}}}, /* {comment(rule.core)} */"
        for rule in midr_rules(core_set, all_cores, needs)
    ]
    x86_lines = [
        f"{{{X86_VENDORS.get(rule.vendor, 'X86_OTHER')}, {X86_KINDS[rule.kind]}, {rule.number}, {rule.family}, "
        f"{rule.lo}, {rule.hi}}}, /* {comment(rule.core)} */"
        for rule in x86_rules(core_set, all_cores, needs)
        if rule.vendor in X86_VENDORS
    ]
    need_lines = [
        "{" + ", ".join(f"0x{word:08x}" for word in needs.get(name, [0] * NEED_WORDS)) + f"}}, /* {comment(name)} */"
        for name in core_set.names
    ]
    return (
        f"/* Core set {core_set.tag}: {comment(', '.join(core_set.names))}. Made by mavcg. */\n"
        f"#define MAVCG_SET {core_set.tag}\n"
        f"#define MAVCG_VERSIONS {core_set.version_count}\n"
        + static_array("const struct mavcg_midr_rule midr_rules[]", [*midr_lines, "{0, 0, 0, 0, 0},"])
        + static_array("const struct mavcg_x86_rule x86_rules[]", [*x86_lines, "{0, 0, 0, 0, 0, 0},"])
        + static_array("const uint32_t needs[][MAVCG_NEED_WORDS]", need_lines)
        + "static const char core_names[] =\n"
        + "".join(
            f'    "\\{number:03o}" {c_string(name)} "\\000"\n'
            # Of a small set the settings, which libmavcg_rt.so has, name its own versions alone.
            for name, number in _named_versions(core_set, {} if core_set.small else all_cores, needs)
        )
        + ";\n"
    )


def _named_versions(
    core_set: CoreSet, all_cores: Mapping[str, Core], needs: Mapping[str, Sequence[int]]
) -> Iterator[tuple[str, int]]:
    """Yield (name, id) for each version that a named core may run.

    A version's own name comes before those of cores that it stands in for; of each name, the best version comes first.
    """
    yield "generic", GENERIC_ID
    named: dict[str, list[int]] = {}
    for core in core_set.cores:
        own = core_set.id_of(core.name)
        # A level above the core's own version is the best for the core's name, and has a name of its own before that.
        above = [] if core.level_of else [number for number in core_set.ids_for(core.name) if number < own]
        named[core.name] = [*above, own]
        yield from ((core.name, number) for number in named[core.name])
    for core in known_cores(core_set, all_cores):
        numbers = versions_for(core, core_set, needs)
        yield from ((core.name, number) for number in numbers if number not in named.get(core.name, ()))
        if core.name not in core_set.names:
            yield core.name, GENERIC_ID
