"""Plans as text: parsed, verified, printed and parsed again."""

from fuzz.targets import call_target

PACKAGES = ("mavcg.accelerators.plans.text",)


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
