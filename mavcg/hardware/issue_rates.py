"""Issue rates of a core by kind of instruction, from its facts, and the cycles of a mix of instructions at these rates.

A throughput model, the compute bound of the cost model: every kind of instruction at its rate, all together at the
issue width, a chain of sums at its latency. It ignores the schedule; for cores with a timing profile the pipeline model
(passes/asm/models) is used.
"""

from dataclasses import dataclass, field

from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing


@dataclass(frozen=True)
class IssueRates:
    """Vector instructions per cycle by kind, for the core's own vector length; latencies and penalties in cycles.

    vector_per_cycle: rate of all vector arithmetic together. width: rate of all instructions together. div_cycles:
    cycles of one division or square root. miss_cycles: cost of a mispredicted branch. load_fma_cycles: cycles by which
    a load delays the multiply-adds on an in-order core, where it takes an issue slot.
    """

    fma_per_cycle: float = field(metadata={"unit": "instr/cycle"})
    vector_per_cycle: float = field(metadata={"unit": "instr/cycle"})
    loads_per_cycle: float = field(metadata={"unit": "instr/cycle"})
    stores_per_cycle: float = field(metadata={"unit": "instr/cycle"})
    width: float = field(metadata={"unit": "instr/cycle"})
    fma_latency: float = field(metadata={"unit": "cycles"})
    div_cycles: float = field(metadata={"unit": "cycles"})
    miss_cycles: float = field(metadata={"unit": "cycles"})
    load_fma_cycles: float = 0.0


def x86_rates(core: Core | None, typical: IssueRates, miss_cycles: float) -> tuple[IssueRates, tuple[str, ...]]:
    """Return an x86 core's rates from the facts in its file, and a sentence for each fact that is assumed.

    typical: assumed for missing facts. miss_cycles: of a known core, as in IssueRates.
    """
    if core is None:
        return typical, ("the core is not recognised: rates of an x86-64-v3 processor are assumed (Haswell's)",)
    facts = {fact.key: float(fact.value) for fact in core.facts if isinstance(fact.value, (int, float))}
    kinds = ("zmm", "ymm")

    def fact(instruction: str, figure: str) -> float | None:
        names = [f"instr.{instruction.format(kind)}.{figure}" for kind in kinds]
        return next((facts[name] for name in names if name in facts), None)

    fma, load = fact("vfmadd231ps {}", "throughput"), fact("vmovups {}, [mem]", "throughput")
    store, latency = fact("vmovups [mem], {}", "throughput"), fact("vfmadd231ps {}", "latency")
    add, width = fact("vaddps {}", "throughput"), facts.get("issue.width")
    missing = [
        name
        for name, value in (("fma", fma), ("loads", load), ("stores", store), ("width", width), ("latency", latency))
        if value is None
    ]
    # Zen has two adding pipes besides the two multiplying ones; Intel's cores have three vector ports in all.
    vector = max(typical.vector_per_cycle, (fma or 0) + (add or 0) - 1)
    rates = IssueRates(
        fma or typical.fma_per_cycle,
        vector,
        load or typical.loads_per_cycle,
        store or typical.stores_per_cycle,
        width or typical.width,
        latency or typical.fma_latency,
        typical.div_cycles,
        miss_cycles,
    )
    return rates, (f"cores/{core.name}.toml lacks {', '.join(missing)}: Haswell's are assumed",) if missing else ()


def timing_rates(timing: Timing, miss_cycles: float) -> IssueRates:
    """Return the rates of a core with a timing profile. miss_cycles: as in IssueRates. Raises: MissingFact."""
    fma, add = timing.of("fmla_q"), timing.of("fadd_q")
    return IssueRates(
        fma.per_cycle,
        max(fma.per_cycle, add.per_cycle),
        timing.of("ldr_q").per_cycle,
        timing.of("str_q").per_cycle,
        float(timing.width),
        float(fma.latency),
        1 / timing.of("fdiv_q").per_cycle,
        miss_cycles,
    )


@dataclass(frozen=True)
class InstructionMix:
    """Numbers of instructions by kind, for the machine's registers.

    chain: dependent multiply-adds from one iteration to the next, if the mix is that of a loop body.
    """

    fma: float = 0.0
    vector: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    divisions: float = 0.0
    other: float = 0.0
    chain: int = 0

    @property
    def moves_data(self) -> bool:
        """True if it has any instructions besides control."""
        return bool(self.fma or self.vector or self.loads or self.stores or self.divisions)

    def cycles(self, rates: IssueRates) -> float:
        """Return the cycles of the mix, by the tightest bound."""
        return throughput_cycles(
            rates, self.fma, self.loads, self.other, self.chain, self.vector, self.stores, self.divisions
        )


def throughput_cycles(
    rates: IssueRates,
    fma: float,
    loads: float,
    other: float = 0.0,
    chain: float = 0,
    vector: float = 0.0,
    stores: float = 0.0,
    divisions: float = 0.0,
) -> float:
    """Return the cycles of these instructions, by the tightest bound. Arguments: as in InstructionMix."""
    arithmetic = fma + vector
    return max(
        fma / rates.fma_per_cycle + loads * rates.load_fma_cycles,
        arithmetic / rates.vector_per_cycle + divisions * rates.div_cycles,
        loads / rates.loads_per_cycle,
        stores / rates.stores_per_cycle,
        (arithmetic + loads + stores + divisions + other) / rates.width,
        chain * rates.fma_latency,
    )
