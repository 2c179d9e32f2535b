"""Timing facts of our cores: complete where that was promised, sourced, and as published where something was."""

import re

import pytest

from mavcg.hardware.instr_classes import CLASSES, FAMILIES, lineage
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.in_order import steady_cycles
from mavcg.passes.asm.models.ports import port_bounds
from mavcg.profiles.audit import lacking
from mavcg.profiles.load import load_core, load_cores
from mavcg.profiles.timing import load_timing

COMPLETE = ("cortex-a55", "cortex-a55-r0", "cortex-a53", "cortex-a35", "cortex-a510")
ARM = [core for core in load_cores().values() if core.arch == "aarch64"]
TIMINGS = {core.name: load_timing(core) for core in ARM}


def never_together(timing: Timing, one: str, other: str) -> bool:
    """Whether rules, units or blocking keep the two out of one cycle."""
    apart = any(
        (one in rule.these and other in rule.those) or (other in rule.these and one in rule.those)
        for rule in timing.no_dual_issue
    )
    units: dict[str, int] = {}
    for name in (one, other):
        for use in timing.of(name).units:
            units[use.any_of[0]] = units.get(use.any_of[0], 0) + 1
    full = any(count > timing.pools[pool] for pool, count in units.items())
    return apart or full or bool(timing.of(one).blocks or timing.of(other).blocks)


@pytest.mark.parametrize("name", COMPLETE)
def test_every_class_is_known(name: str) -> None:
    timing = TIMINGS[name]

    assert [each for each in CLASSES if timing.of(each).latency < 0] == []
    assert len({each for each in CLASSES if timing.of(each).source}) == len(CLASSES) == 207


def test_what_a_core_lacks_is_told() -> None:
    lacks = lacking(load_cores())

    assert set(lacks) == set(TIMINGS)
    assert [name for name in COMPLETE if lacks[name]] == []
    # The M2's cores have such instructions and no published figures of them; the M1's have none.
    assert {name: lacks[name] for name in TIMINGS if name.startswith("apple-")} == {
        "apple-firestorm": (),
        "apple-icestorm": (),
        "apple-avalanche": ("mmla_q", "bfmmla_q", "bfmlal_q"),
        "apple-blizzard": ("mmla_q", "bfmmla_q", "bfmlal_q"),
    }


@pytest.mark.parametrize("timing", TIMINGS.values(), ids=list(TIMINGS))
def test_facts_are_sourced_and_refer_to_what_is_there(timing: Timing) -> None:
    for row in timing.classes.values():
        assert not re.search(r"(^|; |\()[A-Z]{2,4}($|[:;)])", row.source), f"{row.name}: {row.source}: short for what?"
        assert {pool for use in row.units for pool in use.any_of} <= set(timing.pools)
        assert timing.order == "out" or all(len(use.any_of) == 1 for use in row.units)
    known = {*CLASSES, *FAMILIES, "*"}
    assert all(made_by in known and read_by in known for made_by, read_by, _ in timing.forwards)


@pytest.mark.parametrize("timing", TIMINGS.values(), ids=list(TIMINGS))
def test_rates_are_those_of_the_pipeline_models(timing: Timing) -> None:
    """The models reckon units and blocks in their own way; a run of one class must come out at the row's rate."""
    for name, row in timing.classes.items():
        run = [Op(CLASSES[name].example, name)] * 12
        if timing.order == "in":
            cycles = steady_cycles(run, timing)
        else:
            bounds = port_bounds(run, timing)
            cycles = max(bounds.units.cycles, bounds.dispatch.cycles)
        assert float(12 / cycles) == pytest.approx(row.per_cycle, rel=0.05), name


def test_a_borrowed_row_never_promises_more() -> None:
    """Parents are never quicker than their children (instr_classes), or a missing row would be a false promise."""
    for timing in (TIMINGS[name] for name in ("cortex-a53", "cortex-a55")):
        for name, about in CLASSES.items():
            if about.family == "vector" and about.parent is not None and name.endswith("_d"):
                assert timing.of(name).per_cycle >= timing.of(about.parent).per_cycle, (timing.core, name)


