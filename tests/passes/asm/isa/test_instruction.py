"""Classes, roles and names of instructions; wrong operands are refused, unknown ones have no effects."""

from __future__ import annotations

from pathlib import Path

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.passes.asm.analysis.blocks import functions_of
from mavcg.passes.asm.isa import effects as isa_memory
from mavcg.passes.asm.isa import mnemonics as isa_rows
from mavcg.passes.asm.isa.effects import Malformed
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.source import parse_source
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.toolchain.zig import run_zig
from tests.passes.asm import instr_forms
from tests.passes.asm.isa.form_effects import effects_of, encodings


def test_every_mnemonic_of_the_tables_has_a_form() -> None:
    tables = {*isa_rows.INTEGER, *isa_rows.VECTOR, *isa_rows.SCALAR_FP}
    tables |= {*isa_memory.LOADS, *isa_memory.STORES, *isa_memory.PAIRS}
    assert tables - {form.split()[0] for form in instr_forms.ALL} == set()


def test_instructions_print_as_what_they_are() -> None:
    """Printed from its parts, and with each register replaced by itself, an instruction has the same encoding."""
    head = ".text\n.arch armv8.6-a+fp16+fp16fml+dotprod+i8mm+bf16+crypto+sha3+rdm+crc\nfixed:\n"
    instrs = [parse_instr(form) for form in instr_forms.ALL]
    again = [instr.with_registers(tuple(reg.name for reg in instr.registers())) for instr in instrs]
    assert again == instrs
    code = assemble_image(head + "\n".join(map(str, again)) + "\n").sections[0].data
    wrong = [form for at, form in enumerate(instr_forms.ALL) if code[4 * at : 4 * at + 4] != encodings()[form]]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        "frobnicate x0, x1",
        "ldr x0, =0x1234",
        "ldr x0, fixed",
        "ldar x0, [x1]",
        "ldxr x0, [x1]",
        "stlr w0, [x1]",
        "cas x0, x1, [x2]",
        "swp x0, x1, [x2]",
        "ldadd x0, x1, [x2]",
        "mrs x0, fpcr",
        "msr nzcv, x0",
        "dmb ish",
        "svc #0",
        "brk #1",
        "bti c",
        "paciasp",
        "retaa",
        "braa x0, x1",
        "fjcvtzs w0, d1",
        "add z0.s, z1.s, z2.s",
        "add x0, x1, \\reg",
        "ptrue p0.s",
        "ldr z0, [x1]",
        "ldr x0, [z1.d]",
        "dc zva, x0",
        "stg x0, [x1]",
        "cntb x0",
        "addvl x0, x1, #1",
        "mov v0.4s, v1.4s[1]foo",
        "fadd z0.s, p0/m, z0.s, z1.s",
        "mov z0.s, p0/m, z1.s",
    ],
)
def test_what_is_not_known_has_no_effects(text: str) -> None:
    assert effects(parse_instr(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "add x0, x1",
        "ldr x0",
        "ldp x0, [x1]",
        "b",
        "cbz x0",
        "tbz x0, #3",
        "fmla v0.4s, v1.4s",
        "madd x0, x1, x2",
        "csel x0, x1, x2",
        "ld1 { v0.4s }",
        "fadd s0, s1",
        "zip1 v0.4s, v1.4s",
        "tbl v0.16b, { v1.16b }",
        "smax v0.4s, v1.4s",
        "movk",
        "cmp x0",
        "cset x0",
        "lsl x0, x1",
        "prfm pldl1keep",
        "mov x0",
        "ins v0.s[1]",
        "add",
        "ubfx x0, x1, #3",
        "ext v0.16b, v1.16b, v2.16b",
        "scvtf s0",
        "add x0, x1, x2, x3, x4",
        "ldr x0, [x1], #8, #9",
    ],
)
def test_operands_that_are_missing_are_an_error(text: str) -> None:
    with pytest.raises(Malformed):
        effects(parse_instr(text))


def test_a_pair_of_two_sizes_is_no_instruction() -> None:  # found by fuzzing
    for text in ("ldp q1, v0, [x1], #32", "ldp x0, w1, [x2]", "stp d0, q1, [x2]"):
        assert effects(parse_instr(text)) is None
    assert effects_of("stp x0, xzr, [x2]").op_class == effects_of("ldp x0, x1, [x2]").op_class.replace("ldp", "stp")


