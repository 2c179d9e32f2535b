"""Every mnemonic that passes/asm/isa/instruction.py knows, in every form: texts for tests of its tables.

Each row: mnemonics = operands = arrangements. <a|b> makes a form of each. `@` stands for an arrangement, `%` for the
second one of a pair such as 8h/8b. Registers differ from operand to operand, so that each can be identified.
"""

import itertools
import re
from collections.abc import Iterator

_INTEGER = """
add sub adds subs = <x0, x1, x2|w0, w1, w2|x0, x1, #5|w0, w1, #5, lsl #12|x0, x1, x2, lsl #3|w0, w1, w2, asr #3>
add sub adds subs = <x0, x1, w2, sxtw #2|x0, x1, w2, uxtb|x0, sp, x2|x0, sp, #16|x0, x1, xzr|x0, xzr, x2|w0, w1, wzr>
add sub = <sp, sp, #16|sp, x1, x2>
and orr eor ands = <x0, x1, x2|w0, w1, w2|x0, x1, #0xff|w0, w1, #7|x0, x1, x2, ror #7|x0, xzr, x2>
and orr eor = sp, x1, #0xf0
bic orn eon bics = <x0, x1, x2|w0, w1, w2|x0, x1, x2, lsl #5>
neg negs mvn = <x0, x1|w0, w1|x0, x1, lsl #3>
sxtb sxth uxtb uxth = w0, w1
sxtb sxth sxtw uxtw = x0, w1
adc sbc adcs sbcs = <x0, x1, x2|w0, w1, w2|x0, x1, xzr>
ngc ngcs = <x0, x1|w0, w1>
cmp cmn = <x0, x1|w0, w1|x0, #5|sp, #5|x0, x1, lsl #2|x0, w1, uxtw #1|xzr, x1>
tst = <x0, x1|w0, #7|x0, x1, asr #3>
ccmp ccmn = <x0, x1, #5, eq|w0, w1, #0, lt|x0, #3, #15, hi|w0, #3, #1, cs>
movz movn = <x0, #5|w0, #7, lsl #16|x0, #9, lsl #48>
movk = <x0, #5|w0, #7, lsl #16|x0, #9, lsl #48>
mov = <x0, x1|w0, w1|x0, sp|sp, x1|x0, #5|w0, #-1|x0, xzr|x0, #0xff00ff00ff00ff00|x0, #0x10000>
adr adrp = x0, fixed
lsl lsr asr ror = <x0, x1, x2|w0, w1, w2|x0, x1, #7|w0, w1, #7>
lslv lsrv asrv rorv = <x0, x1, x2|w0, w1, w2>
ubfx sbfx ubfiz sbfiz = <x0, x1, #3, #9|w0, w1, #3, #9>
ubfm sbfm bfm = <x0, x1, #3, #9|w0, w1, #9, #3>
extr = <x0, x1, x2, #9|w0, w1, w2, #9>
bfi bfxil = <x0, x1, #3, #9|w0, w1, #3, #9>
bfc = <x0, #3, #9|w0, #3, #9>
clz cls rbit rev rev16 = <x0, x1|w0, w1>
rev32 rev64 = x0, x1
csel csinc csinv csneg = <x0, x1, x2, eq|w0, w1, w2, gt|x0, x1, xzr, ls|x0, xzr, x2, ne>
cinc cinv cneg = <x0, x1, eq|w0, w1, gt>
cset csetm = <x0, eq|w0, gt>
smaddl umaddl smsubl umsubl = x0, w1, w2, x3
smull umull smnegl umnegl = x0, w1, w2
smulh umulh = x0, x1, x2
mul mneg sdiv udiv = <x0, x1, x2|w0, w1, w2>
madd msub = <x0, x1, x2, x3|w0, w1, w2, w3|x0, x1, x2, xzr>
crc32b crc32h crc32w crc32cb crc32ch crc32cw = w0, w1, w2
crc32x crc32cx = w0, w1, x2
nop =
"""
_BRANCHES = """
b bl = fixed
b.eq b.ne b.hs b.cs b.lo b.cc b.mi b.pl b.vs b.vc b.hi b.ls b.ge b.lt b.gt b.le b.al b.nv = fixed
cbz cbnz = <x0, fixed|w0, fixed>
tbz tbnz = <x0, #40, fixed|w0, #3, fixed>
br blr ret = x1
ret =
"""
_MEMORY = """
ldr = <x0|w0|b0|h0|s0|d0|q0>, <[x1]|[sp]|[x1, #16]|[x1], #16|[x1, #16]!|[x1, x2]|[x1, w2, sxtw]|[x1, w2, uxtw]>
str = <x0|w0|b0|h0|s0|d0|q0>, <[x1]|[sp]|[x1, #16]|[x1], #-16|[x1, #16]!|[x1, x2]|[x1, w2, sxtw]|[x1, x2, sxtx]>
ldr str = <q0, [x1, x2, lsl #4]|q0, [x1, w2, sxtw #4]|d0, [x1, x2, lsl #3]|w0, [x1, w2, uxtw #2]|h0, [x1, x2, lsl #1]>
ldr str = <q0, [sp, #-16]!|x0, [sp], #16|xzr, [x1]|wzr, [x1, #4]|x0, [x1, #-3]|q0, [x1, #65520]|x0, [x1, xzr]>
ldr = x0, [x0]
ldur stur = <x0|w0|b0|h0|s0|d0|q0>, <[x1]|[x1, #-9]>
ldrb ldrh strb strh ldrsb ldrsh = w0, <[x1]|[x1, #16]|[x1], #3|[x1, #-3]!|[x1, x2]|[x1, w2, sxtw]>
ldrsb ldrsh ldrsw = x0, <[x1]|[x1, #16]|[x1], #3|[x1, #-3]!|[x1, x2]|[x1, w2, uxtw]>
ldrh strh = w0, [x1, x2, lsl #1]
ldrsw = x0, [x1, w2, sxtw #2]
ldurb ldurh ldursb ldursh sturb sturh = w0, [x1, #-3]
ldursb ldursh ldursw = x0, [x1, #-3]
ldp stp = <x0, x3|w0, w3|s0, s3|d0, d3|q0, q3>, <[x1]|[x1, #32]|[x1], #-32|[x1, #32]!|[sp, #-64]!>
ldp stp = <x0, xzr, [x1]|wzr, w3, [x1]>
ldp = <x0, x1, [x0]|x1, x0, [x0]>
ldpsw = x0, x3, <[x1]|[x1], #8|[x1, #8]!>
ldnp stnp = <x0, x3, [x1]|q0, q3, [x1, #32]|w0, w3, [x1]>
prfm = <pldl1keep, [x1]|pldl1keep, [x1, #512]|pstl2strm, [x1, x2]|#3, [x1, w2, sxtw #3]>
prfum = pldl1keep, [x1, #-3]
ld1 st1 = { v0.@ }, <[x1]|[x1], x2> = 8b 16b 4h 8h 2s 4s 1d 2d
ld1 st1 = { v0.@, v1.@ }, <[x1]|[x1], x2> = 8b 16b 4h 8h 2s 4s 1d 2d
ld1 st1 = { v0.@, v1.@, v2.@ }, <[x1]|[x1], x2> = 8b 16b 4h 8h 2s 4s 1d 2d
ld1 st1 = { v0.@, v1.@, v2.@, v3.@ }, <[x1]|[x1], x2> = 8b 16b 4h 8h 2s 4s 1d 2d
ld1 st1 = <{v0.16b}, [x1], #16|{v0.4h-v3.4h}, [x1], #32|{v31.4s, v0.4s}, [sp]|{ v4.2d }, [sp], #16>
ld2 st2 = { v0.@, v1.@ }, <[x1]|[x1], x2> = 8b 16b 4h 8h 2s 4s 2d
ld3 st3 = { v0.@, v1.@, v2.@ }, <[x1]|[x1], x2> = 8b 16b 4h 8h 2s 4s 2d
ld4 st4 = { v0.@, v1.@, v2.@, v3.@ }, <[x1]|[x1], x2> = 8b 16b 4h 8h 2s 4s 2d
ld1 st1 = <{ v0.b }[9]|{ v0.h }[5]|{ v0.s }[3]|{ v0.d }[1]>, <[x1]|[x1], x2|[sp]>
ld1 st1 = <{ v0.b }[0], [x1], #1|{ v0.s }[2], [x1], #4|{ v0.d }[0], [x1], #8>
ld2 st2 = <{ v0.b, v1.b }[9]|{ v0.s, v1.s }[3]|{ v0.d, v1.d }[0]>, <[x1]|[x1], x2>
ld3 st3 = <{ v0.h, v1.h, v2.h }[5]|{ v0.s, v1.s, v2.s }[1]>, <[x1]|[x1], x2>
ld4 st4 = <{ v0.s, v1.s, v2.s, v3.s }[0]|{ v0.d, v1.d, v2.d, v3.d }[1]>, <[x1]|[x1], x2>
ld1r = { v0.@ }, <[x1]|[x1], x2> = 8b 16b 4h 8h 2s 4s 1d 2d
ld2r = { v0.@, v1.@ }, <[x1]|[x1], x2> = 8b 16b 4h 8h 2s 4s 1d 2d
ld3r = { v0.@, v1.@, v2.@ }, <[x1]|[x1], x2> = 8b 4s 2d
ld4r = { v0.@, v1.@, v2.@, v3.@ }, <[x1]|[x1], x2> = 16b 4h 1d
"""
_FLOAT = """
fadd fsub fabd fmax fmin fmaxnm fminnm fmul fmulx fdiv fmla fmls = v0.@, v1.@, v2.@ = 2s 4s 2d 4h 8h
fcmeq fcmge fcmgt facge facgt frecps frsqrts = v0.@, v1.@, v2.@ = 2s 4s 2d 4h 8h
faddp fmaxp fminp fmaxnmp fminnmp = v0.@, v1.@, v2.@ = 2s 4s 2d 4h 8h
faddp fmaxp fminp fmaxnmp fminnmp = <s0, v1.2s|d0, v1.2d>
fmaxv fminv fmaxnmv fminnmv = <s0, v1.4s|h0, v1.8h>
fmul fmulx fmla fmls = v0.@, v1.@, v2.s[3] = 2s 4s
fmul fmulx = <v0.2d, v1.2d, v2.d[1]|s0, s1, v2.s[2]|d0, d1, v2.d[0]|v0.8h, v1.8h, v2.h[7]|v0.4h, v1.4h, v2.h[0]>
fmla fmls = <v0.2d, v1.2d, v2.d[1]|s0, s1, v2.s[2]|d0, d1, v2.d[0]|v0.8h, v1.8h, v2.h[7]|v0.4h, v1.4h, v2.h[0]>
fabs fneg fsqrt frinta frinti frintm frintn frintp frintx frintz frecpe frsqrte = v0.@, v1.@ = 2s 4s 2d 4h 8h
fcvtzs fcvtzu fcvtas fcvtau fcvtms fcvtmu fcvtns fcvtnu fcvtps fcvtpu scvtf ucvtf = v0.@, v1.@ = 2s 4s 2d 4h 8h
fcvtzs fcvtzu scvtf ucvtf = <v0.4s, v1.4s, #3|v0.2d, v1.2d, #7|s0, s1, #3|d0, d1, #3>
fcvtzs fcvtzu fcvtas fcvtau fcvtms fcvtmu fcvtns fcvtnu fcvtps fcvtpu scvtf ucvtf = <s0, s1|d0, d1>
fcvtzs fcvtzu fcvtas fcvtau fcvtms fcvtmu fcvtns fcvtnu fcvtps fcvtpu = <w0, s1|x0, s1|w0, d1|x0, d1|w0, h1>
fcvtzs fcvtzu = <w0, s1, #4|x0, d1, #4>
scvtf ucvtf = <s0, w1|d0, w1|s0, x1|d0, x1|s0, w1, #4|d0, x1, #4|s0, wzr>
fcmeq fcmge fcmgt fcmle fcmlt = <v0.4s, v1.4s, #0.0|v0.2d, v1.2d, #0.0|s0, s1, #0.0|d0, d1, #0.0>
fcmeq fcmge fcmgt facge facgt frecps frsqrts fmulx fabd = <s0, s1, s2|d0, d1, d2>
fcvtl = <v0.2d, v1.2s|v0.4s, v1.4h>
fcvtl2 = <v0.2d, v1.4s|v0.4s, v1.8h>
fcvtn = <v0.2s, v1.2d|v0.4h, v1.4s>
fcvtn2 = <v0.4s, v1.2d|v0.8h, v1.4s>
fcvtxn = <v0.2s, v1.2d|s0, d1>
fcvtxn2 = v0.4s, v1.2d
fmlal fmlsl = <v0.4s, v1.4h, v2.4h|v0.2s, v1.2h, v2.2h|v0.4s, v1.4h, v2.h[3]>
fmlal2 fmlsl2 = <v0.4s, v1.4h, v2.4h|v0.2s, v1.2h, v2.2h|v0.4s, v1.4h, v2.h[3]>
fcmla = <v0.4s, v1.4s, v2.4s, #90|v0.2d, v1.2d, v2.2d, #0|v0.4s, v1.4s, v2.s[1], #180>
fcadd = <v0.4s, v1.4s, v2.4s, #90|v0.2d, v1.2d, v2.2d, #270>
urecpe ursqrte = v0.@, v1.@ = 2s 4s
frecpx = <s0, s1|d0, d1>
fadd fsub fmax fmin fmaxnm fminnm fmul fnmul fdiv = <s0, s1, s2|d0, d1, d2|h0, h1, h2>
fmadd fmsub fnmadd fnmsub = <s0, s1, s2, s3|d0, d1, d2, d3|h0, h1, h2, h3>
fabs fneg fsqrt frinta frinti frintm frintn frintp frintx frintz = <s0, s1|d0, d1|h0, h1>
frecpe frsqrte = <s0, s1|d0, d1>
fcmp fcmpe = <s0, s1|d0, d1|s0, #0.0|d0, #0.0|h0, h1>
fccmp fccmpe = <s0, s1, #5, eq|d0, d1, #0, lt>
fcsel = <s0, s1, s2, eq|d0, d1, d2, gt>
fcvt = <s0, d1|d0, s1|h0, s1|s0, h1|d0, h1|h0, d1>
fmov = <s0, s1|d0, d1|s0, w1|w0, s1|d0, x1|x0, d1|s0, wzr|d0, xzr|x0, v1.d[1]|v0.d[1], x1|s0, #1.0|d0, #2.0|v0.4s, #1.0>
fmov = <v0.2d, #1.0|v0.2s, #-1.0|h0, w1|w0, h1>
"""
_VECTOR = """
add sub = v0.@, v1.@, v2.@ = 8b 16b 4h 8h 2s 4s 2d
addp = v0.@, v1.@, v2.@ = 8b 16b 4h 8h 2s 4s 2d
add sub cmeq cmge cmgt cmhi cmhs cmtst sshl ushl srshl urshl = d0, d1, d2
smax smin umax umin smaxp sminp umaxp uminp shadd uhadd shsub uhsub = v0.@, v1.@, v2.@ = 8b 16b 4h 8h 2s 4s
srhadd urhadd sabd uabd saba uaba mul mla mls = v0.@, v1.@, v2.@ = 8b 16b 4h 8h 2s 4s
mul mla mls = <v0.4h, v1.4h, v2.h[3]|v0.8h, v1.8h, v2.h[7]|v0.2s, v1.2s, v2.s[1]|v0.4s, v1.4s, v2.s[3]>
cmeq cmge cmgt cmhi cmhs cmtst = v0.@, v1.@, v2.@ = 8b 16b 4h 8h 2s 4s 2d
cmeq cmge cmgt cmle cmlt = <v0.16b, v1.16b, #0|v0.2d, v1.2d, #0|d0, d1, #0>
neg abs sqabs sqneg suqadd usqadd = v0.@, v1.@ = 8b 16b 4h 8h 2s 4s 2d
neg abs = d0, d1
sqabs sqneg suqadd usqadd = <b0, b1|h0, h1|s0, s1|d0, d1>
cls clz = v0.@, v1.@ = 8b 16b 4h 8h 2s 4s
cnt not mvn rbit rev16 = v0.@, v1.@ = 8b 16b
rev32 = v0.@, v1.@ = 8b 16b 4h 8h
rev64 = v0.@, v1.@ = 8b 16b 4h 8h 2s 4s
and orr eor bic orn bsl bit bif pmul = v0.@, v1.@, v2.@ = 8b 16b
orr bic = <v0.4s, #1|v0.2s, #3, lsl #8|v0.8h, #7, lsl #8|v0.4h, #1>
mov = <v0.16b, v1.16b|v0.8b, v1.8b|v0.b[3], w1|v0.h[3], w1|v0.s[1], w1|v0.d[1], x1|v0.d[0], xzr|v0.s[1], v1.s[0]>
mov = <w0, v1.s[1]|x0, v1.d[1]|b0, v1.b[3]|h0, v1.h[3]|s0, v1.s[1]|d0, v1.d[1]|v0.d[1], v1.d[0]|v0.b[1], v1.b[9]>
ins = <v0.b[3], w1|v0.h[3], w1|v0.s[1], w1|v0.d[1], x1|v0.s[1], v1.s[0]|v0.d[0], v1.d[1]|v0.h[7], v1.h[1]>
dup = <v0.16b, w1|v0.4h, w1|v0.4s, w1|v0.2d, x1|v0.4s, v1.s[1]|v0.8b, v1.b[9]|v0.2d, v1.d[0]|s0, v1.s[1]|d0, v1.d[1]>
umov = <w0, v1.b[3]|w0, v1.h[3]|w0, v1.s[1]|x0, v1.d[1]>
smov = <w0, v1.b[3]|w0, v1.h[3]|x0, v1.b[1]|x0, v1.h[1]|x0, v1.s[1]>
movi = <v0.4s, #0|v0.4s, #0, lsl #8|d0, #0>
movi = <v0.2d, #0|v0.4s, #1|v0.4s, #1, lsl #8|v0.4s, #1, msl #8|v0.16b, #7|v0.8h, #1|d0, #0xff00ff|v0.2s, #3|v0.8b, #1>
mvni = <v0.4s, #1|v0.4s, #1, msl #16|v0.8h, #1, lsl #8|v0.2s, #1>
saddl ssubl uaddl usubl sabdl uabdl sabal = v0.@, v1.%, v2.% = 8h/8b 4s/4h 2d/2s
uabal smull umull smlal umlal smlsl umlsl = v0.@, v1.%, v2.% = 8h/8b 4s/4h 2d/2s
saddl2 ssubl2 uaddl2 usubl2 sabdl2 uabdl2 sabal2 uabal2 = v0.@, v1.%, v2.% = 8h/16b 4s/8h 2d/4s
smull2 umull2 smlal2 umlal2 smlsl2 umlsl2 = v0.@, v1.%, v2.% = 8h/16b 4s/8h 2d/4s
smull umull smlal umlal smlsl umlsl sqdmull sqdmlal sqdmlsl = <v0.4s, v1.4h, v2.h[3]|v0.2d, v1.2s, v2.s[1]>
smull2 umull2 smlal2 umlal2 smlsl2 umlsl2 sqdmull2 sqdmlal2 sqdmlsl2 = <v0.4s, v1.8h, v2.h[3]|v0.2d, v1.4s, v2.s[1]>
sqdmull = <v0.4s, v1.4h, v2.4h|v0.2d, v1.2s, v2.2s|s0, h1, h2|d0, s1, s2|s0, h1, v2.h[1]|d0, s1, v2.s[1]>
sqdmlal sqdmlsl = <v0.4s, v1.4h, v2.4h|v0.2d, v1.2s, v2.2s|s0, h1, h2|d0, s1, s2|s0, h1, v2.h[1]|d0, s1, v2.s[1]>
sqdmull2 sqdmlal2 sqdmlsl2 = <v0.4s, v1.8h, v2.8h|v0.2d, v1.4s, v2.4s>
saddw ssubw uaddw usubw = v0.@, v1.@, v2.% = 8h/8b 4s/4h 2d/2s
saddw2 ssubw2 uaddw2 usubw2 = v0.@, v1.@, v2.% = 8h/16b 4s/8h 2d/4s
saddlp uaddlp sadalp uadalp = v0.@, v1.% = 4h/8b 8h/16b 2s/4h 4s/8h 1d/2s 2d/4s
sshll ushll = v0.@, v1.%, #3 = 8h/8b 4s/4h 2d/2s
sshll2 ushll2 = v0.@, v1.%, #3 = 8h/16b 4s/8h 2d/4s
sxtl uxtl = v0.@, v1.% = 8h/8b 4s/4h 2d/2s
sxtl2 uxtl2 = v0.@, v1.% = 8h/16b 4s/8h 2d/4s
shll = <v0.8h, v1.8b, #8|v0.4s, v1.4h, #16|v0.2d, v1.2s, #32>
shll2 = <v0.8h, v1.16b, #8|v0.4s, v1.8h, #16|v0.2d, v1.4s, #32>
addp = d0, v1.2d
addv smaxv sminv umaxv uminv = <b0, v1.8b|b0, v1.16b|h0, v1.4h|h0, v1.8h|s0, v1.4s>
saddlv uaddlv = <h0, v1.8b|h0, v1.16b|s0, v1.8h|d0, v1.4s>
sqadd uqadd sqsub uqsub sshl ushl srshl urshl sqshl uqshl sqrshl uqrshl = v0.@, v1.@, v2.@ = 8b 16b 4h 8h 2s 4s 2d
sqadd uqadd sqsub uqsub sqshl uqshl sqrshl uqrshl = <b0, b1, b2|h0, h1, h2|s0, s1, s2|d0, d1, d2>
sqdmulh sqrdmulh = <v0.4h, v1.4h, v2.4h|v0.4s, v1.4s, v2.4s|v0.8h, v1.8h, v2.h[3]|v0.4s, v1.4s, v2.s[1]>
sqrdmlah sqrdmlsh = <v0.4h, v1.4h, v2.4h|v0.4s, v1.4s, v2.4s|v0.8h, v1.8h, v2.h[3]|v0.4s, v1.4s, v2.s[1]>
sqdmulh sqrdmulh sqrdmlah sqrdmlsh = <h0, h1, h2|s0, s1, s2|s0, s1, v2.s[1]|h0, h1, v2.h[1]>
pmull = <v0.8h, v1.8b, v2.8b|v0.1q, v1.1d, v2.1d>
pmull2 = <v0.8h, v1.16b, v2.16b|v0.1q, v1.2d, v2.2d>
sdot udot = <v0.2s, v1.8b, v2.8b|v0.4s, v1.16b, v2.16b|v0.2s, v1.8b, v2.4b[1]|v0.4s, v1.16b, v2.4b[3]>
shl sshr ushr srshr urshr ssra usra srsra ursra sli sri sqshl uqshl sqshlu = v0.@, v1.@, #3 = 8b 16b 4h 8h 2s 4s 2d
shl sshr ushr srshr urshr ssra usra srsra ursra sli sri sqshl uqshl sqshlu = d0, d1, #3
shrn rshrn sqshrn uqshrn sqrshrn uqrshrn sqshrun sqrshrun = v0.%, v1.@, #3 = 8h/8b 4s/4h 2d/2s
shrn2 rshrn2 sqshrn2 uqshrn2 sqrshrn2 uqrshrn2 sqshrun2 sqrshrun2 = v0.%, v1.@, #3 = 8h/16b 4s/8h 2d/4s
sqshrn uqshrn sqrshrn uqrshrn sqshrun sqrshrun = <b0, h1, #3|h0, s1, #3|s0, d1, #3>
addhn raddhn subhn rsubhn = v0.%, v1.@, v2.@ = 8h/8b 4s/4h 2d/2s
addhn2 raddhn2 subhn2 rsubhn2 = v0.%, v1.@, v2.@ = 8h/16b 4s/8h 2d/4s
xtn sqxtn uqxtn sqxtun = v0.%, v1.@ = 8h/8b 4s/4h 2d/2s
xtn2 sqxtn2 uqxtn2 sqxtun2 = v0.%, v1.@ = 8h/16b 4s/8h 2d/4s
sqxtn uqxtn sqxtun = <b0, h1|h0, s1|s0, d1>
zip1 zip2 uzp1 uzp2 trn1 trn2 = v0.@, v1.@, v2.@ = 8b 16b 4h 8h 2s 4s 2d
ext = <v0.16b, v1.16b, v2.16b, #3|v0.8b, v1.8b, v2.8b, #5>
tbl tbx = v0.@, <{ v1.16b }|{ v1.16b, v2.16b }|{ v1.16b, v2.16b, v3.16b }|{ v1.16b - v4.16b }>, v6.@ = 8b 16b
aese aesd aesmc aesimc = v0.16b, v1.16b
sha1c sha1m sha1p = q0, s1, v2.4s
sha1h = s0, s1
sha1su0 sha256su1 = v0.4s, v1.4s, v2.4s
sha1su1 sha256su0 = v0.4s, v1.4s
sha256h sha256h2 = q0, q1, v2.4s
sha512h sha512h2 = q0, q1, v2.2d
sha512su0 = v0.2d, v1.2d
sha512su1 = v0.2d, v1.2d, v2.2d
eor3 bcax = v0.16b, v1.16b, v2.16b, v3.16b
rax1 = v0.2d, v1.2d, v2.2d
xar = v0.2d, v1.2d, v2.2d, #13
"""
# Armv8.6 forms that older emulators lack.
_NEW = """
usdot = <v0.2s, v1.8b, v2.8b|v0.4s, v1.16b, v2.16b|v0.2s, v1.8b, v2.4b[1]|v0.4s, v1.16b, v2.4b[3]>
sudot = <v0.2s, v1.8b, v2.4b[1]|v0.4s, v1.16b, v2.4b[3]>
smmla ummla usmmla = v0.4s, v1.16b, v2.16b
bfdot = <v0.2s, v1.4h, v2.4h|v0.4s, v1.8h, v2.8h|v0.4s, v1.8h, v2.2h[1]>
bfmmla = v0.4s, v1.8h, v2.8h
bfmlalb bfmlalt = <v0.4s, v1.8h, v2.8h|v0.4s, v1.8h, v2.h[3]>
bfcvt = h0, s1
bfcvtn = v0.4h, v1.4s
bfcvtn2 = v0.8h, v1.4s
"""


def _operands(text: str) -> Iterator[str]:
    parts = re.split(r"<([^>]*)>", text)
    choices = [part.split("|") if at % 2 else [part] for at, part in enumerate(parts)]
    return map("".join, itertools.product(*choices))


def _forms(rows: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for row in rows.strip().splitlines():
        mnemonics, operands, *arrangements = (part.strip() for part in row.split("="))
        for mnemonic in mnemonics.split():
            for arrangement in arrangements[0].split() if arrangements else [""]:
                first, _, second = arrangement.partition("/")
                for text in _operands(operands):
                    found[f"{mnemonic} {text.replace('@', first).replace('%', second)}".strip()] = None
    return tuple(found)


INTEGER, BRANCHES, MEMORY = _forms(_INTEGER), _forms(_BRANCHES), _forms(_MEMORY)
FLOAT, VECTOR, NEW = _forms(_FLOAT), _forms(_VECTOR), _forms(_NEW)
ALL = tuple(dict.fromkeys((*INTEGER, *BRANCHES, *MEMORY, *FLOAT, *VECTOR, *NEW)))
