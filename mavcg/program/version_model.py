"""Drops versions by the models of the cores: those that are slower than generic, and those that gain nothing.

A gain that is no larger than the error of the core's model is none. The model times the main loop; the instruction
cache is priced beside it (`fetch_cycles`), because a version with more code is not faster if a call fetches more lines
for it than its loops save.
"""

from collections.abc import Mapping
from dataclasses import replace

from mavcg.assembly.version_tuning import VersionTuning
from mavcg.cost.model_error import model_error
from mavcg.hardware.core import GENERIC, Core
from mavcg.program.version_choice import FunctionChoice, Gains, ModelVerdict, VersionChoice, to_generic

# Level-1 instruction cache of a core whose file has no caches.l1i_bytes. The A55 may be built with 16, 32 or 64 KB (Arm
# Cortex-A55 TRM, 100442, A6.1).
ASSUMED_L1I_BYTES = 32768


def fetch_cycles(code_bytes: int, core: Core) -> float:
    """Return the cycles per call in which a function's code comes from the level-2 cache.

    Between two calls other code of the program takes its share of the level-1 instruction cache. It is assumed that a
    line of the function is then missing with the probability of the function's own share of that cache: small functions
    are fetched once, one of half the cache fetches half of its lines in each call.
    """
    from mavcg.cost.core_facts import assumed_fact
    from mavcg.hardware.machine import LINE_BYTES

    figures = {fact.key: fact.value for fact in core.facts}
    l1i_bytes = float(figures.get("caches.l1i_bytes", ASSUMED_L1I_BYTES))
    line_cycles = float(figures.get("caches.l2_latency", assumed_fact(core, "caches.l2_latency")))
    return -(-code_bytes // LINE_BYTES) * min(1.0, code_bytes / l1i_bytes) * line_cycles


def drop_by_model(
    choice: FunctionChoice,
    tunings: Mapping[str, VersionTuning],
    cores: Mapping[str, Core],
    gains: Gains,
    dropping: bool = True,
) -> FunctionChoice:
    """Drop versions that gain nothing over generic by the core's model.

    Args:
        tunings: core -> the modelled performance.
        gains: measured gains, which override the model.
        dropping: False to keep all versions and only record the verdicts.
    """

    def decide(version: VersionChoice) -> VersionChoice:
        tuning = tunings.get(version.label)
        if version.body == GENERIC or tuning is None or not tuning.generic or not tuning.own:
            return version
        figures, why, would_drop = _judge(tuning, cores[version.label], choice.versions[0].bytes, version.bytes)
        measured = gains.get((choice.function, version.label))
        if measured is not None:
            why = f"overruled: {measured.fraction:+.1%} ({measured.how})"
        elif would_drop and not dropping:
            why += ", kept as requested"
        is_dropped = would_drop and dropping and measured is None
        error = model_error(cores[version.label])
        verdict = ModelVerdict(
            tuning.generic,
            tuning.own,
            tuning.unit,
            error.fraction,
            error.is_assumed,
            would_drop,
            is_dropped,
            f"{figures}, {why}" if why else figures,
        )
        version = replace(version, verdict=verdict)
        return to_generic(choice, version, verdict.why) if is_dropped else version

    return replace(choice, versions=tuple(decide(version) for version in choice.versions))


def _judge(tuning: VersionTuning, core: Core, generic_bytes: int, own_bytes: int) -> tuple[str, str, bool]:
    """Return (figures, verdict, True if the version gains nothing by the model)."""
    assert tuning.generic and tuning.own
    error = model_error(core)
    gain = 1 - tuning.generic / tuning.own
    time = f"{tuning.generic / tuning.own - 1:.1%} more time" if gain < 0 else f"{gain:.1%} less time"
    figures = f"{tuning.own:.2f} {tuning.unit}/cycle where generic has {tuning.generic:.2f}, {time} (model)"
    if not tuning.is_hottest:
        return figures, "the model cannot time a loop that is hotter: nothing is dropped by it", False
    if tuning.splits and core.order != "in" and core.policy.split:
        return figures, "its split loads gain on this core by measurement, which the model does not explain", False
    if gain <= error.fraction:
        is_over = tuning.generic / tuning.own - 1 > error.fraction
        return figures, f"over {error}" if is_over else f"within {error}", True
    more = fetch_cycles(own_bytes, core) - fetch_cycles(generic_bytes, core)
    saved = tuning.loop_cycles * gain
    if tuning.loop_cycles and more >= saved:
        size = f"its {own_bytes} bytes where generic has {generic_bytes}"
        return figures, f"but {size} take {more:.0f} cycles more a call to fetch, and its loops save {saved:.0f}", True
    return figures, "", False