def test_an_address_with_a_vector_register_is_no_instruction() -> None:  # found by fuzzing
    for text in ("ldr q0, [x0], v26", "ldr q0, [v1]", "ld1 { v0.4s }, [x0], v3", "prfm pldl1keep, [v0]"):
        assert effects(parse_instr(text)) is None


@pytest.mark.parametrize(
    ("text", "op_class"),
    [
        ("add x0, x1, x2", "alu"),
        ("add x0, x1, x2, lsl #3", "alu_shifted"),
        ("add x0, x1, w2, sxtw", "alu_shifted"),
        ("add x0, x1, x2, lsl #4", "alu_shifted"),
        ("add x0, x1, x2, lsl #5", "alu_far_shift"),
        ("subs x0, x1, x2, lsr #1", "alu_far_shift"),
        ("cmp x1, x2, asr #3", "alu_far_shift"),
        ("eor x0, x1, x2, ror #17", "alu_shifted"),
        ("add x0, x1, w2, uxtw #3", "alu_shifted"),
        ("adds x0, x1, #1", "alu_flags"),
        ("lsl x0, x1, #3", "bitfield"),
        ("lsl x0, x1, x2", "shift"),
        ("mul w0, w1, w2", "mul_w_plain"),
        ("mul x0, x1, x2", "mul_x_plain"),
        ("umull x0, w1, w2", "mull_plain"),
        ("madd w0, w1, w2, w3", "mul_w"),
        ("madd x0, x1, x2, x3", "mul_x"),
        ("umaddl x0, w1, w2, x3", "mull"),
        ("sha1c q0, s1, v2.4s", "sha1_hash"),
        ("sha256h q0, q1, v2.4s", "sha256_hash"),
        ("sha1h s0, s1", "sha_schedule"),
        ("sha512h2 q0, q1, v2.2d", "sha512_hash"),
        ("sha512su0 v0.2d, v1.2d", "sha_schedule"),
        ("sdiv w0, w1, w2", "div_w"),
        ("mov x0, #1", "mov_imm"),
        ("mov x0, x1", "alu"),
        ("ldr q0, [x1]", "ldr_q"),
        ("ldr d0, [x1]", "ldr_d"),
        ("ldr s0, [x1]", "ldr_s"),
        ("ldr b0, [x1]", "ldr_s"),
        ("ldr w0, [x1]", "ldr_x"),
        ("ldrsw x0, [x1]", "ldr_x"),
        ("ldp q0, q1, [x1]", "ldp_q"),
        ("ldp w0, w2, [x1]", "ldp_x"),
        ("str q0, [x1]", "str_q"),
        ("str s0, [x1]", "str_d"),
        ("stp d0, d1, [x1]", "stp_d"),
        ("ld1 { v0.4s }, [x1]", "ld1_q"),
        ("ld1 { v0.2s }, [x1]", "ld1_d"),
        ("ld1 { v0.2s, v1.2s }, [x1]", "ld1_d2"),
        ("ld3 { v0.8b-v2.8b }, [x1]", "ld3_d"),
        ("st1 { v0.8b }, [x1]", "st1_d"),
        ("st1 { v0.4h-v3.4h }, [x1]", "st1_d4"),
        ("st2 { v0.8b, v1.8b }, [x1]", "st2_d"),
        ("ld1 { v0.b }[0xa], [x1]", "ld1_lane"),
        ("uaba v0.8h, v1.8h, v2.8h", "aba_q"),
        ("uabal2 v0.8h, v1.16b, v2.16b", "abal_q"),
        ("ld1 { v0.s }[1], [x1]", "ld1_lane"),
        ("ld1r { v0.4s }, [x1]", "ld1r"),
        ("ld1 { v0.4s, v1.4s }, [x1]", "ld1_q2"),
        ("st1 { v0.4s-v3.4s }, [x1]", "st1_q4"),
        ("ld4 { v0.4s-v3.4s }, [x1]", "ld4_q"),
        ("fmla v0.4s, v1.4s, v2.4s", "fmla_q"),
        ("fmla v0.2s, v1.2s, v2.s[1]", "fmla_lane_d"),
        ("fmla v0.4s, v1.4s, v2.s[1]", "fmla_lane_q"),
        ("sdot v0.4s, v1.16b, v2.4b[1]", "dot_lane_q"),
        ("sdot v0.2s, v1.8b, v2.8b", "dot_d"),
        ("smmla v0.4s, v1.16b, v2.16b", "mmla_q"),
        ("bfdot v0.4s, v1.8h, v2.8h", "bfdot_q"),
        ("bfdot v0.4s, v1.8h, v2.2h[1]", "bfdot_lane_q"),
        ("bfmmla v0.4s, v1.8h, v2.8h", "bfmmla_q"),
        ("bfmlalb v0.4s, v1.8h, v2.8h", "bfmlal_q"),
        ("st1 { v0.s }[1], [x1]", "st1_lane"),
        ("st1 { v0.d }[1], [x1]", "st1_lane_d"),
        ("mla v0.8h, v1.8h, v2.h[1]", "mla_lane_q"),
        ("smlal v0.4s, v1.4h, v2.h[1]", "mlal_lane_q"),
        ("fadd s0, s1, s2", "fadd_s"),
        ("fdiv d0, d1, d2", "fdiv_f64"),
        ("fsqrt s0, s1", "fsqrt_s"),
        ("fmadd s0, s1, s2, s3", "fmadd_s"),
        ("fmov x0, d1", "fmov_to_gpr"),
        ("fmov d0, x1", "fmov_from_gpr"),
        ("scvtf s0, w1", "cvt_from_gpr"),
        ("fcvtzs w0, s1", "cvt_to_gpr"),
        ("scvtf v0.4s, v1.4s", "fcvt_q"),
        ("ins v0.d[1], x1", "ins"),
        ("mov v0.s[1], v1.s[0]", "ins_lane"),
        ("umov w0, v1.s[1]", "umov"),
        ("dup v0.4s, w1", "dup_gpr"),
        ("dup v0.4s, v1.s[1]", "dup_lane_q"),
        ("mov v0.16b, v1.16b", "logic_q"),
        ("and v0.8b, v1.8b, v2.8b", "logic_d"),
        ("add d0, d1, d2", "add_d"),
        ("tbl v0.8b, { v1.16b, v2.16b }, v3.8b", "tbl2"),
        ("movi v0.2d, #0", "movi_zero"),
        ("movi v0.4s, #0", "movi_zero"),
        ("movi v0.8b, #0", "movi_zero"),
        ("movi d0, #0", "movi_zero"),
        ("movi v0.4s, #1", "movi"),
        ("movi d0, #0xff00ff", "movi"),
        ("movi v0.4s, #0, lsl #8", "movi"),
        ("mvni v0.4s, #0", "movi"),
        ("fmov v0.4s, #1.0", "movi"),
        ("eor v0.16b, v0.16b, v0.16b", "logic_q"),  # no source says that this form is not executed
        # Stems that are also names of integer classes.
        ("smull v0.8h, v1.8b, v2.8b", "mull_q"),
        ("umull2 v0.4s, v1.8h, v2.8h", "mull_q"),
        ("sqdmull v0.4s, v1.4h, v2.h[1]", "mull_q"),
        ("pmull v0.8h, v1.8b, v2.8b", "mull_q"),
        ("sqdmull s0, h1, h2", "mull_q"),
        ("shl v0.4s, v1.4s, #3", "shift_q"),
        ("ushr v0.2s, v1.2s, #3", "shift_d"),
        ("sshr v0.16b, v1.16b, #3", "shift_q"),
        ("shl d0, d1, #3", "shift_d"),
        ("ld2 { v0.s, v1.s }[1], [x1]", "ld2_lane"),
        ("ld3 { v0.b-v2.b }[7], [x1]", "ld3_lane"),
        ("ld4 { v0.d-v3.d }[1], [x1]", "ld4_lane"),
        ("ld2r { v0.4s, v1.4s }, [x1]", "ld2r"),
        ("ld3r { v0.8b-v2.8b }, [x1]", "ld3r"),
        ("ld4r { v0.4s-v3.4s }, [x1]", "ld4r"),
        ("st2 { v0.s, v1.s }[1], [x1]", "st2_lane"),
        ("st4 { v0.h-v3.h }[3], [x1]", "st4_lane"),
        ("xtn v0.4h, v1.4s", "xtn_q"),
        ("addv s0, v1.4s", "addv_q"),
        ("nop", "nop"),
        ("b.eq fixed", "branch_cond"),
    ],
)
def test_classes(text: str, op_class: str) -> None:
    assert effects_of(text).op_class == op_class


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("fmla v0.4s, v1.4s, v2.s[0]", {"v0": "acc", "v1": "", "v2": ""}),
        ("ins v0.d[1], x1", {"v0": "acc", "x1": ""}),
        ("ldr q0, [x1, x2]", {"x1": "addr", "x2": "addr"}),
        ("str q0, [x1], #16", {"v0": "data", "x1": "addr"}),
        ("ld1 { v0.s }[1], [x1], x2", {"v0": "acc", "x1": "addr", "x2": "addr"}),
        ("stp x0, x2, [sp, #-16]!", {"x0": "data", "x2": "data", "sp": "addr"}),
    ],
)
def test_roles(text: str, roles: dict[str, str]) -> None:
    assert {a.register: a.role for a in effects_of(text).accesses if a.read} == roles


