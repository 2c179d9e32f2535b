"""Some networks beside the other runtimes, one thread and two: `python -m bench.headline.networks`.

As bench.peers does it, with fewer networks and rounds. The first run makes the runtimes' environment from PyPI, and
converts and builds the models; later ones find them.
"""

from collections.abc import Mapping
from typing import Any

from bench.headline import run
from bench.peers import RUNTIMES, compare, in_short, note, prepare

NETWORKS = (
    "squeezenet-random",
    "mobilenet_v1-random",
    "mobilenet_v2",
    "efficientnet_lite0",
    "resnet50-random",
    "mobilenet_v2-int8",
    "resnet50-random-int8",
    "squeezenet-random-int8",
    "mobilenet_v1-random-int8",
    "mobilenet_v1-random-int8-tflite",
    "mnasnet_1.0-random-int8",
    "efficientnet_lite0-int8",
    "inception_v3-random-int8",
)
ROUNDS = 4  # even, so that each of two CPUs has as many


def measure() -> Mapping[str, Any]:
    """Prepare everything first, then compare."""
    prepare(NETWORKS, RUNTIMES)
    rows = []
    for threads in (1, 2):
        for name in NETWORKS:
            rows.append(compare(name, threads, ROUNDS, RUNTIMES, "ms"))
            note(f"{name}, {threads} threads: {in_short(rows[-1])}")
    return {"runtimes": RUNTIMES, "rows": rows}


if __name__ == "__main__":
    run("networks", "measured", __doc__, measure)
