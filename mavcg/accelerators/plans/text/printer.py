"""Printer of plans (docs/plan-text.md); text/parser.py parses the result into an equal plan."""

import json
import re
from collections.abc import Iterable, Iterator

from mavcg.accelerators.plans.text.plan import (
    Command,
    Conv,
    Info,
    Load,
    PlanMemory,
    PoolCommand,
    Relu,
    Store,
    TextPlan,
    Types,
)

# Layer names that are printed in a header without quotes; any other is quoted as a JSON string.
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:+-]+(?:/[A-Za-z0-9_.:+-]+)*")


def _numbers(values: Iterable[int]) -> str:
    return "(" + ",".join(map(str, values)) + ")"


def _pair(pair: tuple[int, int]) -> str:
    """Return one number if both are the same, as the paper writes its stride."""
    return str(pair[0]) if pair[0] == pair[1] else _numbers(pair)


def _types(types: Types) -> str:
    names = (types.input, types.weight, types.output, types.psum)
    return ",".join(names[:1] if len(set(names)) == 1 else names)


def _info(info: Info) -> Iterator[str]:
    plain = Info(info.input, info.weight, info.output)
    yield "// (batch, channel, height, width)"
    yield f"INPUT{_numbers(info.input)}"
    yield f"WEIGHT{_numbers(info.weight)}" if info.weight else f"KERNEL{_numbers(info.kernel)}"
    yield f"OUTPUT{_numbers(info.output)}"
    if info.stride != plain.stride:
        yield f"STRIDE{_numbers(info.stride)}"
    if info.pads != plain.pads:
        yield f"PADS{_numbers(info.pads)}"
    if info.dilation != plain.dilation:
        yield f"DILATION{_numbers(info.dilation)}"
    if info.groups != plain.groups:
        yield f"GROUPS({info.groups})"
    if info.types != plain.types:
        yield f"TYPE({_types(info.types)})"


def _memory(memory: PlanMemory, types: Types) -> str:
    sizes = {types.resident_bytes(operand) for operand in memory.holds}
    item = sizes.pop()
    # In elements, as in the paper, unless operands of several sizes share it or its size is not a multiple of one.
    if sizes or memory.size_bytes % item:
        return f"{memory.name}({memory.size_bytes} bytes)"
    return f"{memory.name}({memory.size_bytes // item})"


def print_command(command: Command) -> str:
    """Return a command as one line of [text]."""
    match command:
        case Load(memory, tile):
            return f"LOAD {memory} {tile}"
        case Store(tile, memory, partial):
            return f"STORE {tile} {memory}" + (" PARTIAL" if partial else "")
        case Conv(output, source, weight, stride, pads, add):
            return f"CONV {output} {source} {weight} {_pair(stride)} {_numbers(pads)}" + (" ADD" if add else "")
        case PoolCommand(maximum, output, source, stride, pads):
            return f"{'MAXPOOL' if maximum else 'AVGPOOL'} {output} {source} {_pair(stride)} {_numbers(pads)}"
        case Relu(output):
            return f"RELU {output}"


def _lines(plan: TextPlan) -> Iterator[str]:
    if plan.name:
        yield f"[layer {plan.name if PLAIN_NAME.fullmatch(plan.name) else json.dumps(plan.name)}]"
    yield "[info]"
    yield from _info(plan.info)
    yield ""
    yield "[var]"
    yield "// Memories and what they hold"
    yield from (_memory(memory, plan.info.types) for memory in plan.memories)
    yield "// Tiles: [offset](batch, channel, height, width), in elements"
    yield from (f"{tile.name}[{tile.offset}]{_numbers(tile.dims)}" for tile in plan.tiles)
    yield ""
    yield "[text]"
    yield from map(print_command, plan.commands)


def print_plan(plan: TextPlan) -> str:
    """Return the whole text, with a final newline. The layer's name precedes it as [layer NAME]."""
    return "\n".join(_lines(plan)) + "\n"


def print_plans(plans: Iterable[TextPlan]) -> str:
    """Return the text of several plans, one after the other."""
    return "\n".join(map(print_plan, plans))
