"""Instructions per cycle of a core, by kind: input of the throughput model and of the model of register tiles."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class IssueRates:
    """Vector instructions per cycle by kind, in the core's own registers; latency and penalties in cycles.

    vector_per_cycle: of all vector arithmetic together. width: instructions of any kind. div_cycles: of one division or
    square root. miss_cycles: of a mispredicted branch. load_fma_cycles: cycles by which a load delays the multiply-adds
    of an in-order core, which issues it in the place of other instructions.
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
