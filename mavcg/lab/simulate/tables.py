"""Convert a core's timing to the tables of the C library: latencies by class and operand role, resources by class.

Classes are numbered in the order in which they occur in the code, so that new basic blocks extend the tables. All
figures come from Timing, which the analytic models use too (passes/asm/models).
"""

from collections.abc import Sequence
from typing import Any

from mavcg.cost.core_facts import CALLEE_CYCLES, SimulatedCore
from mavcg.errors import MavcgError
from mavcg.hardware.instr_classes import ROLES
from mavcg.hardware.machine import LINE_BYTES
from mavcg.hardware.timing import Timing
from mavcg.lab.simulate.harness import ffi, library
from mavcg.lab.simulate.rows import NO_REGISTER, PREFETCH, UNMODELLED, DecodedInstr, prefetch_address, register_number
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.issue_constraints import blocked_cycles, matches, touches_vectors, unit_names, unit_uses
from mavcg.passes.asm.models.ports import micro_ops

UNMODELLED_LATENCY = 4  # cycles of an instruction without facts; on in-order cores it issues alone
_ROLES = ("", *ROLES)
_LATENCY_ROLES = len(_ROLES) + 1
_ACCUMULATOR = "acc"
_WRITEBACK = "writeback"
# Fields with the same name in sim_machine and SimulatedCore.
_PLAIN_FACTS = (
    "reorder_buffer issue_queue load_queue store_queue mispredict history_bits split_cycles memory_latency miss_slots "
    "prefetch_lines far_lines prefetch_pages stream_lines memory_line_cycles"
).split()


class TimingTables:
    """The latency and resource tables of one core, for the classes of the instructions that have occurred so far."""

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        self.units = unit_names(timing)
        self.classes: dict[str, int] = {}
        self.patterns: dict[tuple[str, bool], int] = {}
        self._uses: list[Op] = []
        self._latencies: dict[tuple[str, str, str, bool], int] = {}
        self.latency_room = self._latency_classes = 0
        self._latency_cells: Any = None
        if len(self.units) > library().SIM_UNITS:
            raise MavcgError(f"cores/{timing.core}.toml: issue.pools: {len(self.units)} units; the simulator has 64")

    def row(self, decoded: DecodedInstr) -> Any:
        """Return the C library's sim_row of an instruction; a class that occurs for the first time is numbered.

        Raises: MavcgError for an instruction with more registers than a row holds.
        """
        op = decoded.op
        row = ffi().new("sim_row *")
        limits = (library().SIM_READS, library().SIM_WRITES)
        if len(op.reads) > limits[0] or len(op.writes) > limits[1]:
            raise MavcgError(f"`{op.text}`: {len(op.reads)} registers read, {len(op.writes)} written: too many to time")
        row.bytes, row.flow, row.memory = decoded.size, decoded.flow, decoded.memory
        row.op_class, row.latency = self._class(op.op_class), self._own_latency(op.op_class)
        row.writeback = NO_REGISTER
        if op.writeback is not None:
            row.writeback = register_number(op.writeback)
            row.writeback_class, row.writeback_latency = self._class(_WRITEBACK), self._own_latency(_WRITEBACK)
        row.pattern = self.patterns.setdefault((op.op_class, op.writeback is not None), len(self.patterns))
        if row.pattern == len(self._uses):
            self._uses.append(op)
        known = op.op_class != UNMODELLED
        reads = [read for read in op.reads if not (known and self.timing.independent(op.op_class, read.role))]
        row.read_count, row.write_count = len(reads), len(op.writes)
        for at, read in enumerate(reads):
            row.reads[at], row.roles[at] = register_number(read.register), _ROLES.index(read.role)
        for at, register in enumerate(op.writes):
            row.writes[at] = register_number(register)
        row.unmodelled = not known
        row.accumulates = known and self.timing.accumulates(op.op_class)
        row.queued = known and self.timing.vector_queue > 0 and touches_vectors(op)
        if decoded.memory == PREFETCH and decoded.address is not None:
            prefetched = prefetch_address(decoded.address)
            row.base, row.index, row.extend = prefetched.base, prefetched.index, prefetched.extend
            row.shift, row.offset = prefetched.shift, prefetched.offset
        return row

    def _class(self, name: str) -> int:
        return self.classes.setdefault(name, len(self.classes))

    def _own_latency(self, name: str) -> int:
        return UNMODELLED_LATENCY if name == UNMODELLED else self.timing.of(name).latency

    def latency_table(self) -> Any:
        """Return the latencies in cycles, [producer][consumer][role], for sim_tables; `latency_room` rows and columns.

        The last role is an accumulator that another multiply-accumulate separates from its producer. Only classes
        that are new since the last call are computed, because code of many classes arrives block by block.
        """
        names, done = list(self.classes), self._latency_classes
        if len(names) > self.latency_room:
            self.latency_room, done = max(16, 2 * len(names)), 0
            self._latency_cells = ffi().new("int16_t[]", self.latency_room**2 * _LATENCY_ROLES)
        for producer, by in enumerate(names):
            for consumer in range(done if producer < done else 0, len(names)):
                at = (producer * self.latency_room + consumer) * _LATENCY_ROLES
                cells = [self._latency(by, names[consumer], role) for role in _ROLES]
                cells.append(self._latency(by, names[consumer], _ACCUMULATOR, adjacent=False))
                self._latency_cells[at : at + _LATENCY_ROLES] = cells
        self._latency_classes = len(names)
        return self._latency_cells

    def _latency(self, producer: str, consumer: str, role: str, adjacent: bool = True) -> int:
        key = producer, consumer, role, adjacent
        if key not in self._latencies:
            if UNMODELLED in (producer, consumer):
                self._latencies[key] = self._own_latency(producer)
            else:
                self._latencies[key] = self.timing.latency(producer, consumer, role, adjacent)
        return self._latencies[key]

    def pattern_table(self) -> Any:
        """Return the units and issue constraints of each pattern, for sim_tables."""
        table = ffi().new("sim_pattern[]", max(1, len(self._uses)))
        for pattern, op in zip(table, self._uses, strict=False):
            self._fill(pattern, op)
        return table

    def _fill(self, pattern: Any, op: Op) -> None:
        timing = self.timing
        if op.op_class == UNMODELLED:
            pattern.blocks = int(timing.order == "in")
            return
        own = timing.of(op.op_class)
        uses = unit_uses(op, timing)
        if len(uses) > len(pattern.uses):
            raise MavcgError(
                f"cores/{timing.core}.toml: instr.{op.op_class}: {len(uses)} units; the simulator takes 24"
            )
        pattern.use_count, pattern.own_count = len(uses), len(own.units)
        pattern.slots = micro_ops(op, timing)
        for at, use in enumerate(uses):
            pattern.uses[at].cycles = use.cycles
            pattern.uses[at].units = sum(1 << unit for unit, pool in enumerate(self.units) if pool in use.any_of)
            if not pattern.uses[at].units:
                raise MavcgError(
                    f"cores/{timing.core}.toml: instr.{op.op_class}: `{op.text}` needs a unit that the core does not "
                    f"have; correct its units or the pools' counts"
                )
        pattern.unaligned = own.unaligned
        pattern.blocks, pattern.first, pattern.last = blocked_cycles(op, timing), own.first, own.last
        pattern.narrows = own.narrows
        for rule, pair in enumerate(timing.no_dual_issue):
            pattern.no_dual_these |= matches(op.op_class, pair.these) << rule
            pattern.no_dual_those |= matches(op.op_class, pair.those) << rule
        for rule, spaced in enumerate(timing.forbidden_distances):
            pattern.spaced_first |= matches(op.op_class, spaced.first) << rule
            pattern.spaced_then |= matches(op.op_class, spaced.then) << rule


