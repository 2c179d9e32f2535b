"""The cores that a library has versions for: their ids, the names of their runtime's symbols, their table as C text.

Pure: values in, text out. The generated code and the C runtime (csrc/mavcg_runtime.h) meet in the names given here.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mavcg.core import Core, Midr
from mavcg.errors import MavcgError

RUNTIME_ABI = 1  # MAVCG_ABI of csrc/mavcg_runtime.h: layout of the data that objects of one core set share
TABLE_CPUS = 8192  # MAVCG_CPUS: CPU numbers that a dispatcher looks up by itself
RSEQ_CPU_ID_OFFSET = 4  # MAVCG_RSEQ_CPU_ID: struct rseq.cpu_id, Linux include/uapi/linux/rseq.h

SLOW_ID = 0  # versions[0] asks the runtime
GENERIC_ID = 1
FIRST_CORE_ID = 2
MAX_CORES = 255 - FIRST_CORE_ID + 1  # ids are bytes


@dataclass(frozen=True)
class CoreSet:
    """The core types that a library has a version for, beside the generic one.

    cores: in the order of their ids, from FIRST_CORE_ID on.
    Raises: MavcgError for a name that comes twice or is "generic", and for more than MAX_CORES.
    """

    cores: tuple[Core, ...]

    def __post_init__(self) -> None:
        names = self.names
        for name in names:
            if names.count(name) > 1 or name == "generic":
                raise MavcgError(f"cores: {name} comes twice; name each core once (generic is always there)")
        if len(names) > MAX_CORES:
            raise MavcgError(f"cores: {len(names)} are named; a library holds versions for at most {MAX_CORES}")

    @property
    def names(self) -> tuple[str, ...]:
        """Core names by id, from FIRST_CORE_ID on."""
        return tuple(core.name for core in self.cores)

    @property
    def version_count(self) -> int:
        """Length of a dispatcher's table: slow path, generic, one per core."""
        return FIRST_CORE_ID + len(self.cores)

    def id_of(self, name: str) -> int:
        """The id of "generic" or of a core of this set. Raises: KeyError for any other name."""
        ids = {"generic": GENERIC_ID} | {core: FIRST_CORE_ID + i for i, core in enumerate(self.names)}
        return ids[name]

    @property
    def tag(self) -> str:
        """16 hexadecimal digits that name this set in symbols.

        Objects with the same tag share one table, so it covers what must agree between them: the core names in the
        order of their ids, and the layout of the shared data.
        """
        text = "\n".join([f"mavcg runtime {RUNTIME_ABI}", *self.names])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class RuntimeSymbols:
    """Linkage names of a set's runtime, all hidden.

    rseq_offset: i64; core_of_cpu: [TABLE_CPUS x i8]; select: ptr (ptr desc).
    """

    rseq_offset: str
    core_of_cpu: str
    select: str


def symbols(core_set: CoreSet) -> RuntimeSymbols:
    """The names that dispatchers of this set refer to."""
    return RuntimeSymbols(*(f"mavcg_{stem}_{core_set.tag}" for stem in ("rseq_offset", "core_of_cpu", "select")))


def stand_in_id(core: Core, core_set: CoreSet) -> int:
    """The version that a core runs: its own, else that of the first of its stand-ins in the set, else the generic."""
    for name in (core.name, *core.stand_ins):
        if name in core_set.names:
            return core_set.id_of(name)
    return GENERIC_ID


def known_cores(core_set: CoreSet, all_cores: Mapping[str, Core]) -> list[Core]:
    """The set's cores, then all others by name. A core of the set hides another one of its name."""
    others = [core for name, core in sorted(all_cores.items()) if name not in core_set.names]
    return [*core_set.cores, *others]


def midr_rules(core_set: CoreSet, all_cores: Mapping[str, Core]) -> Iterator[tuple[Midr, int, str]]:
    """Each MIDR rule that leads to a version, with the version's id and the name of the core that it recognises.

    Rules of the set's own cores come first: the first match counts.
    """
    for core in known_cores(core_set, all_cores):
        for rule in core.midr:
            yield rule, stand_in_id(core, core_set), core.name


def x86_kind_id(kind: str, core_set: CoreSet, all_cores: Mapping[str, Core]) -> int:
    """The version for one core type ("core" or "atom") of an Intel hybrid, which says no more than that."""
    ids = [stand_in_id(core, core_set) for core in known_cores(core_set, all_cores) if core.x86_kind == kind]
    return next((number for number in ids if number != GENERIC_ID), GENERIC_ID)


def c_string(text: str) -> str:
    """A C string literal of these characters; anything but plain ASCII as its UTF-8 bytes in octal."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return f'"{"".join(plain)}"'


def table_text(core_set: CoreSet, all_cores: Mapping[str, Core]) -> str:
    """mavcg_core_table.h: what csrc/names.c and csrc/x86.c look things up in.

    all_cores: every core that is known, by name: those outside the set are recognised for their stand-ins' sake, and
    so that MAVCG_CPU_MAP may name them.
    """
    rules = "".join(
        f"    {{0x{rule.implementer:02x}, {rule.variant_min}, {rule.variant_max}, {number}, 0x{rule.part:03x}}},"
        f" /* {core} */\n"
        for rule, number, core in midr_rules(core_set, all_cores)
        if number != GENERIC_ID
    )
    named = [("generic", GENERIC_ID)]
    named += [(core.name, stand_in_id(core, core_set)) for core in known_cores(core_set, all_cores)]
    names = "".join(f'    "\\{number:03o}" {c_string(name)} "\\000"\n' for name, number in named)
    return (
        f"/* Core set {core_set.tag}: {', '.join(core_set.names)}. Made by mavcg. */\n"
        f"#define MAVCG_SET {core_set.tag}\n"
        f"#define MAVCG_VERSIONS {core_set.version_count}\n"
        f"#define MAVCG_X86_CORE_ID {x86_kind_id('core', core_set, all_cores)}\n"
        f"#define MAVCG_X86_ATOM_ID {x86_kind_id('atom', core_set, all_cores)}\n"
        f"static const struct mavcg_midr_rule midr_rules[] = {{\n{rules}    {{0, 0, 0, 0, 0}},\n}};\n"
        f"static const char core_names[] =\n{names};\n"
    )
