"""Tables of mnemonics: their instruction class, the use of their register operands, the numbers of their operands.

An address counts as one operand; the numbers reveal truncated text. Source: Arm Architecture Reference Manual for
A-profile (DDI 0487), chapters C4 to C7, aliases included.
"""

_TABLE = {
    (0,): """
        nop
    """,
    (0, 1): """
        ret
    """,
    (1,): """
        b bl blr br
    """,
    (2,): """
        abs addv adr adrp aesd aese aesimc aesmc bfcvt bfcvtn bfcvtn2 cbnz cbz cls clz cnt cset csetm dup fabs fcmp
        fcmpe fcvt fcvtas fcvtau fcvtl fcvtl2 fcvtms fcvtmu fcvtns fcvtnu fcvtps fcvtpu fcvtxn fcvtxn2
        fmaxnmv fmaxv fminnmv fminv fmov fneg frecpe frecpx frinta frinti frintm frintn frintp frintx frintz frsqrte
        fsqrt ins ld1 ld1r ld2 ld2r ld3 ld3r ld4 ld4r ldr ldrb ldrh ldrsb ldrsh ldrsw ldur ldurb ldurh ldursb ldursh
        ldursw mov ngc ngcs not prfm prfum rbit rev rev16 rev32 rev64 sadalp saddlp saddlv sha1h sha1su1 sha256su0
        sha512su0
        smaxv sminv smov sqabs sqneg sqxtn sqxtn2 sqxtun sqxtun2 st1 st2 st3 st4 str strb strh stur sturb sturh
        suqadd sxtb sxth sxtl sxtl2 sxtw uadalp uaddlp uaddlv umaxv uminv umov uqxtn uqxtn2 urecpe ursqrte usqadd
        uxtb uxth uxtl uxtl2 uxtw xtn xtn2
    """,
    (2, 3): """
        addp cmn cmp faddp fcvtn fcvtn2 fcvtzs fcvtzu fmaxnmp fmaxp fminnmp fminp movi movk movn movz mvn mvni neg negs
        scvtf tst
        ucvtf
    """,
    (2, 3, 4): """
        bic orr
    """,
    (3,): """
        adc adcs addhn addhn2 asr asrv bfc bfdot bfmlalb bfmlalt bfmmla bif bit bsl cinc cinv cmeq cmge cmgt cmhi
        cmhs cmle cmlt cmtst cneg crc32b crc32cb crc32ch crc32cw crc32cx crc32h crc32w crc32x fabd facge facgt fadd
        fcmeq fcmge fcmgt fcmle fcmlt fdiv fmax fmaxnm fmin fminnm fmla fmlal fmlal2 fmls fmlsl fmlsl2 fmul fmulx
        fnmul frecps frsqrts fsub ldnp ldp ldpsw lsl lslv lsr lsrv mla mls mneg mul pmul pmull pmull2 raddhn raddhn2
        rax1 ror rorv rshrn rshrn2 rsubhn rsubhn2 saba sabal sabal2 sabd sabdl sabdl2 saddl saddl2 saddw saddw2 sbc
        sbcs sdiv sdot sha1c sha1m sha1p sha1su0 sha256h sha256h2 sha256su1
        sha512h sha512h2 sha512su1 shadd shl shll shll2 shrn shrn2 shsub
        sli smax smaxp smin sminp smlal smlal2 smlsl smlsl2 smmla smnegl smulh smull smull2 sqadd sqdmlal sqdmlal2
        sqdmlsl sqdmlsl2 sqdmulh sqdmull sqdmull2 sqrdmlah sqrdmlsh sqrdmulh sqrshl sqrshrn sqrshrn2 sqrshrun
        sqrshrun2 sqshl sqshlu sqshrn sqshrn2 sqshrun sqshrun2 sqsub srhadd sri srshl srshr srsra sshl sshll sshll2
        sshr ssra ssubl ssubl2 ssubw ssubw2 stnp stp subhn subhn2 sudot tbl tbnz tbx tbz trn1 trn2 uaba uabal uabal2
        uabd uabdl uabdl2 uaddl uaddl2 uaddw uaddw2 udiv udot uhadd uhsub umax umaxp umin uminp umlal umlal2 umlsl
        umlsl2 ummla umnegl umulh umull umull2 uqadd uqrshl uqrshrn uqrshrn2 uqshl uqshrn uqshrn2 uqsub urhadd urshl
        urshr ursra usdot ushl ushll ushll2 ushr usmmla usra usubl usubl2 usubw usubw2 uzp1 uzp2 zip1 zip2
    """,
    (3, 4): """
        add adds and ands bics eon eor orn sub subs
    """,
    (4,): """
        bcax bfi bfm bfxil ccmn ccmp csel csinc csinv csneg eor3 ext extr fcadd fccmp fccmpe fcmla fcsel fmadd fmsub
        fnmadd fnmsub madd msub sbfiz sbfm sbfx smaddl smsubl ubfiz ubfm ubfx umaddl umsubl xar
    """,
}

