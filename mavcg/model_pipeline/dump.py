"""Print the values that stages of the model pipeline make, for MAVCG_DUMP."""

import os
from functools import cache

from mavcg.passes.graph.pipeline import PASSES
from mavcg.text.terminal import say, show

# What MAVCG_DUMP prints, in order. The graph's passes have names of their own, between "import" and "algorithms".
STAGES = (
    "import", "optimise", "algorithms", "legalised", "lower", "plan_tiles", "plan_memory", "plan_phases",
    "generate_code", "pack_weights", "link",
)  # fmt: skip
ALL = "all"
OLD_ALGORITHMS = "ways"  # what the stage "algorithms" was called


def dump(stage: str, value: object) -> None:
    """Print the value that a stage made to stderr where MAVCG_DUMP names this stage, or all."""
    stages = _named_stages(os.environ.get("MAVCG_DUMP", ""))
    if stage in stages or ALL in stages:
        show(f"// {stage}\n{value}", to_stderr=True)


@cache  # so that a process says once what is wrong with the names
def _named_stages(text: str) -> frozenset[str]:
    """Return the stages and passes that the variable names; stderr says which names are old, or none."""
    names = frozenset(name.strip() for name in text.split(",")) - {""}
    if OLD_ALGORITHMS in names:
        say(f"MAVCG_DUMP={OLD_ALGORITHMS}: is called algorithms now; the old name goes with the next release")
        names |= {"algorithms"}
    passes = dict.fromkeys(one.__name__ for one in PASSES)
    for name in sorted(names - {*STAGES, *passes, ALL, OLD_ALGORITHMS}):
        known = ", ".join((*STAGES, *passes, ALL))
        say(f"MAVCG_DUMP={name}: no stage or pass has this name, so nothing is printed for it; there are {known}")
    return names
