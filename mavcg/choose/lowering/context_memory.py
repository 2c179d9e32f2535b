"""Places a graph's states, and lengths that a run decides, in a context: they leave the signature of the program.

A length is a word of the context. Until here a state is an input and an output, as two buffers of the caller. A run
that would write the output's buffer only after its last read of the input's needs one buffer for both. Other states
have two copies, which change places after each run, so that nothing is copied.
"""

from dataclasses import replace

from mavcg.choose.lowering.lower import LoweredGraph
from mavcg.choose.plan import Plan
from mavcg.graph import Graph
from mavcg.kernels.tensor.copies import CopySpec
from mavcg.memory.arena import align_size
from mavcg.memory.storage import IN_PLACE
from mavcg.specs.model_program import (
    ONLY_COPY,
    READ_COPY,
    WRITTEN_COPY,
    OperandAddress,
    Program,
    ProgramPhase,
    ProgramState,
)


def without_state_copies(lowered: LoweredGraph) -> LoweredGraph:
    """Return the lowered graph without copies of a whole state from its old value to its new one.

    Such a copy precedes a scatter, as of new rows into a cache. Where it alone reads the old value, and nothing
    accesses the new one before it, both are one buffer (hold_in_context), so that only what is scattered is written. A
    graph with loops, which repeat their steps, stays as it is.
    """
    places, steps = lowered.storage.locations, lowered.steps
    roots = [{places[o.tensor].root for o in step.operands if o.tensor in places} for step in steps]
    dropped = set[int]()
    for state in () if lowered.storage.loops else lowered.graph.states:
        readers = [i for i, of_step in enumerate(roots) if state.input in of_step]
        users = [i for i, of_step in enumerate(roots) if state.output in of_step]
        if len(readers) == 1 and readers[0] == min(users, default=-1) and _copies_in_place(lowered, readers[0]):
            dropped.add(readers[0])
    if not dropped:
        return lowered
    kept = tuple(step for i, step in enumerate(steps) if i not in dropped)
    unused = {steps[i].spec for i in dropped} - {step.spec for step in kept}
    return replace(lowered, steps=kept, specs=tuple(spec for spec in lowered.specs if spec not in unused))


def _copies_in_place(lowered: LoweredGraph, number: int) -> bool:
    """Return True if a step only copies elements of one buffer to the same places of another."""
    step, places = lowered.steps[number], lowered.storage.locations
    spec = step.spec
    if not isinstance(spec, CopySpec):
        return False
    source, target = (places[operand.tensor].offset for operand in step.operands)
    return source + spec.source_offset == target + spec.target_offset and spec.nest.strides[0] == spec.nest.strides[1]


def hold_in_context(plan: Plan) -> Plan:
    """Return the plan with the graph's states and counts in the context; unchanged without any."""
    return _hold_states(_hold_counts(plan))


def context_address(address: OperandAddress, graph: Graph, states: tuple[ProgramState, ...]) -> OperandAddress:
    """Return an address among the graph's inputs and outputs as one of a program whose context holds its states."""
    return _held_address(_counted_address(address, _first_count(graph)), states)


def _hold_states(plan: Plan) -> Plan:
    """Return the plan with the graph's states in the context; unchanged without states."""
    graph, program = plan.lowered.graph, plan.program
    if not graph.states:
        return plan
    pairs = [(graph.inputs.index(s.input), graph.outputs.index(s.output)) for s in graph.states]
    in_place = [updates_in_place(plan.lowered, program, *pair) for pair in pairs]
    states, end = list[ProgramState](), 0
    for held in (True, False):
        start = end
        for state, (read, written), own in zip(graph.states, pairs, in_place, strict=True):
            if own == held:
                kind, initial = graph.types[state.output], plan.memory.initial.get(state.input)
                axes, following = program.inputs[read].axes, program.outputs[written].axes
                following = following if following != axes else ()
                states.append(ProgramState(state.input, kind, read, written, end, own, initial, axes, following))
                end = align_size(end + kind.bytes)
    swapped = end - start
    made = tuple(states)
    reordered = (state.type.bytes for state in made if state.moves and not state.next_axes)  # others stay dense
    moved = align_size(max(reordered, default=0))
    reads, writes = ({pair[end] for pair in pairs} for end in (0, 1))
    return replace(
        plan,
        program=replace(
            program.with_addresses(lambda address: _held_address(address, made)),
            inputs=tuple(tensor for i, tensor in enumerate(program.inputs) if i not in reads),
            outputs=tuple(tensor for i, tensor in enumerate(program.outputs) if i not in writes),
            states=made,
            state_bytes=end + swapped + moved,
            swapped_bytes=swapped,
            moved_bytes=moved,
        ),
    )


