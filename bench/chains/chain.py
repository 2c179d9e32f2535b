"""A graph as data, of either format: what is grown, built, judged, shrunk and kept in a file."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bench.differential.part import IR_VERSIONS, Array, Part
from bench.tflite_file import File, Quantised

ONNX, TFLITE = "onnx", "tflite"
_TFLITE_TYPES = {"float32": "f32", "float16": "f16", "int32": "i32", "int64": "i64", "int8": "i8", "bool": "bool"}


@dataclass(frozen=True)
class Node:
    """An operator. attributes: as Python values; of a TFLite operator, its options' fields, "" for the table's name."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""

    def __str__(self) -> str:
        attributes = ", ".join(f"{name}={value!r}" for name, value in self.attributes.items())
        return f"{', '.join(self.outputs)} = {self.op}({', '.join(self.inputs)}) {{{attributes}}}"


@dataclass(frozen=True)
class Chain:
    """A graph with the inputs of its run.

    format: onnx or tflite. prefix: of all its names. opset: of ONNX. constants, inputs: by name. dtypes: NumPy names of
    the types of results, which a TFLite file declares; quantised: parameters of its 8-bit tensors.
    """

    format: str
    prefix: str
    opset: int
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...]
    dtypes: Mapping[str, str] = field(default_factory=dict)
    quantised: Mapping[str, Quantised] = field(default_factory=dict)

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(node.op for node in self.nodes)

    def __str__(self) -> str:
        """Return the graph for a reader: inputs, constants, a line for each node, outputs."""
        given = [f"{name}: {x.dtype}{list(x.shape)}" for name, x in (*self.inputs.items(), *self.constants.items())]
        return "\n".join((f"opset {self.opset}", *given, *map(str, self.nodes), f"outputs {', '.join(self.outputs)}"))


def pruned(chain: Chain) -> Chain:
    """Return a chain without nodes, constants and inputs that no output needs."""
    needed, nodes = set(chain.outputs), list[Node]()
    for node in reversed(chain.nodes):
        if needed & set(node.outputs):
            needed |= set(node.inputs)
            nodes.append(node)
    kept = {name for node in nodes for name in (*node.inputs, *node.outputs)} | needed
    return replace(
        chain,
        nodes=tuple(reversed(nodes)),
        constants={name: x for name, x in chain.constants.items() if name in needed},
        inputs={name: x for name, x in chain.inputs.items() if name in needed},
        dtypes={name: dtype for name, dtype in chain.dtypes.items() if name in kept},
        quantised={name: q for name, q in chain.quantised.items() if name in kept},
    )


def renamed(chain: Chain, prefix: str) -> Chain:
    """Return a chain whose names have another prefix."""

    def new(name: str) -> str:
        return prefix + name.removeprefix(chain.prefix) if name else ""

    def of(mapping: Mapping[str, Any]) -> dict[str, Any]:
        return {new(name): value for name, value in mapping.items()}

    nodes = tuple(
        replace(node, inputs=tuple(map(new, node.inputs)), outputs=tuple(map(new, node.outputs)))
        for node in chain.nodes
    )
    outputs = tuple(map(new, chain.outputs))
    given = of(chain.constants), of(chain.inputs), outputs, of(chain.dtypes), of(chain.quantised)
    return Chain(chain.format, prefix, chain.opset, nodes, *given)


def chain_of(part: Part) -> Chain:
    """Return an ONNX graph as data."""
    from onnx import AttributeProto, helper, numpy_helper

    def value(attribute: Any) -> Any:
        known = helper.get_attribute_value(attribute)
        if attribute.type == AttributeProto.TENSOR:
            return numpy_helper.to_array(known)
        if attribute.type == AttributeProto.STRING:
            return known.decode()
        return [v.decode() for v in known] if attribute.type == AttributeProto.STRINGS else known

    nodes = tuple(
        Node(
            n.op_type,
            tuple(n.input),
            tuple(n.output),
            {a.name: value(a) for a in n.attribute},
            n.domain,
        )
        for n in part.nodes
    )
    constants = {c.name: numpy_helper.to_array(c) for c in part.constants}
    return pruned(Chain(ONNX, part.prefix, part.opset, nodes, constants, part.inputs, tuple(part.outputs)))


