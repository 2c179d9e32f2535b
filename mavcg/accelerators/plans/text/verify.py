"""Verifier of plans: a verified plan can be run and computes its layer, so every backend may rely on it."""

from mavcg.accelerators.plans.text.boxes import Box, box_of, overlap, verify_reads, volume
from mavcg.accelerators.plans.text.declared import verify_declared
from mavcg.accelerators.plans.text.plan import (
    Command,
    Conv,
    Load,
    PlanTile,
    PoolCommand,
    Relu,
    Store,
    TextPlan,
    location_of,
    output_memories,
)
from mavcg.accelerators.plans.text.printer import print_command
from mavcg.errors import MavcgError


class _Sums:
    """The sums of one output tile.

    terms: boxes of (IC, KH, KW) that they include. volume: number of terms. saved: number of boxes stored off chip as
    partial sums. complete: stored completely. rectified: RELU was applied.
    """

    __slots__ = ("complete", "rectified", "saved", "terms", "volume")

    def __init__(self) -> None:
        self.terms: list[Box] = []
        self.volume = 0
        self.saved = 0  # how many of them lie off chip, as partial sums
        self.complete = False  # stored for good
        self.rectified = False


def verify_plan(plan: TextPlan) -> None:
    """Check that a plan is correct.

    Tiles lie inside their tensors and fit the memories together with all other resident tiles; nothing is used before
    it is loaded or stored before it is computed; each command reads exactly what its output and padding need; no sums
    are lost or added twice; and at the end every element of the output has been stored completely, once. Raises:
    MavcgError with the line, or the layer and the command if the plan has no text.
    """
    tiles = verify_declared(plan)
    _PlanVerifier(plan, tiles).all()


