"""A space of accelerators with an instruction set: keys of a target's file, each with a value or a list of values."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from mavcg.accelerators.explore.design_space import SpaceAxis, read_table, read_values
from mavcg.accelerators.fusion.plan import SEARCHES
from mavcg.accelerators.target import WHOLE, IsaTarget, check_sizes, find_target, frequency_of
from mavcg.errors import ProfileError
from mavcg.profiles import schema
from mavcg.profiles.schema import refuse

MOST_TARGETS = 1_000_000
NO_FUSION = "none"
TARGET_KEYS = ("frequency_mhz", "ddr_gb_per_s", *WHOLE)


@dataclass(frozen=True)
class TargetSpace:
    """A space of targets.

    base: the target that the axes vary. search: how groups of a network are chosen (mavcg accel build).
    """

    base: IsaTarget
    axes: tuple[SpaceAxis, ...]
    search: str

    @property
    def points(self) -> int:
        """Number of points."""
        return prod(len(axis.values) for axis in self.axes)

    def targets(self) -> Iterator[IsaTarget]:
        """Yield the targets in order; the last axis varies fastest. All have the base's name."""
        for values in product(*(axis.values for axis in self.axes)):
            yield replace(self.base, **dict(zip((axis.key for axis in self.axes), values, strict=True)))

    def point(self, number: int) -> dict[str, Any]:
        """Return the values of a point by key, with the name of its base."""
        values = {}
        for axis in reversed(self.axes):
            number, at = divmod(number, len(axis.values))
            values[axis.key] = axis.values[at]
        return {"base": self.base.name, **{axis.key: values[axis.key] for axis in self.axes}}


def is_target_space(path: Path) -> bool:
    """True if a space's file has a table [target]. Raises: ProfileError if it cannot be read."""
    return "target" in schema.read_toml(path)


def read_target_space(path: Path) -> TargetSpace:
    """Return the space of a file with [target]; docs/exploring.md describes it.

    Raises: ProfileError naming file, key, value and remedy, also for impossible targets; MavcgError for an unknown
    base.
    """
    table = schema.read_toml(path)
    schema.only(path, table, ("target",))
    known = ("base", "search", *TARGET_KEYS)
    keys = read_table(path, table, "target", known, "write [target] with base and keys below it")
    base = find_target(schema.text(path, keys, "base", key_path="target.base"))
    search = schema.one_of(path, keys.get("search", NO_FUSION), "target.search", (NO_FUSION, *SEARCHES))
    axes = tuple(SpaceAxis(key, _values(path, key, keys[key])) for key in TARGET_KEYS if key in keys)
    space = TargetSpace(base, axes, search)
    if space.points > MOST_TARGETS:
        raise refuse(path, "target", f"{space.points} points", f"a space has at most {MOST_TARGETS}; split it")
    for number, target in enumerate(space.targets()):
        try:
            check_sizes(path, target)
        except ProfileError as error:
            raise ProfileError(f"{error} (point {json.dumps(space.point(number))})") from None
    return space


def _values(path: Path, key: str, listed: Any) -> tuple[Any, ...]:
    key_path = f"target.{key}"

    def check(value: Any) -> float:
        if key == "frequency_mhz":
            return frequency_of(path, value, key_path)
        if key == "ddr_gb_per_s":
            return schema.rate(path, value, key_path)
        low, high, unit = WHOLE[key]
        return schema.whole(path, {key: value}, key, key_path, low, high, unit=unit)

    return read_values(path, key_path, listed, check)
