"""Arguments of a graph that are no tensors: sequences, which become numbered tensors, and optionals.

The elements of a sequence `x` are the tensors `x.0`, `x.1`, .. of a run. Of an input their number is that of the shapes
which are given for them. An optional argument is one that each run has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError
from mavcg.importers.limits import Unsupported
from mavcg.importers.value import Value

if TYPE_CHECKING:
    import onnx

_KINDS = {
    "sequence_type": "a sequence of sequences",
    "optional_type": "an optional of an optional",
    "map_type": "a map",
    "sparse_tensor_type": "a sparse tensor",
}


def element_type(info: onnx.ValueInfoProto) -> onnx.TypeProto.Tensor:
    """Return the type of an argument's tensors: its own, or that of a sequence's or optional's elements."""
    return _elements(info.type).tensor_type


def _elements(type: onnx.TypeProto) -> onnx.TypeProto:
    """Return the type of an optional's element, of a sequence's elements, or the type itself."""
    present = _present(type)
    return present.sequence_type.elem_type if present.HasField("sequence_type") else present


def _present(type: onnx.TypeProto) -> onnx.TypeProto:
    return type.optional_type.elem_type if type.HasField("optional_type") else type


def tensor_inputs(
    inputs: Sequence[onnx.ValueInfoProto], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[list[onnx.ValueInfoProto], dict[str, list[str]]]:
    """Return (inputs that are all tensors, the names of a sequence's elements by its name).

    shapes: as of import_onnx. Raises: Unsupported for a sequence for whose elements no shapes are given, and for maps
    and sparse tensors; MavcgError if a number is left out.
    """
    made: list[onnx.ValueInfoProto] = []
    sequences: dict[str, list[str]] = {}
    for info in inputs:
        inner = _elements(info.type)
        for field, kind in _KINDS.items():
            if inner.HasField(field):
                raise Unsupported(f"input '{info.name}': is {kind}; tensors and sequences of tensors are supported")
        if not _present(info.type).HasField("sequence_type"):
            made.append(_tensor(info.name, info, inner.tensor_type))
            continue
        numbers = {name.removeprefix(f"{info.name}.") for name in shapes if name.startswith(f"{info.name}.")}
        names = [f"{info.name}.{number}" for number in range(len(numbers))]
        if not names:
            raise Unsupported(
                f"input '{info.name}': is a sequence, of which a build must know the number of elements and their "
                f"shapes; give each one's, as in --shape {info.name}.0=1x3 --shape {info.name}.1=1x3"
            )
        for name in names:
            if name not in shapes:
                raise MavcgError(f"--shape: {name} is missing among the elements of the sequence {info.name}")
            made.append(_tensor(name, info, inner.tensor_type))
            for dim in made[-1].type.tensor_type.shape.dim:
                if dim.dim_param:  # the name of a length of each element, not of one that all have
                    dim.ClearField("dim_param")
        sequences[info.name] = names
    return made, sequences


def _tensor(name: str, info: onnx.ValueInfoProto, type_of: onnx.TypeProto.Tensor) -> onnx.ValueInfoProto:
    made = type(info)(name=name)
    made.type.tensor_type.CopyFrom(type_of)
    return made


def named_tensors(name: str, value: Value) -> list[tuple[str, Value]]:
    """Return the tensors of an output with their names. Raises: Unsupported for an optional without an element."""
    if value.is_tensor:
        return [(name, value)]
    if value.elements is None:
        raise Unsupported(f"output '{name}': is an optional without an element; it would be no output of a run")
    return [(f"{name}.{number}", element) for number, element in enumerate(value.elements)]
