"""Importer of ONNX files.

Supports opset 7 and later, and of earlier ones the operators that have not changed. Dimensions, constants and
attributes are resolved here: graphs have no free dimensions and no optional values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError, OptionError
from mavcg.graph import Graph, TensorType
from mavcg.importers.declared_shapes import DeclaredShapes, FreeInput, compared_shapes, free_dimensions_error
from mavcg.importers.emitter import Emitter, finish_graph
from mavcg.importers.limits import LARGEST_TENSOR_BYTES, LEAST_TRIPS, Unsupported
from mavcg.importers.onnx_arguments import element_type, named_tensors, tensor_inputs
from mavcg.importers.onnx_functions import opsets_of
from mavcg.importers.onnx_graph import OnnxGraphBody, Scope, Walker, declared_dims, read_initializers
from mavcg.importers.onnx_narrow import BY_NUMBER, read_bits, to_bits
from mavcg.importers.onnx_proto import LARGEST_DIMENSION, dtype_of, load_model
from mavcg.importers.value import Value, sequence_of

if TYPE_CHECKING:
    import onnx

LEAST_OPSET = 7
_LONGEST_SUM = 200  # characters of a dimension's name that is read as a sum of others


def import_onnx(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    loops: bool = False,
    least_trips: int = LEAST_TRIPS,
) -> Graph:
    """Return the graph of an ONNX file; its inputs and outputs carry the file's names.

    shapes: shapes of inputs, by name; required for inputs with free dimensions other than the first, which defaults to
    1, and for each element of a sequence (onnx_arguments.py). loops, least_trips: recurrent operators and loops become
    loops of the graph, see Emitter.
    Raises: UnsupportedOp for an unsupported operator, MavcgError, naming the location, for a file that is damaged or
    incomplete.
    """
    return import_model(load_model(path), path, shapes, loops, least_trips)


def import_model(
    model: onnx.ModelProto,
    path: Path,
    shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    loops: bool = False,
    least_trips: int = LEAST_TRIPS,
) -> Graph:
    """Return the graph of an ONNX model in memory. path: file name for messages, and folder of external data.

    loops, least_trips: as for import_onnx. Raises: as import_onnx.
    """
    opsets = supported_opsets(model, path)
    try:
        return _graph(model, path, shapes, opsets, (loops, least_trips))
    except MavcgError as error:
        # An error of the same class, so that callers can distinguish kinds, with the file's name in front; on one
        # line, whatever the names of tensors are.
        text = "".join(c if c.isprintable() else " " for c in str(error))
        error.args = (f"{path}: {text}", *error.args[1:])
        raise


def supported_opsets(model: onnx.ModelProto, path: Path) -> Mapping[str, int]:
    """Return a file's opset versions by domain, at least LEAST_OPSET of ONNX's own.

    A file of an older one is read as of LEAST_OPSET if all of its operators are the same there. Raises: Unsupported.
    """
    opsets = opsets_of(model.opset_import)
    version = opsets.get("", LEAST_OPSET)
    if version >= LEAST_OPSET:
        return opsets
    for op in sorted(_own_operators(model.graph)):
        if _since(op, version) != _since(op, LEAST_OPSET):
            raise Unsupported(
                f"{path}: opset {version}, of which {op} is another operator since; at least {LEAST_OPSET} is needed, "
                "onnx.version_converter can raise it"
            )
    return {**opsets, "": LEAST_OPSET}


def _own_operators(graph: onnx.GraphProto) -> set[str]:
    """Return the operators of ONNX's own domain in a graph and its branches."""
    found, graphs = set[str](), [graph]
    while graphs:
        for node in graphs.pop().node:
            if node.domain in ("", "ai.onnx"):
                found.add(node.op_type)
            graphs += [g for a in node.attribute for g in (*([a.g] if a.HasField("g") else []), *a.graphs)]
    return found


