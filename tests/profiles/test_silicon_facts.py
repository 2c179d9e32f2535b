"""Facts of Arm cores against what silicon was measured to take: classes of instructions, alignment, Arm's own loops."""

from dataclasses import replace

import pytest

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.dependences import with_effects
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.isa.source import parse_source
from mavcg.passes.asm.models.estimate import block_cycles, loop_cycles
from mavcg.passes.asm.models.in_order import simulate
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing


def ops_of(text: str) -> tuple[Op, ...]:
    instrs = [statement.instr for statement in parse_source(text.replace(";", "\n") + "\n")]
    return tuple(code.op for code in with_effects([instr for instr in instrs if instr is not None]))


def timing_of(core: str) -> Timing:
    return load_timing(load_core(core))


def rate(core: str, form: str) -> float:
    """Instructions a cycle of sixteen with different destinations."""
    ops = ops_of("; ".join(form.format(d=n) for n in range(16)))
    return len(ops) / loop_cycles(ops, timing_of(core))


# insn_bench_aarch64 5145ffc, results/*.md: instructions a cycle, and cycles of an instruction that waits for itself.
@pytest.mark.parametrize(
    ("core", "form", "published"),
    [
        ("cortex-a72", "sabd v{d}.4s, v16.4s, v17.4s", 1.0),
        ("cortex-a72", "add v{d}.4s, v16.4s, v17.4s", 1.5),
        ("cortex-a72", "sshll v{d}.4s, v16.4h, #2", 1.0),
        ("cortex-a72", "srshr v{d}.4s, v16.4s, #2", 1.0),
        ("cortex-a72", "srshl v{d}.4s, v16.4s, v17.4s", 0.5),
        ("cortex-a72", "rshrn v{d}.4h, v16.4s, #2", 1.0),
        ("cortex-a72", "sqxtun v{d}.4h, v16.4s", 1.0),
        ("cortex-a72", "addhn v{d}.4h, v16.4s, v17.4s", 2.0),
        ("cortex-a72", "fmax v{d}.4s, v16.4s, v17.4s", 1.5),
        ("cortex-a72", "zip1 v{d}.4s, v16.4s, v17.4s", 1.5),
        ("cortex-a72", "trn2 v{d}.8h, v16.8h, v17.8h", 1.5),
        ("cortex-a72", "ext v{d}.16b, v16.16b, v17.16b, #4", 1.5),
        ("cortex-a72", "abs v{d}.4h, v16.4h", 1.0),
        ("cortex-a72", "uaba v{d}.8h, v16.8h, v17.8h", 0.5),
        ("cortex-a72", "uabal v{d}.4s, v16.4h, v17.4h", 1.0),
        ("cortex-a72", "sli v{d}.8h, v16.8h, #2", 0.5),
        ("cortex-a72", "add v{d}.4h, v16.4h, v17.4h", 2.0),
        ("cortex-a72", "st1 {{v{d}.8b}}, [x0]", 1.0),
        ("cortex-a72", "st1 {{v{d}.16b}}, [x0]", 0.5),
        ("cortex-a53", "uabal v{d}.4s, v16.4h, v17.4h", 0.5),
        ("cortex-x1", "sqxtun v{d}.4h, v16.4s", 2.0),
        ("neoverse-n1", "sshll v{d}.4s, v16.4h, #2", 1.0),
        ("neoverse-v1", "srshl v{d}.4s, v16.4s, v17.4s", 2.0),
        ("cortex-a53", "sqrshrun v{d}.4h, v16.4s, #2", 2.0),
    ],
)
def test_rates_are_those_of_silicon(core: str, form: str, published: float) -> None:
    assert rate(core, form) == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(
    ("core", "chain", "published"),
    [
        ("cortex-a72", "sqrshrun v0.4h, v0.4s, #2", 4),
        ("cortex-a72", "uaba v0.8h, v16.8h, v17.8h", 2),
        ("cortex-a53", "uaba v0.8h, v16.8h, v17.8h", 2),
        ("cortex-a72", "zip1 v0.4s, v0.4s, v0.4s", 3),
        ("cortex-a72", "ext v0.16b, v0.16b, v0.16b, #4", 3),
        ("cortex-a53", "srshr v0.4s, v0.4s, #2", 3),
        ("cortex-a53", "sqxtun v0.4h, v0.4s", 4),
        ("cortex-a53", "sshll v0.4s, v0.4h, #2", 2),
        ("cortex-x1", "srshr v0.4s, v0.4s, #2", 4),
        ("neoverse-n1", "mla v0.4s, v16.4s, v17.4s", 2),
        ("neoverse-n1", "smlal v0.4s, v16.4h, v17.4h", 1),
        ("neoverse-v1", "smull v0.4s, v0.4h, v0.4h", 4),
        ("apple-firestorm", "fmax v0.4s, v0.4s, v0.4s", 2),
        ("apple-firestorm", "sabd v0.4s, v0.4s, v0.4s", 3),
    ],
)
def test_latencies_are_those_of_silicon(core: str, chain: str, published: int) -> None:
    assert loop_cycles(ops_of(chain), timing_of(core)) == published


