"""What an AArch64 instruction does: registers and flags read and written, memory touched, class of timing.

Source: Arm Architecture Reference Manual for A-profile (DDI 0487), chapters C4 to C7. An instruction that is not in
these tables, or not in this form, has no effects known (None): to every pass it is a fence.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from mavcg.instr_classes import CLASSES
from mavcg.passes.asm.operand_counts import COUNTS
from mavcg.passes.asm.syntax import CONDITIONS, ZERO, Imm, Instr, Mem, Operand, Reg, RegList, Word, parse_register

FLAGS = "nzcv"


@dataclass(frozen=True)
class Access:
    """One register operand: its place in Instr.registers(), what is done with it, and as what (instr_classes.ROLES).

    A register that is only partly written is read too.
    """

    place: int
    register: str
    read: bool
    write: bool
    role: str = ""


@dataclass(frozen=True)
class MemoryAccess:
    """Memory that is read or written: `bytes` at the address operand. A prefetch touches 0 bytes."""

    address: Mem
    bytes: int
    load: bool
    store: bool


@dataclass(frozen=True)
class Effects:
    """All that an instruction does.

    accesses: every register operand but zero registers. flow: "" or "cond" (a conditional branch), "jump", "call",
    "return", "indirect". target: the label of a direct branch.
    """

    op_class: str
    accesses: tuple[Access, ...]
    reads_flags: bool = False
    writes_flags: bool = False
    memory: MemoryAccess | None = None
    flow: str = ""
    target: str = ""

    def reads(self) -> frozenset[str]:
        """Registers read, the flags as "nzcv" among them."""
        found = {access.register for access in self.accesses if access.read}
        return frozenset(found | {FLAGS} if self.reads_flags else found)

    def writes(self) -> frozenset[str]:
        """Registers written, in whole or in part."""
        found = {access.register for access in self.accesses if access.write}
        return frozenset(found | {FLAGS} if self.writes_flags else found)


# How the register operands are used, in order: w written, r read, m modified (read and written), a modified as an
# accumulator. The last sign stands for all further ones.
_Row = tuple[str, str, str]  # class, operand use, flags: "", "r", "w" or "rw"


def _rows(text: str) -> dict[str, _Row]:
    found: dict[str, _Row] = {}
    for line in text.strip().splitlines():
        op_class, use, flags, *mnemonics = line.split()
        for mnemonic in mnemonics:
            found[mnemonic] = (op_class, use, "" if flags == "-" else flags)
    return found


_INTEGER = _rows("""
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
mull       wr  -   smaddl umaddl smsubl umsubl smull umull smnegl umnegl
mulh       wr  -   smulh umulh
crc        wr  -   crc32b crc32h crc32w crc32x crc32cb crc32ch crc32cw crc32cx
""")

# Vector and scalar forms of one mnemonic: class stems get _q or _d by the size of the first operand, where both exist.
_VECTOR = _rows("""
fadd    wr  -  fadd fsub fabd fmax fmin fmaxnm fminnm fabs fneg fcmeq fcmge fcmgt fcmle fcmlt facge facgt
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
add     wr  -  add sub neg abs smax smin umax umin cmeq cmge cmgt cmhi cmhs cmle cmlt cmtst shadd uhadd shsub uhsub
add     wr  -  srhadd urhadd sabd uabd cls clz cnt
logic   wr  -  and eor orn not mvn
bsl     ar  -  bsl bit bif
addl    wr  -  saddl saddl2 uaddl uaddl2 ssubl ssubl2 usubl usubl2 saddw saddw2 uaddw uaddw2 ssubw ssubw2 usubw usubw2
addl    wr  -  sabdl sabdl2 uabdl uabdl2 saddlp uaddlp sshll sshll2 ushll ushll2 sxtl sxtl2 uxtl uxtl2 shll shll2
addl    ar  -  saba uaba sabal sabal2 uabal uabal2
addp    wr  -  addp smaxp sminp umaxp uminp
adalp   ar  -  sadalp uadalp
addv    wr  -  addv saddlv uaddlv smaxv sminv umaxv uminv
sqadd   wr  -  sqadd uqadd sqsub uqsub sqabs sqneg
sqadd   ar  -  suqadd usqadd
mul     wr  -  mul sqdmulh sqrdmulh pmul
mla     ar  -  mla mls sqrdmlah sqrdmlsh
mull    wr  -  smull smull2 umull umull2 sqdmull sqdmull2 pmull pmull2
mlal    ar  -  smlal smlal2 umlal umlal2 smlsl smlsl2 umlsl umlsl2 sqdmlal sqdmlal2 sqdmlsl sqdmlsl2
dot     ar  -  sdot udot usdot sudot bfdot
mmla    ar  -  smmla ummla usmmla bfmmla bfmlalb bfmlalt
shift   wr  -  shl sshr ushr
shift_var wr - sshl ushl srshl urshl sqshl uqshl sqrshl uqrshl sqshlu srshr urshr
shift_acc ar - ssra usra srsra ursra sli sri
shift_narrow wr - shrn rshrn sqshrn uqshrn sqrshrn uqrshrn sqshrun sqrshrun addhn raddhn subhn rsubhn
shift_narrow ar - shrn2 rshrn2 sqshrn2 uqshrn2 sqrshrn2 uqrshrn2 sqshrun2 sqrshrun2 addhn2 raddhn2 subhn2 rsubhn2
xtn     wr  -  xtn sqxtn uqxtn sqxtun
xtn     ar  -  xtn2 sqxtn2 uqxtn2 sqxtun2
perm    wr  -  zip1 zip2 uzp1 uzp2 trn1 trn2 ext rev16 rev32 rev64 rbit
movi    w   -  movi mvni
crypto  ar  -  aese aesd sha1c sha1m sha1p sha1su0 sha1su1 sha256h sha256h2 sha256su0 sha256su1
crypto  wr  -  aesmc aesimc sha1h eor3 bcax rax1 xar
""")

_SCALAR_FP = _rows("""
fadd_s   wr  -  fadd fsub fabd fmax fmin fmaxnm fminnm fcmeq fcmge fcmgt fcmle fcmlt facge facgt frecpx
fmul_s   wr  -  fmul fnmul fmulx frecps frsqrts
fmadd_s  wr  -  fmadd fmsub fnmadd fnmsub
fmov_s   wr  -  fabs fneg
fdiv_s   wr  -  fdiv
fsqrt_s  wr  -  fsqrt
fcmp     r   w  fcmp fcmpe
fcmp     r   rw fccmp fccmpe
fcsel    wr  r  fcsel
fcvt_s   wr  -  fcvt frinta frinti frintm frintn frintp frintx frintz bfcvt frecpe frsqrte
fcvt_s   wr  -  fcvtxn
""")

_LOADS = {"ldr": 0, "ldur": 0, "ldrb": 1, "ldurb": 1, "ldrsb": 1, "ldursb": 1, "ldrh": 2, "ldurh": 2, "ldrsh": 2,
          "ldursh": 2, "ldrsw": 4, "ldursw": 4}  # fmt: skip
_STORES = {"str": 0, "stur": 0, "strb": 1, "sturb": 1, "strh": 2, "sturh": 2}
_PAIRS = {"ldp": True, "ldnp": True, "ldpsw": True, "stp": False, "stnp": False}
_STRUCTURES = re.compile(r"(ld|st)([1-4])(r?)$")
_VIEW_BYTES = {"b": 1, "h": 2, "s": 4, "d": 8, "q": 16, "w": 4, "x": 8}
_ELEMENT = re.compile(r"(\d*)([bhsdq])$")


class Malformed(ValueError):
    """An instruction that is known, with operands that it never has: garbled text rather than something new."""


@lru_cache(maxsize=1 << 15)  # the passes ask again and again about the same loop's instructions
def effects(instr: Instr) -> Effects | None:
    """What an instruction does, or None where that is not known for certain.

    Raises: Malformed for a known instruction with an impossible number of operands, as in a truncated file.
    """
    counts = COUNTS.get(instr.mnemonic)
    plain = all(not isinstance(o, Word) or _is_word(o.text) for o in instr.operands)  # no form of another extension
    if counts is not None and plain and len(instr.operands) not in counts:
        wanted = " or ".join(map(str, counts))
        raise Malformed(f"`{instr.mnemonic}` has {len(instr.operands)} operands, not {wanted}")
    found = _branch(instr) or _memory(instr) or _arithmetic(instr)
    if found is not None:
        assert found.op_class in CLASSES, (found.op_class, str(instr))
    return found


def _uses(instr: Instr, use: str, roles: dict[int, str] | None = None) -> tuple[Access, ...]:
    """Accesses by a use string, for instructions whose registers stand for themselves (no lists, no addresses)."""
    found = []
    for place, reg in enumerate(instr.registers()):
        kind = use[min(place, len(use) - 1)]
        if reg.name == ZERO:
            continue
        read = kind != "w" or (reg.lane is not None and kind == "w" and place == 0)
        role = (roles or {}).get(place, "acc" if kind == "a" else "")
        found.append(Access(place, reg.name, read, kind != "r", role))
    return tuple(found)


def _is_plain(operands: tuple[Operand, ...]) -> bool:
    """Whether words among the operands are only shifts, extensions, conditions, rotations and plain numbers."""
    return all(not isinstance(o, Mem | RegList) and (not isinstance(o, Word) or _is_word(o.text)) for o in operands)


def _is_word(text: str) -> bool:
    """Whether this is a shift, a number or an expression of symbols: never with a register in it, known or not."""
    if _WORD.match(text) is None or _OTHER_REGISTER.match(text) is not None:
        return False
    return all(parse_register(word) is None for word in re.findall(r"[A-Za-z_][\w.]*", text))


_WORD = re.compile(r"[-+\w.$()#:\s*<>@\"]+$")
_OTHER_REGISTER = re.compile(r"(?:z|p|pn)\d+(?:\W.*)?$|za|zt0|ffr|(?:%|\\)", re.IGNORECASE)  # SVE, SME, macro arguments


def _branch(instr: Instr) -> Effects | None:
    m, ops = instr.mnemonic, instr.operands
    if m in ("b", "bl") or m.startswith("b.") or (m.startswith("b") and m[1:] in CONDITIONS):
        if len(ops) != 1:
            raise Malformed("a branch has one target")
        target = _label(ops[0])
        if target is None:
            return None
        if m == "bl":
            return Effects("call", (), flow="call", target=target)
        if m in ("b", "b.al", "b.nv", "bal", "bnv"):  # C1.2.4: both conditions mean always
            return Effects("branch", (), flow="jump", target=target)
        if m.startswith("b.") and m[2:] not in CONDITIONS:
            return None
        return Effects("branch_cond", (), reads_flags=True, flow="cond", target=target)
    if m in ("cbz", "cbnz", "tbz", "tbnz"):
        if len(ops) != (2 if m[0] == "c" else 3):
            raise Malformed("a register and a target are missing")
        target = _label(ops[-1])
        if target is None or not isinstance(ops[0], Reg):
            return None
        return Effects("branch_test", _uses(instr, "r"), flow="cond", target=target)
    if m in ("br", "blr"):
        return Effects("branch_reg", _uses(instr, "r"), flow="indirect" if m == "br" else "call")
    if m == "ret":
        return Effects("branch_reg", _uses(instr, "r") or (Access(-1, "x30", True, False),), flow="return")
    return None


def _label(operand: Operand) -> str | None:
    if isinstance(operand, Word):
        return operand.text.strip('"')
    return str(operand.value) if isinstance(operand, Imm) else None


def _memory(instr: Instr) -> Effects | None:
    m, ops = instr.mnemonic, instr.operands
    if m in _LOADS or m in _STORES:
        _count(instr, 2)
        if not isinstance(ops[0], Reg) or not isinstance(ops[1], Mem):
            return None
        size = (_LOADS.get(m) or _STORES.get(m)) or _VIEW_BYTES.get(ops[0].view, 0)
        load = m in _LOADS
        if ops[0].is_vector:
            stem = {16: "q", 8: "d"}.get(size, "s" if load else "d")
        else:
            stem = "x"
        return _transfer(instr, f"{'ldr' if load else 'str'}_{stem}", ops[1], size, load, 1)
    if m in _PAIRS:
        _count(instr, 3)
        if not isinstance(ops[0], Reg) or not isinstance(ops[1], Reg) or not isinstance(ops[2], Mem):
            return None
        size = 4 if m == "ldpsw" else _VIEW_BYTES.get(ops[0].view, 0)
        load = _PAIRS[m]
        stem = "x" if not ops[0].is_vector else {16: "q", 8: "d"}.get(size, "s" if load else "d")
        return _transfer(instr, f"{'ldp' if load else 'stp'}_{stem}", ops[2], 2 * size, load, 2)
    if found := _STRUCTURES.match(m):
        return _structure(instr, found)
    if m in ("prfm", "prfum"):
        _count(instr, 2)
        if not isinstance(ops[1], Mem) or ops[1].mode != "offset":
            return None
        memory = MemoryAccess(ops[1], 0, False, False)
        return Effects("prfm", _address_accesses(ops[1], 0), memory=memory)
    return None


def _count(instr: Instr, *allowed: int) -> None:
    if len(instr.operands) not in allowed:
        raise Malformed(f"`{instr.mnemonic}` has {len(instr.operands)} operands, not {allowed[0]}")


def _structure(instr: Instr, found: re.Match[str]) -> Effects | None:
    _count(instr, 2)
    registers, address = instr.operands
    if not isinstance(registers, RegList) or not isinstance(address, Mem) or not registers.registers[0].arrangement:
        return None
    load, ways, replicate = found[1] == "ld", int(found[2]), bool(found[3])
    count = len(registers.registers)
    element = _ELEMENT.match(registers.registers[0].arrangement)
    if element is None or (ways > 1 and count != ways):
        return None
    lane = registers.lane is not None
    if lane or replicate:
        size = _VIEW_BYTES[element[2]] * ways
    else:
        size = _bits(registers.registers[0].arrangement) // 8 * count
    # A lane or replicating form of several registers is made like so many of one.
    if lane:
        op_class = ("ld1_lane" if load else "st1_lane") if ways == 1 else f"{found[1]}{ways}_q"
    elif replicate:
        op_class = "ld1r" if ways == 1 else f"ld{ways}_q"
    elif ways > 1:
        op_class = f"{found[1]}{ways}_q"
    elif count == 1:
        op_class = f"{found[1]}1_q" if not load or size == 16 else "ld1_d"
    else:
        op_class = f"{found[1]}1_q{count}"
    return _transfer(instr, op_class, address, size, load, count, partial=lane)


def _transfer(
    instr: Instr, op_class: str, address: Mem, size: int, load: bool, count: int, partial: bool = False
) -> Effects | None:
    """A load or store of the first `count` registers."""
    if not size or (address.mode != "offset" and address.base.name == ZERO) or "!" in str(address.extend):
        return None
    role = "" if load else "data"
    accesses = [
        Access(place, reg.name, not load or partial, load, "acc" if partial and load else role)
        for place, reg in enumerate(instr.registers()[:count])
        if reg.name != ZERO
    ]
    accesses += _address_accesses(address, count)
    return Effects(op_class, tuple(accesses), memory=MemoryAccess(address, size, load, not load))


def _address_accesses(address: Mem, place: int) -> tuple[Access, ...]:
    base = Access(place, address.base.name, True, address.mode != "offset", "addr")
    if address.index is None or address.index.name == ZERO:
        return (base,)
    return (base, Access(place + 1, address.index.name, True, False, "addr"))


def _arithmetic(instr: Instr) -> Effects | None:
    m, ops = instr.mnemonic, instr.operands
    if m == "nop":
        return Effects("nop", ())
    if not ops or not _is_plain(ops) or not isinstance(ops[0], Reg):
        return _table(instr) if m in ("tbl", "tbx") else None
    if m in ("mov", "ins", "fmov", "umov", "smov", "dup"):
        return _move(instr)
    registers = instr.registers()
    if not registers[0].is_vector and (row := _INTEGER.get(m)):
        return _integer(instr, row)
    if not registers[0].is_vector and m in ("mul", "mneg", "madd", "msub", "sdiv", "udiv"):
        _count(instr, 4 if m in ("madd", "msub") else 3)
        kind = "div" if m.endswith("div") else "mul"
        return Effects(f"{kind}_{registers[0].view}", _uses(instr, "wr"))
    if registers[0].is_vector and registers[0].view == "v":
        return _vector(instr)
    return _scalar(instr)


def _integer(instr: Instr, row: _Row) -> Effects | None:
    op_class, use, flags = row
    operands = {"w": (2, 3), "m": (2, 3, 4), "r": (2, 3, 4)}.get(use, (2, 3, 4))
    if instr.mnemonic in ("cset", "csetm"):
        operands = (2,)
    elif instr.mnemonic in ("csel", "csinc", "csinv", "csneg", "ccmp", "ccmn", "bfi", "bfxil", "bfm", "extr"):
        operands = (4,)
    elif instr.mnemonic.startswith(("crc", "lsl", "lsr", "asr", "ror", "cinc", "cinv", "cneg", "smul", "umul")):
        operands = (3,)
    elif instr.mnemonic in ("add", "sub", "adds", "subs", "and", "orr", "eor", "bic", "ands", "bics", "orn", "eon"):
        operands = (3, 4)
    _count(instr, *operands)
    words = [o.text.lower() for o in instr.operands if isinstance(o, Word)]
    if op_class in ("alu", "alu_flags") and any(re.match(r"(lsl|lsr|asr|ror|uxt|sxt)", word) for word in words):
        op_class = "alu_shifted"
    if op_class == "shift" and isinstance(instr.operands[-1], Imm):
        op_class = "bitfield"
    if any(reg.is_vector for reg in instr.registers()):
        return None
    return Effects(op_class, _uses(instr, use), "r" in flags, "w" in flags)


def _move(instr: Instr) -> Effects | None:
    """mov, ins, fmov, umov, smov, dup: one spelling for many moves between register files."""
    m, ops = instr.mnemonic, instr.operands
    _count(instr, 2, 3)
    if len(ops) == 3:
        if m == "mov":
            raise Malformed("`mov` has 3 operands, not 2")
        return None
    to, source = ops
    assert isinstance(to, Reg)
    if not isinstance(source, Reg):
        if not to.is_vector:
            return Effects("mov_imm", _uses(instr, "w")) if m == "mov" else None
        return Effects("movi" if to.view == "v" else "fmov_imm", _uses(instr, "w")) if m == "fmov" else None
    if to.is_vector and to.lane is not None:
        accesses = _uses(instr, "ar")
        return Effects("ins_lane" if source.is_vector else "ins", accesses)
    if not to.is_vector and source.is_vector:
        if source.lane is None and m != "fmov":
            return None
        return Effects("umov" if source.lane is not None else "fmov_to_gpr", _uses(instr, "wr"))
    if to.is_vector and not source.is_vector:
        if m == "dup":
            return Effects("dup_gpr", _uses(instr, "wr"))
        return Effects("fmov_from_gpr", _uses(instr, "wr")) if m == "fmov" else None
    if not to.is_vector:
        return Effects("alu", _uses(instr, "wr")) if m == "mov" else None
    if source.lane is not None:
        return Effects("dup_lane_q", _uses(instr, "wr"))
    if to.view != "v":
        return Effects("fmov_s", _uses(instr, "wr")) if m == "fmov" else None
    return Effects(_sized("logic", to), _uses(instr, "wr")) if m == "mov" else None


def _table(instr: Instr) -> Effects | None:
    _count(instr, 3)
    to, table, _ = instr.operands
    if not isinstance(to, Reg) or not isinstance(table, RegList):
        return None
    use = "ar" if instr.mnemonic == "tbx" else "wr"
    return Effects(f"tbl{min(4, len(table.registers))}", _uses(instr, use))


def _vector(instr: Instr) -> Effects | None:
    m, registers = instr.mnemonic, instr.registers()
    if any(not reg.is_vector for reg in registers) or not registers[0].arrangement or registers[0].lane is not None:
        return None
    if m in ("orr", "bic"):  # the immediate forms change their destination in place
        _count(instr, 2, 3, 4)
        in_place = len(registers) == 1
        return Effects(_sized("logic", registers[0]), _uses(instr, "a" if in_place else "wr"))
    row = _VECTOR.get(m)
    if row is None:
        return None
    stem, use, _ = row
    by_lane = registers[-1].lane is not None
    three = use == "ar" and stem not in ("fcvt", "xtn", "shift_narrow", "shift_acc", "adalp", "crypto", "sqadd")
    if three or m in _BINARY:
        _count(instr, 3, 4)
    elif len(instr.operands) < 2:
        raise Malformed(f"`{m}` has 1 operand")
    if by_lane:
        stem += "_lane" if stem in ("fmul", "fmla", "mla", "mlal", "dot") else ""
    return Effects(_sized(stem, registers[0]), _uses(instr, use))


_BINARY = frozenset(
    "fsub fmul fdiv fmax fmin sub mul and eor orn cmhi cmhs cmtst zip1 zip2 uzp1 uzp2 trn1 trn2 shl sshr ushr".split()
)


def _sized(stem: str, to: Reg) -> str:
    """The class of a stem by the size of what is written: fmla_q for 128 bits, fmla_d where 64 has its own."""
    if stem in CLASSES:
        return stem
    small = f"{stem}_d"
    return small if _bits(to.arrangement) <= 64 and small in CLASSES else f"{stem}_q"


def _bits(arrangement: str) -> int:
    found = _ELEMENT.match(arrangement)
    if found is None:
        return 128
    return int(found[1] or 1) * _VIEW_BYTES[found[2]] * 8


def _scalar(instr: Instr) -> Effects | None:
    """Scalar floating point, and the scalar forms of vector instructions."""
    m, registers = instr.mnemonic, instr.registers()
    first = registers[0]
    if m in ("scvtf", "ucvtf") and len(registers) == 2 and not registers[1].is_vector:
        return Effects("cvt_from_gpr", _uses(instr, "wr"))
    if m.startswith("fcvt") and not first.is_vector and len(registers) == 2 and registers[1].is_vector:
        return Effects("cvt_to_gpr", _uses(instr, "wr"))
    if not first.is_vector or any(not reg.is_vector for reg in registers):
        return None
    if row := _SCALAR_FP.get(m):
        op_class, use, flags = row
        if m in ("fadd", "fsub", "fmul", "fdiv", "fmax", "fmin"):
            _count(instr, 3)
        elif op_class == "fmadd_s":
            _count(instr, 4)
        elif len(instr.operands) < 2:
            raise Malformed(f"`{m}` has 1 operand")
        if op_class in ("fdiv_s", "fsqrt_s") and first.view == "d":
            op_class = op_class.replace("_s", "_f64")
        return Effects(op_class, _uses(instr, use), "r" in flags, "w" in flags)
    if (row := _VECTOR.get(m)) and row[0] not in ("movi",):
        return Effects(_sized(row[0], Reg(first.name, "v", "1d")), _uses(instr, row[1]))
    if m == "movi":
        return Effects("movi", _uses(instr, "w"))
    return None