class TestCortexA55:
    """r1 and later. Sources: gemmlowp L4412 (Arm), sonos/tract #2241, onnxruntime #10754, SLOTHY cortex_a55.py."""

    timing = TIMINGS["cortex-a55"]

    @pytest.mark.parametrize("name", ["fmla_q", "fmla_lane_q", "dot_q", "dot_lane_q", "mla_q", "mla_lane_q"])
    def test_products_of_128_bits_take_both_pipes(self, name: str) -> None:
        row = self.timing.of(name)

        assert (row.latency, row.per_cycle, [use.any_of for use in row.units]) == (4, 1.0, [("fp",), ("fp",)])

    @pytest.mark.parametrize("other", ["ldr_d", "ldr_x", "ins", "prfm", "alu", "ldr_s", "writeback"])
    def test_issues_beside_fmla(self, other: str) -> None:
        assert not never_together(self.timing, "fmla_q", other)
        assert not never_together(self.timing, "fmla_lane_q", other)

    @pytest.mark.parametrize("other", ["ld1_lane", "ld1r", "ldr_q", "ldp_q", "ldp_x", "fmla_q", "fadd_d"])
    def test_does_not_issue_beside_fmla(self, other: str) -> None:
        assert never_together(self.timing, "fmla_q", other)

    @pytest.mark.parametrize(
        ("name", "latency", "blocks"),
        [("ldr_q", 3, 2), ("ldp_q", 6, 4), ("ldp_x", 4, 2), ("ldp_d", 4, 2), ("ldp_s", 4, 2), ("ld1_q", 4, 2)],
    )
    def test_wide_loads_block(self, name: str, latency: int, blocks: int) -> None:
        row = self.timing.of(name)

        assert (row.latency, row.blocks, row.per_cycle) == (latency, blocks, 1 / blocks)

    @pytest.mark.parametrize(
        ("made_by", "read_by", "role", "cycles"),
        [
            ("fmla_q", "fmla_q", "acc", 4),
            ("ldr_x", "ins", "", 3),
            ("ldr_x", "alu", "", 3),
            ("ldr_x", "ldr_d", "addr", 3),
            ("ins", "fmla_lane_q", "", 2),
            ("ldr_d", "fmla_q", "", 3),
            ("alu", "alu", "", 1),
            ("alu", "ldr_q", "addr", 2),
            ("writeback", "ldr_d", "addr", 2),
            ("alu", "str_x", "data", 2),
            ("alu", "alu_shifted", "shifted", 2),
            ("alu", "alu_shifted", "", 1),
            ("mlal_q", "mlal_q", "acc", 1),
            ("mull_q", "mlal_lane_q", "acc", 1),
            ("mlal_q", "mlal_q", "", 4),
            ("mla_q", "mla_q", "acc", 1),
            ("mla_q", "mla_q", "", 4),
            ("alu_flags", "branch_cond", "", 1),
            ("logic_d", "perm_d", "", 2),
            ("bitfield", "alu", "", 2),
        ],
    )
    def test_results_arrive(self, made_by: str, read_by: str, role: str, cycles: int) -> None:
        assert self.timing.latency(made_by, read_by, role) == cycles


