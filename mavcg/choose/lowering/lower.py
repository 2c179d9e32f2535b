"""Lowering of an optimised graph to kernel specs with operands by name, before addresses are assigned."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mavcg.graph import Graph, Node
from mavcg.graph.counts import Count, text_of
from mavcg.graph.ops.loops import LoopRange
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.int8.im2row import IM2ROW, im2row_choices, im2row_steps
from mavcg.kernels.primitives.winograd.node_step import winograd_choices, winograd_steps
from mavcg.kernels.registry import lower
from mavcg.kernels.tensor.pad import lower_border
from mavcg.memory.locations import Storage
from mavcg.memory.storage import assign_storage
from mavcg.specs.kernel import KernelSpec, Operand, Packing, Step
from mavcg.specs.packed_constant import PackedConstant

DEFAULT_ALGORITHMS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class LoweredStep:
    """A step: a kernel with operands by name; constants are arrays or recipes.

    name: the operator in the user's file. node: the node that the step computes, or computes a part of. row_count: rows
    that a run computes, the first ones, where they follow from its lengths; None: all rows.
    """

    name: str
    node: Node
    spec: KernelSpec
    operands: tuple[Operand, ...]
    row_count: Count | None = None


@dataclass(frozen=True)
class LoweredGraph:
    """A graph lowered to kernels in order of execution.

    storage: the sharing of buffers, and the graph with the copies that it needs. steps: the engine's steps. specs: all
    kernels without repetition, also of nodes without elements. algorithms: algorithm by a node's output, for nodes that
    do not use their family's default. packed_bytes: size of a node's packed constants, by its output.
    """

    storage: Storage
    steps: tuple[LoweredStep, ...]
    specs: tuple[KernelSpec, ...]
    algorithms: Mapping[str, str] = field(default_factory=dict)
    packed_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        """The graph with the copies that shared buffers need."""
        return self.storage.graph

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The graph's node that each step computes, or computes a part of."""
        return tuple(step.node for step in self.steps)

    @property
    def loops(self) -> tuple[tuple[int, int, LoopRange], ...]:
        """The loops with steps: the first step, the one after the last, and the loop."""
        if not self.storage.loops:
            return ()
        numbers = {node.output: number for number, node in enumerate(self.graph.nodes)}
        at = [numbers[step.node.output] for step in self.steps]
        bounds = ((bisect_left(at, r.first), bisect_right(at, r.last), r) for r in self.storage.loops)
        return tuple((begin, end, r) for begin, end, r in bounds if begin < end)

    def workspaces(self) -> dict[str, int]:
        """Return the size of each node's workspace, in bytes, by the node's output; nodes without one are left out."""
        sizes: dict[str, int] = {}
        for step in self.steps:
            size = max((operand.workspace_bytes for operand in step.operands), default=0)
            if size:
                sizes[step.node.output] = max(size, sizes.get(step.node.output, 0))
        return sizes

    def __str__(self) -> str:
        return "".join(
            f"{step.name}: {step.node.op} {kernel_name(step.spec)} rows={step.spec.rows} "
            f"({', '.join(map(_operand_text, step.operands))})\n"
            for step in self.steps
        )


@dataclass(frozen=True)
class LoweringCandidates:
    """Every node lowered by every algorithm that can compute it; "" is the family's default.

    storage: sharing of buffers, the same for all algorithms. algorithms: alternatives to the default, by the node's
    output. steps: kernels with operands, by the node's output and the algorithm.
    """

    storage: Storage
    algorithms: Mapping[str, tuple[str, ...]]
    steps: Mapping[tuple[str, str], tuple[Step, ...]]

    def lower(self, algorithms: Mapping[str, str] = DEFAULT_ALGORITHMS) -> LoweredGraph:
        """Return the lowered graph with these algorithms, by a node's output; other nodes use their default."""
        nodes = self.storage.graph.nodes
        chosen = ((node, self.steps[node.output, algorithms.get(node.output, "")]) for node in nodes)
        return _lower_nodes(self.storage, chosen, algorithms)


def lower_graph(
    graph: Graph,
    packing: Packing,
    algorithms: Mapping[str, str] = DEFAULT_ALGORITHMS,
    separate: Collection[str] = (),
) -> LoweredGraph:
    """Lower each node of an optimised graph.

    algorithms: one of `other_algorithms` by a node's output; other nodes use their family's default. separate: as
    assign_storage. Raises: MavcgError, naming the node, for an operator, or a form of it, without a kernel.
    """
    storage = assign_storage(graph, separate)
    nodes = storage.graph.nodes
    steps = ((node, _node_steps(node, storage, packing, algorithms.get(node.output, ""))) for node in nodes)
    return _lower_nodes(storage, steps, algorithms)


