"""Issue rates of a core by kind of instruction: input of the throughput model and of the model of register tiles."""

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
