"""What a block of a kernel is made of, and the cycles that takes a core of which only rates are known.

A throughput model on the emitter's own instructions: multiply-adds, other vector arithmetic, loads, stores and the
rest, each at the core's rate, and a chain of sums at its latency. It knows no schedule and no single instruction of the
core; where a profile has a pipeline model, kernel_cycles.py asks that instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from llvmlite import ir
from llvmlite.ir import instructions as instr

from mavcg.core import Core
from mavcg.kernel import Machine
from mavcg.timing import Timing


@dataclass(frozen=True)
class Rates:
    """Vector instructions of the core's registers a cycle, by kind; latency and penalties in cycles.

    vector_per_cycle: of all vector arithmetic together. width: instructions of any kind. div_cycles: one division or
    square root. miss_cycles: a branch that was not foreseen.
    """

    fma_per_cycle: float
    vector_per_cycle: float
    loads_per_cycle: float
    stores_per_cycle: float
    width: float
    fma_latency: float
    div_cycles: float
    miss_cycles: float


# Where a core's file says nothing: what x86-64-v3 began with (Haswell: two FMA, two loads, one store, four micro-ops a
# cycle; Intel 64 and IA-32 Optimization Reference Manual, 2.4), its division of 256 bits, its misprediction.
USUAL = Rates(2.0, 3.0, 2.0, 1.0, 4.0, 5.0, 10.0, 16.0)
# A misprediction costs about the length of the pipeline: AMD 56665 gives 13 for Zen 3 in the common case, and Arm's
# in-order cores have 8 stages before execution.
MISS_OUT_OF_ORDER, MISS_IN_ORDER = 13.0, 8.0


def rates_of_core(core: Core | None) -> tuple[Rates, tuple[str, ...]]:
    """An x86 core's rates from the facts in its file, and what had to be assumed, in words."""
    if core is None:
        return USUAL, ("the core is not recognised: rates of an x86-64-v3 processor are assumed (Haswell's)",)
    facts = {fact.key: float(fact.value) for fact in core.facts if isinstance(fact.value, (int, float))}
    kinds = ("zmm", "ymm")

    def fact(instruction: str, what: str) -> float | None:
        names = [f"instr.{instruction.format(kind)}.{what}" for kind in kinds]
        return next((facts[name] for name in names if name in facts), None)

    fma, load = fact("vfmadd231ps {}", "throughput"), fact("vmovups {}, [mem]", "throughput")
    store, latency = fact("vmovups [mem], {}", "throughput"), fact("vfmadd231ps {}", "latency")
    add, width = fact("vaddps {}", "throughput"), facts.get("issue.width")
    missing = [
        name
        for name, value in (("fma", fma), ("loads", load), ("stores", store), ("width", width), ("latency", latency))
        if value is None
    ]
    # Zen has two pipes that add beside the two that multiply, Intel's cores three vector ports in all.
    vector = max(USUAL.vector_per_cycle, (fma or 0) + (add or 0) - 1)
    rates = Rates(
        fma or USUAL.fma_per_cycle, vector, load or USUAL.loads_per_cycle, store or USUAL.stores_per_cycle,
        width or USUAL.width, latency or USUAL.fma_latency, USUAL.div_cycles, MISS_OUT_OF_ORDER,
    )  # fmt: skip
    return rates, (f"cores/{core.name}.toml lacks {', '.join(missing)}: Haswell's are assumed",) if missing else ()


def rates_of_timing(timing: Timing) -> Rates:
    """The same of a core that has a timing profile. Raises: MissingFact."""
    in_order = timing.order == "in"
    fma, add = timing.of("fmla_q"), timing.of("fadd_q")
    return Rates(
        fma.per_cycle, max(fma.per_cycle, add.per_cycle), timing.of("ldr_q").per_cycle, timing.of("str_q").per_cycle,
        float(timing.width), float(fma.latency), 1 / timing.of("fdiv_q").per_cycle,
        MISS_IN_ORDER if in_order else MISS_OUT_OF_ORDER,
    )  # fmt: skip


@dataclass(frozen=True)
class Mix:
    """Instructions of a block, in the machine's registers. chain: of dependent multiply-adds from one turn to the next,
    where the block is a loop by itself."""

    fma: float = 0.0
    vector: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    divisions: float = 0.0
    other: float = 0.0
    chain: int = 0

    @property
    def moves_data(self) -> bool:
        """Whether anything but control is in it."""
        return bool(self.fma or self.vector or self.loads or self.stores or self.divisions)

    def cycles(self, rates: Rates) -> float:
        """By the tightest of the bounds."""
        arithmetic = self.fma + self.vector
        every = arithmetic + self.loads + self.stores + self.divisions + self.other
        return max(
            self.fma / rates.fma_per_cycle,
            arithmetic / rates.vector_per_cycle + self.divisions * rates.div_cycles,
            self.loads / rates.loads_per_cycle,
            self.stores / rates.stores_per_cycle,
            every / rates.width,
            self.chain * rates.fma_latency,
        )


def mix_of(block: ir.Block, machine: Machine) -> Mix:
    """Count a block. A body's head, which only compares and branches, counts as its own block."""
    counts: dict[str, float] = {}
    for one in block.instructions:
        kind, many = _kind(one, machine)
        if kind:
            counts[kind] = counts.get(kind, 0.0) + many
    return Mix(**counts, chain=_chain(block))


