"""Assignment of tensors to buffers, so that concat, pad, slice and reshape need no copies.

A producer writes directly to the place in the consumer's buffer:
    %a = relu(%x)                      the buffer of %c holds %a from channel 0 and %b from channel 16:
    %b = conv2d(%y, %w)        ->      relu and conv2d write there, and nothing runs for the concat
    %c = concat(%a, %b) axis=3
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.graph import Graph, Node, fresh_name
from mavcg.graph.layout import dense_strides
from mavcg.memory.loop_storage import next_in_place, prepare_loops, span_of
from mavcg.ops import make_node
from mavcg.ops.elementwise import ACTIVATIONS, ARITHMETIC
from mavcg.ops.loops import OUTSIDE, LoopRange, loop_levels, loop_ranges
from mavcg.specs.kernel import View

# Operators that read each element of their first inputs just before they write the same element of the output.
IN_PLACE = frozenset((*ACTIVATIONS, "prelu", *(op for op in ARITHMETIC if op != "mod")))

# Operators whose inputs may lie in their results' buffers.
_OF_PARTS = frozenset({"concat", "pad", "pad_with", "reshape", "slice", "loop_stack"})

# Operators whose kernels derive strides from the layout alone, so that their images must be dense.
_BY_LAYOUT = frozenset({"primitive_conv2d", "convert_layout"})


@dataclass(frozen=True)
class Location:
    """Location of a tensor: `offset` elements from the start of the buffer of `root`, with the strides of `view`.

    advance: (number of a loop, elements that the tensor moves by in each iteration of it).
    """

    root: str
    offset: int
    view: View
    advance: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Storage:
    """A graph with the location of each tensor.

    graph: with the copies that sharing required. silent: outputs of nodes for which no kernel runs. bordered: outputs
    of pads whose input is written in place. locations: of every tensor but constants. loops: ranges of the graph's
    nodes that a run repeats, in order.
    """

    graph: Graph
    locations: Mapping[str, Location]
    silent: frozenset[str]
    bordered: frozenset[str]
    loops: tuple[LoopRange, ...] = ()

    def views(self, node: Node) -> dict[str, View]:
        """Return the views of a node's inputs and outputs; constants are dense."""
        names = [name for name in (*node.inputs, *node.outputs) if name]
        return {name: self.view(name) for name in names}

    def view(self, name: str) -> View:
        """Return the shape and strides of a tensor."""
        if name in self.locations:
            return self.locations[name].view
        kind = self.graph.types[name]
        return View(kind.dtype, kind.shape, dense_strides(kind.shape))


@dataclass(frozen=True)
class _Inside:
    """The place of a tensor in its container: from `start` along each axis, every `step`-th element.

    step is None for a reshape: the tensor is the whole container, and both are dense. row: 1 or -1 for a tensor that is
    a row of its container, the next one in each iteration of `loop`, from the first or from the last on; else 0.
    """

    container: str
    start: tuple[int, ...] = ()
    step: tuple[int, ...] | None = None
    row: int = 0
    loop: int = OUTSIDE


def assign_storage(graph: Graph) -> Storage:
    """Return the graph with a location for every tensor."""
    return _Assignment(prepare_loops(_with_own_outputs(graph))).storage()


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


def _row_of(container: str, node: Node) -> _Inside:
    """Return the place of a row of a loop's input or stack. node: loop_slice or loop_stack."""
    return _Inside(container, row=-1 if node.attr("reverse") else 1, loop=node.attr("loop"))


