"""Reader of app.toml: networks, limits, partitions, and what runs at the same time."""

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mavcg.apps.application import ScheduleBlock
from mavcg.apps.model_network import PRECISIONS
from mavcg.apps.schedule_notation import ScheduleTextError, parse_schedule
from mavcg.errors import MavcgError
from mavcg.files.toml_tables import value_text
from mavcg.importers.declared_shapes import GivenShapes

_UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)", re.ASCII)
_AUTO = re.compile(r"auto(?::(\d+))?")
_TOP = {"memory": str, "parallel": list, "order": list, "network": list}
_NETWORK = {
    "name": str,
    "file": str,
    "shapes": dict,
    "throughput": (int, float),
    "precision": str,
    "partitions": (str, list),
    "schedule": (str, list),
}


@dataclass(frozen=True)
class NetworkEntry:
    """A [[network]] of app.toml.

    throughput: T^c in frames per second, or None. partitions: "" for one, "auto:n", or the first layers of the
    partitions after the first. line: of the table. schedules: one for each partition; empty if the plan computes them.
    schedule_place: location of the key, for messages.
    """

    name: str
    file: Path
    shapes: GivenShapes
    throughput: float | None
    precision: str
    partitions: str | tuple[str, ...]
    line: int
    schedules: tuple[ScheduleBlock, ...] = ()
    schedule_place: str = ""


@dataclass(frozen=True)
class ApplicationFile:
    """The contents of app.toml.

    memory: M^c, limit in bytes of weights and buffers, or None. parallel: sets of names of networks or partitions.
    networks: in execution order.
    """

    path: Path
    memory: int | None
    parallel: tuple[tuple[str, ...], ...]
    networks: tuple[NetworkEntry, ...]


