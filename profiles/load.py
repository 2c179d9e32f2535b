"""Read cores and boards from the TOML files beside this module, and the user's own from the folders of MAVCG_PROFILES.

MAVCG_PROFILES lists folders, separated as in PATH, each with cores/*.toml, boards/*.toml, fits/*.toml,
isa_targets/*.toml, or accelerators/*.json and *.toml. A file there replaces mavcg's file of the same name, so that
users can correct a fact without a change of the installation.
"""

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from mavcg.errors import MavcgError, ProfileError
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core, Fact, Midr, X86Model
from mavcg.profiles import schema
from mavcg.profiles.board_files import read_board
from mavcg.profiles.load_policy import read_policy
from mavcg.profiles.model_facts import check_model_facts
from mavcg.profiles.renamed_tables import with_present_names
from mavcg.profiles.schema import Table, refuse
from mavcg.profiles.sibling_cores import runnable_on_sibling_cores
from mavcg.profiles.source_abbreviations import spell_out_sources
from mavcg.profiles.timing_rows import TIMING_TABLES, is_row, read_own_timing
from mavcg.toolchain.target import ARCHES, parse_target

HERE = Path(__file__).resolve().parent
KINDS = ("cores/", "boards/", "accelerators/", "isa_targets/", "fits/", "gpus/")  # of a folder of MAVCG_PROFILES
SUFFIXES = {
    "cores": (".toml",),
    "boards": (".toml",),
    "accelerators": (".json", ".toml"),
    "isa_targets": (".toml",),
    "fits": (".toml",),
    "gpus": (".toml",),
    "technologies": (".toml",),
}


CORE_KEYS = (
    "name",
    "arch",
    "description",
    "note",
    "order",
    "midr",
    "x86_kind",
    "x86_models",
    "stand_ins",
    "extensions",
    "optional_extensions",
    "llvm",
)
_ARCH_LINE = re.compile(r'^arch\s*=\s*"([^"]*)"', re.MULTILINE)
FIGURELESS = {"issue": ("pools", "timing_of")}  # facts of these tables that are no figures: timing_rows reads them


def load_cores(arch: str = "") -> dict[str, Core]:
    """Return every known core by name, in alphabetical order.

    arch: only cores of this architecture. Files that begin with another are not parsed, which saves most of the time.
    Raises: ProfileError for a file that does not follow docs/add-a-core.md.
    """
    loaded = {name: read_core(path) for name, path in files("cores").items() if not arch or _may_be_of(path, arch)}
    return {name: core for name, core in loaded.items() if arch in ("", core.arch)}


def _may_be_of(path: Path, arch: str) -> bool:
    """Return True unless the file states another architecture."""
    stated = _ARCH_LINE.search(schema.read_text(path))
    return stated is None or stated[1] == arch or stated[1] not in ARCHES


def load_boards() -> dict[str, Board]:
    """Return every known board by name, in alphabetical order.

    Raises: ProfileError for a file that does not follow docs/add-a-board.md.
    """
    return {name: read_board(path) for name, path in files("boards").items()}


def load_core(name: str) -> Core:
    """Return a core's profile by name.

    Raises: MavcgError for an unknown name, with similar names.
    """
    return read_core(_file("cores", name))


def load_board(name: str) -> Board:
    """Return a board's profile by name.

    Raises: MavcgError for an unknown name, with similar names; ProfileError for a core of another architecture.
    """
    path, cores = _file("boards", name), files("cores")
    board = read_board(path)
    arch = parse_target(board.target).arch
    for number, cluster in enumerate(board.clusters):
        core = read_core(cores[cluster.core]) if cluster.core in cores else None
        if core is not None and core.arch != arch:
            wrong = f"{core.name} is {core.arch}, but target is {board.target}"
            raise refuse(path, f"clusters[{number}].core", wrong, "correct one of them")
    return board


def cores_for(names: Sequence[str]) -> tuple[Core, ...]:
    """Return the cores of a build, in the order given, without extensions that sibling cores lack (sibling_cores.py).

    Raises: MavcgError for no name, an unknown or repeated name, "generic" (always built), and several architectures.
    """
    given = ",".join(names)
    if not [name for name in names if name]:
        raise MavcgError("--cores: no core named; name some, such as --cores cortex-a55,cortex-a75, or a --board")
    if "generic" in names:
        raise MavcgError(f"--cores {given}: generic is not named: every library has its version; leave it out")
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise MavcgError(f"--cores {given}: {', '.join(doubled)} named twice; name each core once")
    cores = tuple(load_core(name) for name in names)
    if len({core.arch for core in cores}) > 1:
        kinds = ", ".join(f"{core.name} is {core.arch}" for core in cores)
        raise MavcgError(f"--cores {given}: a library has one architecture, but {kinds}; build one library for each")
    known, boards = load_cores(cores[0].arch), load_boards()
    return tuple(runnable_on_sibling_cores(core, known, boards.values()) for core in cores)


