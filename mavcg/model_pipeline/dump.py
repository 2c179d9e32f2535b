"""Print the values that stages of the model pipeline make, for MAVCG_DUMP."""

import os

from mavcg.text.terminal import say, show

# What MAVCG_DUMP prints, in order. The graph's passes have names of their own, between "import" and "algorithms".
STAGES = (
    "import", "optimise", "algorithms", "legalised", "lower", "plan_tiles", "plan_memory", "plan_phases",
    "generate_code", "pack_weights", "link",
)  # fmt: skip
OLD_ALGORITHMS = "ways"  # what the stage "algorithms" was called


def dump(stage: str, value: object) -> None:
    """Print the value that a stage made to stderr where MAVCG_DUMP names this stage, or all."""
    stages = os.environ.get("MAVCG_DUMP", "").split(",")
    if stage == "algorithms" and OLD_ALGORITHMS in stages:
        say(f"MAVCG_DUMP={OLD_ALGORITHMS}: is called algorithms now; the old name goes with the next release")
        stages.append(stage)
    if stage in stages or "all" in stages:
        show(f"// {stage}\n{value}", to_stderr=True)