class _KeyLocations:
    """Locations of a file's keys, for messages."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.lines = path, text.splitlines()
        self.tables = [n for n, line in enumerate(self.lines) if re.match(r"\s*\[\[\s*network\s*\]\]", line)]

    def of(self, key: str, network: int | None = None) -> str:
        """Return a key's location, as "app.toml: line 3: network[0].file"; its table's line if the key is missing."""
        start, end = 0, self.tables[0] if self.tables else len(self.lines)
        if network is not None:
            start = self.tables[network] if network < len(self.tables) else 0
            end = self.tables[network + 1] if network + 1 < len(self.tables) else len(self.lines)
        name = key if network is None else f"network[{network}].{key}"
        pattern = re.compile(rf"\s*\"?{re.escape(key)}\"?\s*[=.]")
        line = next((n for n in range(start, end) if pattern.match(self.lines[n])), start)
        return f"{self.path}: line {line + 1}: {name}"


def read_application_file(path: Path, ignore_declared_shapes: bool = False) -> ApplicationFile:
    """Read app.toml; paths of networks are relative to it. ignore_declared_shapes: as in GivenShapes, for all networks.

    Raises: MavcgError naming file, line, key and remedy.
    """
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); name an app.toml") from error
    except (ValueError, RecursionError) as error:
        raise MavcgError(f"{path}: not TOML ({error}); correct it") from error
    locations = _KeyLocations(path, text)
    _check(locations, table, _TOP, None)
    entries = table.get("network", [])
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        raise MavcgError(f"{locations.of('network')}: no network; add [[network]] with name and file")
    memory = _bytes(locations.of("memory"), table["memory"]) if "memory" in table else None
    parallel = table.get("parallel", [])
    if not all(isinstance(group, list) and all(isinstance(name, str) for name in group) for group in parallel):
        raise MavcgError(
            f'{locations.of("parallel")} = {value_text(parallel)}: is not a list of lists; write [["a", "b"]]'
        )
    networks = tuple(_network(locations, number, entry) for number, entry in enumerate(entries))
    networks = tuple(replace(entry, shapes=GivenShapes(entry.shapes, ignore_declared_shapes)) for entry in networks)
    names = [entry.name for entry in networks]
    for number, name in enumerate(names):
        if names.index(name) != number:
            raise MavcgError(
                f"{locations.of('name', number)} = '{name}': is there already; give each network its own name"
            )
    order = table.get("order", names)
    if not all(isinstance(name, str) for name in order) or sorted(order) != sorted(names):
        raise MavcgError(
            f"{locations.of('order')} = {value_text(order)}: does not name each network once; "
            f"the networks are {', '.join(names)}"
        )
    networks = tuple(sorted(networks, key=lambda entry: order.index(entry.name)))
    return ApplicationFile(path, memory, tuple(tuple(group) for group in parallel), networks)


def _check(locations: _KeyLocations, table: dict[str, Any], kinds: dict[str, Any], network: int | None) -> None:
    for key, value in table.items():
        if key not in kinds:
            raise MavcgError(f"{locations.of(key, network)}: unknown key; the keys are {', '.join(kinds)}")
        if not isinstance(value, kinds[key]) or isinstance(value, bool):
            kind = kinds[key] if isinstance(kinds[key], tuple) else (kinds[key],)
            words = " or ".join(
                {"str": "a string", "list": "a list", "dict": "a table"}.get(k.__name__, "a number")
                for k in kind
                if k is not float
            )
            raise MavcgError(f"{locations.of(key, network)} = {value_text(value)}: is not {words}; correct it")


def _network(locations: _KeyLocations, number: int, table: dict[str, Any]) -> NetworkEntry:
    _check(locations, table, _NETWORK, number)
    for key in ("name", "file"):
        if not table.get(key):
            raise MavcgError(f'{locations.of(key, number)}: is missing; add {key} = "..."')
    file = locations.path.parent / table["file"]
    if not file.is_file():
        raise MavcgError(
            f"{locations.of('file', number)} = '{table['file']}': does not exist; "
            "name an .onnx, .tflite or .prototxt file"
        )
    precision = table.get("precision", "fp32")
    if precision not in PRECISIONS:
        raise MavcgError(f"{locations.of('precision', number)} = '{precision}': give one of {', '.join(PRECISIONS)}")
    least = table.get("throughput")
    if least is not None and not 0 <= least < float("inf"):
        raise MavcgError(f"{locations.of('throughput', number)} = {least}: give frames per second, from 0 on")
    shapes = GivenShapes()
    for name, dims in table.get("shapes", {}).items():
        if not isinstance(dims, list) or not all(type(d) is int and d > 0 for d in dims):
            raise MavcgError(
                f"{locations.of('shapes', number)}: {name} = {value_text(dims)}: write it as [1, 3, 224, 224]"
            )
        shapes[name] = tuple(dims)
    parts = table.get("partitions", "")
    if isinstance(parts, str) and parts and (not (match := _AUTO.fullmatch(parts)) or match[1] in ("0", "1")):
        raise MavcgError(
            f'{locations.of("partitions", number)} = \'{parts}\': write "auto", "auto:2" or first layers\' names'
        )
    if isinstance(parts, list) and not all(isinstance(name, str) for name in parts):
        raise MavcgError(
            f"{locations.of('partitions', number)} = {value_text(parts)}: is not a list of strings; correct it"
        )
    line = locations.tables[number] + 1 if number < len(locations.tables) else 1
    own = tuple(parts) if isinstance(parts, list) else parts
    spot = locations.of("schedule", number)
    schedules = _schedules(spot, table["schedule"]) if "schedule" in table else ()
    return NetworkEntry(
        table["name"], file, shapes, None if least is None else float(least), precision, own, line, schedules, spot
    )


def _schedules(location: str, value: str | list[Any]) -> tuple[ScheduleBlock, ...]:
    texts = [value] if isinstance(value, str) else value
    if not texts or not all(isinstance(text, str) for text in texts):
        raise MavcgError(
            f'{location} = {value_text(value)}: is not a schedule; write "a, [b, c] x 8", one string for each partition'
        )
    parsed = []
    for text in texts:
        try:
            parsed.append(parse_schedule(text))
        except ScheduleTextError as error:
            raise MavcgError(f"{location} = {value_text(text)}: {error}") from error
    return tuple(parsed)


def _bytes(location: str, text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise MavcgError(f'{location} = \'{text}\': is not a size; write it with a unit, as in "2 MB" or "512 KiB"')
    return int(float(match[1]) * _UNITS[match[2]])
