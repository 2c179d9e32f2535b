"""Networks that others trained, beside the runtimes of their files: `python -m bench.headline.accuracy`.

As bench.model_accuracy does it, with the trained networks alone: the others have weights that were drawn.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bench.headline import run
from bench.model_accuracy import check_any

NETWORKS = (
    "mobilenet_v2",
    "efficientnet_lite0",
    "blazeface",
    "face_landmark",
    "hand_landmark",
    "ppocr_cls",
    "mobilenet_v2-int8",
    "efficientnet_lite0-int8",
    "ppocr_cls-int8",
)


def measure() -> Mapping[str, Any]:
    """Build and compare each network."""
    rows = []
    for name in NETWORKS:
        rows.append(asdict(check_any(name)))
        print(f"bench: {rows[-1]}", file=sys.stderr, flush=True)
    return {"rows": rows}


if __name__ == "__main__":
    run("accuracy", "measured", __doc__, measure)
