"""Files with timing facts: what is read from them, what is refused and what the audit finds."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import ProfileError
from mavcg.hardware.timing import ClassTiming, ForbiddenDistance, NoDualIssue, Timing, UnitUse
from mavcg.profiles.audit import audit, timing_faults
from mavcg.profiles.core_files import read_core
from mavcg.profiles.load import load_core
from mavcg.profiles.rates import rate, unit_rate
from mavcg.profiles.timing import load_timing
from tests.conftest import examples

HEAD = """
name = "mine"
arch = "aarch64"
description = "My core"
order = { value = "in", source = "MAN" }
midr = [{ implementer = 0x99, part = 0x123, source = "MAN, page 3" }]

[sources]
MAN = "its manual"
LAB = "measured here"

[llvm]
cpu = "cortex-a53"
source = "MAN"
"""
TIMING = """
[issue]
width = { value = 2, unit = "instr/cycle", source = "MAN" }
pools = { value = { load = 1, alu = 2, fp = 2 }, source = "MAN; LAB: fp" }

[instr]
"alu alu_flags" = { latency = 1, per_cycle = 2.0, units = ["alu"], source = "MAN" }
ldr_q  = { latency = 4, per_cycle = 0.5, units = ["load:2"], blocks = 2, source = "LAB: 2 (MAN: 1)" }
fmla_q = { latency = 4, per_cycle = 1.0, units = ["fp", "fp"], source = "MAN; LAB" }

[forward]
"fmla_q->fmla_q.acc" = { cycles = 2, source = "LAB" }
"alu alu_flags->load store.addr" = { cycles = 3, source = "MAN" }

[[no_dual_issue]]
these = ["ldr_q"]
those = ["vector", "-ins"]
source = "MAN"

[[issue_distance]]
first = ["fmla_q"]
then = ["ldr_q"]
cycles = 4
source = "MAN"

[loads]
split = { value = true, source = "LAB" }
"""
MINE = HEAD + TIMING


@pytest.fixture
def cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of core files."""
    (tmp_path / "cores").mkdir()
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))
    return tmp_path / "cores"


def other(name: str, part: int, timing: str, head: str = HEAD) -> str:
    return head.replace('"mine"', f'"{name}"').replace("0x123", f"{part:#x}") + timing


def test_a_file_is_read_whole(cores: Path) -> None:
    (cores / "mine.toml").write_text(MINE)

    core = load_core("mine")
    timing = load_timing(core)

    assert (timing.core, timing.order, timing.width) == ("mine", "in", 2)
    assert timing.pools == {"load": 1, "alu": 2, "fp": 2}
    assert set(timing.classes) == {"alu", "alu_flags", "ldr_q", "fmla_q"}
    assert timing.classes["ldr_q"] == ClassTiming(
        "ldr_q", 4, 0.5, (UnitUse(("load",), 2),), 2, "measured here: 2 (its manual: 1)"
    )
    assert timing.forwards[("fmla_q", "fmla_q", "acc")] == 2
    assert {key for key in timing.forwards if key[2] == "addr"} == {
        (made_by, read_by, "addr") for made_by in ("alu", "alu_flags") for read_by in ("load", "store")
    }
    (rule,), (spaced,) = timing.no_dual_issue, timing.forbidden_distances
    assert rule.these == {"ldr_q"} and {"fmla_d", "tbl4"} <= rule.those and not {"ins", "fadd_s"} & rule.those
    assert spaced == ForbiddenDistance(frozenset({"fmla_q", "fmla_d"}), frozenset({"ldr_q"}), 4, "its manual")
    assert (core.policy.split, core.policy.unpair, core.policy.schedule) == (True, False, False)
    assert core.policy.sources == (("split", "measured here"),)
    assert dict(core.sources)["midr[0]"] == "MAN, page 3".replace("MAN", "its manual")
    assert audit() == ()


def test_tables_by_their_old_names_count_and_are_named_once(cores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cores / "mine.toml").write_text(MINE)
    present = load_timing(load_core("mine"))
    old = cores / "old.toml"
    old.write_text(
        other("old", 0x124, TIMING).replace("[[no_dual_issue]]", "[[apart]]").replace("issue_distance", "spaced")
    )

    timing = load_timing(load_core("old"))

    assert timing.no_dual_issue == present.no_dual_issue
    assert timing.forbidden_distances == present.forbidden_distances
    said = capsys.readouterr().err
    assert said.count(f"{old}: [[apart]] is called [[no_dual_issue]] now") == 1
    assert said.count(f"{old}: [[spaced]] is called [[issue_distance]] now") == 1


