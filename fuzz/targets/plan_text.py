"""Plans as text: parsed, verified, printed and parsed again."""

from fuzz.mutation.lines import line_mutator
from fuzz.targets import call_target

PACKAGES = ("mavcg.accelerators.plans.text",)
mutate = line_mutator(
    "LOAD STORE CONV RELU POOL INPUT_0 WEIGHT_0 OUTPUT_0 (1,1,1,1) [info] [var] [text] [layer x] "
    "IN_MEM_0 IN_MEM_9(64) STRIDES(2,2)"
)


def run(data: bytes) -> None:
    """Parse and verify; what is printed parses to the same plans."""
    from mavcg.accelerators.plans.text.parser import parse_plans
    from mavcg.accelerators.plans.text.printer import print_plans
    from mavcg.accelerators.plans.text.verify import verify_plan

    text = data.decode("utf-8", "replace")

    def read() -> None:
        plans = parse_plans(text, "fuzzed.plan")
        printed = print_plans(plans)
        assert print_plans(parse_plans(printed, "printed.plan")) == printed, "printing and parsing changes a plan"
        for plan in plans:
            verify_plan(plan)

    call_target(read)
