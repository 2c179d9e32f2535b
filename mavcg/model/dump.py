"""Prints the values between stages of the model pipeline, for MAVCG_DUMP."""

import os
from functools import cache

from mavcg.passes.graph.pipeline import PASSES
from mavcg.text.terminal import say, show

# Stages that MAVCG_DUMP can print, in order. Graph passes, printed by their own names, run before "algorithms".
STAGES = (
    "import",
    "optimise",
    "algorithms",
    "legalised",
    "lower",
    "plan_tiles",
    "plan_memory",
    "plan_phases",
    "place_states",
    "generate_code",
    "pack_weights",
    "link",
)
ALL = "all"
OLD_ALGORITHMS = "ways"  # former name of the stage "algorithms"


def dump(stage: str, value: object) -> None:
    """Print the value of a stage to stderr if MAVCG_DUMP names the stage, or all."""
    stages = _named_stages(os.environ.get("MAVCG_DUMP", ""))
    if stage in stages or ALL in stages:
        show(f"// {stage}\n{value}", to_stderr=True)


@cache  # so that a process warns only once about wrong names
def _named_stages(text: str) -> frozenset[str]:
    """Return the stages and passes that the variable names; stderr gets a warning for old and unknown names."""
    names = frozenset(name.strip() for name in text.split(",")) - {""}
    if OLD_ALGORITHMS in names:
        say(f"MAVCG_DUMP={OLD_ALGORITHMS}: is now called algorithms; the old name will be removed in the next release")
        names |= {"algorithms"}
    passes = dict.fromkeys(graph_pass.__name__ for graph_pass in PASSES)
    for name in sorted(names - {*STAGES, *passes, ALL, OLD_ALGORITHMS}):
        known = ", ".join((*STAGES, *passes, ALL))
        say(f"MAVCG_DUMP={name}: no stage or pass has this name, so nothing is printed for it; the names are {known}")
    return names
