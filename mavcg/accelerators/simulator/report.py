"""Report the results of a simulation for scripts and people: rates, utilisation, energy."""

from typing import Any

from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.simulator.cycles import SimulatedTime
from mavcg.accelerators.simulator.timing import work_of

# Energy in pJ at 45 nm, 0.9 V: Horowitz, "Computing's energy problem", ISSCC 2014, figure 1.1.9: an 8-bit multiply and
# a 32-bit add; a byte from an 8 KiB SRAM (10 pJ for 64 bits); a byte from DRAM (1.3 nJ for 64 bits, the lower bound).
MAC_PJ, SRAM_BYTE_PJ, DRAM_BYTE_PJ = 0.2 + 0.1, 10 / 8, 1300 / 8
ENERGY_BASIS = (
    "dynamic energy at 45 nm by Horowitz (ISSCC 2014): 0.3 pJ a multiply-add, 1.25 pJ a byte of on-chip memory, 162.5 "
    "pJ a byte of DDR memory; no leakage, no clock, no host"
)


def simulated_json(program: AccelProgram, time: SimulatedTime) -> dict[str, Any]:
    """Return the results as a JSON table.

    It has cycles, milliseconds for an image, 10^9 operations per second of all cores, busy cycles, stalls and bytes.
    utilisation: operations of the convolutions, as a fraction of those that the arrays could do in this time.
    """
    target = program.target
    ms = time.cycles / target.frequency_mhz / 1000
    gops = program.operations * target.batch / ms / 1e6 if time.cycles else 0.0
    return {
        "network": program.network,
        "target": target.name,
        "cycles": time.cycles,
        "ms": ms,
        "gops": gops,
        "utilisation": gops / target.peak_gops,
        "units": dict(time.busy),
        "stalls": dict(time.stalls),
        "ddr_bytes": time.ddr_bytes,
        "energy": {"millijoules": energy_mj(program, time), "assumes": ENERGY_BASIS},
    }


def energy_mj(program: AccelProgram, time: SimulatedTime) -> float:
    """Return the energy for an image in mJ, estimated as ENERGY_BASIS states."""
    path = datapath(program.target)
    words = 0
    for instruction in program.instructions:
        work = work_of(instruction, path, program.target)
        words += work.read_words + work.write_words
    picojoules = program.operations / 2 * MAC_PJ + words * path.word * SRAM_BYTE_PJ + time.ddr_bytes * DRAM_BYTE_PJ
    return picojoules / 1e9
