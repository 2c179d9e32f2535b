"""Issue rates of cores: from the facts in a core's file, or from its timing profile."""

from mavcg.hardware.core import Core
from mavcg.hardware.cost_fit import IN_ORDER, OUT_OF_ORDER_AARCH64, X86
from mavcg.hardware.fits import fit_of_kind
from mavcg.hardware.issue_rates import IssueRates
from mavcg.hardware.timing import Timing


def x86_rates(core: Core | None) -> tuple[IssueRates, tuple[str, ...]]:
    """Return an x86 core's rates from the facts in its file, and a sentence for each fact that is assumed."""
    fit = fit_of_kind(X86)
    typical = fit.typical_rates
    if core is None:
        return typical, ("the core is not recognised: rates of an x86-64-v3 processor are assumed (Haswell's)",)
    facts = {fact.key: float(fact.value) for fact in core.facts if isinstance(fact.value, (int, float))}
    kinds = ("zmm", "ymm")

    def fact(instruction: str, figure: str) -> float | None:
        names = [f"instr.{instruction.format(kind)}.{figure}" for kind in kinds]
        return next((facts[name] for name in names if name in facts), None)

    fma, load = fact("vfmadd231ps {}", "throughput"), fact("vmovups {}, [mem]", "throughput")
    store, latency = fact("vmovups [mem], {}", "throughput"), fact("vfmadd231ps {}", "latency")
    add, width = fact("vaddps {}", "throughput"), facts.get("issue.width")
    missing = [
        name
        for name, value in (("fma", fma), ("loads", load), ("stores", store), ("width", width), ("latency", latency))
        if value is None
    ]
    # Zen has two adding pipes besides the two multiplying ones; Intel's cores have three vector ports in all.
    vector = max(typical.vector_per_cycle, (fma or 0) + (add or 0) - 1)
    rates = IssueRates(
        fma or typical.fma_per_cycle,
        vector,
        load or typical.loads_per_cycle,
        store or typical.stores_per_cycle,
        width or typical.width,
        latency or typical.fma_latency,
        typical.div_cycles,
        fit.typical.miss_cycles,
    )
    return rates, (f"cores/{core.name}.toml lacks {', '.join(missing)}: Haswell's are assumed",) if missing else ()


def timing_rates(timing: Timing) -> IssueRates:
    """Return the rates of a core with a timing profile. Raises: MissingFact."""
    kind = IN_ORDER if timing.order == "in" else OUT_OF_ORDER_AARCH64
    fma, add = timing.of("fmla_q"), timing.of("fadd_q")
    return IssueRates(
        fma.per_cycle,
        max(fma.per_cycle, add.per_cycle),
        timing.of("ldr_q").per_cycle,
        timing.of("str_q").per_cycle,
        float(timing.width),
        float(fma.latency),
        1 / timing.of("fdiv_q").per_cycle,
        fit_of_kind(kind).typical.miss_cycles,
    )