def test_a_table_by_both_names_is_refused(cores: Path) -> None:
    (cores / "mine.toml").write_text(MINE + '[[apart]]\nthese = ["ldr_q"]\nthose = ["ins"]\nsource = "MAN"\n')

    with pytest.raises(
        ProfileError, match=r"apart: is the old name of no_dual_issue, which the file has, too; move all to"
    ):
        load_core("mine")


def test_timing_tables_are_no_figures(cores: Path) -> None:
    (cores / "mine.toml").write_text(MINE)

    assert [fact.key for fact in load_core("mine").facts] == ["issue.width"]


@pytest.mark.parametrize(
    ("old", "new", "key", "said"),
    [
        ("fmla_q = {", "fmla_qq = {", "instr.fmla_qq", "is not an instruction class; did you mean fmla_q"),
        ('"alu alu_flags" =', '"alu ldr_q" =', "instr.ldr_q", "has two rows"),
        (', source = "MAN; LAB" }', "}", "instr.fmla_q", "no source; add one or remove the fact"),
        ("latency = 1,", "", 'instr."alu alu_flags".latency', "missing"),
        ("latency = 1,", "latency = 1.5,", 'instr."alu alu_flags".latency', "is not a whole number"),
        ("per_cycle = 2.0", "per_cycle = 0", 'instr."alu alu_flags".per_cycle', "is not a number above 0"),
        ("per_cycle = 2.0", "percycle = 2.0", 'instr."alu alu_flags".percycle', "no such key"),
        ('["fp", "fp"]', '["fp|alu"]', "instr.fmla_q.units", "leaves a choice of pools, but an in-order core uses one"),
        ('["fp", "fp"]', '["fp:0"]', "instr.fmla_q.units", "is not a use of a unit"),
        ('["fp", "fp"]', '"fp"', "instr.fmla_q.units", "not a list of names"),
        ("blocks = 2", "blocks = -1", "instr.ldr_q.blocks", "is not a whole number"),
        ("blocks = 2", "blocks = 2, last = 1", "instr.ldr_q.last", "is not true or false"),
        ("blocks = 2", "blocks = 2, narrows = -1", "instr.ldr_q.narrows", "is not a whole number"),
        ("blocks = 2", "slots = 2", "instr.ldr_q.slots", "an in-order core issues an instruction in one slot"),
        ("blocks = 2", "last = true", "instr.ldr_q.last", "other instructions may follow in its cycle; add blocks"),
        ("fp = 2 }", "fp = 0 }", "issue.pools.fp", "is not a whole number"),
        ("{ load = 1, alu = 2, fp = 2 }", "3", "issue.pools", "is not a table of units"),
        ("value = 2, unit", "value = 2.5, unit", "issue.width", "is not a whole number"),
        ("[instr]", 'vector_queue = { value = 9, unit = "x", source = "LAB" }\n[instr]', "issue.vector_queue", "whole"),
        (
            "[instr]",
            'same_cycle_writes = { value = 1, unit = "x", source = "LAB" }\n[instr]',
            "issue.same_cycle_writes",
            "is not true or false",
        ),
        (
            '"fmla_q->fmla_q.acc"',
            '"fmla_q->fmla.acc"',
            "forward.fmla_q->fmla.acc",
            "is neither an instruction class nor a family",
        ),
        ('"fmla_q->fmla_q.acc"', '"fmla_q->fmla_q.sum"', "forward.fmla_q->fmla_q.sum", "is not a role"),
        ('"fmla_q->fmla_q.acc"', '"fmla_q"', "forward.fmla_q", "does not name a producer and a consumer"),
        ("cycles = 2, source", "cycles = 2, sauce", "forward.fmla_q->fmla_q.acc.sauce", "no such key"),
        ("cycles = 2, source", "cycles = 2, adjacent = 1, source", "forward.fmla_q->fmla_q.acc.adjacent", "only the"),
        (
            "cycles = 3, source",
            "cycles = 3, adjacent = true, source",
            "forward.alu alu_flags->load store.addr.adjacent",
            "only the next multiply-accumulate",
        ),
        ("cycles = 2, source", "cycles = 2, disputed = 2, source", "forward.fmla_q->fmla_q.acc.disputed", "3"),
        (
            'those = ["vector", "-ins"]',
            'those = ["vectors"]',
            "no_dual_issue[0].those",
            "is neither an instruction class nor a family",
        ),
        (
            'those = ["vector", "-ins"]',
            'those = ["ins", "-ins"]',
            "no_dual_issue[0].those",
            "contains no instruction class",
        ),
        (
            'those = ["vector", "-ins"]',
            'those = ["vector", "-fmla_d"]',
            "no_dual_issue[0].those",
            "inherits facts from a class that is not excluded",
        ),
        ("cycles = 4\n", "", "issue_distance[0].cycles", "missing"),
        (
            'split = { value = true, source = "LAB" }',
            "split = true",
            "loads.split",
            "true is not a table; write split = { value",
        ),
        ("split = { value = true", "split = { value = 1", "loads.split", "1 is not true or false"),
        ("split =", "splitt =", "loads.splitt", "no such key"),
        ('source = "MAN; LAB" }', 'source = "MAN; SOG" }', "instr.fmla_q.source", "SOG is not in [sources]"),
        ("LAB = ", "lab = ", "sources.lab", "is not an abbreviation"),
        ("[[no_dual_issue]]", "[no_dual_issue]", "no_dual_issue", "not a list of tables"),
        ('arch = "aarch64"', 'arch = "x86_64"', "midr", "not recognised by this key"),
    ],
)
def test_a_faulty_file_is_refused(tmp_path: Path, old: str, new: str, key: str, said: str) -> None:
    assert old in MINE
    path = tmp_path / "mine.toml"
    path.write_text(MINE.replace(old, new, 1))

    with pytest.raises(ProfileError) as caught:
        read_core(path)

    message = str(caught.value)
    assert message.startswith(f"{path}: {key}: ") and said in message and "\n" not in message and "; " in message


