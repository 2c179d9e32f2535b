"""Models of Arm cores beside published costs of instructions: `python -m bench.headline.arm_models`.

As bench.silicon does it, with those lists alone that need no clone of other sources.
"""

import sys
from collections.abc import Mapping
from typing import Any

from bench.headline import run
from bench.silicon.__main__ import as_json
from bench.silicon.compare import rows_of
from bench.silicon.figures import read_lists
from bench.silicon.models import MODELS


def measure() -> Mapping[str, Any]:
    """Model every figure of these lists."""
    rows = []
    for source in (source for source in read_lists() if not source.folders):
        print(f"bench: {source.name}, {len(source.figures)} figures", file=sys.stderr, flush=True)
        rows += [as_json(row) for row in rows_of(source, None, MODELS["analytic"], ())]
    return {"rows": rows}


if __name__ == "__main__":
    run("arm_models", "modelled", __doc__, measure)