def lower_candidates(graph: Graph, packing: Packing, max_error: float) -> LoweringCandidates:
    """Lower each node of an optimised graph by each algorithm whose error bound is within max_error.

    max_error: as a fraction of the node's largest sum before the activation. Raises: as lower_graph.
    """
    storage = assign_storage(graph)
    steps: dict[tuple[str, str], tuple[Step, ...]] = {}
    algorithms: dict[str, tuple[str, ...]] = {}
    for node in storage.graph.nodes:
        steps[node.output, ""] = default = _node_steps(node, storage, packing, "")
        others = other_algorithms(node, storage.graph, max_error) if any(step.spec.rows for step in default) else ()
        if others:
            algorithms[node.output] = others
        for algorithm in others:
            steps[node.output, algorithm] = _node_steps(node, storage, packing, algorithm)
    return LoweringCandidates(storage, algorithms, steps)


def lower_alternatives(
    graph: Graph, packing: Packing, name: str, alternative: Callable[[Node, Graph], Node | None]
) -> LoweringCandidates:
    """Lower each node of an optimised graph as it is, and other forms of nodes as an algorithm of this name.

    alternative: returns another form of a node, with the same tensors; None for a node without one. Raises: as
    lower_graph.
    """
    storage = assign_storage(graph)
    nodes = storage.graph.nodes
    steps = {(node.output, ""): _node_steps(node, storage, packing, "") for node in nodes}
    others = {node: form for node in nodes if (form := alternative(node, storage.graph)) and steps[node.output, ""]}
    steps |= {(node.output, name): _node_steps(form, storage, packing, "") for node, form in others.items()}
    return LoweringCandidates(storage, {node.output: (name,) for node in others}, steps)


def other_algorithms(node: Node, graph: Graph, max_error: float) -> tuple[str, ...]:
    """Return the algorithms, apart from the default, that compute a node of a storage's graph within max_error."""
    if node.op == "conv2d" and node.attr("weights"):  # half the bytes, which only its own kernel reads
        return ()
    return (*winograd_choices(node, graph, max_error), *im2row_choices(node, graph))


def _lower_nodes(
    storage: Storage, steps_of: Iterable[tuple[Node, tuple[Step, ...]]], algorithms: Mapping[str, str]
) -> LoweredGraph:
    constants = storage.graph.constants
    lowered: list[LoweredStep] = []
    specs: dict[KernelSpec, None] = {}
    packed_bytes: dict[str, int] = {}
    for node, steps in steps_of:
        packed = {
            o.constant if isinstance(o.constant, PackedConstant) else id(o.constant): o.constant.nbytes
            for step in steps
            for o in step.operands
            if o.constant is not None
        }
        if packed:
            packed_bytes[node.output] = sum(packed.values())
        for step in steps:
            specs[step.spec] = None
            if step.spec.rows:
                operands = tuple(
                    # The kernel reads the graph's constant without packing.
                    replace(o, constant=constants[o.tensor]) if o.constant is None and o.tensor in constants else o
                    for o in step.operands
                )
                lowered.append(LoweredStep(step.origin or node.origin or node.output, node, step.spec, operands))
    return LoweredGraph(storage, tuple(lowered), tuple(specs), dict(algorithms), packed_bytes)


def _node_steps(node: Node, storage: Storage, packing: Packing, algorithm: str) -> tuple[Step, ...]:
    if any(name in storage.silent for name in node.outputs):
        return ()
    views = storage.views(node)
    if algorithm == IM2ROW:
        return im2row_steps(node, storage.graph, views, packing)
    if algorithm:
        return winograd_steps(algorithm, node, storage.graph, views, packing)
    if node.output in storage.bordered:
        return lower_border(node, storage.graph, views, packing)
    return lower(node, storage.graph, views, packing)


def _operand_text(operand: Operand) -> str:
    constant = operand.constant
    if isinstance(constant, PackedConstant):
        text = f"{constant.pack.__name__}(%{', %'.join(constant.sources)})"
    elif constant is not None:
        text = f"%{operand.tensor}" if operand.tensor else "packed constant"
    elif operand.fault_word:
        text = "fault word"
    elif operand.count is not None:
        text = f"count {text_of(operand.count)}"
    elif operand.workspace_bytes:
        text = f"workspace of {operand.workspace_bytes} bytes"
    else:
        text = f"%{operand.tensor}"
    return text + (f" + {operand.offset}" if operand.offset else "")


@dataclass(frozen=True)
class WeightSizes:
    """Sizes of convolutions' constant weights, in bytes: by the definition, and after packing or transformation."""

    definition_bytes: int
    packed_bytes: int


def weight_sizes(lowered: LoweredGraph) -> WeightSizes:
    """Return the total sizes of the constant weights of a graph's f32 convolutions."""
    graph = lowered.graph
    nodes = {node.output: node for node in lowered.nodes if node.op in ("conv2d", "primitive_conv2d")}
    nodes = {name: node for name, node in nodes.items() if node.inputs[1] in graph.constants}
    defined = sum(graph.types[node.inputs[1]].bytes for node in nodes.values())
    return WeightSizes(defined, sum(lowered.packed_bytes.get(name, 0) for name in nodes))
