"""Reader of app.toml: networks, limits, partitions, and what runs at the same time."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from mavcg.apps.application import ScheduleBlock
from mavcg.apps.model_network import PRECISIONS
from mavcg.apps.schedule_notation import ScheduleTextError, parse_schedule
from mavcg.apps.service.periodic_keys import (
    AcceleratorStage,
    Milliseconds,
    PartMilliseconds,
    Periodic,
    Priority,
    Stage,
    WrittenPeriod,
    periodic_networks,
    processor_of,
)
from mavcg.apps.service.program_entry import AcceleratedEntry, program_entry
from mavcg.errors import MavcgError
from mavcg.files.decode import Document, read_text, toml_document
from mavcg.files.file_types import value_text
from mavcg.importers.declared_shapes import GivenShapes
from mavcg.model.precision import MAX_HALF_ERROR
from mavcg.model.sizes import BoundedShapes, checked_bounds, lengths_of
from mavcg.model.weight_choice import STORED_TYPES
from mavcg.text.byte_sizes import parse_bytes

NO_STATES = "the networks of an application share one memory, in which nothing stays between runs"  # in messages
NO_COUNTS = "a run of a network of an application does not decide lengths of its outputs"  # in messages
_AUTO = re.compile(r"auto(?::(\d+))?")
_NETWORK_KEY = re.compile(r"network\[(\d+)\]\.?(.*)")
Frames = Annotated[float, Meta(ge=0, lt=1e300, description="a number of frames per second, from 0 on")]
_LENGTH = r"[0-9]{1,18}(\.\.[0-9]{1,18}(:[0-9]{1,18})?)?"
_Length = Annotated[
    Annotated[int, Meta(gt=0)] | Annotated[str, Meta(pattern=f"^{_LENGTH}$")],
    Meta(description="a length from 1 on or a range of lengths", examples=['3 or "1..512"']),
]
_Shape = Annotated[
    tuple[_Length, ...] | Annotated[str, Meta(pattern=f"^{_LENGTH}(x{_LENGTH})*$")],
    Meta(description="a shape", examples=['[1, 3, 224, 224] or "1x1..512"']),
]
_WEIGHTS = (*STORED_TYPES, "int8")
_Error = Annotated[float, Meta(gt=0, lt=1, description="an error", examples=["0.01"])]
_SCHEDULE = '"a, [b, c] x 8", one string for each partition'


@dataclass(frozen=True)
class _Network:
    """A [[network]] as it is written; its fields are those of its entry."""

    name: Annotated[str, Meta(min_length=1, description="a name")]
    file: Annotated[str, Meta(min_length=1, description="a path")] | None = None
    program: Annotated[str, Meta(min_length=1, description="a path")] | None = None
    accelerator: Annotated[str, Meta(min_length=1, description="a name")] | None = None
    parts_ms: tuple[PartMilliseconds, ...] = ()
    shapes: Mapping[str, _Shape] = field(default_factory=dict)
    throughput: Frames | None = None
    precision: str = "fp32"
    samples: Annotated[str, Meta(min_length=1, description="a path")] | None = None
    weights: str = ""
    max_error: _Error | None = None
    partitions: str | tuple[str, ...] = ""
    schedule: Annotated[str | tuple[str, ...], Meta(description="a schedule", examples=[_SCHEDULE])] | None = None
    period_ms: Milliseconds | None = None
    deadline_ms: Milliseconds | None = None
    priority: Priority | None = None
    preemptible: bool | None = None
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class _Application:
    """An app.toml as it is written."""

    memory: str | None = None
    weights_resident: str | None = None
    parallel: Annotated[
        tuple[tuple[str, ...], ...], Meta(description="a list of lists", examples=['[["a", "b"]]'])
    ] = ()
    order: tuple[str, ...] | None = None
    network: tuple[_Network, ...] = ()


@dataclass(frozen=True)
class NetworkEntry:
    """A [[network]] of app.toml.

    throughput: T^c in frames per second, or None. partitions: "" for one, "auto:n", or the first layers of the
    partitions after the first. line: of the table. schedules: one for each partition; empty if the plan computes them.
    schedule_place, shapes_place: locations of these keys, for messages. bounds: shapes with a bounded dimension, those
    of whose longest lengths are in shapes. weights: f16, bf16 or int8, in which weights lie in memory; "": their own
    type. max_error: limit of the measured error of weights in int8, and of `mixed`, relative to the
    largest output.
    periodic: its jobs, or None; all networks of an application have some, or none has. samples: folder of calibration
    inputs by which it is converted to 8 bits, or None. quantised: what its documents say of that, once it is done.
    stages: the cluster's number, or the accelerator, of each partition; empty if they are not given.
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
    shapes_place: str = ""
    bounds: BoundedShapes | None = None
    weights: str = ""
    max_error: float = MAX_HALF_ERROR
    periodic: Periodic | None = None
    samples: Path | None = None
    quantised: Mapping[str, Any] | None = None
    stages: tuple[int | AcceleratorStage, ...] = ()