# LLVM's NeoverseZeroMove and dav1d 643195f5: zero without a unit on out-of-order cores with i8mm; applecpu: on Apple's.
@pytest.mark.parametrize(
    ("core", "cycles"),
    [
        ("cortex-x3", 0),
        ("cortex-a715", 0),
        ("cortex-x4", 0),
        ("apple-firestorm", 0),
        ("apple-icestorm", 0),
        ("cortex-a55", 2),
        ("cortex-a510", 4),
        ("cortex-a72", 3),
        ("cortex-a78", 2),
        ("cortex-x1", 2),
    ],
)
def test_zero_is_written_without_execution_where_a_source_says_so(core: str, cycles: int) -> None:
    timing = timing_of(core)
    zero, other = timing.of("movi_zero"), timing.of("movi")
    assert zero.latency == cycles and other.latency > 0
    assert (zero.units == ()) == (cycles == 0)
    if cycles:
        assert (zero.latency, zero.per_cycle, zero.units) == (other.latency, other.per_cycle, other.units)


# From zero, and from another constant.
@pytest.mark.parametrize(("core", "cycles"), [("cortex-x3", (3, 5)), ("cortex-a715", (3, 5)), ("cortex-a55", (5, 5))])
def test_a_chain_from_zero_is_shorter_by_the_move_on_an_x3(core: str, cycles: tuple[int, int]) -> None:
    timing = timing_of(core)
    chain = "movi v0.4s, #{}; add v1.4s, v0.4s, v16.4s; add v2.4s, v1.4s, v16.4s"
    assert tuple(block_cycles(ops_of(chain.format(value)), timing) for value in (0, 1)) == cycles


# dav1d e80955cc and fc5a3728: "interleaving the mul/mla chains actually hurts performance significantly" on an A53.
@pytest.mark.parametrize(
    ("first", "next_one"),
    [
        ("smull v{d}.4s, v16.4h, v17.h[0]", "smlal v{d}.4s, v16.4h, v17.h[1]"),
        ("mul v{d}.8h, v16.8h, v17.h[0]", "mla v{d}.8h, v16.8h, v17.h[1]"),
    ],
)
def test_two_chains_of_products_take_longer_by_turns_than_one_after_the_other(first: str, next_one: str) -> None:
    timing = timing_of("cortex-a53")
    chains = [[first.format(d=d), *[next_one.format(d=d)] * 7] for d in (0, 1)]
    assert block_cycles(ops_of("; ".join(chains[0] + chains[1])), timing) == 16
    by_turns = [text for pair in zip(*chains, strict=True) for text in pair]
    assert block_cycles(ops_of("; ".join(by_turns)), timing) == 4 * 7 + 2


# FFmpeg, pix_abs16 of libavcodec/aarch64/me_cmp_neon.S, whose loads take the passes of its sums on top.
def test_an_a53_issues_nothing_in_the_second_pass_of_a_sum_of_differences() -> None:
    timing = timing_of("cortex-a53")
    assert block_cycles(ops_of("uabal v0.8h, v1.8b, v2.8b; add x3, x4, x5"), timing) == 3
    assert block_cycles(ops_of("uabd v0.8b, v1.8b, v2.8b; add x3, x4, x5"), timing) == 1