COUNTS: dict[str, tuple[int, ...]] = {
    mnemonic: counts for counts, mnemonics in _TABLE.items() for mnemonic in mnemonics.split()
}


# Use of the register operands, in order: w written, r read, c read as what a product is added to, m modified (read and
# written), a modified as an accumulator. The last letter applies to all further operands.
Row = tuple[str, str, str]  # class, operand use, flags: "", "r", "w" or "rw"


def _rows(text: str) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for line in text.strip().splitlines():
        op_class, use, flags, *mnemonics = line.split()
        for mnemonic in mnemonics:
            rows[mnemonic] = (op_class, use, "" if flags == "-" else flags)
    return rows


INTEGER = _rows("""
alu        wr  -   add sub and orr eor bic orn eon neg mvn sxtw sxth sxtb uxtw uxth uxtb
alu        wr  r   adc sbc ngc
alu_flags  wr  rw  adcs sbcs ngcs
alu_flags  wr  w   adds subs ands bics negs
alu_flags  r   w   cmp cmn tst
ccmp       r   rw  ccmp ccmn
mov_imm    w   -   movz movn
mov_imm    m   -   movk
adr        w   -   adr adrp
shift      wr  -   lsl lsr asr ror lslv lsrv asrv rorv
bitfield   wr  -   ubfx sbfx ubfiz sbfiz ubfm sbfm extr
bitfield   mr  -   bfi bfxil bfm
bitfield   m   -   bfc
bits       wr  -   clz cls rbit rev rev16 rev32 rev64
csel       wr  r   csel csinc csinv csneg cinc cinv cneg
csel       w   r   cset csetm
mull       wrrc -  smaddl umaddl smsubl umsubl
mull_plain wr  -   smull umull smnegl umnegl
mulh       wr  -   smulh umulh
crc        wr  -   crc32b crc32h crc32w crc32x crc32cb crc32ch crc32cw crc32cx
""")

