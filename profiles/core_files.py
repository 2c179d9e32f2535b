"""Read cores from their TOML files, which docs/add-a-core.md describes."""

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mavcg.hardware.core import CONFIDENCE, GRADES, SILICON_UNITS, Core, Fact, LoadPolicy, Midr, X86Model
from mavcg.profiles import schema
from mavcg.profiles.core_table import core_table
from mavcg.profiles.schema import Table, refuse
from mavcg.profiles.timing_rows import TIMING_TABLES, is_row, read_own_timing
from mavcg.text.safe_text import printable_line
from mavcg.toolchain.target import ARCHES

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
_MODELS = Annotated[tuple[int | str, ...], Meta(min_length=1, description="a list of model numbers")]
FIGURELESS = {"issue": ("pools", "timing_of")}  # facts of these tables that are no figures: timing_rows reads them


def read_core(path: Path) -> Core:
    """Return a core from its TOML file; docs/add-a-core.md describes the file.

    Raises: ProfileError naming file, key and remedy.
    """
    return _core(path, schema.read_text(path))


@lru_cache(maxsize=256)
def _core(path: Path, text: str) -> Core:
    """Return the core that a text describes. The result is kept, because one command reads all cores several times."""
    table = core_table(path, text)
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
    remedy = 'add a table [llvm] with cpu = "..." and source = "..."'
    llvm = schema.table_of(path, table.get("llvm"), "llvm", remedy)
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


def _figures(path: Path, key: str, value: object) -> Iterable[Fact]:
    table = schema.table_of(path, value, key, f"keys here are {', '.join(CORE_KEYS)} and tables of figures")
    no_figure = FIGURELESS.get(key, ())
    rows = [name for name, entry in table.items() if name in no_figure or (key == "instr" and is_row(entry))]
    return schema.figures(path, {name: entry for name, entry in table.items() if name not in rows}, key)


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
    models = schema.value_as(path, f"{key_path}.models", entry.get("models"), _MODELS, "write models = [0x97, 0x9a]")
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


def check_model_facts(path: Path, facts: Iterable[Fact]) -> None:
    """Check the facts below [model]. Raises: ProfileError for an unknown key, grade, unit or number."""
    for fact in facts:
        if not fact.key.startswith("model."):
            continue
        if fact.key == CONFIDENCE:
            if fact.value not in GRADES or fact.unit != "grade":
                wrong = f"value {schema.value_text(fact.value)} with unit {fact.unit} is not a grade"
                raise refuse(path, fact.key, wrong, f'give one of {", ".join(GRADES)} with unit = "grade"')
            continue
        if fact.key not in SILICON_UNITS:
            known = (
                "confidence, blind_error, blind_figures, error, figures, held_out_error, held_out_figures, and the "
                "last four after changes_, instructions_"
            )
            raise refuse(path, fact.key, "no such key", f"[model] has {known}; rename or remove it")
        number = isinstance(fact.value, int | float) and not isinstance(fact.value, bool)
        unit = SILICON_UNITS[fact.key]
        if not number or not 0 <= float(fact.value) < float("inf") or fact.unit != unit:
            expected = "an error in percent" if unit == "percent" else "a number of figures"
            wrong = f"{schema.value_text(fact.value)} {printable_line(fact.unit)} is not {expected}"
            raise refuse(path, fact.key, wrong, f'give a number of 0 or more with unit = "{unit}", or remove the fact')


def read_policy(path: Path, table: Table) -> LoadPolicy:
    """Return the passes that [loads] enables; none if the file has no such table.

    Raises: ProfileError naming file, key and remedy.
    """
    remedy = "write [loads] and below it split, unpair, schedule or split_in_ir"
    loads = schema.table_of(path, table.get("loads", {}), "loads", remedy)
    names = ("split", "unpair", "schedule", "split_in_ir")
    schema.only(path, loads, names, "loads.")
    flags: dict[str, bool] = {}
    sources: list[tuple[str, str]] = []
    for name in names:
        enabled = schema.value_and_source(path, loads, name, f"loads.{name}")
        if enabled is None:
            continue
        flags[name] = schema.flag(path, enabled[0], f"loads.{name}", "give value = true or false")
        sources.append((name, enabled[1]))
    return LoadPolicy(**flags, sources=tuple(sources))
