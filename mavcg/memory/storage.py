"""Assignment of tensors to buffers, so that concat, pad, slice and reshape need no copies.

A producer writes directly to the place in the consumer's buffer:
    %a = relu(%x)                      the buffer of %c holds %a from channel 0 and %b from channel 16:
    %b = conv2d(%y, %w)        ->      relu and conv2d write there, and nothing runs for the concat
    %c = concat(%a, %b) axis=3
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from mavcg.graph import Graph, Node, fresh_name
from mavcg.graph.ops import make_node
from mavcg.graph.ops.elementwise import ACTIVATIONS, ARITHMETIC
from mavcg.graph.ops.loops import OUTSIDE, LoopRange, loop_levels, loop_ranges
from mavcg.memory.containers import Containers, row_of
from mavcg.memory.locations import Inside, Storage
from mavcg.memory.loop_storage import next_in_place, prepare_loops, span_of

# Operators that read each element of their first inputs just before they write the same element of the output.
IN_PLACE = frozenset((*ACTIVATIONS, "prelu", *(op for op in ARITHMETIC if op != "mod")))

# Operators whose inputs may lie in their results' buffers.
_OF_PARTS = frozenset({"concat", "pad", "pad_with", "reshape", "slice", "loop_stack"})

# Operators whose kernels derive strides from the layout alone, so that their images must be dense.
_BY_LAYOUT = frozenset({"primitive_conv2d", "convert_layout"})


def assign_storage(graph: Graph, separate: Collection[str] = ()) -> Storage:
    """Return the graph with a location for every tensor.

    separate: results of concat and slice that a kernel copies, as the place of a part follows from a run's lengths.
    """
    return _Assignment(prepare_loops(_with_own_outputs(graph)), separate).storage()


def _with_own_outputs(graph: Graph) -> Graph:
    """Return the graph with a separate node for each output; inputs, constants and duplicates are copied."""
    nodes, types, outputs = list(graph.nodes), dict(graph.types), list[str]()
    own = dict[str, str]()  # a state has one of the outputs that are equal; the last one is as good as the others
    for name in graph.outputs:
        if name in graph.inputs or name in graph.constants or name in outputs:
            copy = fresh_name(types, f"{name}.copy")
            types[copy] = types[name]
            nodes.append(make_node("reshape", (name,), (copy,), origin=name, shape=types[name].shape))
            own[name] = copy
            name = copy
        outputs.append(name)
    states = tuple(replace(state, output=own.get(state.output, state.output)) for state in graph.states)
    counts = tuple(replace(count, output=own.get(count.output, count.output)) for count in graph.counts)
    return replace(graph, nodes=tuple(nodes), types=types, outputs=tuple(outputs), states=states, counts=counts)


class _Assignment:
    """State of a walk over a graph from the last node to the first.

    A tensor's container is decided before its contents.
    """

    def __init__(self, graph: Graph, separate: Collection[str]) -> None:
        self.graph, self.separate = graph, separate
        self.types = dict(graph.types)
        self.containers = Containers(self.types)
        self.silent: set[str] = set()
        self.bordered: set[str] = set()
        self.pinned = {*graph.inputs, *graph.outputs, *graph.constants}
        self.whole = {
            name for node in graph.nodes if node.op in _BY_LAYOUT for name in (*node.inputs, *node.outputs) if name
        } | {name for node in graph.nodes if node.op == "imatmul" for name in self.of_many_rows(node)}
        self.whole |= {node.inputs[0] for node in graph.nodes if node.op == "loop_slice"}
        self.whole |= {node.output for node in graph.nodes if node.op == "loop_stack"}
        self.members, self.levels = loop_levels(graph.nodes)
        at_once = ("loop_state", "loop_slice", "loop_enter", "loop_next")  # whose places follow from what they read
        self.pinned |= {node.output for node in graph.nodes if node.op in at_once}
        self.producers = graph.producers()
        self.readers = Counter(name for node in graph.nodes for name in node.inputs)
        self.finals = Counter(node.inputs[0] for node in graph.nodes if node.op == "loop_final")
        self.loops: tuple[LoopRange, ...] = ()

    def of_many_rows(self, node: Node) -> list[str]:
        """Return the tensors of a node whose rows extend over several axes; its kernel supports a single row stride."""
        names = [name for name in (node.inputs[0], node.output, *node.inputs[3:]) if name]
        return [name for name in names if sum(length > 1 for length in self.types[name].shape[:-2]) > 1]

    def free(self, name: str) -> bool:
        """True if the tensor may still be placed in another tensor's buffer."""
        return name not in self.pinned and name not in self.containers.inside

    def storage(self) -> Storage:
        nodes: list[Node] = []
        for node in reversed(self.graph.nodes):
            nodes.append(node)
            if node.output in self.separate:
                continue
            if node.op == "concat":
                copies, nodes[-1] = self.concat(node)
                nodes += copies
            elif node.op == "pad_with" or (node.op == "pad" and node.attr("mode") == "constant"):
                self.pad(node)
            elif node.op == "reshape":
                self.reshape(node)
            elif node.op == "slice":
                self.slice(node)
            elif node.op == "loop_stack":
                nodes += self.loop_stack(node)
            elif node.op.startswith("loop_"):
                self.loop(node)
        graph = replace(self.graph, nodes=tuple(reversed(nodes)), types=self.types)
        self.loops = loop_ranges(graph.nodes)
        self.update_states(graph)
        self.share_in_place(graph)
        names = [*graph.inputs, *(name for node in graph.nodes for name in node.outputs if name)]
        locations = {name: self.containers.locate(name) for name in names}
        inside = dict(self.containers.inside)
        return Storage(graph, locations, frozenset(self.silent), frozenset(self.bordered), self.loops, inside)

    def loop(self, node: Node) -> None:
        """Place what an operator of a loop makes in its input's buffer, or the state that it ends with in its own."""
        name, own = node.inputs[0], node.output
        if node.op == "loop_slice":
            self.containers.inside[own] = row_of(name, node)
        elif node.op == "loop_enter" and name not in self.graph.constants and own not in self.whole:
            rank = len(self.types[own].shape)
            self.containers.inside[own] = Inside(name, (0,) * rank, (1,) * rank)
        elif node.op == "loop_next":
            self.containers.inside[own] = Inside(name)
            return  # a kernel copies the value to the state, unless update_states finds it there
        elif node.op == "loop_final":
            state = self.producers[name].inputs[0]
            if state in self.containers.inside or not self.containers.dense(own):
                return
            self.containers.inside[state] = Inside(own)
        elif node.op == "loop_state" and self.first_value_in_place(node):
            self.containers.inside[name] = Inside(own)
        else:
            return
        self.silent.add(own)

    def first_value_in_place(self, node: Node) -> bool:
        """True if a state's first value may be computed in its buffer.

        It is computed anew for each run of the loop, and nothing else reads it, nor what lies in one buffer with it.
        """
        name = node.inputs[0]
        if not self.free(name) or self.readers[name] != 1 or self.levels.get(name, OUTSIDE) != node.attr("within"):
            return False
        maker = self.producers[name]
        if maker.op in _OF_PARTS or (maker.op == "loop_final" and self.finals[maker.inputs[0]] > 1):
            return False
        return name not in self.whole or self.containers.dense(node.output)

    def loop_stack(self, node: Node) -> list[Node]:
        """Place a value in its row of the stack. Returns the copy that this may need."""
        name, row = node.inputs[0], row_of(node.output, node)
        self.silent.add(node.output)
        if self.put(name, row):
            return []
        copy = fresh_name(self.types, f"{name}.copy")
        self.types[copy] = self.types[name]
        self.containers.inside[copy] = row
        return [self.copy(name, copy, node)]

    def copy(self, name: str, copy: str, reader: Node) -> Node:
        """Return the node that copies a tensor for a reader, in each iteration if the reader is in a loop."""
        loop = self.members.get(reader.output)
        if loop is not None:
            self.members[copy] = loop
            return make_node("loop_copy", (name,), (copy,), origin=reader.origin, loop=loop)
        return make_node("reshape", (name,), (copy,), origin=reader.origin, shape=self.types[name].shape)

    def update_states(self, graph: Graph) -> None:
        """Let the next value of a state be computed in the state's buffer, if nothing reads the state after that."""
        for node in next_in_place(graph, self.loops, self.containers.root, self.free, IN_PLACE):
            state, value = node.inputs
            if value != state:
                self.containers.inside[value] = Inside(state)
            self.silent.add(node.output)

    def concat(self, node: Node) -> tuple[list[Node], Node]:
        """Place every input in the output's buffer.

        Returns the copies of inputs that cannot be placed, and the new node.
        """
        axis = int(node.attr("axis")) % len(self.types[node.output].shape)
        at, copies, names = 0, list[Node](), list[str]()
        for name in node.inputs:
            shape = self.types[name].shape
            start = tuple(at if i == axis else 0 for i in range(len(shape)))
            if not self.put(name, Inside(node.output, start, (1,) * len(shape))):
                copy = fresh_name(self.types, f"{name}.copy")
                self.types[copy] = self.types[name]
                copies.append(self.copy(name, copy, node))
                name = copy
                self.containers.inside[name] = Inside(node.output, start, (1,) * len(shape))
            names.append(name)
            at += shape[axis]
        self.silent.add(node.output)
        return copies, replace(node, inputs=tuple(names))

    def pad(self, node: Node) -> None:
        name = node.inputs[0]
        before = tuple(node.attr("before"))
        if self.put(name, Inside(node.output, before, (1,) * len(before))):
            self.bordered.add(node.output)

    def put(self, name: str, within: Inside) -> bool:
        """Place a tensor there if that is possible.

        Returns False if it is not free, must be dense and would not be, or is computed once and the container in each
        iteration of a loop.
        """
        loop = within.loop if within.row else self.levels.get(within.container, OUTSIDE)
        if not self.free(name) or (loop != OUTSIDE and self.levels.get(name) != loop):
            return False
        self.containers.inside[name] = within
        if name in self.whole and not self.containers.dense(name):
            del self.containers.inside[name]
            return False
        return True

    def reshape(self, node: Node) -> None:
        name = node.inputs[0]
        if self.free(name) and self.containers.dense(node.output):
            self.containers.inside[name] = Inside(node.output)
        elif self.free(node.output) and name not in self.graph.constants and self.containers.dense(name):
            self.containers.inside[node.output] = Inside(name)
        else:
            return
        self.silent.add(node.output)

    def slice(self, node: Node) -> None:
        name, steps = node.inputs[0], tuple(node.attr("steps"))
        if name in self.graph.constants or not self.free(node.output) or min(steps, default=1) < 1 or not steps:
            return
        if steps[-1] != 1 and self.types[node.output].shape[-1] > 1:
            return  # kernels require stride 1 along the last axis
        if node.output in self.whole:
            return  # the input's location is not known yet
        self.containers.inside[node.output] = Inside(name, tuple(node.attr("starts")), steps)
        self.silent.add(node.output)

    def share_in_place(self, graph: Graph) -> None:
        """Let an element-wise node's output reuse the buffer of an input that no later node reads."""
        spans: dict[str, tuple[int, int]] = {}
        for index, node in enumerate(graph.nodes):
            for name in (*node.inputs, *node.outputs):
                if name and name not in graph.constants:
                    root = self.containers.root(name)
                    spans[root] = (spans.get(root, (index, index))[0], index)
        last = {root: span_of(*span, self.loops)[1] for root, span in spans.items()}
        external = {self.containers.root(name) for name in (*graph.inputs, *graph.outputs)}
        contained = {within.container for within in self.containers.inside.values()}
        for index, node in enumerate(graph.nodes):
            if node.op not in IN_PLACE or not self.free(node.output) or node.output in contained:
                continue
            for name in dict.fromkeys(node.inputs[:2]):
                if not name or name in graph.constants or self.types[name] != self.types[node.output]:
                    continue
                root = self.containers.root(name)
                if root in external or last[root] != index or not self.containers.fills(name, root):
                    continue
                self.containers.inside[node.output] = Inside(root)
                last[root] = last.get(node.output, index)
                break
