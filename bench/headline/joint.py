"""Applications of MobileNet v2 in one memory, beside Minakova's thesis: `python -m bench.headline.joint`.

As bench.apps.joint_memory does it, with two of its six applications.
"""

from collections.abc import Mapping
from typing import Any

from bench.apps.joint_memory import APPLICATIONS, evaluated, graphs_and_times
from bench.headline import run
from mavcg.apps.search import GeneticLimits

NUMBERS = ("1", "3")


def measure() -> Mapping[str, Any]:
    """Plan both applications within their limits and at the least memory."""
    chosen = [row for row in APPLICATIONS if row.name[0] in NUMBERS]
    graphs, times = graphs_and_times({name for row in chosen for name in row.networks})
    return {"rows": [evaluated(row, graphs, times, GeneticLimits(seed=0)) for row in chosen]}


if __name__ == "__main__":
    run("joint", "modelled", __doc__, measure)
