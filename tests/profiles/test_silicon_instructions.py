"""Facts of Arm cores against single instructions and short sequences that silicon was measured with."""

import pytest

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.dependences import with_effects
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.isa.source import parse_source
from mavcg.passes.asm.models.estimate import loop_cycles
from mavcg.passes.asm.models.ports import port_bounds
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing


def ops_of(text: str) -> tuple[Op, ...]:
    instrs = [statement.instr for statement in parse_source(text.replace(";", "\n") + "\n")]
    return tuple(code.op for code in with_effects([instr for instr in instrs if instr is not None]))


def timing_of(core: str) -> Timing:
    return load_timing(load_core(core))


def rate(core: str, form: str, step: int = 1) -> float:
    """Instructions a cycle of those with destinations 0 to 15; `step`: registers that each writes."""
    ops = ops_of("; ".join(form.format(*range(n, n + 4)) for n in range(0, 16 - step + 1, step)))
    return len(ops) / loop_cycles(ops, timing_of(core))


# insn_bench_aarch64 5145ffc, results/raspberry-pi-4_cortex-a72.md: permutes of 128 bits.
@pytest.mark.parametrize(
    "form",
    [
        "zip1 v{0}.16b, v{0}.16b, v16.16b",
        "zip1 v{0}.4s, v{0}.4s, v16.4s",
        "trn1 v{0}.8h, v{0}.8h, v16.8h",
        "ext v{0}.16b, v{0}.16b, v16.16b, #1",
        "rev64 v{0}.16b, v{0}.16b",
    ],
)
def test_an_a72_permutes_three_times_in_two_cycles_after_three(form: str) -> None:
    assert rate("cortex-a72", form) == pytest.approx(1.5, rel=0.02)
    assert loop_cycles(ops_of(form.format(0).replace("v16", "v0")), timing_of("cortex-a72")) == 3


# insn_bench_aarch64 5145ffc, results/raspberry-pi-3_cortex-a53.md and raspberry-pi-4_cortex-a72.md: loads that
# replicate a structure of words. A whole structure's load, as which they were timed once, takes 4 to 9 cycles there.
@pytest.mark.parametrize(
    ("core", "form", "step", "published"),
    [
        ("cortex-a53", "ld1r {{v{0}.4s}}, [x1]", 1, 0.99),
        ("cortex-a53", "ld2r {{v{0}.4s, v{1}.4s}}, [x1]", 2, 0.99),
        ("cortex-a53", "ld3r {{v{0}.4s, v{1}.4s, v{2}.4s}}, [x1]", 3, 0.50),
        ("cortex-a53", "ld4r {{v{0}.4s, v{1}.4s, v{2}.4s, v{3}.4s}}, [x1]", 4, 0.50),
        ("cortex-a55", "ld3r {{v{0}.4s, v{1}.4s, v{2}.4s}}, [x1]", 3, 0.50),
        ("cortex-a72", "ld4r {{v{0}.4s, v{1}.4s, v{2}.4s, v{3}.4s}}, [x1]", 4, 0.33),
    ],
)
def test_loads_that_replicate_are_not_loads_of_whole_structures(
    core: str, form: str, step: int, published: float
) -> None:
    assert rate(core, form, step) == pytest.approx(published, rel=0.05)


def test_an_a510_takes_38_cycles_for_the_products_of_arms_8x12_loops() -> None:
    """KleidiAI 495f652, PerformanceParameters: 48 products by element take 38.6 (fmla) and 38.9 cycles (sdot)."""
    for form, published in (("fmla v{}.4s, v30.4s, v31.s[1]", 38.6), ("sdot v{}.4s, v30.16b, v31.4b[1]", 38.9)):
        ops = ops_of("; ".join(form.format(n % 24) for n in range(48)))
        assert loop_cycles(ops, timing_of("cortex-a510")) == pytest.approx(published, rel=0.02)


