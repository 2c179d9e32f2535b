"""Progress of instructions that run at the same time, and share DDR memory and the ports of feature memory.

It is computed in integers, so that the same program always takes the same cycles.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.accelerators.simulator.timing import Work

SCALE = 1 << 16  # parts of a cycle of compute work, and of a byte of transfers


@dataclass
class RunningWork:
    """An instruction in a unit. left: remaining parts of its work. wait: cycles of latency before the first part."""

    index: int
    work: Work
    start: int
    left: int
    wait: int


def progress_rates(
    compute: Sequence[RunningWork], moving: Sequence[RunningWork], ddr_rate: int, port_words: int
) -> list[tuple[RunningWork, int]]:
    """Return the running instructions with the parts of work that each completes per cycle.

    Args:
        compute: instructions of the units that calculate.
        moving: transfers, which share `ddr_rate` parts of a byte per cycle evenly.
        port_words: words that feature memory can read, and that it can write, per cycle.
    """
    share = ddr_rate // max(1, len(moving))
    rates = [(running, SCALE) for running in compute] + [(running, max(1, share)) for running in moving]
    # Words per cycle through all read ports and all write ports; if demand exceeds capacity, all rates are scaled down.
    reads = sum(running.work.read_words * rate * SCALE // _total(running) for running, rate in rates)
    writes = sum(running.work.write_words * rate * SCALE // _total(running) for running, rate in rates)
    demand, capacity = max(reads, writes), port_words * SCALE
    if demand > capacity:
        return [(running, max(1, rate * capacity // demand)) for running, rate in rates]
    return rates


def _total(running: RunningWork) -> int:
    """Return the number of parts of an instruction's whole work."""
    return max(1, (running.work.ddr_bytes or running.work.cycles) * SCALE)