def _held_address(address: OperandAddress, states: tuple[ProgramState, ...]) -> OperandAddress:
    """Return an address among the graph's inputs and outputs as one of a program whose context holds these states."""
    if not states or address.base not in ("input", "output"):
        return address
    reads = address.base == "input"
    before = 0
    for state in states:
        number = state.input if reads else state.output
        if number == address.index:
            copy = ONLY_COPY if state.in_place else READ_COPY if reads else WRITTEN_COPY
            return replace(address, base="state", offset=state.offset + address.offset, index=copy)
        before += number < address.index
    return replace(address, index=address.index - before)


def _hold_counts(plan: Plan) -> Plan:
    """Return the plan with the graph's counts, its last outputs, in the context; unchanged without counts."""
    graph, program = plan.lowered.graph, plan.program
    if not graph.counts:
        return plan
    counts = list(dict.fromkeys(count.count for count in graph.counts))
    first = _first_count(graph)
    of_output = {count.output: count for count in graph.counts}
    outputs = tuple(
        replace(tensor, counted_axis=of_output[name].axis, counted=counts.index(of_output[name].count))
        if name in of_output
        else tensor
        for name, tensor in zip(graph.outputs[:first], program.outputs[:first], strict=True)
    )
    held = program.with_addresses(lambda address: _counted_address(address, first))
    return replace(plan, program=replace(held, outputs=outputs, counted=len(counts)))


def _first_count(graph: Graph) -> int:
    """Return the number of the first output that the caller does not see."""
    return len(graph.outputs) - len({count.count for count in graph.counts})


def _counted_address(address: OperandAddress, first: int) -> OperandAddress:
    """Return an address among the graph's outputs as one of a program whose outputs from `first` on are counts."""
    if address.base != "output" or address.index < first:
        return address
    return OperandAddress("counted", address.offset, address.index - first)


def updates_in_place(lowered: LoweredGraph, program: Program, read: int, written: int) -> bool:
    """Return True if input number `read` and output number `written` may be one buffer in this program's order.

    Every read of the input must come before every access to the output, or both are in one step that reads each element
    just before it writes it.
    """
    reads, accesses = list[int](), list[int]()
    order = program.phases or tuple(ProgramPhase(i, 0, s.rows, s.operands) for i, s in enumerate(program.steps))
    outermost = reversed(program.loops)  # the last one of a step's that is set
    repeated = {at: loop for loop in outermost for at in range(loop.begin, loop.end)}
    for at, phase in enumerate(order):
        loop = repeated.get(at)  # another iteration of its steps may come before or after this one
        if any(o.base == "input" and o.index == read for o in phase.operands):
            reads.append(at if loop is None else loop.end - 1)
        if any(o.base == "output" and o.index == written for o in phase.operands):
            accesses.append(at if loop is None else loop.begin)
    last, first = max(reads, default=-1), min(accesses, default=len(order))
    if last < first:
        return True
    once = first not in repeated and not program.phases
    return last == first and once and _element_by_element(lowered, first, read, written)


def _element_by_element(lowered: LoweredGraph, step: int, read: int, written: int) -> bool:
    """Return True if a step reads each element of an input just before it writes the same element of an output."""
    node, graph = lowered.steps[step].node, lowered.graph
    own_steps = sum(other.node == node for other in lowered.steps)
    if node.op not in IN_PLACE or own_steps != 1 or any(name == "" for name in node.inputs):
        return False
    places = lowered.storage.locations
    target = places[node.output]
    sources = {name for name in node.inputs if name in places and places[name].root == graph.inputs[read]}
    first_two = [name for name in sources if name in node.inputs[:2]]
    return (
        target.root == graph.outputs[written]
        and len(sources) == len(first_two) == 1
        and (places[first_two[0]].offset, places[first_two[0]].view) == (target.offset, target.view)
    )