@dataclass(frozen=True)
class ApplicationFile:
    """The contents of app.toml.

    memory: M^c, limit in bytes of weights and buffers, or None. weights_resident: limit in bytes of weights that are in
    memory at a time, or None. parallel: sets of names of networks or partitions.
    networks: in execution order. programs: networks beside those of the library.
    """

    path: Path
    memory: int | None
    parallel: tuple[tuple[str, ...], ...]
    networks: tuple[NetworkEntry, ...]
    weights_resident: int | None = None
    programs: tuple[AcceleratedEntry, ...] = ()

    @property
    def periods(self) -> tuple[Periodic, ...]:
        """Return the periods of all networks of the library, in order, or () if they have none."""
        return tuple(entry.periodic for entry in self.networks if entry.periodic is not None)


class _KeyLocations:
    """Locations of a file's keys, for messages."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.lines = path, text.splitlines()
        self.tables = [n for n, line in enumerate(self.lines) if re.match(r"\s*\[\[\s*network\s*\]\]", line)]

    def of(self, key_path: str) -> str:
        """Return a key's location, as "app.toml: line 3: network[0].file"; its table's line if the key is missing."""
        start, end = 0, self.tables[0] if self.tables else len(self.lines)
        key = key_path
        if match := _NETWORK_KEY.match(key_path):
            network, key = int(match[1]), match[2]
            start = self.tables[network] if network < len(self.tables) else 0
            end = self.tables[network + 1] if network + 1 < len(self.tables) else len(self.lines)
        pattern = re.compile(rf"\s*\"?{re.escape(re.split(r'[.[]', key)[0])}\"?\s*[=.]")
        line = next((n for n in range(start, end) if pattern.match(self.lines[n])), start)
        return f"{self.path}: line {line + 1}: {key_path}"


def read_application_file(path: Path, ignore_declared_shapes: bool = False) -> ApplicationFile:
    """Read app.toml; paths of networks are relative to it. ignore_declared_shapes: as in GivenShapes, for all networks.

    Raises: MavcgError naming file, line, key and remedy.
    """
    text = read_text(path, "name an app.toml")
    locations = _KeyLocations(path, text)
    document = toml_document(text, str(path))._replace(place=locations.of)
    file = document.decode(_Application)
    if not file.network:
        raise document.fault("network", "missing", "add [[network]] with name and file")
    memory, resident = (
        None if text is None else _bytes(document, key, text)
        for key, text in (("memory", file.memory), ("weights_resident", file.weights_resident))
    )
    names = [entry.name for entry in file.network]
    for number, name in enumerate(names):
        if names.index(name) != number:
            wrong = f"{value_text(name)} is there already"
            raise document.fault(f"network[{number}].name", wrong, "give each network its own name")
    written = [WrittenPeriod(n.period_ms, n.deadline_ms, n.priority, n.preemptible) for n in file.network]
    periods = periodic_networks(written, document.fault) or (None,) * len(written)
    networks, programs = list[NetworkEntry](), list[AcceleratedEntry]()
    for number, (own, periodic) in enumerate(zip(file.network, periods, strict=True)):
        if own.program is not None:
            programs.append(program_entry(document, path.parent, number, own, periodic))
            continue
        entry = _network(document, locations, number, own)
        shapes = GivenShapes(entry.shapes, ignore_declared_shapes)
        networks.append(replace(entry, shapes=shapes, periodic=periodic))
    names = [entry.name for entry in networks]
    if not networks:
        raise document.fault(
            "network", "all have programs", "add one with a file; `mavcg accel run` runs a program alone"
        )
    order = names if file.order is None else list(file.order)
    if sorted(order) != sorted(names):
        wrong = f"{value_text(order)} does not name each network once"
        raise document.fault("order", wrong, f"the networks are {', '.join(names)}")
    ordered = tuple(sorted(networks, key=lambda entry: order.index(entry.name)))
    return ApplicationFile(path, memory, file.parallel, ordered, resident, tuple(programs))


def _network(document: Document, locations: _KeyLocations, number: int, entry: _Network) -> NetworkEntry:
    def fault(key: str, wrong: str, remedy: str) -> MavcgError:
        return document.fault(f"network[{number}].{key}", wrong, remedy)

    if entry.file is None:
        raise fault("file", "missing", "name an .onnx, .tflite or .prototxt file, or give a program")
    if entry.accelerator is not None:
        raise fault("accelerator", "is there without a program", "give the program that it computes, or leave it out")
    if entry.parts_ms:
        raise fault("parts_ms", "is there without a program", "these are times of a program's parts; leave it out")
    file = locations.path.parent / entry.file
    if not os.path.isfile(file):  # a name that is too long is no file, too
        raise fault("file", f"{value_text(entry.file)} does not exist", "name an .onnx, .tflite or .prototxt file")
    if entry.precision not in PRECISIONS:
        raise fault("precision", f"{value_text(entry.precision)} is not known", f"give one of {', '.join(PRECISIONS)}")
    if entry.weights not in ("", *_WEIGHTS):
        raise fault("weights", f"{value_text(entry.weights)} is not known", f"give {' or '.join(_WEIGHTS)}")
    if entry.max_error is not None and entry.weights != "int8" and entry.precision != "mixed":
        remedy = 'give weights = "int8" or precision = "mixed", or leave it out'
        raise fault("max_error", "is there without weights in 8 bits", remedy)
    if entry.samples is not None and entry.precision != "int8":
        raise fault("samples", "is there without precision", 'give precision = "int8", which converts the network')
    parts = entry.partitions
    if isinstance(parts, str) and parts and (not (match := _AUTO.fullmatch(parts)) or match[1] in ("0", "1")):
        wrong = f"{value_text(parts)} is no number of partitions"
        raise fault("partitions", wrong, 'write "auto", "auto:2" or first layers\' names')
    if entry.stages and (not parts or entry.period_ms is None):
        raise fault("stages", "are of partitions of a network with a period", "give partitions and period_ms, too")
    if entry.stages and not isinstance(parts, str) and len(entry.stages) != len(parts) + 1:
        raise fault("stages", f"has {len(entry.stages)} of {len(parts) + 1} partitions", "give one for each")
    line = locations.tables[number] + 1 if number < len(locations.tables) else 1
    spot, shapes_place = (locations.of(f"network[{number}].{key}") for key in ("schedule", "shapes"))
    schedules = () if entry.schedule is None else _schedules(spot, entry.schedule)
    texts = {name: s if isinstance(s, str) else "x".join(map(str, s)) for name, s in entry.shapes.items()}
    lengths = {name: lengths_of(text) for name, text in texts.items()}
    bounds = checked_bounds(lengths, f"{shapes_place}: {' '.join(f'{name}={text}' for name, text in texts.items())}")
    if entry.samples is not None and bounds:
        raise fault(
            "samples", f"calibrate one length, and {bounds} has a bounded dimension", "give each axis one length"
        )
    return NetworkEntry(
        entry.name,
        file,
        GivenShapes((bounds or BoundedShapes(lengths)).longest()),
        entry.throughput,
        entry.precision,
        parts,
        line,
        schedules,
        spot,
        shapes_place,
        bounds,
        entry.weights,
        MAX_HALF_ERROR if entry.max_error is None else entry.max_error,
        stages=tuple(processor_of(stage) for stage in entry.stages),
        samples=None if entry.samples is None else locations.path.parent / entry.samples,
    )


def _schedules(location: str, value: str | tuple[str, ...]) -> tuple[ScheduleBlock, ...]:
    texts = [value] if isinstance(value, str) else value
    if not texts:
        raise MavcgError(f"{location}: {value_text(value)} is not a schedule; write it as {_SCHEDULE}")
    parsed = []
    for text in texts:
        try:
            parsed.append(parse_schedule(text))
        except ScheduleTextError as error:
            raise MavcgError(f"{location}: {value_text(text)}: {error}") from error
    return tuple(parsed)


def _bytes(document: Document, key: str, text: str) -> int:
    size = parse_bytes(text, unit_needed=True)
    if size is None:
        remedy = 'write it with a unit, as in "2 MB" or "512 KiB"'
        raise document.fault(key, f"{value_text(text)} is not a size", remedy)
    return size