def test_an_a72_dispatches_128_bits_as_two_halves() -> None:
    """Six sums of 128 bits fill four cycles, six of 64 bits two; their units are the same."""
    timing = timing_of("cortex-a72")
    whole, half = (
        "; ".join(f"add v{n}.{t}, v16.{t}, v17.{t}" for n in range(6)) + "; sub x0, x1, x2" for t in ("16b", "8b")
    )
    assert (block_cycles(ops_of(whole), timing), block_cycles(ops_of(half), timing)) == (5, 3)


def test_a_chain_of_products_may_have_other_instructions_between() -> None:
    timing = timing_of("cortex-a53")
    loop = "smlal v0.4s, v16.4h, v17.4h; add x1, x1, x2; add v3.4s, v4.4s, v5.4s"
    assert loop_cycles(ops_of(loop), timing) == 2


# GMP, heads of mpn/arm64/mul_1.asm and bdiv_q_1.asm: of an A53's 64-bit multiplications, nothing issues beside the
# passes but what went before in the same cycle.
def test_an_a53_issues_nothing_while_it_multiplies_64_bits() -> None:
    timing = timing_of("cortex-a53")
    assert block_cycles(ops_of("umulh x0, x1, x2; add x3, x4, x5"), timing) == 5
    assert block_cycles(ops_of("add x3, x4, x5; umulh x0, x1, x2"), timing) == 1
    assert block_cycles(ops_of("mul x0, x1, x2; umulh x3, x1, x2; add x6, x7, x8; add x9, x10, x11"), timing) == 7
    assert block_cycles(ops_of("mul w0, w1, w2; add x3, x4, x5"), timing) == 1


def test_a_pair_load_takes_a_slot_of_the_next_cycle_on_an_a53() -> None:
    """GCC's cortex-a53.md, by Arm: it issues alone, and takes one of two slots in the cycle after that."""
    timing = timing_of("cortex-a53")
    ops = ops_of("ldp x0, x1, [x2]; add x3, x4, x5; add x6, x7, x8; add x9, x10, x11")
    assert [issue.cycle for issue in simulate(ops, timing).issues] == [0, 1, 2, 2]
    assert loop_cycles(ops, timing) == 3


def test_an_a53_stores_what_it_computes_in_the_same_cycle() -> None:
    assert block_cycles(ops_of("add x0, x1, x2; str x0, [x3]"), timing_of("cortex-a53")) == 1


@pytest.mark.parametrize(
    ("core", "aligned", "unaligned"),
    # A53: insn_bench has 0.33 of loads alone; kernels of dav1d and FFmpeg take a cycle more for each (its file).
    [("cortex-a53", 0.5, 0.25), ("cortex-a72", 1.0, 0.5), ("neoverse-n1", 2.0, 1.0), ("cortex-x1", 3.0, 1.5)],
)
def test_unaligned_128_bit_loads_take_longer(core: str, aligned: float, unaligned: float) -> None:
    ops = ops_of("; ".join(f"ldr q{n}, [x1]" for n in range(12)))
    for published, here in ((aligned, ops), (unaligned, tuple(replace(op, unaligned=True) for op in ops))):
        assert len(ops) / loop_cycles(here, timing_of(core)) == pytest.approx(published, rel=0.02)


def test_64_bit_loads_do_not_care_for_alignment_to_16() -> None:
    ops = tuple(replace(op, unaligned=True) for op in ops_of("ldr d0, [x1]; ldr d1, [x2]"))
    assert loop_cycles(ops, timing_of("cortex-a53")) == 2


def test_halves_that_are_narrowed_in_turn_wait_only_for_their_own_sources() -> None:
    # dav1d's avg on an A53: with the wait for the half that stays, 19 to 24 % slower than silicon.
    timing = timing_of("cortex-a53")
    both = ops_of("sqrshrun v0.8b, v1.8h, #4; sqrshrun2 v0.16b, v2.8h, #4")
    assert block_cycles(both, timing) == 2


