"""A space of boards: mixes of cores, their clocks and caches, memory; each key has a value or a list of values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from mavcg.accelerators.explore.design_space import SpaceAxis, read_table, read_values
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board, Cluster
from mavcg.hardware.core import Core
from mavcg.hardware.core_power import CorePower
from mavcg.profiles import schema
from mavcg.profiles.core_power import OWN, read_core_power
from mavcg.profiles.load import load_cores
from mavcg.profiles.schema import refuse
from mavcg.toolchain.target import parse_target

MOST_BOARDS = 100_000
MOST_CORES = 64
MOST_WATTS = 10_000.0
_WATTS = Annotated[float, Meta(gt=0, le=MOST_WATTS, description="a power in watts")]
_OF_CORES = Annotated[dict[str, Any], Meta(description="a table of cores")]
_MIX = Annotated[dict[str, Any], Meta(min_length=1, description="a table of cores")]
DEFAULT_TARGET = "aarch64-linux-gnu.2.17"
BOARD_NAME = "space"
# Key -> smallest and largest value. A key of cores is a table with a value, or values, for each core.
OF_CORES = {"max_khz": (10_000, 100_000_000), "l1d_bytes": (1024, 1 << 40), "l2_bytes": (1024, 1 << 40)}
OF_BOARDS = {"l3_bytes": (0, 1 << 40)}
STAND_INS = {
    "in": "cortex-a55",
    "out": "cortex-a76",
}  # cores whose power is assumed for cores without figures, by issue order


@dataclass(frozen=True)
class BoardPoint:
    """A board of the space. milliwatts: of one core at its clock, by name of the core."""

    values: Mapping[str, Any]
    board: Board
    milliwatts: Mapping[str, float]


@dataclass(frozen=True)
class BoardSpace:
    """A space of boards.

    budget_w: limit of the power of all working cores, in watts; None for no limit. powers: of each core of a mix.
    assumed: a sentence for each power that was not measured.
    """

    target: str
    axes: tuple[SpaceAxis, ...]
    budget_w: float | None
    powers: Mapping[str, CorePower]
    assumed: tuple[str, ...]

    def boards(self) -> Iterator[BoardPoint]:
        """Yield the points in order: by mix, then by clocks and caches of the mix's cores, then by the other keys."""
        mixes = next(axis.values for axis in self.axes if axis.key == "mix")
        for mix in mixes:
            axes = [axis for axis in self.axes if axis.key != "mix" and _concerns(axis.key, mix)]
            for values in product(*(axis.values for axis in axes)):
                yield self._point(mix, dict(zip((axis.key for axis in axes), values, strict=True)))

    def _point(self, mix: Mapping[str, int], chosen: Mapping[str, Any]) -> BoardPoint:
        clusters, first = [], 0
        milliwatts = {}
        values: dict[str, Any] = {"mix": dict(mix)}
        for core, count in mix.items():
            own = {key: chosen[f"{key}.{core}"] for key in OF_CORES if f"{key}.{core}" in chosen}
            for key, value in own.items():
                values.setdefault(key, {})[core] = value
            clusters.append(Cluster(core, tuple(range(first, first + count)), **own))
            milliwatts[core] = self.powers[core].milliwatts(own["max_khz"])
            first += count
        whole = {key: value for key, value in chosen.items() if "." not in key}
        values |= whole
        l3_bytes = whole.get("l3_bytes") or None
        rate = whole.get("memory_gb_per_s")
        board = Board(BOARD_NAME, "a point of a space", self.target, tuple(clusters), (), l3_bytes, rate)
        return BoardPoint(values, board, milliwatts)


def is_board_space(path: Path) -> bool:
    """True if a space's file has a table [board]. Raises: ProfileError if it cannot be read."""
    return "board" in schema.read_toml(path)


def read_board_space(path: Path) -> BoardSpace:
    """Return the space of a file with [board]; docs/exploring.md describes it.

    Raises: ProfileError naming file, key, value and remedy.
    """
    table = schema.read_toml(path)
    schema.only(path, table, ("board",))
    known = ("target", "power", "budget_w", "mix", "memory_gb_per_s", *OF_CORES, *OF_BOARDS)
    keys = read_table(path, table, "board", known, "write [board] with mix and max_khz below it")
    target = schema.text(path, keys, "target", DEFAULT_TARGET, key_path="board.target")
    try:
        parse_target(target)
    except MavcgError as error:
        raise refuse(path, "board.target", str(error), "as in --target") from None
    mixes = _mixes(path, keys.get("mix"), parse_target(target).arch)
    names = tuple(dict.fromkeys(core for mix in mixes for core in mix))
    axes = [SpaceAxis("mix", mixes)]
    for key, (low, high) in OF_CORES.items():
        axes += _core_axes(path, keys, key, names, low, high)
    for key, (low, high) in OF_BOARDS.items():
        if key in keys:
            axes.append(SpaceAxis(key, _whole_values(path, keys[key], f"board.{key}", low, high)))
    if "memory_gb_per_s" in keys:
        key_path = "board.memory_gb_per_s"
        rates = read_values(path, key_path, keys["memory_gb_per_s"], lambda value: schema.rate(path, value, key_path))
        axes.append(SpaceAxis("memory_gb_per_s", rates))
    budget_w = keys.get("budget_w")
    if budget_w is not None:
        remedy = f"give a number above 0 and at most {MOST_WATTS:g}"
        schema.value_as(path, "board.budget_w", budget_w, _WATTS, remedy)  # a whole number stays one in --json
    file = schema.text(path, keys, "power", "", key_path="board.power")
    powers, assumed = _powers(path, names, read_core_power(path.parent / file if file else OWN), axes)
    space = BoardSpace(target, tuple(axes), budget_w, powers, assumed)
    count = sum(1 for _ in zip(range(MOST_BOARDS + 1), _numbers(space), strict=False))
    if count > MOST_BOARDS:
        raise refuse(path, "board", f"more than {MOST_BOARDS} points", "take values away, or split it")
    return space


