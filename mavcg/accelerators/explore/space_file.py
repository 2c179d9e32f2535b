"""Reader of a design space's TOML file: an accelerator's keys, each with a value or a list of values."""

import json
from pathlib import Path
from typing import Any

from mavcg.accelerators.explore.design_space import AXIS_KEYS, MEMORY_KEYS, DesignSpace, SpaceAxis, read_table
from mavcg.errors import ProfileError
from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.hardware.technology import ELEMENT_TYPES
from mavcg.profiles import schema
from mavcg.profiles.accelerators import accelerator_of
from mavcg.profiles.schema import refuse
from mavcg.profiles.technologies import find_technology

DEFAULT_TECHNOLOGY = "45nm"
MOST_POINTS = 10_000_000  # limit of a space, because the figures of all points are in memory together
# Depth of lists inside one value of a key.
_DEPTH = {"bandwidth": 0, "frequency": 0, "precision": 0, "levels": 1, "pe_len": 1, "pe_mapping": 2}
_REQUIRED = ("pe_len", "pe_mapping", "bandwidth", "frequency")
# Values of the other keys while one key is checked.
_STAND_IN = {"bandwidth": 1, "frequency": 1, "mem_size": 1, "pe_len": [1, 1], "pe_mapping": [["IC"], ["OC"]]}


def read_space(path: Path) -> DesignSpace:
    """Return the design space of a file; docs/exploring.md describes it.

    Raises: ProfileError naming file, key, value and remedy; MavcgError for an unknown technology.
    """
    table = schema.read_toml(path)
    schema.only(path, table, ("accelerator", "technology"))
    remedy = "write [accelerator] with the keys of an accelerator's file below it"
    keys = read_table(path, table, "accelerator", AXIS_KEYS, remedy)
    if ("levels" in keys) == ("mem_size" in keys):
        wrong = "given beside mem_size" if "levels" in keys else "missing, and levels too"
        remedy = "give mem_size for one level of memory on the chip, levels for several"
        raise refuse(path, f"accelerator.{'levels' if 'levels' in keys else 'mem_size'}", wrong, remedy)
    for key in _REQUIRED:
        if key not in keys:
            raise refuse(path, f"accelerator.{key}", "missing", f"give {key} a value or a list of values")
    axes = tuple(SpaceAxis(key, _values(path, key, keys[key])) for key in AXIS_KEYS if key in keys)
    memories: tuple[tuple[MemoryLevel, ...], ...] = ()
    for axis in axes:
        if axis.key == "precision":
            for value in axis.values:
                schema.one_of(path, value, "accelerator.precision", ELEMENT_TYPES)
        elif axis.key != "pe_mapping":  # checked with each pe_len in _arrays
            machines = [_check_machine(path, axis.key, value) for value in axis.values]
            if axis.key in MEMORY_KEYS:
                memories = tuple(machine.levels for machine in machines)
    technology = schema.text(path, table, "technology", DEFAULT_TECHNOLOGY)
    space = DesignSpace(axes, find_technology(technology, path.parent), memories, _arrays(path, axes))
    if space.points > MOST_POINTS:
        raise refuse(path, "accelerator", f"{space.points} points", f"a space has at most {MOST_POINTS}; split it")
    return space


def _values(path: Path, key: str, listed: Any) -> tuple[Any, ...]:
    """Return a key's values: the items of a list of values, or the single value."""
    many = _is_list_of_sizes(path, listed) if key == "mem_size" else _depth(listed) == _DEPTH[key] + 1
    values = tuple(listed) if many else (listed,)
    if not values:
        raise refuse(path, f"accelerator.{key}", "has no values", "give it at least one, or a value without a list")
    if key == "mem_size":
        values = tuple(value[0] if isinstance(value, list) and len(value) == 1 else value for value in values)
    seen: set[str] = set()
    for value in values:
        text = json.dumps(value, default=str)
        if text in seen:
            raise refuse(path, f"accelerator.{key}", f"{schema.value_text(value)} is given twice", "remove one of them")
        seen.add(text)
    return values


def _is_list_of_sizes(path: Path, listed: Any) -> bool:
    """True for a list of values of mem_size. [64, 32, 64] is one value; [[64], [128]] are two shared memories."""
    if not isinstance(listed, list) or not listed:
        return isinstance(listed, list)
    if any(isinstance(item, list) for item in listed):
        return True
    if len(listed) == 3:
        return False
    remedy = "write lists in a list: [[64, 32, 64], [128, 64, 128]], or [[256], [512]] for memories that operands share"
    raise refuse(path, "accelerator.mem_size", f"{schema.value_text(listed)} is not a list of memories", remedy)


def _depth(value: Any) -> int:
    return 1 + max((_depth(item) for item in value), default=0) if isinstance(value, list) else 0


def _check_machine(path: Path, key: str, value: Any, **others: Any) -> Accelerator:
    """Return a small machine with this value of a key. Raises: ProfileError for an impossible value."""
    table: dict[str, Any] = {**_STAND_IN, **others, key: value}
    if key == "levels":
        del table["mem_size"]
    try:
        return accelerator_of(path, table)
    except ProfileError as error:
        message = str(error).removeprefix(f"{path}: ")
        raise ProfileError(f"{path}: accelerator, value {schema.value_text(value)} of {key}: {message}") from None


def _arrays(
    path: Path, axes: tuple[SpaceAxis, ...]
) -> dict[tuple[int, int], tuple[tuple[int, int], tuple[tuple[str, ...], tuple[str, ...]]]]:
    """Return the array of each pair of values of pe_len and pe_mapping. Raises: ProfileError for an impossible pair."""
    lengths, mappings = (next(axis.values for axis in axes if axis.key == key) for key in ("pe_len", "pe_mapping"))
    arrays = {}
    for i, length in enumerate(lengths):
        for j, mapping in enumerate(mappings):
            machine = _check_machine(path, "pe_mapping", mapping, pe_len=length)
            arrays[i, j] = (machine.pe_len, machine.pe_mapping)
    return arrays
