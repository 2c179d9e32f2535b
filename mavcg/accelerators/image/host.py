"""The host's side of a program as values: the tensors that it handles, and the CPU parts between the segments."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated

from msgspec import Meta

from mavcg.accelerators.xgraph import ModelOutput

MOST_DIMENSIONS = 8
LEAST_RADIX, MOST_RADIX = -64, 64
Radix = Annotated[int, Meta(ge=LEAST_RADIX, le=MOST_RADIX, description="a radix position from -64 to 64")]
_Scale = Annotated[float, Meta(gt=0, le=3e38, description="a scale above 0")]
_Zero = Annotated[int, Meta(ge=-128, le=127, description="a zero point from -128 to 127")]
_Dimension = Annotated[int, Meta(ge=1, lt=1 << 31, description="a dimension from 1 to 2^31 - 1")]
_Dimensions = Annotated[tuple[_Dimension, ...], Meta(max_length=MOST_DIMENSIONS, description="a list of dimensions")]


@dataclass(frozen=True)
class HostTensor:
    """A tensor that the host writes, reads or passes to a CPU part.

    dims: in the model's own order. radix: radix position of its int8 numbers; None if it stays f32, on the CPU only.
    nchw: True if the model's order is N, C, H, W and the device's is N, H, W, C. scale, zero: those of an 8-bit file;
    None for a radix position alone.
    """

    name: str
    dims: _Dimensions
    radix: Radix | None
    nchw: bool = False
    scale: _Scale | None = None
    zero: _Zero = 0


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
    """The work of the host around the accelerator's segments.

    inputs: tensors of the whole network. outputs: its own. cpu: the CPU part before each segment, and the one after the
    last; a part without nodes does nothing.
    """

    tensors: tuple[HostTensor, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[ModelOutput, ...] = ()
    cpu: tuple[CpuPart, ...] = (CpuPart(), CpuPart())

    def tensor(self, name: str) -> HostTensor:
        """Return the tensor of this name."""
        return next(tensor for tensor in self.tensors if tensor.name == name)

    @property
    def parts(self) -> tuple[CpuPart, ...]:
        """Return the CPU parts that have nodes, in the order of execution."""
        return tuple(part for part in self.cpu if part.nodes)


def host_fault(plan: HostPlan) -> str:
    """Return what is wrong in a plan of a file, with its key; "" if nothing is."""
    names = [tensor.name for tensor in plan.tensors]
    if len(set(names)) != len(names):
        return "tensors: a name is given twice"
    for tensor in plan.tensors:
        if tensor.nchw and len(tensor.dims) != 4:
            return f"tensors: {tensor.name} has {len(tensor.dims)} dimensions; N, C, H, W are four"
    for number, part in enumerate(plan.cpu):
        if "/" in part.library:
            return f"cpu[{number}].library: {part.library!r} is not the name of a file beside the program"
    used = [*plan.inputs, *(output.tensor for output in plan.outputs)]
    used += [name for part in plan.cpu for name in (*part.inputs, *part.outputs)]
    lost = sorted(set(used) - set(names))
    if lost:
        return f"{lost[0]!r} is not among its tensors"
    for output in plan.outputs:
        elements, most = prod(plan.tensor(output.tensor).dims), MOST_DIMENSIONS
        if prod(output.dims) != elements or min(output.dims, default=1) < 1 or len(output.dims) > most:
            return f"outputs: {output.name!r} has other dimensions than its tensor, {list(output.dims)}"
        if output.nchw and not _is_transposed(plan.tensor(output.tensor), output.dims):
            return f"outputs: {output.name!r} is not N, C, H, W"
    return ""


def _is_transposed(tensor: HostTensor, dims: Sequence[int]) -> bool:
    """Return True if dimensions N, C, H, W are those of a tensor that the device has as N, H, W, C."""
    last = (dims[0], *dims[2:], dims[1]) if len(dims) == 4 else ()
    return tuple(dims) == tensor.dims if tensor.nchw else last == tensor.dims


def own_outputs(tensors: Iterable[HostTensor], names: Sequence[str]) -> tuple[ModelOutput, ...]:
    """Return the outputs of a network without a model: these tensors, with their own names and dimensions."""
    by_name = {tensor.name: tensor for tensor in tensors}
    return tuple(ModelOutput(name, name, by_name[name].dims, by_name[name].nchw) for name in names)
