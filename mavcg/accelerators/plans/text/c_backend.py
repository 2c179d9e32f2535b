"""A plan as one C file: a call for each command, in order (e-PlaNNer, 7.2), of functions that are plain loops."""

from collections.abc import Iterator, Sequence
from math import prod

from mavcg.accelerators.plans.text import c_library
from mavcg.accelerators.plans.text.declared import regions
from mavcg.accelerators.plans.text.plan import (
    Command,
    Conv,
    Load,
    PlanTile,
    PoolCommand,
    Relu,
    Store,
    TextPlan,
    Types,
    output_memories,
    tiles_by_name,
)
from mavcg.accelerators.plans.text.printer import print_command
from mavcg.accelerators.plans.text.verify import verify_plan
from mavcg.errors import MavcgError
from mavcg.text.safe_text import c_identifier, comment

C_TYPES = {
    "f32": "float",
    "f64": "double",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
}
_ON_CHIP = {"INPUT": "input_t", "WEIGHT": "weight_t", "OUTPUT": "psum_t"}
LOWEST = {"f": "-1.0 / 0.0", "i8": "INT8_MIN", "i16": "INT16_MIN", "i32": "INT32_MIN", "i64": "INT64_MIN"}


def plan_c(plan: TextPlan, function: str = "run") -> str:
    """Return C11 that defines `void run(const INPUT *input, const WEIGHT *weight, OUTPUT *output)`.

    A pooling has no parameter weight. Tensors are row-major as in the plan. Memories are static arrays, so only one
    thread may call it at a time. function: name in place of run. Raises: MavcgError for an invalid plan or a type that
    C lacks.
    """
    verify_plan(plan)
    types = plan.info.types
    for name in (types.input, types.weight, types.output, types.psum):
        if name not in C_TYPES:
            raise MavcgError(
                f"plan of {plan.name or 'a layer'}: C has no type {name}; choose one of {', '.join(C_TYPES)}"
            )
    writer = CWriter(plan)
    head = f"/* The plan of {comment(plan.name or 'a layer')}, as C. */\n"
    own = ("\n".join(lines) + "\n" for lines in (writer.memories(), writer.function(function)))
    return "".join((head, *library_of([plan], types), *own))


def multiply_add(psum: str) -> str:
    """Return the macro that adds a product to a sum of type psum; integers wrap around."""
    if psum.startswith("f"):
        body = "((sum) + (psum_t)(a) * (psum_t)(b))"
    else:
        # Unsigned arithmetic wraps around; signed overflow is undefined in C.
        wide = "uint64_t" if psum == "i64" else "uint32_t"
        body = f"((psum_t)(({wide})(sum) + ({wide})(psum_t)(a) * ({wide})(psum_t)(b)))"
    return f"#define MULTIPLY_ADD(sum, a, b) {body}"


def library_of(plans: Sequence[TextPlan], types: Types) -> Iterator[str]:
    """Yield the C functions that the commands of plans of these types call."""
    head = c_library.HEAD.replace("@MULTIPLY_ADD@", multiply_add(types.psum))
    names = {"@INPUT@": types.input, "@WEIGHT@": types.weight, "@OUTPUT@": types.output, "@PSUM@": types.psum}
    for key, name in names.items():
        head = head.replace(key, C_TYPES[name])
    yield head
    commands = [command for plan in plans for command in plan.commands]
    convs = {
        is_fc(tiles, command)
        for plan in plans
        for tiles in (tiles_by_name(plan),)
        for command in plan.commands
        if isinstance(command, Conv)
    }
    if True in convs:
        yield c_library.FC
    if False in convs:
        yield c_library.CONV
    for maximum in (True, False):
        if any(isinstance(command, PoolCommand) and command.maximum is maximum for command in commands):
            yield c_library.pool(maximum, LOWEST.get(types.psum, LOWEST["f"]))
    if any(isinstance(command, Relu) for command in commands):
        yield c_library.RELU
    yield c_library.COPIES
    yield c_library.STORES.replace("@NAME@", "store").replace("@TYPE@", "output_t")
    if types.psum != types.output and any(has_partial(plan) for plan in plans):
        yield c_library.STORES.replace("@NAME@", "store_partial").replace("@TYPE@", "psum_t")


def has_partial(plan: TextPlan) -> bool:
    """True if a plan stores partial sums."""
    return any(isinstance(command, Store) and command.partial for command in plan.commands)


def is_fc(tiles: dict[str, PlanTile], command: Conv) -> bool:
    """True if a command multiplies one pixel by a 1x1 kernel. A pixel of padding does not count."""
    return tiles[command.output].dims[2:] == tiles[command.weight].dims[2:] == tiles[command.input].dims[2:] == (1, 1)