def test_rows_are_for_aarch64(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE.replace('arch = "aarch64"', 'arch = "x86_64"').replace("midr = [", "#"))

    with pytest.raises(ProfileError, match="instr.alu: the classes are AArch64's, and mine is x86_64; give figures"):
        read_core(path)


def test_an_out_of_order_core_is_not_blocked(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE.replace('value = "in"', 'value = "out"'))

    with pytest.raises(ProfileError, match="instr.ldr_q.blocks: an out-of-order core is never blocked"):
        read_core(path)


LIKE = '[issue]\ntiming_of = {{ value = "{}", source = "MAN" }}\n'


def test_facts_of_another_core_fill_the_gaps(cores: Path) -> None:
    own = '[instr]\nfmla_q = { latency = 8, per_cycle = 1.0, units = ["fp", "fp"], source = "LAB" }\n'
    (cores / "mine.toml").write_text(MINE)
    (cores / "yours.toml").write_text(other("yours", 0x124, LIKE.format("mine") + own))
    (cores / "theirs.toml").write_text(other("theirs", 0x125, LIKE.format("yours")))

    timing = load_timing(load_core("theirs"))

    assert (timing.core, timing.width, timing.pools["fp"]) == ("theirs", 2, 2)
    assert (timing.of("fmla_q").latency, timing.of("ldr_q").latency) == (8, 4)
    assert timing.of("fmla_q").source == "measured here (as on yours)"
    assert timing.of("ldr_q").source.endswith("(as on mine)")
    assert timing.latency("fmla_q", "fmla_q", "acc") == 2 and timing.forbidden_distances and timing.no_dual_issue
    assert load_core("theirs").policy.split is False, "what the passes do is no timing: each core says it itself"
    assert audit() == ()


