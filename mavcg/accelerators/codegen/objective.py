"""Costs of groups by objective: the time of a group's program, its DDR bytes, or its energy."""

from typing import Literal, get_args

from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.simulator.cycles import SimulatedTime, simulate
from mavcg.accelerators.simulator.report import energy_mj
from mavcg.errors import MavcgError

Objective = Literal["time", "bytes", "energy"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
# Of programs with equal bytes or energy the faster one counts less: a cycle adds this part of a byte or picojoule. The
# cycles of a whole network, below 2^26 or so, add less than two.
_CYCLE = 2.0**-25


def objective_of(name: str) -> Objective:
    """Return an objective by its name. Raises: MavcgError for an unknown one."""
    for known in OBJECTIVES:
        if name == known:
            return known
    raise MavcgError(f"--objective {name}: no such objective; known: {', '.join(OBJECTIVES)}")


def simulated_cost(program: AccelProgram, objective: Objective) -> float:
    """Return what a program costs by simulation: cycles, DDR bytes or picojoules, for a batch."""
    return cost_of_run(program, simulate(program), objective)


def cost_of_run(program: AccelProgram, time: SimulatedTime, objective: Objective) -> float:
    """Return what a program costs, as simulated_cost. time: its simulation."""
    if objective == "time":
        return float(time.cycles)
    return (time.ddr_bytes if objective == "bytes" else energy_mj(program, time) * 1e9) + time.cycles * _CYCLE
