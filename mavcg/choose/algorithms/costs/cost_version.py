"""Version of everything that a kept cost depends on, by the cost's kind; costs of other versions are not used.

A measured cost depends on the kernels' sources (kernel_version.py); a simulated one also on the facts of its core and
on the simulator (cost/simulator_version.py).
"""

from functools import cache

from mavcg.choose.algorithms.costs.kernel_version import kernel_version
from mavcg.choose.algorithms.costs.provider import SIMULATED
from mavcg.choose.algorithms.costs.rows import Conversion
from mavcg.cost.simulator_version import core_version
from mavcg.errors import ProfileError
from mavcg.profiles.load import load_cores
from mavcg.specs.primitive import Scenario


def cost_version(operation: tuple[Scenario, str] | Conversion, kind: str, core: str) -> str:
    """Return the version of today's cost of a scenario's primitive or of a conversion on the core of this name."""
    kernels = kernel_version(operation)
    return f"{kernels} {_facts_version(core)}".strip() if kind == SIMULATED else kernels


@cache
def _facts_version(name: str) -> str:
    """Return the version of a core's facts; "" for a core that cannot be simulated."""
    core = load_cores().get(name)
    if core is None or core.arch != "aarch64":
        return ""
    try:
        return core_version(core)
    except ProfileError:
        return ""