def files(kind: str) -> dict[str, Path]:
    """Return the files of a kind in SUFFIXES by name, in alphabetical order.

    Raises: ProfileError for a folder of MAVCG_PROFILES that does not exist or is empty, and for two files with the same
    name in one folder.
    """
    by_name: dict[str, Path] = {}
    for folder in _folders():
        by_name |= _by_name(folder / kind, tuple(os.listdir(folder / kind)) if (folder / kind).is_dir() else (), kind)
    return dict(sorted(by_name.items()))


@lru_cache(maxsize=64)
def _by_name(folder: Path, entries: tuple[str, ...], kind: str) -> Mapping[str, Path]:
    """Return the files of a kind among a folder's entries. The result is kept, because one command lists the cores for
    each of some hundred loops. Raises: as files."""
    here: dict[str, Path] = {}
    for path in sorted(folder / entry for entry in entries if entry.endswith(tuple(SUFFIXES[kind]))):
        if path.stem in here:
            raise ProfileError(f"{path}: {here[path.stem].name} beside it has the same name; remove one of them")
        here[path.stem] = path
    return MappingProxyType(here)


def read_core(path: Path) -> Core:
    """Return a core from its TOML file; docs/add-a-core.md describes the file.

    Raises: ProfileError naming file, key and remedy.
    """
    return _core(path, schema.read_text(path))


@lru_cache(maxsize=256)
def _core(path: Path, text: str) -> Core:
    """Return the core that a text describes. The result is kept, because one command reads all cores several times."""
    table = schema.toml_of(path, text)
    schema.check_name(path, table)
    table = with_present_names(path, spell_out_sources(path, table))
    arch = schema.one_of(path, table.get("arch"), "arch", ARCHES)
    sources: list[tuple[str, str]] = []
    order = schema.fact(path, table, "order", sources)
    if order is None:
        raise refuse(path, "order", "missing", 'say order = { value = "in" or "out", source = "..." }')
    kind, midr, models = _identities(path, table, arch, sources)
    stand_ins = schema.fact(path, table, "stand_ins", sources) or []
    extensions = schema.fact(path, table, "extensions", sources) or []
    optional = schema.fact(path, table, "optional_extensions", sources) or []
    llvm, features = _llvm(path, table, sources)
    order = schema.one_of(path, order, "order", ("in", "out"))
    facts = _model_facts(path, table, arch, order)
    return Core(
        name=table["name"],
        arch=arch,
        order=order,
        llvm_cpu=schema.text(path, llvm, "cpu"),
        description=schema.text(path, table, "description"),
        midr=midr,
        llvm_tune=schema.text(path, llvm, "tune", "") or None,
        llvm_features=features,
        stand_ins=schema.names(path, {"stand_ins": stand_ins}, "stand_ins", "stand_ins"),
        x86_kind=None if kind is None else schema.one_of(path, kind, "x86_kind", ("core", "atom")),
        x86_models=models,
        note=schema.text(path, table, "note", ""),
        facts=facts,
        sources=tuple(sources),
        extensions=schema.names(path, {"extensions": extensions}, "extensions", "extensions"),
        optional_extensions=schema.names(
            path, {"optional_extensions": optional}, "optional_extensions", "optional extensions"
        ),
        policy=read_policy(path, table),
    )


def _identities(
    path: Path, table: Table, arch: str, sources: list[tuple[str, str]]
) -> tuple[object, tuple[Midr, ...], tuple[X86Model, ...]]:
    """Return the values of x86_kind, midr and x86_models, by which a core is recognised; adds to `sources`.

    Raises: MavcgError for a key of another architecture.
    """
    kind = schema.fact(path, table, "x86_kind", sources)
    midr = tuple(
        _midr(path, entry, f"midr[{i}]", sources) for i, entry in enumerate(schema.tables(path, table, "midr"))
    )
    models = tuple(
        _x86_model(path, entry, f"x86_models[{i}]", sources)
        for i, entry in enumerate(schema.tables(path, table, "x86_models"))
    )
    wrong_key = "midr" if arch == "x86_64" and midr else "x86_models" if arch != "x86_64" and (models or kind) else ""
    if wrong_key:
        raise refuse(path, wrong_key, f"cores of {arch} are not recognised by this key", "remove it or correct arch")
    return kind, midr, models


def _llvm(path: Path, table: Table, sources: list[tuple[str, str]]) -> tuple[Table, tuple[str, ...]]:
    """Return the table [llvm] and its features; adds to `sources`. Raises: MavcgError for a bad table or feature."""
    llvm = table.get("llvm")
    if not isinstance(llvm, dict):
        raise refuse(path, "llvm", "missing", 'add a table [llvm] with cpu = "..." and source = "..."')
    schema.only(path, llvm, ("cpu", "tune", "features", "source"), "llvm.")
    sources.append(("llvm", schema.source_of(path, llvm, "llvm")))
    features = schema.names(path, llvm, "features", "llvm.features")
    for feature in features:
        if feature[0] not in "+-":
            fault = f"{schema.value_text(feature)} has no sign"
            raise refuse(path, "llvm.features", fault, f'write "+{feature}" or "-{feature}"')
    return llvm, features