def part_of(chain: Chain) -> Part:
    """Return a chain as the builder that bench.differential.truth computes."""
    from onnx import helper, numpy_helper

    part = Part(chain.prefix, chain.opset, np.random.default_rng(0), inputs=dict(chain.inputs))
    for node in chain.nodes:
        attributes = {
            name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
            for name, value in node.attributes.items()
        }
        name = next(name for name in node.outputs if name)
        part.nodes.append(
            helper.make_node(node.op, node.inputs, node.outputs, f"{name}_node", domain=node.domain, **attributes)
        )
        part.operators.append(node.op)
    part.constants = [numpy_helper.from_array(value, name) for name, value in chain.constants.items()]
    part.outputs = list(chain.outputs)
    return part


def model_bytes(chains: Sequence[Chain]) -> bytes:
    """Return one model file of independent chains of the same format (and opset)."""
    return _onnx_bytes(chains) if chains[0].format == ONNX else _tflite_bytes(chains)


def _onnx_bytes(chains: Sequence[Chain]) -> bytes:
    from onnx import helper

    parts = [part_of(chain) for chain in chains]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for part in parts
        for name, array in part.inputs.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for part in parts for name in part.outputs]
    nodes, constants = [n for p in parts for n in p.nodes], [c for p in parts for c in p.constants]
    graph = helper.make_graph(nodes, "chains", inputs, outputs, constants)
    domains = sorted({node.domain for node in nodes if node.domain})
    imports = [helper.make_opsetid("", chains[0].opset), *(helper.make_opsetid(name, 1) for name in domains)]
    version = IR_VERSIONS[chains[0].opset]
    data: bytes = helper.make_model(graph, opset_imports=imports, ir_version=version).SerializeToString()
    return data


def _tflite_bytes(chains: Sequence[Chain]) -> bytes:
    file, inputs, outputs = File(), list[int](), list[int]()
    for chain in chains:
        index = {"": -1}
        for name, array in chain.inputs.items():
            dtype = _TFLITE_TYPES[array.dtype.name]
            index[name] = file.tensor(name, dtype, array.shape, chain.quantised.get(name))
            inputs.append(index[name])
        for name, array in chain.constants.items():
            dtype = _TFLITE_TYPES[array.dtype.name]
            index[name] = file.tensor(name, dtype, array.shape, chain.quantised.get(name), array)
        for node in chain.nodes:
            for name in node.outputs:
                dtype = _TFLITE_TYPES[chain.dtypes[name]]
                index[name] = file.tensor(name, dtype, (1,), chain.quantised.get(name))
            fields = {name: value for name, value in node.attributes.items() if name}
            given, made = [index[name] for name in node.inputs], [index[name] for name in node.outputs]
            file.operator(node.op, given, *made, options=node.attributes.get("", ""), **fields)
        outputs += [index[name] for name in chain.outputs]
    return file.to_bytes(inputs, outputs)


def as_json(chain: Chain) -> dict[str, Any]:
    """Return a chain as JSON has it; arrays as type, shape and bytes in base 64."""
    return {
        "format": chain.format,
        "prefix": chain.prefix,
        "opset": chain.opset,
        "nodes": [
            {
                "op": node.op,
                "domain": node.domain,
                "inputs": node.inputs,
                "outputs": node.outputs,
                "attributes": {name: _written(value) for name, value in node.attributes.items()},
            }
            for node in chain.nodes
        ],
        "constants": {name: _written(x) for name, x in chain.constants.items()},
        "inputs": {name: _written(x) for name, x in chain.inputs.items()},
        "outputs": chain.outputs,
        "dtypes": dict(chain.dtypes),
        "quantised": {
            name: [_written(np.asarray(q.scale, np.float32)), q.zero, q.axis] for name, q in chain.quantised.items()
        },
    }


def from_json(data: Mapping[str, Any]) -> Chain:
    """Return the chain of as_json."""
    nodes = (
        Node(n["op"], tuple(n["inputs"]), tuple(n["outputs"]), _all_read(n["attributes"]), n["domain"])
        for n in data["nodes"]
    )
    quantised = {name: Quantised(_read(scale), zero, axis) for name, (scale, zero, axis) in data["quantised"].items()}
    return Chain(
        data["format"],
        data["prefix"],
        data["opset"],
        tuple(nodes),
        _all_read(data["constants"]),
        _all_read(data["inputs"]),
        tuple(data["outputs"]),
        data["dtypes"],
        quantised,
    )


def _written(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"dtype": value.dtype.name, "shape": value.shape, "bytes": content}
    if isinstance(value, np.generic):
        return value.item()
    return list(map(_written, value)) if isinstance(value, list | tuple) else value


def _read(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return np.frombuffer(base64.b64decode(value["bytes"]), value["dtype"]).reshape(value["shape"])


def _all_read(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _read(value) for name, value in values.items()}