def _since(op: str, version: int) -> int:
    """Return the version since which an operator is as it is in this one; 0 without it."""
    from onnx import defs

    try:
        return int(defs.get_schema(op, version, "").since_version)
    except defs.SchemaError:
        return 0


def _graph(
    model: onnx.ModelProto,
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    opsets: Mapping[str, int],
    loops: tuple[bool, int],
) -> Graph:
    """Return the graph of a model. loops: loops and least_trips of its emitter."""
    graph = model.graph
    emitter = Emitter(graph.name or path.stem, *loops)
    functions = {("" if f.domain == "ai.onnx" else f.domain, f.name): f for f in model.functions}
    values = read_initializers(graph, "the graph", path.parent)
    # Up to IR version 3 initializers are listed as inputs too, as their default values.
    inputs, sequences = tensor_inputs([i for i in graph.input if i.name not in values], shapes)
    types = _input_types(inputs, shapes)
    declared = declared_shapes(graph, inputs, shapes)
    for name, value in values.items():
        declared.check(name, f"initializer %{name}", "the graph", value.shape)
    narrow = {i.name: BY_NUMBER.get(element_type(i).elem_type) for i in (*inputs, *graph.output)}
    for name, type in types.items():
        value, of_bits = Value(type, emitter.builder.input(name, type)), narrow[name]
        values[name] = value if of_bits is None else read_bits(emitter, value, of_bits, name)
    for name, elements in sequences.items():
        values[name] = sequence_of([values.pop(element) for element in elements])
    outputs = [o.name for o in graph.output]
    if not outputs:
        raise MavcgError("the graph has no outputs; nothing would be computed")
    if len(set(outputs)) != len(outputs) or "" in outputs:
        raise MavcgError("an output without a name, or a name that is used twice")
    body = OnnxGraphBody(graph.node, outputs, opsets, {}, 0, declared)
    results = Walker(emitter, path.parent, functions).run(body, Scope(dict(values)))
    named = list[tuple[str, Value]]()
    for name, value in zip(outputs, results, strict=True):
        of_bits = narrow[name]
        tensors = named_tensors(name, value)
        named += tensors if of_bits is None else [(n, to_bits(emitter, v, of_bits, n)) for n, v in tensors]
    names = [name for name, _ in named]
    if not names or len(set(names)) != len(names):
        raise MavcgError(f"outputs {', '.join(names) or 'none'}; at least one is needed, and no name twice")
    return finish_graph(emitter, types, names, [value for _, value in named])


def _input_types(inputs: Sequence[onnx.ValueInfoProto], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, TensorType]:
    """Return the types of the inputs, without free dimensions. Raises: MavcgError that names the shapes to give."""
    names = [i.name for i in inputs]
    for name in shapes:
        if name not in names:
            raise OptionError(f"--shape {name}: no such input; inputs are {', '.join(names) or 'none'}")
    if len(set(names)) != len(names) or "" in names:
        raise MavcgError("an input without a name, or a name that is used twice")
    batch = {dims_of(i)[0] for i in inputs if dims_of(i)} if inputs else set()
    known = given_symbols(inputs, shapes)
    types, free = {}, []
    for info in inputs:
        location = f"input '{info.name}'"
        of_bits = BY_NUMBER.get(info.type.tensor_type.elem_type)
        dtype = of_bits.outside if of_bits is not None else dtype_of(info.type.tensor_type.elem_type, location)
        if info.name in shapes:
            shape = shapes[info.name]
            check_given(info, shape)
        else:
            dims = tuple(_length(dim, i, batch, known) for i, dim in enumerate(dims_of(info)))
            shape = tuple(d for d in dims if isinstance(d, int))
            if len(shape) != len(dims) or not info.type.tensor_type.HasField("shape"):
                free.append(FreeInput(info.name, dims if info.type.tensor_type.HasField("shape") else None))
                continue
        type = TensorType(dtype, shape)
        if any(not 0 <= d < LARGEST_DIMENSION for d in shape) or _bytes(type) > LARGEST_TENSOR_BYTES:
            raise MavcgError(f"{location}: {type} is too large; at most {LARGEST_TENSOR_BYTES} bytes")
        types[info.name] = type
    if free:
        raise free_dimensions_error(free)
    return types


