"""Numbers of operands that each known instruction may have, an address counted as one; they reveal truncated text.

Source: Arm Architecture Reference Manual for A-profile (DDI 0487), chapters C6 and C7, aliases included.
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
