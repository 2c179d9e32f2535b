"""Two networks' programs for ZU2, simulated cycle by cycle, beside DNNVM: `python -m bench.headline.accelerator`.

As bench.accelerators.accel_simulated does it, with the networks that its table III begins with.
"""

import sys
from collections.abc import Mapping
from typing import Any

from bench.accelerators.accel_simulated import PAPER_ZU2, network_rows, quantised
from bench.headline import run
from mavcg.accelerators.target import find_target

NETWORKS = ("vgg16", "resnet50")


def measure() -> Mapping[str, Any]:
    """Search, generate and simulate each network's program."""
    rows = []
    for name in NETWORKS:
        print(f"bench: {name} for zu2", file=sys.stderr, flush=True)
        rows.append({**network_rows(name, quantised(name), find_target("zu2")), "paper": PAPER_ZU2[name]})
    return {"rows": rows}


if __name__ == "__main__":
    run("accelerator", "modelled", __doc__, measure)
