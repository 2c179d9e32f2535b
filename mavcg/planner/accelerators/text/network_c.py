"""A network's plans -> one C file that runs the whole network, and its weights as bytes (e-PlaNNer, chapter 7)."""

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array, Node
from mavcg.planner.accelerators.text import network_c_library
from mavcg.planner.accelerators.text.c_backend import CWriter, library_of
from mavcg.planner.accelerators.text.network_c_nodes import NodeWriter, refuse
from mavcg.planner.accelerators.text.network_plan_text import NetworkText, plan_weights
from mavcg.planner.accelerators.text.plan import Types
from mavcg.text.safe_text import c_identifier, comment


def network_c(text: NetworkText, name: str, constants: Mapping[str, Array]) -> tuple[str, bytes]:
    """Return C11 that defines `int NAME(const float *weights, const float *input, float *output)`, and what `weights`
    is.

    It returns 0, or 1 where memory lacks. Tensors are as in the graph: images have rows, columns, channels.
    constants: weights by name that the graph has as inputs.
    Raises: MavcgError for another type than f32, or a node that this has no C for, naming it.
    """
    for tensor, kind in text.graph.types.items():
        if kind.dtype != "f32" and tensor not in text.graph.constants:
            raise MavcgError(f"{text.graph.name}: tensor {tensor} is {kind.dtype}; a network as C is of f32")
    writer = _NetworkWriter(text, {**text.graph.constants, **constants})
    body = list(writer.body())
    plans = list(text.plans.values())
    parts = [
        f"/* The plans of {comment(text.graph.name)}, as C: {len(plans)} layers. */\n",
        *library_of(plans, Types()),
        network_c_library.LIBRARY,
        "\n".join(writer.memories()) + "\n\n",
        *writer.layers(),
        "\n".join(writer.function(c_identifier(name), body)) + "\n",
    ]
    return "".join(parts), b"".join(writer.weights)


class _NetworkWriter:
    """Numbers of tensors, weights in the order of their use, and the function's lines."""

    def __init__(self, text: NetworkText, constants: Mapping[str, Array]) -> None:
        self.text, self.graph, self.constants = text, text.graph, constants
        self.writers = [CWriter(plan) for plan in text.plans.values()]
        self.numbers = {output: number for number, output in enumerate(text.plans)}
        self.weights: list[bytes] = []
        self.elements = 0
        self.tensors: dict[str, str] = {text.image: "input"}
        self.readers = {
            name: max((at for at, node in enumerate(self.graph.nodes) if name in self.sources(node)), default=-1)
            for name in self.graph.types
        }
        self.nodes = NodeWriter(self.graph, self.value)

    def sources(self, node: Node) -> tuple[str, ...]:
        """Return the tensors that a node's C reads: before the pads that its plan has in it."""
        if node.output in self.text.plans:
            return (self.text.before_pads(node.inputs[0]), *node.inputs[1:])
        return node.inputs

    def memories(self) -> Iterator[str]:
        """Declare the on-chip memories: an array each, as large as any layer has it."""
        largest: dict[tuple[str, str], int] = {}
        for writer in self.writers:
            for line in writer.memories():
                kind, rest = line.removeprefix("static ").split(" ", 1)
                array, size = rest.rstrip("];").split("[")
                largest[kind, array] = max(int(size), largest.get((kind, array), 0))
        return (f"static {kind} {array}[{size}];" for (kind, array), size in largest.items())

    def layers(self) -> Iterator[str]:
        """Yield a static function for each plan."""
        for number, writer in enumerate(self.writers):
            _, *lines = writer.function(f"layer_{number}")  # no declaration: the definition comes first
            yield "\n".join(["static " + line if line.startswith("void") else line for line in lines]) + "\n\n"

    def constant(self, array: Array) -> str:
        """Return a place in `weights` for an array in f32."""
        place = f"weights + {self.elements}"
        self.weights.append(np.ascontiguousarray(array, "<f4").tobytes())
        self.elements += array.size
        return place

    def value(self, name: str) -> str:
        """Return C for a tensor that a node reads."""
        if name not in self.tensors:
            if name not in self.constants:
                raise MavcgError(f"{self.graph.name}: no value for {name}")
            self.tensors[name] = self.constant(self.constants[name])
        return self.tensors[name]

    def body(self) -> Iterator[str]:
        """Yield the lines of the function: each tensor is allocated when it is made, and freed after its last
        reader."""
        made: list[str] = []
        last: dict[str, int] = {}  # of a buffer, aliases included
        for at, node in enumerate(self.graph.nodes):
            if node.output in self.text.skipped:
                continue
            if node.op == "reshape":
                source = self.value(node.inputs[0])
                self.tensors[node.output] = source
                last[source] = max(last.get(source, -1), self.readers[node.output])
            else:
                name = f"t{at}"
                size = prod(self.graph.types[node.output].shape)
                yield f"    float *{name} = tensor({size});"
                yield f"    if (!{name}) return 1; /* {comment(node.origin or node.output)} */"
                yield from (f"    {line}" for line in self.call(node, name))
                self.tensors[node.output] = name
                last[name] = self.readers[node.output]
                made.append(name)
            result = self.tensors.get(self.graph.outputs[0])
            for name in [name for name in made if last[name] <= at and name != result]:
                yield f"    free({name});"
                made.remove(name)
        out = self.value(self.graph.outputs[0])
        yield f"    memcpy(output, {out}, sizeof(float) * {prod(self.graph.types[self.graph.outputs[0]].shape)});"
        yield from (f"    free({name});" for name in made)
        yield "    return 0;"

    def function(self, name: str, body: list[str]) -> Iterator[str]:
        """Yield the function that is called from outside."""
        arguments = "const float *weights, const float *input, float *output"
        yield f"int {name}({arguments});"
        yield f"int {name}({arguments}) {{"
        yield from body
        yield "}"

    def call(self, node: Node, out: str) -> Iterator[str]:
        """Return the lines that compute a node into a buffer."""
        return self.layer(node, out) if node.output in self.text.plans else self.nodes.call(node, out)

    def layer(self, node: Node, out: str) -> Iterator[str]:
        """Yield a plan between images of the graph: channels first, the plan's function, bias, residual and
        activation."""
        plan = self.text.plans[node.output]
        _, channels, rows, columns = plan.info.input
        _, out_ch, out_h, out_w = plan.info.output
        weights = self.constant(plan_weights(self.text, node, self.constants[node.inputs[1]]))
        x = self.value(self.text.before_pads(node.inputs[0]))
        bias, residual = (*node.inputs[2:], "", "")[:2]
        if bias and prod(self.graph.types[bias].shape) != out_ch:
            raise refuse(node, f"with a bias of {list(self.graph.types[bias].shape)}")
        act = self.nodes.act(node, str(node.attr("act")), [float(v) for v in node.attr("act_args")])
        yield "{"
        yield f"    float *x = tensor({prod(plan.info.input)}), *y = tensor({prod(plan.info.output)});"
        yield "    if (!x || !y) return 1;"
        yield f"    channels_first({x}, x, {rows * columns}, {channels});"
        yield f"    layer_{self.numbers[node.output]}(x, {weights}, y);"
        ends = ", ".join(self.value(name) if name else "0" for name in (bias, residual))
        yield f"    layer_end(y, {out}, {out_h * out_w}, {out_ch}, {ends});"
        yield "    free(x), free(y);"
        yield "}"
        if act:
            yield f"{act[0]}({out}, {out_h * out_w * out_ch}{act[1]});"