def _numbers(space: BoardSpace) -> Iterator[None]:
    for mix in space.axes[0].values:
        sizes = [len(axis.values) for axis in space.axes[1:] if _concerns(axis.key, mix)]
        for _ in product(*map(range, sizes)):
            yield None


def _concerns(key: str, mix: Mapping[str, int]) -> bool:
    """True for a key of the whole board, or of a core of the mix."""
    return "." not in key or key.partition(".")[2] in mix


def _mixes(path: Path, value: Any, arch: str) -> tuple[Mapping[str, int], ...]:
    mixes = value if isinstance(value, list) else [value]
    remedy = "write mix = [{ cortex-a55 = 4, cortex-a76 = 4 }, ..]: cores of `mavcg cores` and their numbers"
    if value is None or not mixes:
        raise refuse(path, "board.mix", "missing" if value is None else "has no values", remedy)
    cores = load_cores()
    for number, mix in enumerate(mixes):
        key_path = f"board.mix[{number}]"
        for name, count in schema.value_as(path, key_path, mix, _MIX, remedy).items():
            if name not in cores or cores[name].arch != arch:
                wrong = f"{name} is not a known core of {arch}"
                raise refuse(path, key_path, wrong, "name one of `mavcg cores`, or give target")
            schema.whole(path, {name: count}, name, f"{key_path}.{name}", 1, MOST_CORES, unit="cores")
        if mix in mixes[:number]:
            raise refuse(path, key_path, f"{schema.value_text(mix)} is given twice", "remove one of them")
    return tuple(dict(mix) for mix in mixes)


def _core_axes(
    path: Path, keys: Mapping[str, Any], key: str, names: tuple[str, ...], low: int, high: int
) -> list[SpaceAxis]:
    """Return an axis for each core with values in a table. Clocks are required for all cores."""
    of_core = keys.get(key, {})
    key_path = f"board.{key}"
    remedy = f"write {key} = {{ {names[0]} = .., .. }}, each a value or a list of values"
    of_core = schema.value_as(path, key_path, of_core, _OF_CORES, remedy)
    schema.only(path, of_core, names, f"{key_path}.")
    if key == "max_khz" and (missing := [name for name in names if name not in of_core]):
        raise refuse(path, f"{key_path}.{missing[0]}", "missing", "give each core of a mix a clock in kHz, or several")
    return [
        SpaceAxis(f"{key}.{name}", _whole_values(path, of_core[name], f"{key_path}.{name}", low, high))
        for name in names
        if name in of_core
    ]


def _whole_values(path: Path, listed: Any, key_path: str, low: int, high: int) -> tuple[Any, ...]:
    unit = "kHz" if high == OF_CORES["max_khz"][1] else "bytes"

    def check(value: Any) -> int:
        return schema.whole(path, {unit: value}, unit, key_path, low, high, unit=unit)

    return read_values(path, key_path, listed, check)


def _powers(
    path: Path, names: tuple[str, ...], published: Mapping[str, CorePower], axes: list[SpaceAxis]
) -> tuple[dict[str, CorePower], tuple[str, ...]]:
    """Return the power of each core, and a sentence for each assumption.

    Raises: ProfileError for a core without a stand-in.
    """
    cores = load_cores()
    powers: dict[str, CorePower] = {}
    assumed = []
    for name in names:
        stand_in = _stand_in(cores[name], published)
        if stand_in is None:
            remedy = "give its power in a file named by power (docs/exploring.md)"
            raise refuse(path, f"board.mix: {name}", "neither its power nor that of a similar core is known", remedy)
        powers[name] = replace(published[stand_in], core=name)
        if stand_in != name:
            assumed.append(f"{name}: its power is not published: that of a {stand_in} is assumed")
        clocks = next(axis.values for axis in axes if axis.key == f"max_khz.{name}")
        assumed += [
            f"{name}: its power at {khz / 1e6:g} GHz is outside the measured range of a {stand_in}: it is extrapolated"
            for khz in clocks
            if not powers[name].is_measured(khz)
        ]
    return powers, tuple(assumed)


def _stand_in(core: Core, published: Mapping[str, CorePower]) -> str | None:
    if core.name in published:
        return core.name
    if core.arch != "aarch64":
        return None
    return next((name for name in (*core.stand_ins, STAND_INS[core.order]) if name in published), None)