def test_ext_and_trn_of_128_bits_are_one_micro_operation_on_an_a57_and_zip_is_three() -> None:
    """LLVM's CortexA57Model, in two slots of three as an A72's (insn_bench: 1.50 a cycle).

    A CRC without a table was slower on an A75 than on an A55, its ext being timed as zip.
    """
    timing = timing_of("cortex-a57")
    for form in ("ext v{0}.16b, v{0}.16b, v16.16b, #8", "trn1 v{0}.4s, v{0}.4s, v16.4s", "rev64 v{0}.4s, v{0}.4s"):
        assert rate("cortex-a57", form) == pytest.approx(1.5)
        assert loop_cycles(ops_of(form.format(0).replace("v16", "v0")), timing) == 3
    assert loop_cycles(ops_of("zip1 v0.4s, v0.4s, v0.4s"), timing) == 6


# The ways of a shifted result, PQAX's Keccak (ePrint 2022/1243) and insn_bench: 1 cycle to an operand that is not
# shifted, 2 to the one that is.
@pytest.mark.parametrize("core", ["cortex-a55", "cortex-a510"])
@pytest.mark.parametrize(
    ("chain", "published"),
    [
        ("eor x0, x0, x1, ror #5", 1),
        ("eor x0, x1, x0, ror #5", 2),
        ("bic x0, x0, x1, lsl #3; add x0, x0, x2", 2),
        ("add x2, x2, x2, lsl #17", 2),
        ("ror x0, x0, #5; eor x0, x0, x1", 2),
    ],
)
def test_a_shifted_result_waits_longer_where_it_is_shifted_again(core: str, chain: str, published: int) -> None:
    assert loop_cycles(ops_of(chain), timing_of(core)) == published


# vfpbench 19d3b70a, log/*SDM845*.txt and *MSM8998*.txt: cycles of an instruction that waits for itself.
@pytest.mark.parametrize(
    ("core", "chain", "published"),
    [
        ("cortex-a75", "fmla v0.2s, v8.2s, v9.2s", 3),
        ("cortex-a75", "fmla v0.2d, v8.2d, v9.2d", 3),
        ("cortex-a75", "fmadd s0, s0, s8, s9", 5),
        ("cortex-a75-r0", "fadd v0.2s, v0.2s, v1.2s", 3),
        ("cortex-a75-r0", "fmul s0, s0, s1", 3),
        ("cortex-a75-r0", "fmla v0.4s, v0.4s, v9.4s", 5),
        ("cortex-a73", "fmla v0.2s, v8.2s, v9.2s", 3),
        ("cortex-a73", "fmul s0, s0, s1", 4),
        ("cortex-a73", "fmla v0.2s, v0.2s, v9.2s", 7),
        ("cortex-a73", "fmadd s0, s0, s8, s9", 7),
    ],
)
def test_floating_point_latencies_of_a73_and_a75(core: str, chain: str, published: int) -> None:
    assert loop_cycles(ops_of(chain), timing_of(core)) == published


def test_a_128_bit_load_reaches_vector_operations_of_an_a55_after_three_cycles() -> None:
    """LLVM's CortexA55Model; with four cycles Keccak with its state in memory takes 11 to 14 % longer than silicon."""
    assert timing_of("cortex-a55").latency("ldr_q", "logic_q") == 3


# LLVM's models, llvm-project 02cec0a and 11ee482: AES goes to both pipes of a V1, hashes and SHA-3 to one.
@pytest.mark.parametrize(
    ("core", "form", "per_cycle", "chain", "cycles"),
    [
        ("neoverse-v1", "eor3 v{0}.16b, v{0}.16b, v17.16b, v18.16b", 1, "xar v0.2d, v0.2d, v1.2d, #3", 2),
        ("neoverse-n1", "sha256h q{0}, q17, v18.4s", 1, "sha1c q0, s1, v2.4s", 4),
        ("cortex-a57", "sha256h q{0}, q17, v18.4s", 0.5, "sha256h q0, q1, v2.4s", 6),
    ],
)
def test_hashes_and_sha3_are_not_timed_as_aes(core: str, form: str, per_cycle: float, chain: str, cycles: int) -> None:
    timing = timing_of(core)
    ops = ops_of("; ".join(form.format(n) for n in range(16)))
    assert port_bounds(ops, timing).units.cycles == len(ops) / per_cycle
    assert loop_cycles(ops_of(chain), timing) == cycles


