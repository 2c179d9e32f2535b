"""Tuning of one loop: never worse by the model, reasons for no change, stored schedules, and spills."""

from dataclasses import replace

import pytest

from mavcg.hardware.core import LoadPolicy
from mavcg.passes.asm.isa.op import Schedule
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.passes.asm.loop_forms import is_kernel
from mavcg.passes.asm.loop_schedule import SchedulingEffort
from mavcg.passes.asm.loop_tuning import NewLoop, tune_loop
from mavcg.passes.asm.tuning_reports import LoopReport
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

BODY = """
ldr q24, [x1], #16
ldr q25, [x2], #16
fmla v16.4s, v24.4s, v25.s[0]
fmla v17.4s, v24.4s, v25.s[1]
fmla v18.4s, v24.4s, v25.s[2]
fmla v19.4s, v24.4s, v25.s[3]
fmla v20.4s, v25.4s, v24.s[0]
fmla v21.4s, v25.4s, v24.s[1]
subs x0, x0, #1
b.ne .Lt
""".strip().splitlines()
LIVE = frozenset({"x0", "x1", "x2", "x3", "sp", *(f"v{i}" for i in range(16, 22))})
GENERAL = frozenset(f"x{i}" for i in range(31))


class Store:
    """Schedules kept in memory, with a count of questions that found nothing."""

    def __init__(self) -> None:
        self.schedules: dict[str, Schedule] = {}
        self.missed = 0

    def get(self, key: str) -> Schedule | None:
        self.missed += key not in self.schedules
        return self.schedules.get(key)

    def put(self, key: str, schedule: Schedule) -> None:
        self.schedules[key] = schedule


def _tuned(
    core: str = "cortex-a55",
    live: frozenset[str] = LIVE,
    policy: LoadPolicy | None = None,
    effort: SchedulingEffort | None = None,
    lines: list[str] = BODY,
) -> tuple[LoopReport, NewLoop | None]:
    profile = load_core(core)
    code = [parse_instr(line) for line in lines]
    timing = load_timing(profile)
    return tune_loop(code, live, live, timing, policy or profile.policy, effort or SchedulingEffort(), ("t", 1, ".Ln"))


def _text(new: NewLoop | None) -> str:
    assert new is not None
    return "\n".join(f"{label}:\n" + "\n".join(" ".join(str(i).split()) for i in part) for label, part in new.parts)


@pytest.mark.parametrize("core", ["cortex-a53", "cortex-a55", "cortex-a510"])
@pytest.mark.sample(1)
def test_a_new_form_is_better_by_the_model(core: str) -> None:
    report, new = _tuned(core)
    assert new is not None and report.cycles_before is not None and report.cycles_after is not None
    assert report.cycles_after < report.cycles_before
    assert report.scheduled_by == "heuristic" and not report.unchanged_because
    assert f"{report.cycles_before:.2f} -> {report.cycles_after:.2f}" in new.remark


def test_what_is_best_already_is_kept() -> None:
    report, new = _tuned(lines=["subs x0, x0, #1", "fmul v16.4s, v16.4s, v16.4s", "b.ne .Lt"])
    assert report.cycles_before is not None
    assert new is None and report.unchanged_because == "no better form was found" and report.scheduled_by == "kept"
    assert report.cycles_after == report.cycles_before and report.instructions_after == report.instructions_before


def test_schedules_are_looked_up_the_second_time() -> None:
    store = Store()
    first = _tuned(effort=SchedulingEffort(0.0, store))
    kept = dict(store.schedules)
    missed = store.missed
    assert kept and first[1] is not None
    assert _tuned(effort=SchedulingEffort(0.0, store)) == first
    assert store.schedules == kept
    assert store.missed == missed and len(kept) == missed  # searches that found nothing are not made again either


@pytest.mark.long
def test_another_core_has_its_own_schedules() -> None:
    store = Store()
    _tuned(effort=SchedulingEffort(0.0, store))
    one = set(store.schedules)
    _tuned("cortex-a53", effort=SchedulingEffort(0.0, store))
    assert len(store.schedules) > len(one)


def test_values_are_spilled_where_no_register_is_free() -> None:
    report, new = _tuned(live=LIVE | GENERAL)
    text = _text(new)
    assert report.splits == 2
    lines = text.splitlines()
    assert lines[1].startswith("fmov d") and lines[-1].startswith(("fmov x", "umov x"))
    holder, spilled = lines[1].removeprefix("fmov ").split(", ")
    assert f"fmov {spilled}, {holder}" in lines
    assert not any(f"ldr {name}," in text for name in ("x18", "x29", "x30"))


def test_with_no_register_and_no_holder_loads_stay_whole() -> None:
    everything = GENERAL | {"sp"} | {f"v{i}" for i in range(32) if i not in (24, 25)}
    report, new = _tuned(live=everything)
    assert report.splits == 0
    assert new is None or "ldr d" not in _text(new)