def c_machine(timing: Timing, core: SimulatedCore) -> Any:
    """Return a core as the sim_machine of the C library. Raises: MavcgError if it has more than SIM_RULES rules."""
    machine = ffi().new("sim_machine *")
    rules = library().SIM_RULES
    if max(len(timing.no_dual_issue), len(timing.forbidden_distances)) > rules:
        raise MavcgError(
            f"cores/{timing.core}.toml: no_dual_issue, issue_distance: more than {rules} rules; "
            f"the simulator takes {rules}"
        )
    machine.in_order, machine.width = timing.order == "in", timing.width
    machine.unit_count = len(unit_names(timing))
    machine.vector_queue, machine.same_cycle_writes = timing.vector_queue, timing.same_cycle_writes
    for rule, spaced in enumerate(timing.forbidden_distances):
        machine.spaced_cycles[rule] = spaced.cycles
    for name in _PLAIN_FACTS:
        setattr(machine, name, getattr(core, name))
    machine.line_bytes, machine.level_count, machine.callee_cycles = LINE_BYTES, len(core.levels), CALLEE_CYCLES
    for level, facts in zip(machine.levels, core.levels, strict=False):
        level.bytes, level.ways, level.latency, level.line_cycles = (
            facts.size,
            facts.ways,
            facts.latency,
            facts.line_cycles,
        )
    return machine


def c_rows(rows: Sequence[Any]) -> Any:
    """Return the rows of a basic block as one C array."""
    table = ffi().new("sim_row[]", max(1, len(rows)))
    for at, row in enumerate(rows):
        table[at] = row[0]
    return table