# GMP's mpn_and_n, mpn/arm64/logops_n.asm at 0422ae0fb: 2.75 to 3 cycles a limb on an A53, four limbs an iteration.
AND_N = (
    "ldp x4, x5, [x1, #16]; ldp x8, x9, [x2, #16]; and x12, x6, x10; and x13, x7, x11; stp x12, x13, [x0], #16; "
    "ldp x6, x7, [x1, #32]!; ldp x10, x11, [x2, #32]!; and x12, x4, x8; and x13, x5, x9; stp x12, x13, [x0], #16; "
    "sub x17, x17, #1; cbnz x17, .Ltop"
)


def test_an_a53_works_beside_the_second_half_of_a_pair_s_load() -> None:
    assert 11 <= loop_cycles(ops_of(AND_N), timing_of("cortex-a53")) <= 12  # 17 where nothing issued beside it


# GCC gcc/config/arm/cortex-a53.md, contributed by Arm: what an ALU computes can be stored in the next cycle.
def test_an_a53_stores_a_sum_in_the_next_cycle() -> None:
    assert loop_cycles(ops_of("add x2, x2, x3; str x2, [x0]"), timing_of("cortex-a53")) == 1
    assert loop_cycles(ops_of("ldr x2, [x1]; add x2, x2, x3; str x2, [x0]"), timing_of("cortex-a53")) <= 4


# dav1d 51b67010, ipred_smooth_v: with addhn in place of rshrn, an A55's loop of 16 pixels by 4 rows got
# 0.82 of the time of calls, where a rate of 0.5 a cycle made it 0.65.
def test_an_a55_rounds_and_narrows_twice_a_cycle() -> None:
    assert rate("cortex-a55", "rshrn v{0}.8b, v16.8h, #8") == pytest.approx(2, rel=0.02)


def chain(core: str, text: str) -> float:
    """Cycles of one pass through instructions that wait for one another."""
    return float(loop_cycles(ops_of(text), timing_of(core)))


# insn_bench_aarch64 5145ffc: products without an addend; dougallj/applecpu, firestorm: MADD [1;3] and one a cycle.
def test_a_product_without_addend_is_quicker_than_one_with() -> None:
    assert chain("cortex-a53", "mul x0, x0, x20") == 4
    assert rate("cortex-a53", "mul x{0}, x20, x21") == pytest.approx(0.50, rel=0.02)
    assert chain("cortex-a53", "madd x0, x0, x20, x21") == 5
    assert rate("cortex-a55", "mul x{0}, x20, x21") == pytest.approx(0.50, rel=0.02)  # GMP's mpn_addmul_1
    assert rate("apple-firestorm", "mul x{0}, x20, x21") == pytest.approx(2.00, rel=0.02)
    assert rate("apple-firestorm", "umull x{0}, w20, w21") == pytest.approx(2.00, rel=0.02)
    assert rate("apple-firestorm", "madd x{0}, x20, x21, x22") == pytest.approx(1.00, rel=0.02)


# vfpbench 19d3b70a, "fmadd n1" and "ns4" as they were before its commit 664d5c12, and "n1" after it on an A720.
@pytest.mark.parametrize(
    ("core", "text", "published"),
    [
        ("cortex-a78", "fmadd s0, s0, s8, s9", 4.0),
        ("cortex-a78", "fmadd s0, s8, s9, s0", 2.0),
        ("cortex-a720", "fmadd s0, s8, s9, s0", 2.0),
        ("cortex-a75", "fmadd s0, s8, s9, s0", 3.0),
        ("cortex-a53", "fmadd s0, s0, s8, s9", 8.0),
        ("cortex-a53", "fmadd s0, s8, s9, s0", 4.0),
        ("cortex-a55-r0", "fmadd s0, s0, s8, s9", 4.0),
        ("cortex-a55-r0", "fmla v0.4s, v0.4s, v9.4s", 4.0),
    ],
)
def test_an_addend_is_waited_for_less_than_a_factor(core: str, text: str, published: float) -> None:
    assert chain(core, text) == published