def test_a_sum_that_reaches_the_next_instruction_only(cores: Path) -> None:
    """The nearest file that has a forwarding says whether it reaches further; others may lie between, by the model."""
    mine = MINE.replace("cycles = 2, source", "cycles = 2, adjacent = true, source")
    own = '[forward]\n"fmla_q->fmla_q.acc" = {{ cycles = 3, {}source = "LAB" }}\n'
    (cores / "mine.toml").write_text(mine)
    (cores / "yours.toml").write_text(other("yours", 0x124, LIKE.format("mine")))
    (cores / "theirs.toml").write_text(other("theirs", 0x125, LIKE.format("yours") + own.format("")))
    (cores / "ours.toml").write_text(other("ours", 0x126, LIKE.format("theirs") + own.format("adjacent = true, ")))

    def latencies(name: str) -> tuple[int, int]:
        timing = load_timing(load_core(name))
        near, far = (timing.latency("fmla_q", "fmla_d", "acc", adjacent=adjacent) for adjacent in (True, False))
        assert timing.accumulates("fmla_d") == (near != far) and not timing.accumulates("ldr_q")
        return near, far

    assert [latencies(name) for name in ("mine", "yours", "theirs", "ours")] == [(2, 4), (2, 4), (3, 3), (3, 4)]
    changed = load_timing(load_core("mine")).with_forward("fmla_q", "fmla_q", "acc", 1)
    assert changed.latency("fmla_q", "fmla_q", "acc", adjacent=False) == 1 and not changed.adjacent_forwards
    assert changed.key() != load_timing(load_core("mine")).key()


def test_a_latency_about_which_sources_disagree(cores: Path) -> None:
    """The nearest file that has the forwarding says whether it is disputed; a what-if latency is not."""
    mine = MINE.replace("cycles = 2, source", "cycles = 2, disputed = 5, source")
    own = '[forward]\n"fmla_q->fmla_q.acc" = { cycles = 3, source = "LAB" }\n'
    (cores / "mine.toml").write_text(mine)
    (cores / "yours.toml").write_text(other("yours", 0x124, LIKE.format("mine")))
    (cores / "theirs.toml").write_text(other("theirs", 0x125, LIKE.format("yours") + own))

    def latencies(name: str) -> tuple[int, int]:
        timing = load_timing(load_core(name))
        plain, disputed = (facts.latency("fmla_q", "fmla_q", "acc") for facts in (timing, timing.with_disputed()))
        return plain, disputed

    assert [latencies(name) for name in ("mine", "yours", "theirs")] == [(2, 5), (2, 5), (3, 3)]
    timing = load_timing(load_core("mine"))
    assert (
        timing.key() != timing.with_disputed().key()
        and timing.with_disputed().with_disputed() == timing.with_disputed()
    )
    assert timing.with_forward("fmla_q", "fmla_q", "acc", 1).with_disputed().latency("fmla_q", "fmla_q", "acc") == 1


def test_rates_follow_the_units_of_the_core(cores: Path) -> None:
    pools = 'pools = { value = { load = 1, alu = 1, fp = 4 }, source = "LAB" }\n'
    (cores / "mine.toml").write_text(MINE)
    (cores / "yours.toml").write_text(other("yours", 0x124, LIKE.format("mine") + pools))

    timing = load_timing(load_core("yours"))

    assert (timing.of("alu").per_cycle, timing.of("fmla_q").per_cycle) == (1.0, 2.0)
    assert not list(timing_faults({"yours": load_core("yours")}))


@pytest.mark.parametrize(
    ("timing", "said"),
    [
        (
            LIKE.format("cortex-b1"),
            "issue.timing_of: cortex-b1 is not a known core; correct the name or add cores/cortex-b1.toml",
        ),
        (LIKE.format("mine"), "issue.timing_of: forms a cycle, mine -> mine; remove one of them"),
        (LIKE.format("cortex-a76"), "cortex-a76 is aarch64 and out of order, mine is aarch64 and in order; take"),
        (LIKE.format("znver3"), "znver3 is x86_64"),
        (TIMING.replace('["alu"]', '["alv"]'), "instr.alu.units: no unit is called alv; issue.pools has load, alu, fp"),
        (TIMING.replace("width =", "depth ="), "issue.width: missing; add it or issue.timing_of"),
        (TIMING.replace("per_cycle = 0.5", "per_cycle = 0.55"), "instr.ldr_q.per_cycle: 0.55 a cycle, but units"),
        (TIMING.replace("per_cycle = 1.0", "per_cycle = 2.0"), "instr.fmla_q.per_cycle: 2 a cycle, but units"),
        (TIMING.replace('first = ["fm', 'first = ["ldr_q", "fm').replace("cycles = 4", "cycles = 2"), "it 0.3333"),
    ],
)
def test_the_fault_is_named(cores: Path, timing: str, said: str) -> None:
    (cores / "mine.toml").write_text(HEAD + timing)

    faults = list(timing_faults({"mine": load_core("mine")}))

    assert len(faults) == 1 and said in faults[0] and "mine.toml" in faults[0], faults


