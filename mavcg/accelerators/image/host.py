"""The host's side of a program as values: the tensors that it handles, and the CPU parts around the accelerator."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

MOST_DIMENSIONS = 8
LEAST_RADIX, MOST_RADIX = -64, 64


@dataclass(frozen=True)
class HostTensor:
    """A tensor that the host writes, reads or passes to a CPU part.

    dims: in the model's own order. radix: radix position of its int8 numbers; None if it stays f32, on the CPU only.
    nchw: True if the model's order is N, C, H, W and the device's is N, H, W, C.
    """

    name: str
    dims: tuple[int, ...]
    radix: int | None
    nchw: bool = False


@dataclass(frozen=True)
class CpuPart:
    """Nodes that a model library computes.

    nodes: names. inputs: tensors that it reads, int8 if they have a radix position. outputs: tensors that it makes,
    f32. library: file beside the program; "" before it is built.
    """

    nodes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    library: str = ""


@dataclass(frozen=True)
class HostPlan:
    """The work of the host around the accelerator's program. inputs, outputs: tensors of the whole network."""

    tensors: tuple[HostTensor, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    before: CpuPart = CpuPart()
    after: CpuPart = CpuPart()

    def tensor(self, name: str) -> HostTensor:
        """Return the tensor of this name."""
        return next(tensor for tensor in self.tensors if tensor.name == name)

    @property
    def parts(self) -> tuple[CpuPart, ...]:
        """Return the CPU parts that have nodes, in the order of execution."""
        return tuple(part for part in (self.before, self.after) if part.nodes)


def host_json(plan: HostPlan) -> dict[str, Any]:
    """Return the plan as a JSON table."""
    return asdict(plan)


def parse_host(table: Any) -> HostPlan | None:
    """Return the plan in a JSON table; None if the table is malformed."""
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