def test_an_integer_addend_is_waited_for_less_than_a_factor() -> None:
    assert chain("apple-firestorm", "madd x0, x20, x21, x0") == 1
    assert chain("apple-firestorm", "madd x0, x0, x21, x20") == 3
    assert chain("apple-firestorm", "smaddl x0, w20, w21, x0") == 1


# dougallj/applecpu, measurements/firestorm/SHA*.html: latencies by operand, and instructions a cycle.
@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("sha1c q0, s1, v2.4s", 4),
        ("sha1c q0, s0, v2.4s", 5),
        ("sha1h s0, s0", 2),
        ("sha256h q0, q1, v2.4s", 4),
        ("sha256h q0, q0, v2.4s", 5),
        ("sha512h q0, q1, v2.2d", 2),
        ("sha512h q0, q0, v2.2d", 3),
        ("eor3 v0.16b, v0.16b, v1.16b, v2.16b", 2),
    ],
)
def test_latencies_of_hashes_on_a_firestorm(text: str, cycles: int) -> None:
    assert chain("apple-firestorm", text) == cycles


def test_rates_of_hashes_on_a_firestorm() -> None:
    assert rate("apple-firestorm", "sha1p q{0}, s16, v17.4s") == pytest.approx(1 / 4)
    assert rate("apple-firestorm", "sha256h2 q{0}, q16, v17.4s") == pytest.approx(1 / 2)
    assert rate("apple-firestorm", "sha512h q{0}, q16, v17.2d") == pytest.approx(1 / 2)
    assert rate("apple-firestorm", "sha1su1 v{0}.4s, v17.4s") == pytest.approx(1)
    between = "sha1c q0, s16, v17.4s; sha1su1 v1.4s, v17.4s; sha1su1 v2.4s, v17.4s; sha1su1 v3.4s, v17.4s"
    assert loop_cycles(ops_of(between), timing_of("apple-firestorm")) == 4  # one slot of the unit for each of them


# insn_bench_aarch64 5145ffc, results/raspberry-pi-4_cortex-a72.md; an A57 has the same vector units. GMP's popcount and
# CRYPTOGAMS's ChaCha20 take 1.7 and 1.5 times as long on an A57 as with two counts or shifts a cycle.
@pytest.mark.parametrize("core", ["cortex-a57", "cortex-a72"])
def test_one_vector_unit_shifts_and_counts_and_three_of_four_slots_add(core: str) -> None:
    assert rate(core, "cnt v{0}.16b, v16.16b") == pytest.approx(1.0, rel=0.02)
    assert rate(core, "shl v{0}.4s, v16.4s, #2") == pytest.approx(1.0, rel=0.02)
    assert rate(core, "add v{0}.4s, v16.4s, v17.4s") == pytest.approx(1.5, rel=0.02)


# vfpbench 19d3b70a: loops of 40 products to one register issue 1.99 a cycle on an A510, 1.88 on an A520, .99 on an A55.
@pytest.mark.parametrize(("core", "cycles"), [("cortex-a510", 20), ("cortex-a520", 20), ("cortex-a55", 40)])
def test_an_a510_writes_one_register_twice_a_cycle(core: str, cycles: int) -> None:
    ops = ops_of("; ".join(["fmul s0, s8, s9"] * 40))
    assert loop_cycles(ops, timing_of(core)) == cycles