def test_a_circle_of_two_is_one_fault_a_core(cores: Path) -> None:
    (cores / "mine.toml").write_text(HEAD + LIKE.format("yours"))
    (cores / "yours.toml").write_text(other("yours", 0x124, LIKE.format("mine")))

    faults = list(timing_faults({name: load_core(name) for name in ("mine", "yours")}))

    assert sorted(fault.split(": forms")[0] for fault in faults) == [
        "cores/mine.toml: issue.timing_of",
        "cores/yours.toml: issue.timing_of",
    ]


def test_a_core_without_timing_says_so(cores: Path) -> None:
    (cores / "mine.toml").write_text(HEAD)

    assert not list(timing_faults({"mine": load_core("mine")}))
    with pytest.raises(ProfileError, match="mine.toml: instr: no timing of any instruction.*; add rows or"):
        load_timing(load_core("mine"))
    with pytest.raises(ProfileError, match="znver3.toml: instr: no timing"):
        load_timing(load_core("znver3"))


def test_a_core_that_has_no_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)

    with pytest.raises(ProfileError, match="cores/mine.toml: no such file"):
        load_timing(read_core(path))


USE = st.tuples(st.sets(st.sampled_from("abc"), min_size=1), st.integers(1, 5))


@given(st.lists(USE, max_size=5), st.integers(1, 6))
@settings(max_examples=examples(150, 6))
def test_unit_rate_is_reached_and_not_beaten(uses: list[tuple[set[str], int]], width: int) -> None:
    """Against sending many copies of the uses, a cycle of work at a time, to the least busy unit that will do."""
    pools = {"a": 1, "b": 2, "c": 1}
    units = [UnitUse(tuple(sorted(any_of)), cycles) for any_of, cycles in uses]

    made = float(unit_rate(units, pools, width))

    copies = 60
    busy = dict.fromkeys(pools, 0.0)
    for any_of, cycles in sorted(uses, key=lambda use: len(use[0])):
        for _ in range(cycles * copies):
            least = min(sorted(any_of), key=lambda pool: busy[pool])
            busy[least] += 1 / pools[least]
    greedy = max(1 / width * max(1, len(uses)), max(busy.values()) / copies)
    assert 1 / made <= greedy + 1e-9
    total = sum(cycles for _, cycles in uses)
    assert 1 / made >= max(max(1, len(uses)) / width, total / sum(pools.values())) - 1e-9
    for pool, count in pools.items():
        assert 1 / made >= sum(cycles for any_of, cycles in uses if any_of == {pool}) / count - 1e-9


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (ClassTiming("nop", 0, 1.0), 2.0),
        (ClassTiming("alu", 1, 1.0, (UnitUse(("alu",)),)), 2.0),
        (ClassTiming("ldr_d", 3, 1.0, (UnitUse(("load",)),)), 1.0),
        (ClassTiming("fmla_d", 4, 1.0, (UnitUse(("fp",), 3),)), 2 / 3),
        (ClassTiming("ldr_q", 4, 1.0, (UnitUse(("load",)),), 3), 1 / 3),
        (ClassTiming("mul_x", 4, 1.0, (UnitUse(("alu",)),)), 1.0),  # apart from itself
        (ClassTiming("str_q", 1, 1.0, (UnitUse(("load",)),)), 0.5),  # never in the next cycle
    ],
)
def test_rate_in_order(row: ClassTiming, expected: float) -> None:
    mul, stores = frozenset({"mul_x"}), frozenset({"str_q"})
    timing = Timing(
        "mine",
        "in",
        2,
        {"load": 1, "alu": 2, "fp": 2},
        {row.name: row},
        no_dual_issue=(NoDualIssue(mul, mul, "test"),),
        forbidden_distances=(ForbiddenDistance(stores, stores, 1, "test"),),
    )

    assert rate(row, timing) == pytest.approx(expected)