# KleidiAI 495f652, PerformanceParameters of arm_gemm: multiply-adds a cycle of whole runs.
@pytest.mark.parametrize(
    ("core", "form", "macs", "published", "within"),
    [
        ("cortex-a510", "fmla v{d}.4s, v30.4s, v31.s[1]", 4, 4.98, 0.03),
        ("cortex-a510", "sdot v{d}.4s, v30.16b, v31.4b[1]", 16, 19.73, 0.03),
        ("cortex-a510", "smmla v{d}.4s, v30.16b, v31.16b", 32, 48.25, 0.03),
        ("cortex-a510", "bfmmla v{d}.4s, v30.8h, v31.8h", 16, 7.82, 0.03),
        ("cortex-a55", "fmla v{d}.4s, v30.4s, v31.s[1]", 4, 3.954, 0.03),
        ("neoverse-v1", "fmla v{d}.4s, v30.4s, v31.s[1]", 4, 14.95, 0.08),
    ],
)
def test_products_alone_are_as_fast_as_arms_loops(
    core: str, form: str, macs: int, published: float, within: float
) -> None:
    ops = ops_of("; ".join(form.format(d=n) for n in range(24)))
    assert macs * len(ops) / loop_cycles(ops, timing_of(core)) == pytest.approx(published, rel=within)


def test_an_a73_dispatches_a_128_bit_product_in_three_slots() -> None:
    # 48 FMLA, 10 loads and 7 more take 66.5 cycles on silicon; the model comes to 57 of them, from 48.
    text = "; ".join(f"fmla v{n % 24}.4s, v30.4s, v31.s[1]" for n in range(48))
    text += "; " + "; ".join(f"ldr q{24 + n % 6}, [x1]" for n in range(10))
    text += "; " + "; ".join(["prfm pldl1keep, [x1]"] * 3 + ["add x2, x2, #1"] * 4)
    assert loop_cycles(ops_of(text), timing_of("cortex-a73")) == pytest.approx(66.5, rel=0.16)


def test_48_products_of_integers_take_an_a510_as_long_as_arms_8x12_tile() -> None:
    # KleidiAI 495f652, a64_gemm_u16_8x12 on an A510: about 38.8 cycles; LLVM's table comes to 24.
    text = "; ".join(f"mla v{n % 24}.8h, v30.8h, v31.h[1]" for n in range(48))
    assert loop_cycles(ops_of(text), timing_of("cortex-a510")) == pytest.approx(38.8, rel=0.02)


# Relative times of dav1d (d835c6bf, 8141546d, 62501cc7), none of them held out: which form is the slower one.
@pytest.mark.parametrize(
    ("core", "slow", "quick"),
    [
        ("cortex-a55", "st1 {{v{d}.16b, v{e}.16b}}, [x1]", "str q{d}, [x1]"),
        ("cortex-a510", "st1 {{v{d}.16b, v{e}.16b}}, [x1]", "stp q{d}, q{e}, [x1]"),
        ("cortex-a510", "ld1 {{v{d}.16b}}, [x1]", "ldr q{d}, [x1]"),
        ("cortex-a510", "st1 {{v{d}.h}}[0], [x1]", "st1 {{v{d}.d}}[1], [x1]"),
        ("cortex-a510", "bfmmla v{d}.4s, v30.8h, v31.8h", "bfdot v{d}.4s, v30.8h, v31.2h[1]"),
    ],
)
def test_forms_that_silicon_takes_longer_for(core: str, slow: str, quick: str) -> None:
    def cycles(form: str) -> float:
        ops = ops_of("; ".join(form.format(d=n, e=n + 1) for n in range(0, 16, 2)))
        return loop_cycles(ops, timing_of(core))

    assert cycles(slow) >= 1.5 * cycles(quick)


@pytest.mark.parametrize("core", ["cortex-a76", "cortex-a78", "cortex-a715", "cortex-a720", "cortex-a725"])
def test_a_pair_of_128_bit_registers_is_stored_as_quickly_as_by_st1(core: str) -> None:
    pair, st1 = (
        "; ".join(form.format(n, n + 1) for n in range(0, 16, 2))
        for form in ("stp q{0}, q{1}, [x1]", "st1 {{v{0}.16b, v{1}.16b}}, [x1]")
    )
    assert loop_cycles(ops_of(pair), timing_of(core)) == loop_cycles(ops_of(st1), timing_of(core))