class _Assignment:
    """State of a walk over a graph from the last node to the first.

    A tensor's container is decided before its contents.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.types = dict(graph.types)
        self.inside: dict[str, _Inside] = {}
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
        self.located: dict[str, Location] = {}
        self.around: dict[str, str] = {}  # outermost known container of a tensor

    def of_many_rows(self, node: Node) -> list[str]:
        """Return the tensors of a node whose rows extend over several axes; its kernel supports a single row stride."""
        names = [name for name in (node.inputs[0], node.output, *node.inputs[3:]) if name]
        return [name for name in names if sum(length > 1 for length in self.types[name].shape[:-2]) > 1]

    def free(self, name: str) -> bool:
        """True if the tensor may still be placed in another tensor's buffer."""
        return name not in self.pinned and name not in self.inside

    def storage(self) -> Storage:
        nodes: list[Node] = []
        for node in reversed(self.graph.nodes):
            nodes.append(node)
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
        locations = {name: self.locate(name) for name in names}
        return Storage(graph, locations, frozenset(self.silent), frozenset(self.bordered), self.loops)

    def loop(self, node: Node) -> None:
        """Place what an operator of a loop makes in its input's buffer, or the state that it ends with in its own."""
        name, own = node.inputs[0], node.output
        if node.op == "loop_slice":
            self.inside[own] = _row_of(name, node)
        elif node.op == "loop_enter" and name not in self.graph.constants and own not in self.whole:
            rank = len(self.types[own].shape)
            self.inside[own] = _Inside(name, (0,) * rank, (1,) * rank)
        elif node.op == "loop_next":
            self.inside[own] = _Inside(name)
            return  # a kernel copies the value to the state, unless update_states finds it there
        elif node.op == "loop_final":
            state = self.producers[name].inputs[0]
            if state in self.inside or not self.dense(own):
                return
            self.inside[state] = _Inside(own)
        elif node.op == "loop_state" and self.first_value_in_place(node):
            self.inside[name] = _Inside(own)
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
        return name not in self.whole or self.dense(node.output)

    def loop_stack(self, node: Node) -> list[Node]:
        """Place a value in its row of the stack. Returns the copy that this may need."""
        name, row = node.inputs[0], _row_of(node.output, node)
        self.silent.add(node.output)
        if self.put(name, row):
            return []
        copy = fresh_name(self.types, f"{name}.copy")
        self.types[copy] = self.types[name]
        self.inside[copy] = row
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
        for node in next_in_place(graph, self.loops, self.root, self.free, IN_PLACE):
            state, value = node.inputs
            if value != state:
                self.inside[value] = _Inside(state)
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
            if not self.put(name, _Inside(node.output, start, (1,) * len(shape))):
                copy = fresh_name(self.types, f"{name}.copy")
                self.types[copy] = self.types[name]
                copies.append(self.copy(name, copy, node))
                name = copy
                self.inside[name] = _Inside(node.output, start, (1,) * len(shape))
            names.append(name)
            at += shape[axis]
        self.silent.add(node.output)
        return copies, replace(node, inputs=tuple(names))

    def pad(self, node: Node) -> None:
        name = node.inputs[0]
        before = tuple(node.attr("before"))
        if self.put(name, _Inside(node.output, before, (1,) * len(before))):
            self.bordered.add(node.output)

    def put(self, name: str, within: _Inside) -> bool:
        """Place a tensor there if that is possible.

        Returns False if it is not free, must be dense and would not be, or is computed once and the container in each
        iteration of a loop.
        """
        loop = within.loop if within.row else self.levels.get(within.container, OUTSIDE)
        if not self.free(name) or (loop != OUTSIDE and self.levels.get(name) != loop):
            return False
        self.inside[name] = within
        if name in self.whole and not self.dense(name):
            del self.inside[name]
            return False
        return True

    def reshape(self, node: Node) -> None:
        name = node.inputs[0]
        if self.free(name) and self.dense(node.output):
            self.inside[name] = _Inside(node.output)
        elif self.free(node.output) and name not in self.graph.constants and self.dense(name):
            self.inside[node.output] = _Inside(name)
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
        self.inside[node.output] = _Inside(name, tuple(node.attr("starts")), steps)
        self.silent.add(node.output)

    def dense(self, name: str) -> bool:
        """True if the tensor is dense whatever happens; a container that is not decided yet counts as not dense."""
        while name in self.inside:
            within = self.inside[name]
            if within.step is not None and not self.is_contiguous(name, within.container):
                return False
            name = within.container
        return True

    def is_contiguous(self, name: str, container: str) -> bool:
        """True if a part is one contiguous range of its container: whole except along the first axis longer than 1."""
        part, whole = self.types[name].shape, self.types[container].shape
        differs = [i for i, (a, b) in enumerate(zip(part, whole, strict=True)) if a != b]
        steps = self.inside[name].step or ()
        return all(step == 1 for step in steps) and all(length == 1 for length in part[: max(differs, default=0)])

    def share_in_place(self, graph: Graph) -> None:
        """Let an element-wise node's output reuse the buffer of an input that no later node reads."""
        spans: dict[str, tuple[int, int]] = {}
        for index, node in enumerate(graph.nodes):
            for name in (*node.inputs, *node.outputs):
                if name and name not in graph.constants:
                    root = self.root(name)
                    spans[root] = (spans.get(root, (index, index))[0], index)
        last = {root: span_of(*span, self.loops)[1] for root, span in spans.items()}
        external = {self.root(name) for name in (*graph.inputs, *graph.outputs)}
        contained = {within.container for within in self.inside.values()}
        for index, node in enumerate(graph.nodes):
            if node.op not in IN_PLACE or not self.free(node.output) or node.output in contained:
                continue
            for name in dict.fromkeys(node.inputs[:2]):
                if not name or name in graph.constants or self.types[name] != self.types[node.output]:
                    continue
                root = self.root(name)
                if root in external or last[root] != index or not self.fills(name, root):
                    continue
                self.inside[node.output] = _Inside(root)
                last[root] = last.get(node.output, index)
                break

    def fills(self, name: str, root: str) -> bool:
        """True if a tensor fills its whole buffer."""
        if self.types[name].elements != self.types[root].elements:
            return False
        while name != root:
            if self.inside[name].step is not None:
                return False
            name = self.inside[name].container
        return True

    def root(self, name: str) -> str:
        """Return the tensor whose buffer contains this one."""
        path = []
        while name in self.inside:
            path.append(name)
            name = self.around.get(name) or self.inside[name].container
        self.around.update(
            dict.fromkeys(path, name)
        )  # containers do not change: only a root is placed in another tensor
        return name

    def locate(self, name: str) -> Location:
        """Return a tensor's location; its containers are located first."""
        path = [name]
        while path[-1] not in self.located and path[-1] in self.inside:
            path.append(self.inside[path[-1]].container)
        for inner in reversed(path):
            self._locate(inner)
        return self.located[name]

    def _locate(self, name: str) -> None:
        if name not in self.located:
            kind = self.types[name]
            within = self.inside.get(name)
            if within is None:
                self.located[name] = Location(name, 0, View(kind.dtype, kind.shape, dense_strides(kind.shape)))
            else:
                around = self.located[within.container]
                strides, offset, advance = dense_strides(kind.shape), around.offset, around.advance
                if within.row:
                    advance = (*advance, (within.loop, within.row * kind.elements))
                    offset += (self.types[within.container].shape[0] - 1) * kind.elements if within.row < 0 else 0
                if within.step is not None:
                    offset += sum(s * i for s, i in zip(around.view.strides, within.start, strict=True))
                    strides = tuple(s * k for s, k in zip(around.view.strides, within.step, strict=True))
                self.located[name] = Location(around.root, offset, View(kind.dtype, kind.shape, strides), advance)


def lifetimes_of(storage: Storage, order: Sequence[Node]) -> dict[str, tuple[int, int]]:
    """Return the first and last step at which each buffer is used, by root.

    Steps are the nodes' positions in `order`. A buffer that is also used outside of a loop is used in all of it.
    """
    spans: dict[str, tuple[int, int]] = {}
    for index, node in enumerate(order):
        for name in (*node.inputs, *node.outputs):
            if name in storage.locations:
                root = storage.locations[name].root
                first, _ = spans.get(root, (index, index))
                spans[root] = (first, index)
    if storage.loops:
        return {root: span_of(*span, storage.loops) for root, span in spans.items()}
    return spans