def mixes_of(function: ir.Function, machine: Machine) -> Mapping[str, Mix]:
    """By the blocks' names."""
    return {block.name: mix_of(block, machine) for block in function.blocks}


def _pieces(typ: ir.Type, machine: Machine) -> float:
    """Registers of the machine that a value takes."""
    if isinstance(typ, ir.VectorType):
        return float(max(1.0, typ.count * _bytes(typ.element) / machine.vector_bytes))
    return 1.0


def _bytes(typ: ir.Type) -> float:
    if isinstance(typ, ir.IntType):
        return float(max(1.0, typ.width / 8))
    return {ir.HalfType: 2, ir.FloatType: 4, ir.DoubleType: 8}.get(type(typ), 8)


def _is_vector(typ: ir.Type) -> bool:
    return isinstance(typ, (ir.VectorType, ir.FloatType, ir.DoubleType, ir.HalfType))


def _kind(one: instr.Instruction, machine: Machine) -> tuple[str, float]:
    """Which field of Mix an instruction counts in, and for how much; ("", 0) for what becomes no instruction."""
    typ = one.type
    if isinstance(one, (instr.PhiInstr, instr.Ret)):
        return "", 0
    if isinstance(one, instr.LoadInstr):
        return "loads", _pieces(typ, machine)
    if isinstance(one, instr.StoreInstr):
        return "stores", _pieces(one.operands[0].type, machine)
    if isinstance(one, instr.CallInstr):
        return _call(one, machine)
    if isinstance(one, instr.GEPInstr):  # a constant is part of the access's address
        return ("", 0) if all(isinstance(i, ir.Constant) for i in one.operands[1:]) else ("other", 1)
    if isinstance(one, (instr.InsertElement, instr.ShuffleVector)):
        return _rearranged(one, machine)
    if isinstance(one, instr.CastInstr) and one.opname == "bitcast":
        return "", 0
    if one.opname in ("fdiv", "frem"):
        return "divisions", _pieces(typ, machine)
    compared = one.operands[0].type if isinstance(one, instr.CompareInstr) else typ
    if _is_vector(compared):
        # A comparison and the selection after it are one maximum or minimum, or two instructions: half each.
        half = isinstance(one, (instr.SelectInstr, instr.FCMPInstr))
        return "vector", _pieces(compared, machine) * (0.5 if half else 1.0)
    return "other", 1


def _call(one: instr.CallInstr, machine: Machine) -> tuple[str, float]:
    name = str(one.callee.name)
    if name.startswith("llvm.fma"):
        return "fma", _pieces(one.type, machine)
    if name.startswith("llvm.masked.load"):
        # NEON has no masks: lane by lane.
        return "loads", _pieces(one.type, machine) if machine.arch == "x86_64" else one.type.count
    if name.startswith("llvm.masked.store"):
        typ = one.args[0].type
        return "stores", _pieces(typ, machine) if machine.arch == "x86_64" else typ.count
    if name.startswith("llvm.sqrt"):
        return "divisions", _pieces(one.type, machine)
    return ("fma" if "dot" in name or "dp" in name else "vector"), _pieces(one.type, machine)


def _rearranged(one: instr.Instruction, machine: Machine) -> tuple[str, float]:
    """Broadcasts: of what is just loaded they are part of the load (x86), of a lane part of the multiply (AArch64)."""
    source = one.operands[1] if isinstance(one, instr.InsertElement) else one.operands[0]
    if isinstance(one, instr.ShuffleVector):
        lanes = one.operands[2]
        same = isinstance(lanes, ir.Constant) and len({str(c) for c in _lanes(lanes)}) == 1
        if not same:
            return "vector", _pieces(one.type, machine)
        if machine.arch == "aarch64" or _from_load(source):
            return "", 0
        return "vector", _pieces(one.type, machine)
    return ("", 0) if isinstance(source, instr.LoadInstr) else ("vector", 1)


def _lanes(constant: ir.Constant) -> list[object]:
    value = constant.constant
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _from_load(value: ir.Value) -> bool:
    if isinstance(value, instr.InsertElement):
        return isinstance(value.operands[1], instr.LoadInstr)
    return isinstance(value, instr.LoadInstr)


def _chain(block: ir.Block) -> int:
    """The longest chain of arithmetic from a value that a loop carries to what it carries on; 0 outside of loops."""
    if not isinstance(block.terminator, instr.Branch):
        return 0
    head = block.terminator.operands[0]
    carried = [i for i in head.instructions if isinstance(i, instr.PhiInstr) and _is_vector(i.type)]
    depth: dict[int, int] = {}
    for phi in carried:
        if any(source is block for _, source in phi.incomings):
            depth[id(phi)] = 0
    if not depth:
        return 0
    for one in block.instructions:
        found = [depth[id(o)] for o in one.operands if id(o) in depth]
        if isinstance(one, instr.CallInstr):
            found += [depth[id(o)] for o in one.args if id(o) in depth]
        if found and _is_vector(one.type):
            free = isinstance(one, (instr.ShuffleVector, instr.InsertElement, instr.CastInstr, instr.FCMPInstr))
            depth[id(one)] = max(found) + (not free)
    ends = [value for phi in carried for value, source in phi.incomings if source is block]
    return max((depth.get(id(value), 0) for value in ends), default=0)