class CWriter:
    """Writer of a plan's memories and of the function with its commands."""

    def __init__(self, plan: TextPlan) -> None:
        self.plan = plan
        self.tiles = tiles_by_name(plan)
        self.where: dict[str, str] = {}  # array of each tile
        self.regions = regions(plan, self.tiles)  # bytes of each (memory, operand)

    def array(self, memory: str, operand: str) -> str:
        """Return the array of a memory's part for an operand.

        It has the memory's name if the memory has no other part.
        """
        alone, name = memory.startswith(("IN_", "WT_", "OT_")), c_identifier(memory.lower())
        return name if alone else f"{name}_{operand.lower()}"

    def memories(self) -> Iterator[str]:
        types = self.plan.info.types
        for memory in self.plan.memories:
            for operand in memory.holds:
                if (memory.name, operand) in self.regions:
                    # Each part of a shared memory is an array of its own, because a C array has one element type.
                    size = memory.size_bytes if len(memory.holds) == 1 else self.regions[memory.name, operand]
                    count = size // types.resident_bytes(operand)
                    yield f"static {_ON_CHIP[operand]} {self.array(memory.name, operand)}[{count}];"
        if types.psum != types.output and has_partial(self.plan):
            yield f"static psum_t partial[{prod(self.plan.info.output)}]; /* partial sums, off chip */"

    def function(self, name: str) -> Iterator[str]:
        weight = "" if self.plan.info.weight is None else "const weight_t *weight, "
        yield f"void {name}(const input_t *input, {weight}output_t *output);"
        yield f"void {name}(const input_t *input, {weight}output_t *output) {{"
        for command, target in zip(self.plan.commands, output_memories(self.plan), strict=True):
            yield f"    {self.call(command, target)} /* {comment(print_command(command))} */"
        yield "}"

    def on_chip(self, memory: str, tile: str) -> str:
        self.where[tile] = self.array(memory, self.tiles[tile].operand)
        return self.where[tile]

    def off_chip(self, tile: PlanTile, partial: bool) -> str:
        types = self.plan.info.types
        if tile.operand == "OUTPUT" and partial and types.psum != types.output:
            return f"partial + {tile.offset}"
        return f"{tile.operand.lower()} + {tile.offset}"

    def call(self, command: Command, target: str | None) -> str:
        match command:
            case Load(memory, name):
                return self.load(memory, name)
            case Store(name, _, partial):
                return self.store(name, partial)
            case Conv(output, source, weight):
                destination = self.where[output] if command.add else self.on_chip(target or "", output)
                hook = "PLAN_FC" if is_fc(self.tiles, command) else "PLAN_CONV"
                taken = self.where.get(source, "(const input_t *)0")
                return f"{hook}({taken}, {self.where[weight]}, {destination}, {self.shape(command)});"
            case PoolCommand(maximum, output, source):
                hook = "PLAN_MAXPOOL" if maximum else "PLAN_AVGPOOL"
                taken = self.where.get(source, "(const input_t *)0")
                return f"{hook}({taken}, {self.on_chip(target or '', output)}, {self.shape(command)});"
            case Relu(output):
                return f"PLAN_RELU({self.where[output]}, {self.tiles[output].elements});"

    def load(self, memory: str, name: str) -> str:
        tile = self.tiles[name]
        tensor = self.plan.info.dims(tile.operand)
        assert tensor
        item = _ON_CHIP[tile.operand]
        plane = tensor[2] * tensor[3]
        n0, n1, rows, columns = tile.dims
        return (
            f"load({self.on_chip(memory, name)}, {self.off_chip(tile, partial=True)}, sizeof({item}), "
            f"{n0}, {tensor[1] * plane}, {n1}, {plane}, {rows}, {columns}, {tensor[3]});"
        )

    def store(self, name: str, partial: bool) -> str:
        tile, tensor = self.tiles[name], self.plan.info.output
        types = self.plan.info.types
        function = "store_partial" if partial and types.psum != types.output else "store"
        _, channels, rows, columns = tile.dims
        source = self.where[name]
        return (
            f"{function}({self.off_chip(tile, partial)}, {source}, "
            f"{channels}, {tensor[2] * tensor[3]}, {rows}, {columns}, {tensor[3]});"
        )

    def shape(self, command: Conv | PoolCommand) -> str:
        info = self.plan.info
        _, oc, oh, ow = self.tiles[command.output].dims
        _, ic, ih, iw = self.tiles[command.input].dims
        match command:
            case Conv(weight=weight, add=adds):
                kh, kw = self.tiles[weight].dims[2:]
            case PoolCommand():
                (kh, kw), adds = info.kernel, False
        left, _, above, _ = command.pads
        values = (
            oc,
            ic,
            oh,
            ow,
            ih,
            iw,
            kh,
            kw,
            *command.stride,
            *info.dilation,
            left,
            above,
            int(adds),
        )
        return f"&(const struct plan_conv){{{', '.join(map(str, values))}}}"