# PQAX at 864b37ee: rax1 and xar in Keccak on an A510; LLVM's table has 9 and 4 cycles.
def test_an_a510_rotates_and_xors_for_nine_cycles() -> None:
    assert loop_cycles(ops_of("rax1 v0.2d, v1.2d, v2.2d; rax1 v3.2d, v1.2d, v2.2d"), timing_of("cortex-a510")) == 18
    assert loop_cycles(ops_of("xar v0.2d, v0.2d, v2.2d, #1"), timing_of("cortex-a510")) == 4
    assert loop_cycles(ops_of("eor3 v0.16b, v0.16b, v1.16b, v2.16b"), timing_of("cortex-a510")) == 3


def test_an_a510_runs_integer_code_beside_a_chain_of_vectors() -> None:
    """An integer chain between two links of a vector chain costs nothing, as in PQAX's hybrid Keccak."""
    vectors = "eor v0.16b, v0.16b, v1.16b; eor v0.16b, v0.16b, v1.16b"
    integers = "eor x0, x0, x1; eor x0, x0, x1"
    timing = timing_of("cortex-a510")
    both = "eor v0.16b, v0.16b, v1.16b; eor x0, x0, x1; eor v0.16b, v0.16b, v1.16b; eor x0, x0, x1"
    alone = loop_cycles(ops_of(vectors), timing), loop_cycles(ops_of(integers), timing)
    assert alone == (6, 2) and loop_cycles(ops_of(both), timing) == 6


def test_an_a55_adds_vectors_in_two_cycles() -> None:
    assert chain("cortex-a55", "add v0.2d, v0.2d, v1.2d") == 2  # LLVM, insn_bench of an A53; SLOTHY: 3


# insn_bench_aarch64 5145ffc: "add (reg<<17)", latency; of the last three Arm's guides, LSL shift over 4.
@pytest.mark.parametrize(
    "core",
    [
        *("neoverse-n1", "neoverse-v1", "cortex-x1", "cortex-a76", "cortex-a72", "cortex-a53"),
        *("neoverse-v2", "cortex-x4", "cortex-a720"),
    ],
)
def test_a_sum_with_a_far_shift_takes_two_cycles(core: str) -> None:
    assert chain(core, "add x2, x2, x2, lsl #17") == 2


def test_logical_operations_shift_by_any_distance_in_one_cycle() -> None:
    """PQAX's integer Keccak, which rotates by all distances, takes 28.8 cycles a round on an X1."""
    assert chain("neoverse-v1", "eor x2, x2, x2, ror #17") == chain("neoverse-v1", "add x2, x2, x2, lsl #4") == 1


@pytest.mark.parametrize("core", ["cortex-a78", "cortex-a715", "cortex-a720"])
@pytest.mark.parametrize(
    "line",
    [
        "smlal v0.4s, v1.4h, v2.h[1]",
        "mla v0.8h, v1.8h, v2.8h",
        "sdot v0.4s, v1.16b, v2.4b[0]",
        "ssra v0.4s, v1.4s, #2",
        "sadalp v0.4s, v1.8h",
    ],
)
def test_accumulators_follow_one_another_each_cycle(core: str, line: str) -> None:
    """The Cortex-A720's guide, table 3-15: latency 3 or 4, 1 to the accumulator of the same kind of operation."""
    assert chain(core, line) == 1


def test_an_exynos_m1_is_no_m3() -> None:
    """LLVM 8's model of it: 3 ALUs for 4, 2 vector pipes for 3; a far shift is a second cycle of an ALU."""
    assert rate("exynos-m1", "add x{0}, x20, x21") == pytest.approx(3, rel=0.1)
    assert rate("exynos-m1", "add v{0}.4s, v20.4s, v21.4s") == pytest.approx(2, rel=0.1)
    assert chain("exynos-m1", "eor x2, x2, x2, ror #17") == 2 and chain("exynos-m1", "eor x2, x2, x3") == 1
    assert chain("exynos-m1", "fmla v0.4s, v1.4s, v2.4s") == 5