@pytest.mark.long
def test_a_profile_with_scheduling_alone_gets_no_split() -> None:
    report, new = _tuned(policy=LoadPolicy(schedule=True))
    assert report.splits == 0 and new is not None and "ldr q24" in _text(new).replace("q26", "q24")


def test_a_missing_fact_is_named() -> None:
    core = load_core("cortex-a55")
    timing = load_timing(core)
    without = replace(timing, classes={n: row for n, row in timing.classes.items() if n != "fmla_lane_q"})
    code = [parse_instr(line) for line in BODY]
    report, new = tune_loop(code, LIVE, LIVE, without, core.policy, SchedulingEffort(), ("t", 1, ".Ln"))
    assert new is None and "fmla_lane_q" in report.unchanged_because and report.cycles_before is None


def test_a_kernel_is_a_loop_that_is_there_for_its_arithmetic() -> None:
    assert is_kernel(parse_instr(line) for line in BODY)
    assert not is_kernel(parse_instr(line) for line in ["ldr x3, [x1], #8", "str x3, [x2], #8", *BODY[-2:]])


# 16 sums, 24 vector registers live throughout, the others in rotation for what is loaded; no general one to spare.
CROWDED = [
    *(f"ldr q{8 + n}, [x1, #{16 * n}]" for n in range(4)),
    *(f"fmla v{n % 8 + 16 * (n > 7)}.4s, v{8 + n % 2}.4s, v{10 + n % 2}.s[{n % 4}]" for n in range(16)),
    *(f"ldr q{12 + n}, [x1, #{16 * n + 64}]" for n in range(4)),
    *(f"fmla v{n % 8 + 16 * (n > 7)}.4s, v{12 + n % 2}.4s, v{14 + n % 2}.s[{n % 4}]" for n in range(16)),
    "add x1, x1, #128",
    "subs x0, x0, #1",
    "b.ne .Lt",
]
CROWDED_LIVE = GENERAL | {"sp", *(f"v{i}" for i in (*range(8), *range(16, 32)))}


def test_a_loop_releases_vector_registers_for_spills() -> None:
    report, new = _tuned(live=CROWDED_LIVE, lines=CROWDED)
    assert report.splits == 8, "no register of any kind is free, and all loads are split"
    assert report.cycles_after is not None and report.cycles_after <= 34  # of 32 products
    text = _text(new)
    spilled = [line for line in text.split("\n") if line.startswith(("fmov d", "ins")) and ", x" in line]
    holders = {line.split()[1].split(".")[0].lstrip("vd,").rstrip(",") for line in spilled[:1]}
    kernel = text.split("_kernel:")[1].split("_out")[0]
    assert holders and not any(f"v{name}." in kernel or f"d{name}," in kernel for name in holders)


@pytest.mark.long
def test_where_all_vector_registers_hold_values_loads_stay_whole() -> None:
    live = CROWDED_LIVE | {f"v{i}" for i in range(32)}  # what is loaded is live after the loop, too
    report, _ = _tuned(live=live, lines=CROWDED)
    assert report.splits == 0


def _products(mnemonic: str, arrangement: str, lane: str, each: int) -> list[str]:
    """A loop of 8 loads and so many products for each."""
    loads = [f"ldr q{n}, [x1, #{16 * n}]" for n in range(8)]
    sums = [
        f"{mnemonic} v{8 + n % 24}.4s, v{n % 8}.{arrangement}, v{(n + 1) % 8}.{lane}[{n % 4}]" for n in range(8 * each)
    ]
    return [*loads, *sums, "add x1, x1, #128", "subs x0, x0, #1", "b.ne .Lt"]


@pytest.mark.parametrize(
    ("lines", "split"),
    [
        (_products("fmla", "4s", "s", 3), True),  # as in the function that was measured
        (_products("fmla", "4s", "s", 2), False),  # a quarter more cycles by the model, and never measured
        (_products("fmla", "4s", "s", 1), False),  # half as many again
        (_products("sdot", "16b", "4b", 4), False),  # two a cycle: nearly half as many again
        (_products("sdot", "16b", "4b", 12), False),  # enough of them, and of another kind than was measured
    ],
    ids=["three for each load", "two for each load", "one for each load", "8-bit", "much 8-bit"],
)
def test_a_measurement_overrules_the_model_for_its_kind_of_loop(lines: list[str], split: bool) -> None:
    live = frozenset({"x0", "x1", "sp", *(f"v{i}" for i in range(8, 32))})
    report, _ = _tuned("cortex-a75", live, lines=lines)
    assert report.cycles_before is not None and report.cycles_after is not None
    assert (report.splits > 0) == split
    if split:
        assert report.cycles_before <= report.cycles_after <= 1.17 * report.cycles_before
        assert "figure 4.3" in report.against_model and "+15.0 %" in report.against_model
    else:
        assert report.cycles_after <= report.cycles_before and report.against_model == ""
