"""Constants of the cost model, from profiles/fits/*.toml: a file for each kind of core, and one for all cores.

Each file is read once per process.

Each constant has a value, a unit, a source, and in fitted_on the machine that it was fitted on: a name in the file's
table [machines], or "assumed". docs/add-a-core.md describes the files.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from mavcg.errors import ProfileError
from mavcg.hardware.cost_fit import (
    ALL_CORES,
    AllCoresFit,
    BranchFit,
    ChunkPrefetchFit,
    CostFit,
    ExposedFit,
    Int8TileFit,
    MacroTileFit,
    MemoryFit,
    PrimitiveFit,
    RegisterTileFit,
    SafetyFit,
    SimulatorFit,
    StepFit,
    TileProductFit,
    TypicalCore,
    core_kind,
)
from mavcg.hardware.issue_rates import IssueRates
from mavcg.hardware.machine import Machine
from mavcg.profiles import schema
from mavcg.profiles.folders import files
from mavcg.profiles.schema import Table, refuse

ASSUMED = "assumed"
_EXAMPLE = '{ value = .., unit = "..", fitted_on = "..", source = ".." }'
_MACHINES = Annotated[dict[str, Annotated[str, Meta(min_length=1)]], Meta(description="a table of descriptions")]
_WHOLE = Annotated[int, Meta(ge=0, description="a whole number of 0 or more")]
Constants = TypeVar("Constants")
KIND_TABLES: Mapping[str, type] = {
    "register_tile": RegisterTileFit,
    "macro_tile": MacroTileFit,
    "typical": TypicalCore,
    "typical_rates": IssueRates,
    "steps": StepFit,
    "primitives": PrimitiveFit,
    "safety": SafetyFit,
    "chunk_prefetch": ChunkPrefetchFit,
    "simulator": SimulatorFit,
    "exposed": ExposedFit,
    "wide_register_tile": RegisterTileFit,
    "two_pipe_register_tile": RegisterTileFit,
    "tile_products": TileProductFit,
}
ALL_CORES_TABLES: Mapping[str, type] = {
    "int8_register_tile": Int8TileFit,
    "memory": MemoryFit,
    "branches": BranchFit,
}
OPTIONAL = ("chunk_prefetch", "simulator", "exposed", "wide_register_tile", "two_pipe_register_tile", "tile_products")


@dataclass(frozen=True)
class _Constant:
    value: (
        Annotated[int, Meta(ge=0, description="a number of 0 or more")]
        | Annotated[float, Meta(ge=0, description="a number of 0 or more")]
    )
    unit: str = ""
    fitted_on: str = ""
    source: str = ""


def fit_of(machine: Machine) -> CostFit:
    """Return the constants of a machine's kind of core."""
    return fit_of_kind(core_kind(machine.arch, machine.in_order))


@cache
def fit_of_kind(kind: str) -> CostFit:
    """Return the constants of a kind of core."""
    return load_cost_fit(kind)


@cache
def all_cores_fit() -> AllCoresFit:
    """Return the constants that hold for every core."""
    return load_all_cores_fit()


def load_cost_fit(kind: str) -> CostFit:
    """Return the constants of a kind of core. Raises: ProfileError naming file, key and remedy."""
    return CostFit(kind, **_read_tables(files("fits")[kind], KIND_TABLES))


def load_all_cores_fit() -> AllCoresFit:
    """Return the constants that every core shares. Raises: ProfileError naming file, key and remedy."""
    return AllCoresFit(**_read_tables(files("fits")[ALL_CORES], ALL_CORES_TABLES))


def fit_faults() -> tuple[str, ...]:
    """Return a line for each faulty file of profiles/fits."""
    faults = []
    for name, path in files("fits").items():
        try:
            _read_tables(path, ALL_CORES_TABLES if name == ALL_CORES else KIND_TABLES)
        except ProfileError as error:
            faults.append(str(error))
    return tuple(faults)


def _read_tables(path: Path, types: Mapping[str, type]) -> dict[str, Any]:
    table = schema.read_toml(path)
    schema.check_name(path, table)
    schema.text(path, table, "description")
    schema.only(path, table, ("name", "description", "machines", *types))
    machines = schema.value_as(
        path, "machines", table.get("machines", {}), _MACHINES, 'write name = "what the machine is"'
    )
    read = {}
    for name, of_type in types.items():
        rows = table.get(name)
        if rows is None and name in OPTIONAL:
            continue
        of_table = schema.table_of(path, rows, name, f"add a table [{name}]")
        read[name] = _read_constants(path, name, of_table, of_type, machines)
    return read


def _read_constants(path: Path, table: str, rows: Table, of_type: type, machines: Table) -> Any:
    known = fields(of_type)
    schema.only(path, rows, tuple(constant.name for constant in known), f"{table}.")
    values: dict[str, Any] = {}
    for constant in known:
        key = f"{table}.{constant.name}"
        if "unit" in constant.metadata:
            if constant.name not in rows and constant.default is not MISSING:
                continue
            values[constant.name] = _read_constant(path, key, rows.get(constant.name), constant, machines)
        elif constant.name in rows or constant.default is MISSING:
            named = schema.table_of(path, rows.get(constant.name), key, f"add a table [{key}]")
            values[constant.name] = {
                name: _read_constant(path, f"{key}.{name}", row, None, machines) for name, row in named.items()
            }
    return of_type(**values)


def _read_constant(path: Path, key: str, row: object, of_field: "Field[Any] | None", machines: Table) -> float:
    given: _Constant = schema.value_as(path, key, row, _Constant, f"write it as {_EXAMPLE}")
    if not given.source.strip():
        raise schema.no_source(path, key)
    if of_field is not None and of_field.type in (int, "int"):
        schema.value_as(path, key, given.value, _WHOLE, "correct the value")
    unit = given.unit if of_field is None else of_field.metadata["unit"]
    if given.unit != unit or not unit:
        raise refuse(path, key, f"the unit is {schema.value_text(given.unit)}", f'write unit = "{unit or "cycles"}"')
    if given.fitted_on != ASSUMED and given.fitted_on not in machines:
        known = ", ".join([ASSUMED, *machines])
        wrong = f"fitted_on is {schema.value_text(given.fitted_on)}"
        raise refuse(path, key, wrong, f"name a machine of [machines]: {known}")
    return given.value