@pytest.mark.parametrize("name", ["cortex-a53", "cortex-a55-r0", "cortex-a35"])
class TestCortexA53:
    """And those that behave alike. Sources: gemmlowp L4215 (Arm), ncnn's dual-issue notes, insn_bench on an A53."""

    def test_multiply_add(self, name: str) -> None:
        timing = TIMINGS[name]
        cycles = 4 if name == "cortex-a55-r0" else 8  # vfpbench on a Kryo 385 Silver, an A55 r0

        assert (timing.of("fmla_q").latency, timing.of("fmla_lane_q").latency) == (cycles, cycles)
        assert timing.latency("fmla_q", "fmla_lane_q", "acc") == 4
        assert timing.latency("fmla_d", "fmla_d", "acc") == 4
        assert timing.latency("fmla_q", "fmla_q") == cycles

    @pytest.mark.parametrize("other", ["ldr_d", "ldr_s", "ins", "ldr_q", "ld1_lane"])
    def test_does_not_issue_beside_fmla(self, name: str, other: str) -> None:
        assert never_together(TIMINGS[name], "fmla_q", other)
        assert never_together(TIMINGS[name], "fmla_d", other)

    @pytest.mark.parametrize("pair", ["fmla_q ldr_x", "fmla_q alu", "ldr_d ins", "alu alu"])
    def test_issues_beside(self, name: str, pair: str) -> None:
        assert not never_together(TIMINGS[name], *pair.split())

    def test_no_vector_load_four_cycles_after_fmla(self, name: str) -> None:
        (rule,) = TIMINGS[name].forbidden_distances

        assert rule.cycles == 4 and {"fmla_q", "fmla_lane_q", "fmla_d"} <= rule.first
        assert {"ldr_d", "ldr_s", "ldr_q", "ld1_lane"} <= rule.then and "ldr_x" not in rule.then

    def test_loads_as_measured(self, name: str) -> None:
        timing = TIMINGS[name]

        assert (timing.of("ldr_q").blocks, timing.of("ldp_q").per_cycle, timing.of("ldp_x").per_cycle) == (2, 0.25, 0.5)
        assert timing.latency("ldr_x", "ldr_x", "addr") == 3 and timing.latency("writeback", "ldr_d", "addr") == 3


@pytest.mark.parametrize(
    ("name", "split", "schedule"),
    [
        *((name, True, True) for name in ("cortex-a53", "cortex-a55", "cortex-a55-r0", "cortex-a35")),
        *((name, True, True) for name in ("cortex-a75", "cortex-a75-r0")),
        *((name, False, True) for name in ("cortex-a510", "cortex-a520")),
        *((name, False, False) for name in ("cortex-a57", "cortex-a72", "cortex-a76", "cortex-x1", "exynos-m4")),
        *((name, False, False) for name in ("apple-firestorm", "apple-icestorm", "neoverse-n1", "exynos-m2")),
    ],
)
def test_what_the_machine_passes_do(name: str, split: bool, schedule: bool) -> None:
    policy = load_core(name).policy

    assert (policy.split, policy.unpair, policy.schedule) == (split, split, schedule)
    assert [key for key, source in policy.sources if source.strip()] == ["split", "unpair", "schedule"]


def test_every_arm_core_says_what_the_machine_passes_do() -> None:
    assert [core.name for core in ARM if not core.policy.sources] == []
    assert [core.name for core in load_cores().values() if core.arch != "aarch64" and core.policy.schedule] == []


@pytest.mark.parametrize(
    ("name", "fmla_per_cycle", "latency", "to_accumulator"),
    [
        ("cortex-a72", 1, 7, 3),
        ("neoverse-n1", 2, 4, 2),
        ("cortex-a76", 2, 4, 2),
        ("apple-firestorm", 4, 4, 4),
        ("cortex-x1", 4, 4, 2),
        ("exynos-m3", 3, 4, 3),
        ("neoverse-n2", 2, 4, 2),
        ("cortex-a510", 2, 4, 4),
    ],
)
def test_fmla_of_the_larger_cores(name: str, fmla_per_cycle: int, latency: int, to_accumulator: int) -> None:
    """insn_bench_aarch64 on A72, Neoverse N1, X1 and M1; Samsung's model of the M3; Arm's guide of the N2 by LLVM."""
    timing = TIMINGS[name]

    assert (timing.of("fmla_q").per_cycle, timing.of("fmla_q").latency) == (fmla_per_cycle, latency)
    assert timing.latency("fmla_q", "fmla_q", "acc") == to_accumulator


def test_a_class_inherits_through_its_lineage_only() -> None:
    assert lineage("bsl_d") == ("bsl_d", "bsl_q", "logic_q", "add_q")
    assert "ldr_s" not in TIMINGS["cortex-a55"].classes
    assert TIMINGS["cortex-a55"].of("ldr_s") == TIMINGS["cortex-a55"].of("ldr_d")