def test_a_return_reads_the_link_register() -> None:
    assert effects_of("ret").reads() == {"x30"}
    assert effects_of("ret x5").reads() == {"x5"}


@pytest.mark.parametrize("text", ["b.al out", "b.nv out"])
def test_always_is_a_jump(text: str) -> None:
    assert (effects_of(text).flow, effects_of(text).reads_flags) == ("jump", False)


KERNELS = """
#include <math.h>
#include <stdint.h>
void gemm(const float *restrict a, const float *restrict b, float *restrict c, int k) {
  float s[8][8] = {{0}};
  for (int p = 0; p < k; p++)
    for (int i = 0; i < 8; i++)
      for (int j = 0; j < 8; j++) s[i][j] += a[p * 8 + i] * b[p * 8 + j];
  for (int i = 0; i < 64; i++) c[i] += s[i / 8][i % 8];
}
int dot(const int8_t *a, const int8_t *b, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s; }
void sat(const int16_t *a, int8_t *o, int n) {
  for (int i = 0; i < n; i++) { int v = (a[i] * 3 + 7) >> 4; o[i] = v > 127 ? 127 : v < -128 ? -128 : v; }
}
void root(double *a, const double *b, int n) { for (int i = 0; i < n; i++) a[i] = sqrt(b[i]) / (1 + fabs(a[i])); }
void rgb(uint8_t *o, const uint8_t *i, int n) {
  for (int k = 0; k < n; k++) o[k] = (i[3 * k] * 77 + i[3 * k + 1] * 150 + i[3 * k + 2] * 29) >> 8;
}
uint64_t hash(const uint64_t *p, int n) {
  uint64_t h = 1469598103934665603ull;
  for (int i = 0; i < n; i++) { h ^= p[i]; h *= 1099511628211ull; h = h << 13 | h >> 51; h += __builtin_popcountll(h); }
  return h;
}
long jump(int x, long a) {
  switch (x) { case 0: return a + 1; case 1: return a * 3; case 2: return a / 5; case 3: return a ^ 9;
    case 4: return ~a; }
  return 0;
}
_Float16 half(const _Float16 *a, int n) { _Float16 s = 0; for (int i = 0; i < n; i++) s += a[i] * a[i]; return s; }
void narrow(float *o, const double *a, int n) { for (int i = 0; i < n; i++) o[i] = a[i] > 0 ? a[i] : 0; }
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("core", ["cortex_a53", "cortex_a55", "cortex_a76", "cortex_x1"])
def test_all_that_a_compiler_emits_is_known(core: str, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(KERNELS)
    flags = ["-target", "aarch64-linux-gnu.2.17", f"-mcpu={core}", "-O3", "-ffast-math", "-g0", "-fno-sanitize=all"]
    run_zig("cc", [*flags, "-S", "k.c", "-o", "k.s"], "compiling", tmp_path)
    text = (tmp_path / "k.s").read_text()
    statements = parse_source(text)
    assert "".join(s.text for s in statements) == text
    functions = functions_of(statements)
    assert len(functions) == 9 and not any(f.frozen for f in functions)
    lines = [line for f in functions for block in f.blocks for line in block.lines]
    assert [statements[line.statement].code for line in lines if line.effects is None] == []
    assert len(lines) > 400