def test_an_x925_and_an_x3_store_pairs_as_often_as_single_registers() -> None:
    # LLVM's C1-Ultra model, from the guide of the core after them: two a cycle of each form, where V2's has one.
    forms = ("str q{0}, [x1]", "stp q{0}, q{1}, [x1]", "st1 {{v{0}.s}}[1], [x1]")
    bodies = [ops_of("; ".join(form.format(n, n + 1) for n in range(16))) for form in forms]
    cores = ("cortex-x925", "cortex-x3", "neoverse-v2")
    rates = {core: [16 / loop_cycles(ops, timing_of(core)) for ops in bodies] for core in cores}
    assert rates == {"cortex-x925": [2, 2, 2], "cortex-x3": [2, 2, 1], "neoverse-v2": [2, 1, 1]}


@pytest.mark.parametrize("core", ["cortex-a76", "cortex-a78", "cortex-x1", "neoverse-v1", "neoverse-v2"])
def test_a_lane_is_moved_before_it_is_stored(core: str) -> None:
    # dav1d's avg_w4 in 16 bits (ec5c3052, not held out): 0.88 to 0.97 of the time with st1 of a register for lane 0.
    move = {use.any_of for use in timing_of(core).of("st1_lane").units} - {("l",), ("l01",)}
    assert len(timing_of(core).of("st1_lane").units) == len(timing_of(core).of("st1_q").units) + 1 and move
    beside = "; add v5.8h, v6.8h, v7.8h; add v8.8h, v6.8h, v7.8h" * (2 if core in ("cortex-a76", "cortex-a78") else 4)
    lane, whole = (
        loop_cycles(ops_of(f"st1 {form}, [x1]{beside}"), timing_of(core)) for form in ("{v0.d}[0]", "{v0.8b}")
    )
    assert lane > whole


def test_an_a715_stores_a_lane_as_a_register() -> None:
    lane, whole = (ops_of(f"st1 {form}, [x1]; add v5.8h, v6.8h, v7.8h") for form in ("{v0.d}[0]", "{v0.8b}"))
    assert loop_cycles(lane, timing_of("cortex-a715")) == loop_cycles(whole, timing_of("cortex-a715"))


def test_an_a720_has_the_rows_of_its_guide() -> None:
    # Arm Cortex-A720 Software Optimization Guide, tables 3-19 and 3-20: latency, and instructions a cycle.
    timing = timing_of("cortex-a720")
    published = {"ld1r": (6, 3), "ld1_lane": (8, 2), "ldr_q": (6, 3)}
    published |= {"st1_lane": (2, 2), "st1_q2": (2, 2), "stp_q": (2, 2)}
    assert {name: (timing.of(name).latency, timing.of(name).per_cycle) for name in published} == published


# insn_bench_aarch64 5145ffc on an A53; an A55's pairs: 8 str q written as 4 stp q are no quicker on silicon.
@pytest.mark.parametrize(
    ("core", "form", "published"),
    [
        ("cortex-a53", "ld2r {{v{d}.4s, v{e}.4s}}, [x1]", 0.99),
        ("cortex-a53", "ld3r {{v{d}.4s, v{e}.4s, v{f}.4s}}, [x1]", 0.50),
        ("cortex-a53", "ld4r {{v{d}.4s, v{e}.4s, v{f}.4s, v{g}.4s}}, [x1]", 0.50),
        ("cortex-a53", "ld2 {{v{d}.s, v{e}.s}}[1], [x1]", 0.99),
        ("cortex-a53", "ld4 {{v{d}.s, v{e}.s, v{f}.s, v{g}.s}}[1], [x1]", 0.50),
        ("cortex-a55", "sadalp v{d}.4s, v30.8h", 0.5),
        ("cortex-a55", "str q{d}, [x1]", 0.5),
        ("cortex-a55", "stp q{d}, q{e}, [x1]", 0.25),
    ],
)
def test_structures_of_a_lane_and_pairs_take_what_silicon_takes(core: str, form: str, published: float) -> None:
    ops = ops_of("; ".join(form.format(d=n, e=n + 1, f=n + 2, g=n + 3) for n in range(0, 24, 4)))
    assert len(ops) / loop_cycles(ops, timing_of(core)) == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize("core", ["cortex-a53", "cortex-a55"])
def test_a_loaded_half_is_inserted_after_three_cycles(core: str) -> None:
    ldr, ins = ops_of("ldr x2, [x1]; ins v0.d[1], x2")
    assert timing_of(core).latency(ldr.op_class, ins.op_class) == 3
