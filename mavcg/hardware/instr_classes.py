"""Instruction classes of AArch64: each core's file gives timing by class, and the pipeline models look it up by class.

A class contains instructions with the same timing on every known core. LLVM's scheduling models are evaluated on its
example instruction. If a core's file has no timing of a class, the parent's is used, which is never cheaper: for
example, a 64-bit vector form uses the timing of the 128-bit form.
"""

from dataclasses import dataclass
from functools import cache

FAMILIES = ("integer", "branch", "load", "store", "fp", "vector")
# Roles of an operand that forwarding latencies may depend on: the accumulator that is added to (or the register that an
# insert changes half of), a part of an address, the data of a store, the register that an ALU operation shifts.
ROLES = ("acc", "addr", "data", "shifted")


@dataclass(frozen=True)
class InstrClass:
    """An instruction class: its family, an example instruction, and the class whose timing it uses if it has none."""

    name: str
    family: str
    example: str
    parent: str | None = None


_TABLE = """
integer alu            add x0, x1, x2
integer alu_flags      adds x0, x1, x2                         alu
integer alu_shifted    add x0, x1, x2, lsl #3
integer alu_far_shift  add x0, x1, x2, lsl #17                 alu_shifted
integer shift          lsl x0, x1, x2                          alu_shifted
integer bitfield       ubfx x0, x1, #3, #5                     alu_shifted
integer ror_imm        ror x0, x1, #3                          bitfield
integer bits           clz x0, x1                              alu_shifted
integer csel           csel x0, x1, x2, eq                     alu
integer ccmp           ccmp x0, x1, #0, eq                     alu
integer mov_imm        mov x0, #5                              alu
integer adr            adrp x0, 0                              alu
integer mul_w          madd w0, w1, w2, w3                     mul_x
integer mul_x          madd x0, x1, x2, x3
integer mull           smaddl x0, w1, w2, x3                   mul_x
integer mul_w_plain    mul w0, w1, w2                          mul_w
integer mul_x_plain    mul x0, x1, x2                          mul_x
integer mull_plain     umull x0, w1, w2                        mull
integer mulh           umulh x0, x1, x2                        mul_x
integer div_w          sdiv w0, w1, w2                         div_x
integer div_x          sdiv x0, x1, x2
integer crc            crc32x w0, w1, x2                       mul_x
integer nop            nop
integer writeback      add x0, x0, #16                         alu
branch  branch         b 16
branch  branch_cond    b.ne 16                                 branch
branch  branch_test    cbnz x0, 16                             branch
branch  branch_reg     br x0                                   branch
branch  call           bl 16                                   branch
load    ldr_x          ldr x0, [x1]
load    ldp_x          ldp x0, x1, [x2]
load    ldr_s          ldr s0, [x0]                            ldr_d
load    ldr_d          ldr d0, [x0]
load    ldr_q          ldr q0, [x0]
load    ldp_s          ldp s0, s1, [x0]                        ldp_d
load    ldp_d          ldp d0, d1, [x0]
load    ldp_q          ldp q0, q1, [x0]
load    ld1_lane       ld1 {v0.s}[1], [x0]
load    ld1_lane_d     ld1 {v0.d}[1], [x0]                    ld1_lane
load    ld1r           ld1r {v0.4s}, [x0]
load    ld1_d          ld1 {v0.8b}, [x0]                       ld1_q
load    ld1_q          ld1 {v0.4s}, [x0]
load    ld1_q2         ld1 {v0.4s, v1.4s}, [x0]
load    ld1_q3         ld1 {v0.4s, v1.4s, v2.4s}, [x0]
load    ld1_q4         ld1 {v0.4s, v1.4s, v2.4s, v3.4s}, [x0]
load    ld1_d2         ld1 {v0.8b, v1.8b}, [x0]                ld1_q2
load    ld1_d3         ld1 {v0.8b, v1.8b, v2.8b}, [x0]         ld1_q3
load    ld1_d4         ld1 {v0.8b, v1.8b, v2.8b, v3.8b}, [x0]   ld1_q4
load    ld2_q          ld2 {v0.4s, v1.4s}, [x0]
load    ld3_q          ld3 {v0.4s, v1.4s, v2.4s}, [x0]
load    ld4_q          ld4 {v0.4s, v1.4s, v2.4s, v3.4s}, [x0]
load    ld2_d          ld2 {v0.8b, v1.8b}, [x0]                ld2_q
load    ld3_d          ld3 {v0.8b, v1.8b, v2.8b}, [x0]         ld3_q
load    ld4_d          ld4 {v0.8b, v1.8b, v2.8b, v3.8b}, [x0]   ld4_q
load    ld2_lane       ld2 {v0.s, v1.s}[1], [x0]               ld2_q
load    ld3_lane       ld3 {v0.s, v1.s, v2.s}[1], [x0]         ld3_q
load    ld4_lane       ld4 {v0.s, v1.s, v2.s, v3.s}[1], [x0]   ld4_q
load    ld2r           ld2r {v0.4s, v1.4s}, [x0]               ld2_q
load    ld3r           ld3r {v0.4s, v1.4s, v2.4s}, [x0]        ld3_q
load    ld4r           ld4r {v0.4s, v1.4s, v2.4s, v3.4s}, [x0]   ld4_q
load    prfm           prfm pldl1keep, [x0]
store   str_x          str x0, [x1]
store   stp_x          stp x0, x1, [x2]
store   str_d          str d0, [x0]
store   str_q          str q0, [x0]
store   stp_d          stp d0, d1, [x0]
store   stp_q          stp q0, q1, [x0]
store   st1_lane       st1 {v0.s}[1], [x0]
store   st1_lane_d     st1 {v0.d}[1], [x0]                    st1_lane
store   st1_q          st1 {v0.4s}, [x0]
store   st1_d          st1 {v0.8b}, [x0]                       st1_q
store   st1_q2         st1 {v0.4s, v1.4s}, [x0]
store   st1_q3         st1 {v0.4s, v1.4s, v2.4s}, [x0]
store   st1_q4         st1 {v0.4s, v1.4s, v2.4s, v3.4s}, [x0]
store   st1_d2         st1 {v0.8b, v1.8b}, [x0]                st1_q2
store   st1_d3         st1 {v0.8b, v1.8b, v2.8b}, [x0]         st1_q3
store   st1_d4         st1 {v0.8b, v1.8b, v2.8b, v3.8b}, [x0]   st1_q4
store   st2_q          st2 {v0.4s, v1.4s}, [x0]
store   st3_q          st3 {v0.4s, v1.4s, v2.4s}, [x0]
store   st4_q          st4 {v0.4s, v1.4s, v2.4s, v3.4s}, [x0]
store   st2_d          st2 {v0.8b, v1.8b}, [x0]                st2_q
store   st3_d          st3 {v0.8b, v1.8b, v2.8b}, [x0]         st3_q
store   st4_d          st4 {v0.8b, v1.8b, v2.8b, v3.8b}, [x0]   st4_q
store   st2_lane       st2 {v0.s, v1.s}[1], [x0]               st2_q
store   st3_lane       st3 {v0.s, v1.s, v2.s}[1], [x0]         st3_q
store   st4_lane       st4 {v0.s, v1.s, v2.s, v3.s}[1], [x0]   st4_q
fp      fadd_s         fadd s0, s1, s2
fp      fmul_s         fmul s0, s1, s2
fp      fmadd_s        fmadd s0, s1, s2, s3
fp      fmov_s         fmov s0, s1
fp      fmov_imm       fmov s0, #1.0
fp      fcmp           fcmp s0, s1
fp      fcsel          fcsel s0, s1, s2, eq
fp      fcvt_s         frintz s0, s1
fp      fdiv_s         fdiv s0, s1, s2
fp      fdiv_f64       fdiv d0, d1, d2
fp      fsqrt_s        fsqrt s0, s1
fp      fsqrt_f64      fsqrt d0, d1
fp      fmov_from_gpr  fmov d0, x0
fp      fmov_to_gpr    fmov x0, d0
fp      cvt_from_gpr   scvtf s0, w0
fp      cvt_to_gpr     fcvtzs w0, s0
vector  fadd_q         fadd v0.4s, v1.4s, v2.4s
vector  fadd_d         fadd v0.2s, v1.2s, v2.2s                fadd_q
vector  faddp_q        faddp v0.4s, v1.4s, v2.4s
vector  faddp_d        faddp v0.2s, v1.2s, v2.2s               faddp_q
vector  fmaxv_q        fmaxv s0, v1.4s
vector  fmax_q         fmax v0.4s, v1.4s, v2.4s                fadd_q
vector  fmax_d         fmax v0.2s, v1.2s, v2.2s                fadd_d
vector  fmul_q         fmul v0.4s, v1.4s, v2.4s
vector  fmul_d         fmul v0.2s, v1.2s, v2.2s                fmul_q
vector  fmul_lane_q    fmul v0.4s, v1.4s, v2.s[1]
vector  fmul_lane_d    fmul v0.2s, v1.2s, v2.s[1]              fmul_lane_q
vector  fmla_q         fmla v0.4s, v1.4s, v2.4s
vector  fmla_d         fmla v0.2s, v1.2s, v2.2s                fmla_q
vector  fmla_lane_q    fmla v0.4s, v1.4s, v2.s[1]
vector  fmla_lane_d    fmla v0.2s, v1.2s, v2.s[1]              fmla_lane_q
vector  fcvt_q         scvtf v0.4s, v1.4s
vector  fcvt_d         scvtf v0.2s, v1.2s                      fcvt_q
vector  frecpe_q       frecpe v0.4s, v1.4s
vector  fdiv_q         fdiv v0.4s, v1.4s, v2.4s
vector  fdiv_d         fdiv v0.2s, v1.2s, v2.2s                fdiv_q
vector  fsqrt_q        fsqrt v0.4s, v1.4s
vector  add_q          add v0.4s, v1.4s, v2.4s
vector  add_d          add v0.2s, v1.2s, v2.2s                 add_q
vector  logic_q        and v0.16b, v1.16b, v2.16b              add_q
vector  logic_d        and v0.8b, v1.8b, v2.8b                 logic_q
vector  bsl_q          bsl v0.16b, v1.16b, v2.16b              logic_q
vector  bsl_d          bsl v0.8b, v1.8b, v2.8b                 bsl_q
vector  movi           movi v0.4s, #1
vector  movi_zero      movi v0.2d, #0                          movi
vector  addl_q         saddl v0.4s, v1.4h, v2.4h
vector  cnt_q          cnt v0.16b, v1.16b                      add_q
vector  cnt_d          cnt v0.8b, v1.8b                        add_d
vector  abd_q          sabd v0.4s, v1.4s, v2.4s                add_q
vector  abd_d          sabd v0.2s, v1.2s, v2.2s                add_d
vector  abdl_q         sabdl v0.4s, v1.4h, v2.4h               addl_q
vector  addhn_q        addhn v0.4h, v1.4s, v2.4s               addl_q
vector  addp_q         addp v0.4s, v1.4s, v2.4s
vector  addp_d         addp v0.2s, v1.2s, v2.2s                addp_q
vector  adalp_q        sadalp v0.4s, v1.8h
vector  adalp_d        sadalp v0.2s, v1.4h                     adalp_q
vector  aba_q          saba v0.4s, v1.4s, v2.4s                adalp_q
vector  aba_d          saba v0.2s, v1.2s, v2.2s                adalp_d
vector  abal_q         sabal v0.4s, v1.4h, v2.4h               aba_q
vector  addv_q         addv s0, v1.4s
vector  sqadd_q        sqadd v0.4s, v1.4s, v2.4s
vector  sqadd_d        sqadd v0.2s, v1.2s, v2.2s               sqadd_q
vector  mul_q          mul v0.4s, v1.4s, v2.4s
vector  mul_d          mul v0.2s, v1.2s, v2.2s                 mul_q
vector  mla_q          mla v0.4s, v1.4s, v2.4s
vector  mla_d          mla v0.2s, v1.2s, v2.2s                 mla_q
vector  mla_lane_q     mla v0.4s, v1.4s, v2.s[1]
vector  mla_lane_d     mla v0.2s, v1.2s, v2.s[1]               mla_lane_q
vector  mull_q         smull v0.8h, v1.8b, v2.8b
vector  mlal_q         smlal v0.8h, v1.8b, v2.8b
vector  mlal_lane_q    smlal v0.4s, v1.4h, v2.h[1]
vector  dot_q          sdot v0.4s, v1.16b, v2.16b
vector  dot_d          sdot v0.2s, v1.8b, v2.8b                dot_q
vector  dot_lane_q     sdot v0.4s, v1.16b, v2.4b[1]
vector  dot_lane_d     sdot v0.2s, v1.8b, v2.4b[1]             dot_lane_q
vector  bfdot_q        bfdot v0.4s, v1.8h, v2.8h               dot_q
vector  bfdot_d        bfdot v0.2s, v1.4h, v2.4h               dot_d
vector  bfdot_lane_q   bfdot v0.4s, v1.8h, v2.2h[1]            dot_lane_q
vector  bfdot_lane_d   bfdot v0.2s, v1.4h, v2.2h[1]            dot_lane_d
vector  mmla_q         smmla v0.4s, v1.16b, v2.16b
vector  bfmmla_q       bfmmla v0.4s, v1.8h, v2.8h              mmla_q
vector  bfmlal_q       bfmlalb v0.4s, v1.8h, v2.8h             bfmmla_q
vector  shift_q        shl v0.4s, v1.4s, #3
vector  shift_d        shl v0.2s, v1.2s, #3                    shift_q
vector  shift_var_q    sshl v0.4s, v1.4s, v2.4s
vector  shift_var_d    sshl v0.2s, v1.2s, v2.2s                shift_var_q
vector  shift_long_q   sshll v0.4s, v1.4h, #3                  shift_q
vector  shift_round_q  srshr v0.4s, v1.4s, #3                  shift_acc_q
vector  shift_round_d  srshr v0.2s, v1.2s, #3                  shift_acc_d
vector  shift_round_var_q srshl v0.4s, v1.4s, v2.4s            shift_var_q
vector  shift_round_var_d srshl v0.2s, v1.2s, v2.2s            shift_var_d
vector  shift_acc_q    ssra v0.4s, v1.4s, #3
vector  shift_acc_d    ssra v0.2s, v1.2s, #3                   shift_acc_q
vector  shift_insert_q sri v0.4s, v1.4s, #3                    shift_acc_q
vector  shift_insert_d sri v0.2s, v1.2s, #3                    shift_acc_d
vector  shift_narrow_q shrn v0.4h, v1.4s, #3
vector  shift_narrow_round_q sqrshrun v0.4h, v1.4s, #3         shift_narrow_q
vector  xtn_sat_q      sqxtun v0.4h, v1.4s                     xtn_q
vector  xtn_q          xtn v0.4h, v1.4s
vector  perm_q         zip1 v0.4s, v1.4s, v2.4s
vector  perm_d         zip1 v0.2s, v1.2s, v2.2s                perm_q
vector  ext_q          ext v0.16b, v1.16b, v2.16b, #4          perm_q
vector  ext_d          ext v0.8b, v1.8b, v2.8b, #4             perm_d
vector  dup_lane_q     dup v0.4s, v1.s[1]
vector  dup_gpr        dup v0.4s, w0
vector  ins            ins v0.d[1], x0
vector  ins_lane       ins v0.s[1], v1.s[0]
vector  umov           umov w0, v0.s[1]
vector  tbl1           tbl v0.16b, {v1.16b}, v2.16b
vector  tbl2           tbl v0.16b, {v1.16b, v2.16b}, v3.16b
vector  tbl3           tbl v0.16b, {v1.16b, v2.16b, v3.16b}, v4.16b
vector  tbl4           tbl v0.16b, {v1.16b, v2.16b, v3.16b, v4.16b}, v5.16b
vector  sha_hash       sha1c q0, s1, v2.4s                     crypto
vector  sha1_hash      sha1p q0, s1, v2.4s                     sha_hash
vector  sha256_hash    sha256h q0, q1, v2.4s                   sha_hash
vector  sha512_hash    sha512h q0, q1, v2.2d                   sha_hash
vector  sha_schedule   sha1su1 v0.4s, v1.4s                    crypto
vector  sha3           eor3 v0.16b, v1.16b, v2.16b, v3.16b     crypto
vector  rax1           rax1 v0.2d, v1.2d, v2.2d                sha3
vector  xar            xar v0.2d, v1.2d, v2.2d, #1             sha3
vector  crypto         aese v0.16b, v1.16b
"""


def _parse_classes(table: str) -> dict[str, InstrClass]:
    rows = (line for line in table.splitlines() if line.strip())
    classes: dict[str, InstrClass] = {}
    for row in rows:
        family, name, rest = row.split(None, 2)
        example, _, parent = rest.strip().partition("   ")
        classes[name] = InstrClass(name, family, example.strip(), parent.strip() or None)
    return classes


CLASSES: dict[str, InstrClass] = _parse_classes(_TABLE)


@cache
def lineage(name: str) -> tuple[str, ...]:
    """Return a class, its parent, the parent's parent and so on."""
    ancestors = [name]
    while (parent := CLASSES[ancestors[-1]].parent) is not None:
        ancestors.append(parent)
    return tuple(ancestors)
