"""A compiled program, with all that is needed to run, simulate and check it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any

from mavcg.accelerators.fixed_point import ROUNDINGS
from mavcg.accelerators.image.host import LEAST_RADIX, MOST_RADIX, HostPlan, host_json, parse_host
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.target import WHOLE, IsaTarget
from mavcg.errors import MavcgError

MOST_FEATURE_BYTES = 1 << 32  # offsets in the features segment have 32 bits
MOST_STEPS = 1 << 31  # maximum difference of two 32-bit biases


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in the features segment.

    height, width, channels: its dimensions [H, W, C]. radix: radix position. offset: its first byte. pixel: bytes from
    one pixel to the next, more than C if it is a part of a concatenation.
    """

    name: str
    height: int
    width: int
    channels: int
    radix: int
    offset: int
    pixel: int

    @property
    def row(self) -> int:
        """Return the bytes from one row to the next."""
        return self.width * self.pixel

    @property
    def end(self) -> int:
        """Return the offset after the last byte."""
        return self.offset + (self.height * self.width - 1) * self.pixel + self.channels


@dataclass(frozen=True)
class NodeRadix:
    """The quantiser's choices for a node.

    radix, weights: radix positions of its tensor and its weights. bias_steps: what is added to the integer bias of each
    output channel; () for nothing.
    """

    node: str
    radix: int
    weights: tuple[int, ...]
    bias_steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class AccelProgram:
    """Code, parameters and description of a network that was compiled for a target.

    network: its name. feature_bytes: size of the features segment. nodes: names, to which the origins of instructions
    have indices. tensors: tensors in the features segment. inputs, outputs: names of tensors. operations: operations of
    the accelerator's convolutions for one image. host: what the CPU does before and after. radices: choices for all
    nodes, for the reference. nchw: inputs whose model has the order N, C, H, W.
    """

    network: str
    target: IsaTarget
    instructions: tuple[AccelInstruction, ...]
    parameters: bytes
    feature_bytes: int
    nodes: tuple[str, ...]
    tensors: tuple[StoredTensor, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operations: int
    host: HostPlan = HostPlan()
    radices: tuple[NodeRadix, ...] = ()
    nchw: tuple[str, ...] = ()

    def tensor(self, name: str) -> StoredTensor:
        """Return the stored tensor of this name."""
        return next(tensor for tensor in self.tensors if tensor.name == name)

    @property
    def cpu_nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes that the CPU computes, in the order of execution."""
        return tuple(name for part in self.host.parts for name in part.nodes)

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the files of the CPU parts that were built."""
        return tuple(part.library for part in self.host.parts if part.library)


_NAMES = ("nodes", "inputs", "outputs", "nchw")


def description(program: AccelProgram) -> dict[str, Any]:
    """Return all of a program except code and parameters, as a JSON table."""
    return {
        "network": program.network,
        "target": {**asdict(program.target), "sources": [list(pair) for pair in program.target.sources]},
        "feature_bytes": program.feature_bytes,
        "operations": program.operations,
        "host": host_json(program.host),
        "tensors": [asdict(tensor) for tensor in program.tensors],
        "radices": [
            [radix.node, radix.radix, list(radix.weights), list(radix.bias_steps)] for radix in program.radices
        ],
        **{key: list(getattr(program, key)) for key in _NAMES},
    }


def from_description(
    table: Any, instructions: tuple[AccelInstruction, ...], parameters: bytes, location: str
) -> AccelProgram:
    """Return the program of a description. Raises: MavcgError naming location, key and value of a fault."""

    def refuse(key: str, wrong: str) -> MavcgError:
        return MavcgError(f"{location}: {key}: {wrong}; build the file again")

    keys = {"network", "target", "feature_bytes", "operations", "host", "tensors", "radices", *_NAMES}
    if not isinstance(table, dict) or set(table) != keys:
        present = sorted(table) if isinstance(table, dict) else type(table).__name__
        raise refuse("description", f"has the keys {present}; it must have {sorted(keys)}")
    if not isinstance(table["network"], str):
        raise refuse("network", "is not text")
    for key in _NAMES:
        if not isinstance(table[key], list) or not all(isinstance(name, str) for name in table[key]):
            raise refuse(key, "is not a list of names")
    feature_bytes = _whole(table["feature_bytes"], 0, MOST_FEATURE_BYTES)
    operations = _whole(table["operations"], 0, 1 << 60)
    if feature_bytes is None or operations is None:
        raise refuse("feature_bytes, operations", f"{table['feature_bytes']!r}, {table['operations']!r} are not counts")
    tensors = []
    for entry in table["tensors"] if isinstance(table["tensors"], list) else [None]:
        tensor = _tensor(entry)
        if tensor is None or tensor.end > feature_bytes or tensor.pixel < tensor.channels:
            raise refuse("tensors", f"{entry!r} is not a tensor in {feature_bytes} bytes of features")
        tensors.append(tensor)
    known = {tensor.name for tensor in tensors}
    if len(known) != len(tensors):
        raise refuse("tensors", "a name is given twice")
    for key in ("inputs", "outputs"):
        if lost := set(table[key]) - known:
            raise refuse(key, f"{min(lost)} is not a tensor of the file")
    radices = [_node_radix(entry) for entry in table["radices"]] if isinstance(table["radices"], list) else [None]
    known_radices = [radix for radix in radices if radix is not None]
    if len(known_radices) != len(radices):
        raise refuse("radices", "is not a list of names, positions, lists of positions and lists of steps")
    for index, one_instruction in enumerate(instructions):
        origin = one_instruction.origin
        if origin is not None and not 0 <= origin.node < len(table["nodes"]):
            raise refuse(
                "nodes", f"instruction {index} belongs to node {origin.node}, but there are {len(table['nodes'])} nodes"
            )
    host = parse_host(table["host"])
    if host is None:
        raise refuse("host", "is not a plan of the host's transfers")
    moved = {tensor.name for tensor in host.tensors if tensor.radix is not None}
    if lost := {*table["inputs"], *table["outputs"]} - moved:
        raise refuse("host", f"{min(lost)} is not among the 8-bit tensors of the host")
    return AccelProgram(
        table["network"],
        _target(table["target"], refuse),
        instructions,
        parameters,
        feature_bytes,
        tuple(table["nodes"]),
        tuple(tensors),
        tuple(table["inputs"]),
        tuple(table["outputs"]),
        operations,
        host,
        tuple(known_radices),
        tuple(table["nchw"]),
    )


def _whole(value: Any, low: int, high: int) -> int | None:
    return value if type(value) is int and low <= value <= high else None


def _tensor(entry: Any) -> StoredTensor | None:
    if not isinstance(entry, dict) or set(entry) != {field.name for field in fields(StoredTensor)}:
        return None
    limits = {
        "height": (1, 1 << 20),
        "width": (1, 1 << 20),
        "channels": (1, 1 << 20),
        "radix": (LEAST_RADIX, MOST_RADIX),
        "offset": (0, MOST_FEATURE_BYTES),
        "pixel": (1, 1 << 24),
    }
    if not isinstance(entry["name"], str) or any(_whole(entry[k], *limit) is None for k, limit in limits.items()):
        return None
    return StoredTensor(**entry)


def _node_radix(entry: Any) -> NodeRadix | None:
    if (
        not isinstance(entry, list)
        or len(entry) != 4
        or not isinstance(entry[0], str)
        or not isinstance(entry[2], list)
        or not isinstance(entry[3], list)
    ):
        return None
    if any(_whole(radix, LEAST_RADIX, MOST_RADIX) is None for radix in (entry[1], *entry[2])):
        return None
    if any(_whole(steps, -MOST_STEPS, MOST_STEPS) is None for steps in entry[3]):
        return None
    return NodeRadix(entry[0], entry[1], tuple(entry[2]), tuple(entry[3]))


def _target(table: Any, refuse: Any) -> IsaTarget:
    names = {field.name for field in fields(IsaTarget)}
    if not isinstance(table, Mapping) or set(table) != names:
        raise refuse("target", "lacks keys or has unknown ones")
    for key, (low, high, unit) in WHOLE.items():
        if _whole(table[key], low, high) is None:
            raise refuse(f"target.{key}", f"{table[key]!r} is not {low} to {high} {unit}")
    for key in ("frequency_mhz", "ddr_gb_per_s"):
        value = table[key]
        if type(value) not in (int, float) or not isfinite(value) or not 1e-6 <= value <= 1e6:
            raise refuse(f"target.{key}", f"{value!r} is not a rate from 0.000001 to 1000000")
    if table["ic_parallel"] % 2 or table["rounding"] not in ROUNDINGS:
        raise refuse("target", f"ic_parallel {table['ic_parallel']}, rounding {table['rounding']!r}")
    if not all(isinstance(table[key], str) for key in ("name", "description", "dense")):
        raise refuse("target", "name, description and dense must be texts")
    sources = table["sources"]
    if not isinstance(sources, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair) for pair in sources
    ):
        raise refuse("target.sources", "is not a list of pairs of texts")
    return IsaTarget(**{**table, "sources": tuple((pair[0], pair[1]) for pair in sources)})