class _PlanVerifier:
    """State while a plan's commands are checked in order: the contents of the memories and the sums of each tile."""

    def __init__(self, plan: TextPlan, tiles: dict[str, PlanTile]) -> None:
        self.plan, self.tiles = plan, tiles
        self.memories = {memory.name: memory for memory in plan.memories}
        self.holds: dict[tuple[str, str], str] = {}  # (memory, operand): tile
        self.where: dict[str, str] = {}  # tile: memory
        self.sums: dict[str, _Sums] = {}
        self.command: Command = Relu("")
        self.number = 0
        self.boxes = {name: box_of(t, d) for name, t in tiles.items() if (d := plan.info.dims(t.operand))}
        ic, (kh, kw) = plan.info.weight[1] if plan.info.weight else 1, plan.info.taps
        self.terms_shape = (ic, kh, kw)
        self.full = ic * kh * kw
        # Where the plan's boxes of terms are disjoint, a sum has a term twice only if it has a box twice.
        distinct = {box[1:] for name, box in self.boxes.items() if tiles[name].operand == "WEIGHT"}
        self.disjoint = overlap(sorted(distinct), self.terms_shape) is None

    def fail(self, problem: str) -> MavcgError:
        where = "" if self.command.line else f"command {self.number}, "
        return MavcgError(location_of(self.plan, self.command.line, f"{where}{print_command(self.command)}: {problem}"))

    def tile(self, name: str, operand: str) -> PlanTile:
        tile = self.tiles.get(name)
        if tile is None or tile.operand != operand:
            raise self.fail(f"{name} is not a tile of {operand} in [var]; declare it or name one that is declared")
        return tile

    def all(self) -> None:
        targets = output_memories(self.plan)
        for number, command in enumerate(self.plan.commands):
            self.command, self.number, target = command, number + 1, targets[number]
            match command:
                case Load():
                    self.load(command)
                case Store():
                    self.store(command)
                case Conv():
                    self.conv(command, target)
                case PoolCommand():
                    self.pool(command, target)
                case Relu():
                    self.relu(command)
        self.end()

    def put(self, memory_name: str, tile: PlanTile) -> None:
        """Put a tile into a memory, in place of the resident tile of the same operand."""
        memory = self.memories.get(memory_name)
        if memory is None:
            raise self.fail(f"{memory_name} is not a memory in [var]; declare it or name one that is declared")
        if tile.operand not in memory.holds:
            raise self.fail(f"{memory_name} holds {', '.join(memory.holds)}, not {tile.operand}; use another memory")
        before = self.holds.get((memory_name, tile.operand))
        if before == tile.name:
            return
        if before is not None:
            lost = self.sums.get(before)
            if lost and not lost.complete and len(lost.terms) > lost.saved:
                raise self.fail(f"{memory_name} has sums of {before} that were never stored; STORE {before} first")
            del self.where[before]
        if tile.name in self.where:
            del self.holds[self.where[tile.name], tile.operand]
        self.holds[memory_name, tile.operand] = tile.name
        self.where[tile.name] = memory_name

    def load(self, command: Load) -> None:
        tile = self.tiles.get(command.tile)
        if tile is None:
            raise self.fail(f"{command.tile} is not a tile in [var]; declare it or name one that is declared")
        if tile.operand == "OUTPUT":
            sums = self.sums.get(tile.name)
            if sums is None or not sums.saved or sums.complete:
                raise self.fail(
                    f"no partial sums of {tile.name} are off chip; remove it, or STORE them before, PARTIAL"
                )
            if len(sums.terms) > sums.saved:
                raise self.fail(f"newer sums of {tile.name} are on chip and would be lost; STORE them before, PARTIAL")
        self.put(command.memory, tile)

    def resident(self, name: str) -> None:
        if self.tiles[name].elements and name not in self.where:
            raise self.fail(f"{name} is not on chip: not loaded, or another tile took its place; LOAD it before")

    def start_sums(self, output: PlanTile, target: str | None) -> _Sums:
        """Return new sums of an output tile, which begin at this command."""
        if output.name in self.sums:
            raise self.fail(f"{output.name} was begun before and would begin anew; write ADD, or remove the command")
        if target is None:
            raise self.fail(f"{output.name} is never stored after it; add STORE {output.name} MEMORY")
        self.put(target, output)
        self.sums[output.name] = _Sums()
        return self.sums[output.name]

    def conv(self, command: Conv, target: str | None) -> None:
        output, weight = self.tile(command.output, "OUTPUT"), self.tile(command.weight, "WEIGHT")
        source = self.tile(command.input, "INPUT")
        self.resident(source.name)
        self.resident(weight.name)
        wrong = verify_reads(
            self.plan.info,
            self.boxes[output.name],
            self.boxes[source.name],
            self.boxes[weight.name],
            command.stride,
            command.pads,
        )
        if wrong:
            raise self.fail(wrong)
        if command.add:
            sums = self.sums.get(output.name)
            if sums is None or output.name not in self.where:
                raise self.fail(f"ADD: no sums of {output.name} are on chip; LOAD them before, or write no ADD")
            if sums.complete or sums.rectified:
                raise self.fail(f"ADD: {output.name} was complete before; remove the command")
        else:
            sums = self.start_sums(output, target)
        sums.terms.append(self.boxes[weight.name][1:])
        sums.volume += volume(sums.terms[-1])

    def pool(self, command: PoolCommand, target: str | None) -> None:
        output, source = self.tile(command.output, "OUTPUT"), self.tile(command.input, "INPUT")
        self.resident(source.name)
        if self.plan.info.weight is not None:
            raise self.fail("[info] has a WEIGHT, so this is not a pooling; write KERNEL(HEIGHT,WIDTH) there instead")
        whole = (self.boxes[output.name][1], (0, 1), *((0, taps) for taps in self.plan.info.taps))
        wrong = verify_reads(
            self.plan.info, self.boxes[output.name], self.boxes[source.name], whole, command.stride, command.pads
        )
        if wrong:
            raise self.fail(wrong)
        sums = self.start_sums(output, target)
        sums.terms.append(whole[1:])
        sums.volume = self.full

    def is_complete(self, sums: _Sums) -> bool:
        if sums.volume != self.full:
            return False
        if self.disjoint:
            return len(set(sums.terms)) == len(sums.terms)
        return overlap(sums.terms, self.terms_shape) is None

    def relu(self, command: Relu) -> None:
        output = self.tile(command.output, "OUTPUT")
        sums = self.sums.get(output.name)
        if sums is None or output.name not in self.where or not self.is_complete(sums):
            raise self.fail(f"{output.name} is not complete on chip; put it after the last CONV of that tile")
        sums.rectified = True

    def store(self, command: Store) -> None:
        output = self.tile(command.tile, "OUTPUT")
        sums = self.sums.get(output.name)
        if sums is None or self.where.get(output.name) != command.memory:
            raise self.fail(f"{output.name} is not in {command.memory}: compute or LOAD it there before")
        if sums.complete:
            raise self.fail(f"{output.name} was stored complete before; remove the command")
        if command.partial:
            sums.saved = len(sums.terms)
        elif not self.is_complete(sums):
            raise self.fail(
                f"{output.name} has {sums.volume} of the {self.full} products of each sum, or some of them twice; "
                "add the missing CONV commands, or write PARTIAL"
            )
        else:
            sums.complete = True

    def end(self) -> None:
        """Check that every output element belongs to exactly one tile, and that this tile is stored."""
        for name, sums in self.sums.items():
            if not sums.complete:
                tile = self.tiles[name]
                raise MavcgError(
                    f"{location_of(self.plan, tile.line, name)}: its sums are never stored complete; "
                    f"add STORE {name} MEMORY"
                )
        batch, *shape = self.plan.info.output
        boxes = {self.boxes[name][1:]: name for name in self.sums}
        shared = overlap([self.boxes[name][1:] for name in self.sums], tuple(shape))
        if shared is not None:
            tile = self.tiles[boxes[shared]]
            raise MavcgError(
                f"{location_of(self.plan, tile.line, tile.name)}: shares elements of the output with another tile "
                "that is stored; cut the output into tiles that do not overlap"
            )
        stored = sum(self.tiles[name].elements for name in self.sums)
        if stored != batch * shape[0] * shape[1] * shape[2]:
            raise MavcgError(
                f"{location_of(self.plan, 0, 'output')}: {stored} of its {batch * shape[0] * shape[1] * shape[2]} "
                "elements are stored; add tiles and commands for the rest"
            )
