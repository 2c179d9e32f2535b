"""Facts of simulated cores, altered and found again."""

from pathlib import Path

import pytest

from mavcg.cost.core_facts import simulated_core
from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing
from mavcg.lab.calibrate.altered_core import alter_core, read_facts, values_of
from mavcg.lab.calibrate.calibration import GROUPS, CoreCalibration, calibrate, with_own_rows
from mavcg.lab.calibrate.loops import SCRATCH_BYTES, Walk
from mavcg.lab.calibrate.simulated import ABSENT, SimulatedTimer, walk_memory
from mavcg.profiles.load import load_core
from mavcg.profiles.rates import rate
from mavcg.profiles.timing import load_timing

pytest.importorskip("unicorn")
BOTH = {
    "instr.fmla_q.latency": 6,
    "instr.ldr_x.latency": 7,
    "instr.fdiv_s.latency": 16,
    "instr.fmov_to_gpr.latency": 5,
    "instr.add_q.latency": 3,
    "instr.mul_q.per_cycle": 0.25,
    "instr.str_x.per_cycle": 0.5,
    "branches.mispredict": 11,
    "caches.l1d_bytes": 49152,
    "caches.l2_bytes": 393216,
    "caches.l2_latency": 14,
    "caches.memory_ns": 150,
    "caches.miss_slots": 6,
    "caches.split_cycles": 2,
}
IN_ORDER = {
    "instr.alu.latency": 2,
    "instr.ldr_q.blocks": 3,
    "forward.alu->mul_x": 3,
    "forward.mla_q->mla_q.acc": 2,
    "forward.ldr_x->ins": 6,
    "caches.prefetch_lines": 3,
}
OUT_OF_ORDER = {
    "issue.width": 3,
    "window.in_flight": 100,
    "window.issue_queue": 12,
    "window.load_queue": 50,
    "instr.alu.latency": 2,
    "instr.fadd_q.latency": 3,
}
FEW = frozenset({"alu", "ldr_x", "fmla_q", "fadd_d", "ldr_q", "fmov_to_gpr", "fmov_from_gpr", "ins", "nop"})


def found_again(core: str, facts: dict[str, float], groups: tuple[str, ...], only: frozenset[str]) -> CoreCalibration:
    kind = load_core(core)
    timing = load_timing(kind)
    silicon, known = alter_core(kind, timing, facts)
    timer = SimulatedTimer(with_own_rows(known), simulated_core(silicon))
    return calibrate(timer, kind, timing, requested=frozenset(facts), absent=ABSENT, groups=groups, only=only)


@pytest.mark.long
@pytest.mark.parametrize(("core", "more"), [("cortex-a55", IN_ORDER), ("cortex-a76", OUT_OF_ORDER)])
def test_twenty_facts_are_found_again_within_two_percent(core: str, more: dict[str, float]) -> None:
    facts = BOTH | more
    assert len(facts) == 20
    found = found_again(core, facts, GROUPS, frozenset()).found
    assert {key: found.get(key) for key in facts} == pytest.approx(facts, 0.02)
    # What was not altered is found as it is.
    kind = load_core(core)
    silicon, timing = alter_core(kind, load_timing(kind), facts)
    truth = values_of(silicon, with_own_rows(timing))
    others = {key: (value, truth[key]) for key, value in found.items() if key in truth}
    assert not {key: pair for key, pair in others.items() if pair[0] != pytest.approx(pair[1], 0.02)}


@pytest.mark.parametrize(
    ("core", "facts"),
    [
        ("cortex-a55", {"instr.fmla_q.latency": 6, "instr.fadd_d.per_cycle": 1.0, "forward.ldr_x->ins": 6}),
        ("cortex-a76", {"instr.fmla_q.latency": 6, "instr.fmov_to_gpr.latency": 5, "instr.fadd_d.per_cycle": 1.0}),
    ],
)
def test_latencies_and_rates_of_a_few_classes_are_found_again(core: str, facts: dict[str, float]) -> None:
    found = found_again(core, facts, ("rates", "latencies"), FEW).found
    assert {key: found[key] for key in facts} == facts
    assert found["instr.ldr_x.latency"] == load_timing(load_core(core)).of("ldr_x").latency


def timing_of(core: str) -> Timing:
    return load_timing(load_core(core))


@pytest.mark.parametrize("per_cycle", [2.0, 0.5, 0.25, 1 / 3])
def test_a_rate_is_made_of_units(per_cycle: float) -> None:
    timing = timing_of("cortex-a55")
    _, other = alter_core(load_core("cortex-a55"), timing, {"instr.fadd_d.per_cycle": per_cycle})
    assert rate(other.of("fadd_d"), other) == pytest.approx(per_cycle, 0.01)
    assert other.of("fadd_d").latency == timing.of("fadd_d").latency


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[instr]\nfmla_q = { latency = true }", "is not a number"),
        ("[instr]\nfmla_z = { latency = 3 }", "instr.CLASS.FIGURE"),
        ("[instr]\nfmla_q = { speed = 3 }", "instr.CLASS.FIGURE"),
        ('[forward]\n"alu->nothing" = 3', "no class or family"),
        ('[forward]\n"alu" = 3', "PRODUCER->CONSUMER"),
        ("[caches]\nl4_bytes = 3", "is not a fact"),
        ("[caches]\nl2_latency = nan", "is not a number"),
        ("", "no facts"),
    ],
)
def test_a_file_of_facts_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "facts.toml"
    path.write_text(text)
    with pytest.raises(MavcgError, match=message):
        read_facts(path)


def test_facts_are_read_as_in_a_core_file_or_by_dotted_keys(tmp_path: Path) -> None:
    path = tmp_path / "facts.toml"
    path.write_text(
        'instr.fmla_q.latency = 5\nissue.width = { value = 3, unit = "instr/cycle", source = "a lab" }\n'
        '[forward]\n"alu crc->mul_x.acc" = { cycles = 2, source = "a lab" }\n'
    )
    requested = {fact.name: (fact.keys, fact.value) for fact in read_facts(path)}
    assert requested == {
        "instr.fmla_q.latency": (("instr.fmla_q.latency",), 5.0),
        "issue.width": (("issue.width",), 3.0),
        "forward.alu crc->mul_x.acc": (("forward.alu->mul_x.acc", "forward.crc->mul_x.acc"), 2.0),
    }


@pytest.mark.parametrize("walk", [Walk(1 << 15), Walk(1 << 15, run=8), Walk(1 << 16, node_bytes=256)])
def test_a_walk_visits_every_node_once(walk: Walk) -> None:
    memory, base = walk_memory(walk, 1 << 20), 1 << 20
    at = first = int.from_bytes(memory[:8], "little")
    seen = []
    while True:
        seen.append(at)
        at = int.from_bytes(memory[at - base : at - base + 8], "little")
        if at == first:
            break
    assert sorted(seen) == [base + SCRATCH_BYTES + n * walk.node_bytes for n in range(walk.bytes // walk.node_bytes)]
    assert all(seen[n + 1] - seen[n] == walk.node_bytes for n in range(len(seen) - 1) if (n + 1) % walk.run)
