"""What the host moves: tensors that it has in hand, and the CPU parts before and after the accelerator's program."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from mavcg.accel.fixed_point import ROUNDINGS

if TYPE_CHECKING:
    from mavcg.accel.image.program import AccelProgram, StoredTensor

MOST_DIMENSIONS = 8
LEAST_RADIX, MOST_RADIX = -64, 64
TABLE_MAGIC = 0x3054484D  # "MHT0": section .host, read by runtime/accel/image.c
_NO_RADIX = 0x80000000  # INT32_MIN


@dataclass(frozen=True)
class HostTensor:
    """A tensor that the host writes, reads or hands to a CPU part.

    dims: in the model's own order; nchw: that is N, C, H, W where the device has N, H, W, C. radix: position of the
    binary point of its int8; None where it stays f32, on the CPU alone.
    """

    name: str
    dims: tuple[int, ...]
    radix: int | None
    nchw: bool = False


@dataclass(frozen=True)
class CpuPart:
    """Nodes that a model library computes.

    nodes: their names. inputs: tensors that it reads, int8 where they have a radix position. outputs: tensors that it
    makes, f32. library: file beside the program; "" before it was built.
    """

    nodes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    library: str = ""


@dataclass(frozen=True)
class HostPlan:
    """Everything around the accelerator's program. inputs, outputs: of the whole network."""

    tensors: tuple[HostTensor, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    before: CpuPart = CpuPart()
    after: CpuPart = CpuPart()

    def tensor(self, name: str) -> HostTensor:
        """The tensor of this name."""
        return next(tensor for tensor in self.tensors if tensor.name == name)

    @property
    def parts(self) -> tuple[CpuPart, ...]:
        """The CPU parts that have nodes, in the order of their execution."""
        return tuple(part for part in (self.before, self.after) if part.nodes)


def host_json(plan: HostPlan) -> dict[str, Any]:
    """Return the plan as JSON has it."""
    return asdict(plan)


def parse_host(table: Any) -> HostPlan | None:
    """Return the plan of a JSON table; None where it is none."""
    if not _has_fields(table, HostPlan) or not isinstance(table["tensors"], list | tuple):
        return None
    tensors = [_parse_tensor(entry) for entry in table["tensors"]]
    parts = [_parse_part(table[key]) for key in ("before", "after")]
    lists = [table["inputs"], table["outputs"]]
    known = [tensor for tensor in tensors if tensor is not None]
    before, after = parts
    if len(known) != len(tensors) or before is None or after is None or not all(map(_is_names, lists)):
        return None
    plan = HostPlan(tuple(known), tuple(table["inputs"]), tuple(table["outputs"]), before, after)
    names = {tensor.name for tensor in known}
    used = [*plan.inputs, *plan.outputs, *before.inputs, *before.outputs, *after.inputs, *after.outputs]
    return plan if len(names) == len(known) and names.issuperset(used) else None


def _has_fields(table: Any, kind: type[Any]) -> bool:
    return isinstance(table, Mapping) and set(table) == {field.name for field in fields(kind)}


def _is_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def _parse_tensor(entry: Any) -> HostTensor | None:
    if not _has_fields(entry, HostTensor) or not isinstance(entry["name"], str) or type(entry["nchw"]) is not bool:
        return None
    dims, radix = entry["dims"], entry["radix"]
    if not isinstance(dims, list | tuple) or len(dims) > MOST_DIMENSIONS or (entry["nchw"] and len(dims) != 4):
        return None
    if any(type(dim) is not int or not 1 <= dim < 1 << 31 for dim in dims):
        return None
    if radix is not None and (type(radix) is not int or not LEAST_RADIX <= radix <= MOST_RADIX):
        return None
    return HostTensor(entry["name"], tuple(dims), radix, entry["nchw"])


def _parse_part(entry: Any) -> CpuPart | None:
    if not _has_fields(entry, CpuPart) or not isinstance(entry["library"], str) or "/" in entry["library"]:
        return None
    if not all(_is_names(entry[key]) for key in ("nodes", "inputs", "outputs")):
        return None
    return CpuPart(tuple(entry["nodes"]), tuple(entry["inputs"]), tuple(entry["outputs"]), entry["library"])


def host_table(program: "AccelProgram") -> bytes:
    """Return section .host: the plan and the device's sizes as little-endian 32-bit words, for the host side in C.

    Magic; cores, word, output channels, rows, words of feature and weight memory, banks, rounding; tensors: name, radix
    position, nchw, offset and distance of pixels in the features segment (0, 0: not there), dimensions; lists of
    tensors by number: the network's inputs and outputs, the device's; the parts: library, inputs, outputs. A list and a
    text have their length before them; a text ends with zeros up to a whole word.
    """
    plan = program.host
    numbers = {tensor.name: number for number, tensor in enumerate(plan.tensors)}
    stored = {tensor.name: tensor for tensor in program.tensors}
    content = bytearray(struct.pack("<9I", TABLE_MAGIC, *_sizes(program)))
    content += struct.pack("<I", len(plan.tensors))
    for tensor in plan.tensors:
        content += _tensor_words(tensor, stored.get(tensor.name))
    for names in (plan.inputs, plan.outputs, program.inputs, program.outputs):
        content += _list_words(names, numbers)
    for part in (plan.before, plan.after):
        content += _text_words(part.library) + _list_words(part.inputs, numbers) + _list_words(part.outputs, numbers)
    return bytes(content)


def _sizes(program: "AccelProgram") -> Iterator[int]:
    from mavcg.accel.isa.datapath import datapath

    path = datapath(program.target)
    yield from (program.target.batch, path.word, path.oc_lanes, path.row_lanes, path.feature_words, path.weight_words)
    yield from (path.banks, ROUNDINGS.index(path.rounding))


def _tensor_words(tensor: HostTensor, stored: "StoredTensor | None") -> bytes:
    radix = _NO_RADIX if tensor.radix is None else tensor.radix & 0xFFFFFFFF
    place = (stored.offset, stored.pixel) if stored is not None else (0, 0)
    numbers = (radix, int(tensor.nchw), *place, len(tensor.dims), *tensor.dims)
    return _text_words(tensor.name) + struct.pack(f"<{len(numbers)}I", *numbers)


def _text_words(text: str) -> bytes:
    content = text.encode()
    return struct.pack("<I", len(content)) + content + bytes(4 - len(content) % 4)


def _list_words(names: Sequence[str], numbers: Mapping[str, int]) -> bytes:
    return struct.pack(f"<{len(names) + 1}I", len(names), *(numbers[name] for name in names))