def _bytes(type: TensorType) -> int:
    # Python's integers do not overflow.
    count = TensorType(type.dtype, ()).bytes
    for length in type.shape:
        count *= length
    return count


def declared_shapes(
    graph: onnx.GraphProto, inputs: Sequence[onnx.ValueInfoProto], shapes: Mapping[str, tuple[int, ...]]
) -> DeclaredShapes:
    """Return the shapes of tensors in the file that the inferred ones must match. inputs: without initializers."""
    free = any(not i.type.tensor_type.HasField("shape") or any(isinstance(d, str) for d in dims_of(i)) for i in inputs)
    return DeclaredShapes(declared_dims(graph), compared_shapes(shapes, free))


def dims_of(info: onnx.ValueInfoProto) -> list[int | str]:
    """Return an input's dimensions: a number if fixed, a name or "" if free (some exporters write -1 or ?)."""
    return [
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param.strip("?")
        for d in info.type.tensor_type.shape.dim
    ]


def given_symbols(inputs: Sequence[onnx.ValueInfoProto], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return the values of named dimensions in the given shapes, which apply to other inputs with these dimensions.

    So do sums and products of them, as exporters write the length of a mask: past_sequence_length + sequence_length.
    Raises: MavcgError if two shapes give a dimension different values.
    """
    known: dict[str, int] = {}
    for info in inputs:
        for dim, length in zip(dims_of(info), shapes.get(info.name, ()), strict=False):
            if isinstance(dim, str) and dim and known.setdefault(dim, length) != length:
                raise MavcgError(f"--shape: dimension {dim} is {known[dim]} in one input and {length} in {info.name}")
    names = {dim for info in inputs for dim in dims_of(info) if isinstance(dim, str) and dim and dim not in known}
    computed = {name: _computed_length(name, known) for name in names}
    return known | {name: length for name, length in computed.items() if length is not None}


def _computed_length(name: str, known: Mapping[str, int]) -> int | None:
    """Return the value of a name such as past + 8*tokens, a sum of products of numbers and known names; else None."""
    terms = [[factor.strip() for factor in term.split("*")] for term in name[:_LONGEST_SUM].split("+")]
    factors = [factor for term in terms for factor in term]
    numbers = {factor: int(factor) for factor in factors if factor.isascii() and factor.isdecimal()}
    numbers.update(known)
    if len(name) > _LONGEST_SUM or not any(f in known for f in factors) or any(f not in numbers for f in factors):
        return None
    return sum(prod(numbers[factor] for factor in term) for term in terms)


def check_given(info: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    """Check a given shape against an input's fixed dimensions. Raises: MavcgError for a difference."""
    dims = dims_of(info)
    if not info.type.tensor_type.HasField("shape"):
        return
    fits = len(dims) == len(shape) and all(isinstance(d, str) or d == n for d, n in zip(dims, shape, strict=True))
    if not fits:
        declared = "x".join(str(d) or "?" for d in dims)
        raise MavcgError(
            f"--shape {info.name}={'x'.join(map(str, shape))}: the file says {declared}; "
            f"only free dimensions can be chosen; give all, as in --shape {info.name}=1x3x224x224"
        )


def _length(dim: int | str, i: int, batch: set[int | str], known: Mapping[str, int]) -> int | str:
    """Return the length of dimension i: fixed, given with another input, or 1 for the batch; else `dim`, its name."""
    if isinstance(dim, int):
        return dim
    if dim in known:
        return known[dim]
    return 1 if i == 0 or (dim and dim in batch) else dim
