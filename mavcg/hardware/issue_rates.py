"""Issue rates of a core by kind of instruction, and the cycles of a mix of instructions at these rates.

A throughput model, the compute bound of the cost model: every kind of instruction at its rate, all together at the
issue width, a chain of sums at its latency. It ignores the schedule; for cores with a timing profile the pipeline model
(passes/asm/models) is used.
"""

from dataclasses import dataclass, field


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
