"""Places the lengths that a run decides in words of the context: they leave the signature."""

from dataclasses import replace

from mavcg.choose.plan import Plan
from mavcg.graph import Graph
from mavcg.specs.model_program import OperandAddress


def hold_counts(plan: Plan) -> Plan:
    """Return the plan with the graph's counts, its last outputs, in the context; unchanged without counts."""
    graph, program = plan.lowered.graph, plan.program
    if not graph.counts:
        return plan
    counts = list(dict.fromkeys(count.count for count in graph.counts))
    first = first_count(graph)
    of_output = {count.output: count for count in graph.counts}
    outputs = tuple(
        replace(tensor, counted_axis=of_output[name].axis, counted=counts.index(of_output[name].count))
        if name in of_output
        else tensor
        for name, tensor in zip(graph.outputs[:first], program.outputs[:first], strict=True)
    )

    def held_of(operands: tuple[OperandAddress, ...]) -> tuple[OperandAddress, ...]:
        return tuple(counted_address(operand, first) for operand in operands)

    return replace(
        plan,
        program=replace(
            program,
            outputs=outputs,
            steps=tuple(replace(step, operands=held_of(step.operands)) for step in program.steps),
            phases=tuple(replace(phase, operands=held_of(phase.operands)) for phase in program.phases),
            counted=len(counts),
        ),
    )


def first_count(graph: Graph) -> int:
    """Return the number of the first output that the caller does not see."""
    return len(graph.outputs) - len({count.count for count in graph.counts})


def counted_address(address: OperandAddress, first: int) -> OperandAddress:
    """Return an address among the graph's outputs as one of a program whose outputs from `first` on are counts."""
    if address.base != "output" or address.index < first:
        return address
    return OperandAddress("counted", address.offset, address.index - first)