def _model_facts(path: Path, table: Table, arch: str, order: str) -> tuple[Fact, ...]:
    """Return the figures of a core's models, after checks of these and of its timing rows. Raises: MavcgError."""
    facts = tuple(
        fact
        for key, value in table.items()
        if key not in (*CORE_KEYS, *TIMING_TABLES)
        for fact in _figures(path, key, value)
    )
    check_model_facts(path, facts)
    own = read_own_timing(path, table, order)  # refuses faults; the rows are read again when a model needs them
    if own.classes and arch != "aarch64":
        wrong = f"instr.{next(iter(own.classes))}", f"the classes are AArch64's, and {table['name']} is {arch}"
        raise refuse(path, *wrong, 'give figures about one instruction, as in [instr."vaddps ymm"]')
    return facts


def _folders() -> Iterable[Path]:
    yield HERE
    for entry in filter(None, os.environ.get("MAVCG_PROFILES", "").split(os.pathsep)):
        folder = Path(entry)
        if not folder.is_dir():
            raise ProfileError(f"MAVCG_PROFILES: {entry} is not a folder; name folders that hold {', '.join(KINDS)}")
        if not any((folder / kind).is_dir() for kind in KINDS):
            raise ProfileError(
                f"MAVCG_PROFILES: {entry} has no folder {' or '.join(KINDS)}; put the files into folders of these names"
            )
        yield folder


def _file(kind: str, name: str) -> Path:
    known = files(kind)
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    option = "--cores" if kind == "cores" else "--board"
    raise MavcgError(f"{option} {name}: no such {kind[:-1]}; {hint}`mavcg cores` lists them")


def _figures(path: Path, key: str, value: object) -> Iterable[Fact]:
    if not isinstance(value, dict):
        raise refuse(path, key, "no such key", f"keys here are {', '.join(CORE_KEYS)} and tables of figures")
    no_figure = FIGURELESS.get(key, ())
    rows = [name for name, entry in value.items() if name in no_figure or (key == "instr" and is_row(entry))]
    return schema.figures(path, {name: entry for name, entry in value.items() if name not in rows}, key)


def _midr(path: Path, entry: Table, key_path: str, sources: list[tuple[str, str]]) -> Midr:
    schema.only(path, entry, ("implementer", "part", "variant_min", "variant_max", "source"), f"{key_path}.")
    sources.append((key_path, schema.source_of(path, entry, key_path)))
    midr = Midr(
        implementer=schema.whole(path, entry, "implementer", f"{key_path}.implementer", 0, 0xFF),
        part=schema.whole(path, entry, "part", f"{key_path}.part", 0, 0xFFF),
        variant_min=schema.whole(path, entry, "variant_min", f"{key_path}.variant_min", 0, 0xF, default=0),
        variant_max=schema.whole(path, entry, "variant_max", f"{key_path}.variant_max", 0, 0xF, default=0xF),
    )
    if midr.variant_min > midr.variant_max:
        raise refuse(path, key_path, "variant_min is above variant_max", "swap them")
    return midr


def _x86_model(path: Path, entry: Table, key_path: str, sources: list[tuple[str, str]]) -> X86Model:
    schema.only(path, entry, ("vendor", "family", "models", "source"), f"{key_path}.")
    sources.append((key_path, schema.source_of(path, entry, key_path)))
    vendor = schema.one_of(path, entry.get("vendor"), f"{key_path}.vendor", ("GenuineIntel", "AuthenticAMD"))
    models = entry.get("models")
    if not isinstance(models, list) or not models:
        raise refuse(
            path,
            f"{key_path}.models",
            f"{schema.value_text(models)} is not a list of model numbers",
            "write models = [0x97, 0x9a]",
        )
    numbers = tuple(number for model in models for number in _models(path, model, f"{key_path}.models"))
    return X86Model(vendor, schema.whole(path, entry, "family", f"{key_path}.family", 0, 0xFF), numbers)


def _models(path: Path, model: object, key_path: str) -> Iterable[int]:
    """Return one model number, or all numbers of a range such as "0x30-0x3f". key_path: key, for errors."""
    if isinstance(model, str):
        ends = re.fullmatch(r"(0x[0-9a-f]{1,2})-(0x[0-9a-f]{1,2})", model)
        if ends is None or int(ends[1], 16) > int(ends[2], 16):
            raise refuse(
                path, key_path, f"{schema.value_text(model)} is not a range of models", 'write it as "0x30-0x3f"'
            )
        return range(int(ends[1], 16), int(ends[2], 16) + 1)
    return (schema.whole(path, {"models": model}, "models", key_path, 0, 0xFF),)
