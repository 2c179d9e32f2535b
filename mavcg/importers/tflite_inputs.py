"""Inputs and outputs of a TFLite file: their names, and the shapes that inputs have in the graph."""

from collections.abc import Hashable, Mapping, Sequence

from mavcg.errors import MavcgError, OptionError
from mavcg.graph import DTYPES, TensorType, fresh_names
from mavcg.importers.declared_shapes import DeclaredShapes, Dims, FreeInput, compared_shapes, free_dimensions_error
from mavcg.importers.limits import LARGEST_TENSOR_BYTES
from mavcg.importers.tflite_model import TfliteModel, TfliteTensor


def input_and_output_names(model: TfliteModel) -> list[str]:
    """Return the names of the inputs, then of the outputs: as in the file, with a number appended to a repeated name.

    A tensor that is an input and an output has one name, also for its first use as an output.
    Raises: MavcgError for a tensor that is an input twice.
    """
    if len(set(model.inputs)) != len(model.inputs):
        raise MavcgError("a tensor that is an input twice; the file is damaged")
    of_inputs = fresh_names((), [model.tensors[index].name or f"input_{index}" for index in model.inputs])
    inputs = dict(zip(model.inputs, of_inputs, strict=True))
    passed = {index: at for at, index in reversed(list(enumerate(model.outputs))) if index in inputs}
    made = [index for at, index in enumerate(model.outputs) if passed.get(index) != at]
    fresh = iter(fresh_names(of_inputs, [model.tensors[index].name or f"output_{index}" for index in made]))
    outputs = [inputs[index] if passed.get(index) == at else next(fresh) for at, index in enumerate(model.outputs)]
    return [*of_inputs, *outputs]


def input_types(
    model: TfliteModel, names: Sequence[str], shapes: Mapping[str, tuple[int, ...]]
) -> dict[int, TensorType]:
    """Return the types of the inputs by tensor. names: of the inputs, and more.

    Raises: MavcgError for a shape of no input, free dimensions without a length, and a shape that cannot be.
    """
    inputs = dict(zip(model.inputs, names, strict=False))
    for name in shapes:
        if name not in inputs.values():
            raise OptionError(f"--shape {name}: no such input; inputs are {', '.join(inputs.values()) or 'none'}")
    tensors = [(model.tensors[index], name) for index, name in inputs.items()]
    free = [FreeInput(name, dims) for tensor, name in tensors if "" in (dims := _dims(tensor, shapes.get(name)))]
    if free:
        raise free_dimensions_error(free)
    return {t.index: TensorType(t.element_type, _shape(t, name, shapes.get(name))) for t, name in tensors}


def declared_shapes(
    model: TfliteModel, types: Mapping[int, TensorType], shapes: Mapping[str, tuple[int, ...]]
) -> DeclaredShapes:
    """Return the shapes of tensors in the file that the inferred ones must match. types: of the inputs."""
    pairs = [(model.tensors[index], type.shape) for index, type in types.items()]
    other = [(tensor.declared or (), shape) for tensor, shape in pairs if tensor.shape != shape]
    changed = any(d is not None and d != n for dims, shape in other for d, n in zip(dims, shape, strict=False))
    dims: dict[Hashable, Dims] = {t.index: t.declared for t in model.tensors if t.declared is not None}
    return DeclaredShapes(dims, compared_shapes(shapes, bool(other), changed))


def _dims(tensor: TfliteTensor, given: tuple[int, ...] | None) -> tuple[int | str, ...]:
    """Return an input's dimensions, "" for one whose length has to be given.

    A free dimension has no names in these files; one with a length of 2 or more has it as its default.
    """
    if given is not None:
        return given
    return tuple("" if d in tensor.free and d > 0 and n < 2 else 1 if n < 0 else n for d, n in enumerate(tensor.shape))


def _shape(tensor: TfliteTensor, name: str, given: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return an input's shape, the given one or else the file's. Raises: MavcgError for a shape that cannot be."""
    shape = tuple(1 if n < 0 else n for n in tensor.shape) if given is None else given
    if len(shape) != len(tensor.shape):
        raise MavcgError(
            f"--shape {name}={'x'.join(map(str, shape))}: the file has {len(tensor.shape)} dimensions there"
        )
    total = DTYPES[tensor.element_type].itemsize
    for length in shape:
        total *= length  # Python integers do not overflow
    if any(n < 0 for n in shape) or total > LARGEST_TENSOR_BYTES:
        raise MavcgError(
            f"input '{name}': {list(shape)} takes {total} bytes; at most {LARGEST_TENSOR_BYTES}, none negative"
        )
    return shape
