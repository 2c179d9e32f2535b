"""A network's plans as one C file that runs the whole network, and its weights as bytes (e-PlaNNer, chapter 7)."""

import re
from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from mavcg.accelerators.plans.text import network_c_library
from mavcg.accelerators.plans.text.c_backend import CWriter, library_of
from mavcg.accelerators.plans.text.network_c_nodes import NodeWriter, refuse
from mavcg.accelerators.plans.text.network_plan_text import NetworkText, plan_weights
from mavcg.accelerators.plans.text.plan import Types
from mavcg.errors import MavcgError
from mavcg.graph import Array, Node
from mavcg.runtime.model_header import api_name
from mavcg.text.safe_text import comment

# C11, 6.4.1, and main, which has another type.
_WORDS_OF_C = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while main".split()
)


def network_c(text: NetworkText, name: str, constants: Mapping[str, Array]) -> tuple[str, bytes]:
    """Return the C11 text of a network and the bytes of its weights.

    The text defines `int NAME(const float *weights, const float *input, float *output)`, which returns 0, or 1 if
    memory runs out; `function_name` says what NAME is. Input and output have the dimensions of the graph's, in its
    order, which a comment above the function lists. constants: values of weights that are inputs of the graph, by name.
    Raises: MavcgError for a type other than f32, or naming a node that has no C here.
    """
    for tensor, kind in text.graph.types.items():
        if kind.dtype != "f32" and tensor not in text.graph.constants:
            raise MavcgError(f"{text.graph.name}: tensor {tensor} is {kind.dtype}; a network as C has f32 tensors only")
    writer = _NetworkWriter(text, {**text.graph.constants, **constants})
    body = list(writer.body())
    plans = list(text.plans.values())
    head = [
        f"/* The plans of {comment(text.graph.name)}, as C: {len(plans)} layers. */\n",
        *library_of(plans, Types()),
        network_c_library.LIBRARY,
        "\n".join(writer.memories()) + "\n\n",
        *writer.layers(),
    ]
    before = "".join(head)
    function = function_name(name, "\n".join((before, network_c_library.BLAS_RUNTIME, *body)))
    return before + "\n".join(writer.function(function, body)) + "\n", b"".join(writer.weights)


def function_name(name: str, text: str) -> str:
    """Return the name of a network's function, made of a file's name; it is no word of C and not used in the text."""
    word, code = api_name(name), re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return f"model_{word}" if word in _WORDS_OF_C or re.search(rf"\b{word}\b", code) else word


class _NetworkWriter:
    """Writer of a network's C: numbers of tensors, weights in the order of their use, and the lines of the function."""

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
        """Return the tensors that a node's C reads; a plan that includes a pad reads the tensor before the pad."""
        if node.output in self.text.plans:
            return (self.text.before_pads(node.inputs[0]), *node.inputs[1:])
        return node.inputs

    def memories(self) -> Iterator[str]:
        """Yield the declarations of the on-chip memories: one array for each, as large as the largest layer needs."""
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
        """Append an array to the weights, as f32, and return the C expression of its address."""
        address = f"weights + {self.elements}"
        self.weights.append(np.ascontiguousarray(array, "<f4").tobytes())
        self.elements += array.size
        return address

    def value(self, name: str) -> str:
        """Return the C expression of a tensor that a node reads."""
        if name not in self.tensors:
            if name not in self.constants:
                raise MavcgError(f"{self.graph.name}: weights {name} have no value; give it in constants")
            self.tensors[name] = self.constant(self.constants[name])
        return self.tensors[name]

    def body(self) -> Iterator[str]:
        """Yield the lines of the function.

        Each tensor is allocated before the node that writes it, and freed after its last use.
        """
        allocated: list[str] = []
        last: dict[str, int] = {}  # last reader of each buffer, aliases included
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
                allocated.append(name)
            result = self.tensors.get(self.graph.outputs[0])
            for name in [name for name in allocated if last[name] <= at and name != result]:
                yield f"    free({name});"
                allocated.remove(name)
        out = self.value(self.graph.outputs[0])
        yield f"    memcpy(output, {out}, sizeof(float) * {prod(self.graph.types[self.graph.outputs[0]].shape)});"
        yield from (f"    free({name});" for name in allocated)
        yield "    return 0;"

    def function(self, name: str, body: list[str]) -> Iterator[str]:
        """Yield the exported function."""
        arguments = "const float *weights, const float *input, float *output"
        graph = self.graph
        given, made = (list(graph.types[tensor].shape) for tensor in (self.text.image, graph.outputs[0]))
        yield f"/* input: float {given}, output: float {made}, row-major. */"
        yield f"int {name}({arguments});"
        yield f"int {name}({arguments}) {{"
        yield from body
        yield "}"

    def call(self, node: Node, out: str) -> Iterator[str]:
        """Yield the lines that compute a node into a buffer."""
        return self.layer(node, out) if node.output in self.text.plans else self.nodes.call(node, out)

    def layer(self, node: Node, out: str) -> Iterator[str]:
        """Yield a plan's call: the image with channels first, the plan's function, bias, residual and activation."""
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
