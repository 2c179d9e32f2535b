"""One copy of equal packed weights in an application's library, over all networks and sizes of a network."""

from collections.abc import Sequence
from dataclasses import replace

from mavcg.choose.lowering.memory_plan import ConstantPlace, ConstantPool, ContentDigests
from mavcg.choose.plan import Plan
from mavcg.memory.arena import ALIGNMENT
from mavcg.specs.model_program import OperandAddress


def share_weights(networks: Sequence[Plan]) -> tuple[tuple[Plan, ...], ConstantPool]:
    """Return the networks with the addresses of their constants in one pool, and the pool.

    networks: planned to the end, each with constants of its own. Two constants are one if they are packed in the same
    way from equal arrays: names of tensors and of networks do not matter.
    """
    pool, digests = ConstantPool(), ContentDigests()
    moved = tuple(_in_pool(network, pool, digests) for network in networks)
    return tuple(_of_pool(network, pool.end) for network in moved), pool


def _in_pool(plan: Plan, pool: ConstantPool, digests: ContentDigests) -> Plan:
    """Return the plan with its constants at their offsets in the pool, to which new ones are added."""
    lowered, places = plan.lowered, dict[int, ConstantPlace]()
    pool.begin_model(lowered.graph.constants, digests)

    def addresses(step: int, row: Sequence[OperandAddress]) -> tuple[OperandAddress, ...]:
        own = []
        for operand, address in zip(lowered.steps[step].operands, row, strict=True):
            if operand.constant is not None:
                begin = pool.add(operand.constant, operand.align)
                places[begin] = ConstantPlace(begin, operand.constant)
                address = replace(address, offset=begin + operand.offset)
            own.append(address)
        return tuple(own)

    program, memory = plan.program, plan.memory
    steps = tuple(replace(step, operands=addresses(n, step.operands)) for n, step in enumerate(program.steps))
    phases = tuple(
        phase if phase.moved_bytes else replace(phase, operands=addresses(phase.step, phase.operands))
        for phase in program.phases
    )
    rows = tuple(addresses(n, row) for n, row in enumerate(memory.addresses))
    initial = {}
    for state in lowered.graph.states:
        if state.input in memory.initial and state.initial is not None:
            initial[state.input] = begin = pool.add(state.initial, ALIGNMENT)
            places[begin] = ConstantPlace(begin, state.initial)
    states = tuple(
        state if state.initial is None else replace(state, initial=initial[state.name]) for state in program.states
    )
    constants = tuple(places[offset] for offset in sorted(places))
    return replace(
        plan,
        program=replace(program, steps=steps, phases=phases, states=states),
        memory=replace(memory, addresses=rows, constants=constants, initial=initial),
    )


def _of_pool(plan: Plan, pool_bytes: int) -> Plan:
    """Return the plan with the size of all constants of the library, in bytes."""
    return replace(
        plan,
        program=replace(plan.program, constants_bytes=pool_bytes),
        memory=replace(plan.memory, constants_bytes=pool_bytes),
    )