# The first column is a class stem: instruction.py appends _q or _d by the size of the first operand, where both exist.
VECTOR = _rows("""
fadd    wr  -  fadd fsub fabd fabs fneg
fmax    wr  -  fmax fmin fmaxnm fminnm fcmeq fcmge fcmgt fcmle fcmlt facge facgt
faddp   wr  -  faddp fmaxp fminp fmaxnmp fminnmp
fmaxv   wr  -  fmaxv fminv fmaxnmv fminnmv
fmul    wr  -  fmul fmulx
fmla    ar  -  fmla fmls fmlal fmlal2 fmlsl fmlsl2 fcmla
fadd    wr  -  fcadd
fcvt    wr  -  fcvtzs fcvtzu fcvtas fcvtau fcvtms fcvtmu fcvtns fcvtnu fcvtps fcvtpu scvtf ucvtf
fcvt    wr  -  fcvtl fcvtl2 fcvtn fcvtxn frinta frinti frintm frintn frintp frintx frintz bfcvtn
fcvt    ar  -  fcvtn2 fcvtxn2 bfcvtn2
frecpe  wr  -  frecpe frsqrte urecpe ursqrte frecpx
fmul    wr  -  frecps frsqrts
fdiv    wr  -  fdiv
fsqrt   wr  -  fsqrt
add     wr  -  add sub neg smax smin umax umin cmeq cmge cmgt cmhi cmhs cmle cmlt cmtst shadd uhadd shsub uhsub
add     wr  -  srhadd urhadd
cnt     wr  -  cls clz cnt
abd     wr  -  abs sabd uabd
logic   wr  -  and eor orn not mvn
bsl     ar  -  bsl bit bif
addl    wr  -  saddl saddl2 uaddl uaddl2 ssubl ssubl2 usubl usubl2 saddw saddw2 uaddw uaddw2 ssubw ssubw2 usubw usubw2
abdl    wr  -  sabdl sabdl2 uabdl uabdl2 saddlp uaddlp
addhn   wr  -  addhn raddhn subhn rsubhn
addhn   ar  -  addhn2 raddhn2 subhn2 rsubhn2
aba     ar  -  saba uaba
abal    ar  -  sabal sabal2 uabal uabal2
addp    wr  -  addp smaxp sminp umaxp uminp
adalp   ar  -  sadalp uadalp
addv    wr  -  addv saddlv uaddlv smaxv sminv umaxv uminv
sqadd   wr  -  sqadd uqadd sqsub uqsub sqabs sqneg
sqadd   ar  -  suqadd usqadd
mul     wr  -  mul sqdmulh sqrdmulh pmul
mla     ar  -  mla mls sqrdmlah sqrdmlsh
mull    wr  -  smull smull2 umull umull2 sqdmull sqdmull2 pmull pmull2
mlal    ar  -  smlal smlal2 umlal umlal2 smlsl smlsl2 umlsl umlsl2 sqdmlal sqdmlal2 sqdmlsl sqdmlsl2
dot     ar  -  sdot udot usdot sudot
bfdot   ar  -  bfdot
mmla    ar  -  smmla ummla usmmla
bfmmla  ar  -  bfmmla
bfmlal  ar  -  bfmlalb bfmlalt
shift   wr  -  shl sshr ushr
shift_long wr - sshll sshll2 ushll ushll2 sxtl sxtl2 uxtl uxtl2 shll shll2
shift_var wr - sshl ushl
shift_round wr - srshr urshr
shift_round_var wr - srshl urshl sqshl uqshl sqrshl uqrshl sqshlu
shift_acc ar - ssra usra srsra ursra
shift_insert ar - sli sri
shift_narrow wr - shrn
shift_narrow ar - shrn2
shift_narrow_round wr - rshrn sqshrn uqshrn sqrshrn uqrshrn sqshrun sqrshrun
shift_narrow_round ar - rshrn2 sqshrn2 uqshrn2 sqrshrn2 uqrshrn2 sqshrun2 sqrshrun2
xtn     wr  -  xtn
xtn     ar  -  xtn2
xtn_sat wr  -  sqxtn uqxtn sqxtun
xtn_sat ar  -  sqxtn2 uqxtn2 sqxtun2
perm    wr  -  zip1 zip2 uzp1 uzp2
ext     wr  -  trn1 trn2 ext rev16 rev32 rev64 rbit
movi    w   -  movi mvni
crypto  ar  -  aese aesd
crypto  wr  -  aesmc aesimc
sha1_hash ar - sha1c sha1m sha1p
sha256_hash ar - sha256h sha256h2
sha512_hash ar - sha512h sha512h2
sha_schedule ar - sha1su0 sha1su1 sha256su0 sha256su1 sha512su0 sha512su1
sha_schedule wr - sha1h
sha3    wr  -  eor3 bcax
rax1    wr  -  rax1
xar     wr  -  xar
""")

SCALAR_FP = _rows("""
fadd_s   wr  -  fadd fsub fabd fmax fmin fmaxnm fminnm fcmeq fcmge fcmgt fcmle fcmlt facge facgt frecpx
fmul_s   wr  -  fmul fnmul fmulx frecps frsqrts
fmadd_s  wrrc -  fmadd fmsub fnmadd fnmsub
fmov_s   wr  -  fabs fneg
fdiv_s   wr  -  fdiv
fsqrt_s  wr  -  fsqrt
fcmp     r   w  fcmp fcmpe
fcmp     r   rw fccmp fccmpe
fcsel    wr  r  fcsel
fcvt_s   wr  -  fcvt frinta frinti frintm frintn frintp frintx frintz bfcvt frecpe frsqrte
fcvt_s   wr  -  fcvtxn
""")
