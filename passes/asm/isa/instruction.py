"""Effects of AArch64 instructions: registers and flags read and written, memory accessed, instruction class.

Source: Arm Architecture Reference Manual for A-profile (DDI 0487), chapters C4 to C7. An instruction that is not in
these tables, or has another form, has unknown effects (None): every pass treats it as a fence.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from mavcg.hardware.instr_classes import CLASSES
from mavcg.passes.asm.isa.effects import (
    Access,
    Effects,
    Malformed,
    check_operand_count,
    memory_effects,
    register_accesses,
    register_bits,
)
from mavcg.passes.asm.isa.mnemonics import COUNTS, INTEGER, SCALAR_FP, VECTOR, Row
from mavcg.passes.asm.isa.syntax import CONDITIONS, Imm, Instr, Mem, Operand, RawOperand, Reg, RegList, parse_register


@lru_cache(maxsize=1 << 15)  # the passes look up the same loop's instructions again and again
def effects(instr: Instr) -> Effects | None:
    """Return the effects of an instruction, or None where they are not known for certain.

    Raises: Malformed for a known instruction with an impossible number of operands, as in a truncated file.
    """
    counts = COUNTS.get(instr.mnemonic)
    # Operands of extensions that these tables do not know make the effects unknown; they are not an error.
    known = all(_is_known(operand) for operand in instr.operands)
    if counts is not None and known and len(instr.operands) not in counts:
        expected = " or ".join(map(str, counts))
        raise Malformed(f"`{instr.mnemonic}` has {len(instr.operands)} operands, not {expected}")
    result = _branch(instr) or memory_effects(instr) or _arithmetic(instr)
    if result is not None:
        assert result.op_class in CLASSES, (result.op_class, str(instr))
    return result


def _is_plain(operands: tuple[Operand, ...]) -> bool:
    """True if no operand is an address or a list, and raw operands are shifts, conditions, rotations or numbers."""
    return all(not isinstance(operand, Mem | RegList) and _is_known(operand) for operand in operands)


def _is_known(operand: Operand) -> bool:
    """True unless an operand is raw and may name a register."""
    return not isinstance(operand, RawOperand) or _is_word(operand.text)


def _is_word(text: str) -> bool:
    """True for a shift, a number or an expression of symbols that contains no register."""
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
        return Effects("branch_test", register_accesses(instr, "r"), flow="cond", target=target)
    if m in ("br", "blr"):
        return Effects("branch_reg", register_accesses(instr, "r"), flow="indirect" if m == "br" else "call")
    if m == "ret":
        return Effects("branch_reg", register_accesses(instr, "r") or (Access(-1, "x30", True, False),), flow="return")
    return None


def _label(operand: Operand) -> str | None:
    match operand:
        case RawOperand(text):
            return text.strip('"')
        case Imm(value):
            return str(value)
    return None


def _arithmetic(instr: Instr) -> Effects | None:
    m, ops = instr.mnemonic, instr.operands
    if m == "nop":
        return Effects("nop", ())
    if not ops or not _is_plain(ops) or not isinstance(ops[0], Reg):
        return _table(instr) if m in ("tbl", "tbx") else None
    if m in ("mov", "ins", "fmov", "umov", "smov", "dup"):
        return _move(instr)
    registers = instr.registers()
    if not registers[0].is_vector and (row := INTEGER.get(m)):
        return _integer(instr, row)
    if not registers[0].is_vector and m in ("mul", "mneg", "madd", "msub", "sdiv", "udiv"):
        check_operand_count(instr, 4 if m in ("madd", "msub") else 3)
        if m in ("madd", "msub"):
            return Effects(f"mul_{registers[0].view}", register_accesses(instr, "wrrc"))
        op_class = f"div_{registers[0].view}" if m.endswith("div") else f"mul_{registers[0].view}_plain"
        return Effects(op_class, register_accesses(instr, "wr"))
    if registers[0].is_vector and registers[0].view == "v":
        return _vector(instr)
    return _scalar(instr)


def _integer(instr: Instr, row: Row) -> Effects | None:
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
    check_operand_count(instr, *operands)
    words = [o.text.lower() for o in instr.operands if isinstance(o, RawOperand)]
    if op_class in ("alu", "alu_flags") and any(re.match(r"(lsl|lsr|asr|ror|uxt|sxt)", word) for word in words):
        op_class = "alu_far_shift" if _shifts_far(instr.mnemonic, words) else "alu_shifted"
    if op_class == "shift" and isinstance(instr.operands[-1], Imm):
        op_class = "ror_imm" if instr.mnemonic == "ror" else "bitfield"
    if any(reg.is_vector for reg in instr.registers()):
        return None
    accesses = register_accesses(instr, use)
    if op_class in ("alu_shifted", "alu_far_shift"):  # the last operand is the one that is shifted or extended
        last = len(instr.registers()) - 1
        accesses = tuple(replace(access, role="shifted") if access.position == last else access for access in accesses)
    return Effects(op_class, accesses, "r" in flags, "w" in flags)


def _shifts_far(mnemonic: str, words: Sequence[str]) -> bool:
    """True for a sum or difference whose operand is shifted right, rotated, or shifted left by more than 4.

    words: the operands that are neither registers nor addresses. Logical operations shift by any distance alike.
    """
    if mnemonic not in ("add", "adds", "sub", "subs", "cmp", "cmn", "neg", "negs"):
        return False
    shifts = [match for word in words if (match := re.match(r"(lsl|lsr|asr)\s*#?(\d+)", word))]
    return any(match[1] != "lsl" or int(match[2]) > 4 for match in shifts)


def _move(instr: Instr) -> Effects | None:
    """Return the effects of mov, ins, fmov, umov, smov, dup: moves within and between register files."""
    m, ops = instr.mnemonic, instr.operands
    check_operand_count(instr, 2, 3)
    if len(ops) == 3:
        if m == "mov":
            raise Malformed("`mov` has 3 operands, not 2")
        return None
    to, source = ops
    assert isinstance(to, Reg)
    if not isinstance(source, Reg):
        if not to.is_vector:
            return Effects("mov_imm", register_accesses(instr, "w")) if m == "mov" else None
        return Effects("movi" if to.view == "v" else "fmov_imm", register_accesses(instr, "w")) if m == "fmov" else None
    if to.is_vector and to.lane is not None:
        accesses = register_accesses(instr, "ar")
        return Effects("ins_lane" if source.is_vector else "ins", accesses)
    if not to.is_vector and source.is_vector:
        if source.lane is None and m != "fmov":
            return None
        return Effects("umov" if source.lane is not None else "fmov_to_gpr", register_accesses(instr, "wr"))
    if to.is_vector and not source.is_vector:
        if m == "dup":
            return Effects("dup_gpr", register_accesses(instr, "wr"))
        return Effects("fmov_from_gpr", register_accesses(instr, "wr")) if m == "fmov" else None
    if not to.is_vector:
        return Effects("alu", register_accesses(instr, "wr")) if m == "mov" else None
    if source.lane is not None:
        return Effects("dup_lane_q", register_accesses(instr, "wr"))
    if to.view != "v":
        return Effects("fmov_s", register_accesses(instr, "wr")) if m == "fmov" else None
    return Effects(_class_of_size("logic", to), register_accesses(instr, "wr")) if m == "mov" else None


def _table(instr: Instr) -> Effects | None:
    check_operand_count(instr, 3)
    match instr.operands:
        case (Reg(), RegList(registers), _):
            use = "ar" if instr.mnemonic == "tbx" else "wr"
            return Effects(f"tbl{min(4, len(registers))}", register_accesses(instr, use))
    return None


def _vector(instr: Instr) -> Effects | None:
    m, registers = instr.mnemonic, instr.registers()
    if any(not reg.is_vector for reg in registers) or not registers[0].arrangement or registers[0].lane is not None:
        return None
    if m in ("orr", "bic"):  # the immediate forms change their destination in place
        check_operand_count(instr, 2, 3, 4)
        in_place = len(registers) == 1
        return Effects(_class_of_size("logic", registers[0]), register_accesses(instr, "a" if in_place else "wr"))
    row = VECTOR.get(m)
    if row is None:
        return None
    stem, use, _ = row
    if m == "movi":
        return _zero_or_movi(instr)
    by_lane = registers[-1].lane is not None
    three = use == "ar" and stem not in _TWO_OPERANDS
    if three or m in _BINARY:
        check_operand_count(instr, 3, 4)
    elif len(instr.operands) < 2:
        raise Malformed(f"`{m}` has 1 operand")
    if by_lane:
        stem += "_lane" if stem in ("fmul", "fmla", "mla", "mlal", "dot", "bfdot") else ""
    return Effects(_class_of_size(stem, registers[0]), register_accesses(instr, use))


# Stems of mnemonics that may have two operands although they read their destination.
_TWO_OPERANDS = (
    "fcvt xtn xtn_sat shift_narrow shift_narrow_round shift_acc shift_insert adalp sqadd "
    "crypto sha1_hash sha256_hash sha512_hash sha_schedule".split()
)
_BINARY = frozenset(
    "fsub fmul fdiv fmax fmin sub mul and eor orn cmhi cmhs cmtst zip1 zip2 uzp1 uzp2 trn1 trn2 shl sshr ushr".split()
)


def _class_of_size(stem: str, to: Reg) -> str:
    """Return the vector class of a stem by the width of the destination: fmla_q for 128 bits, fmla_d for 64.

    Sized classes come first: `mull` and `shift` are also names of integer classes. A stem without sizes (movi, crypto)
    is its own class.
    """
    small, large = f"{stem}_d", f"{stem}_q"
    if register_bits(to.arrangement) <= 64 and small in CLASSES:
        return small
    return large if large in CLASSES else stem


def _scalar(instr: Instr) -> Effects | None:
    """Return the effects of scalar floating point and of the scalar forms of vector instructions."""
    m, registers = instr.mnemonic, instr.registers()
    first = registers[0]
    if m in ("scvtf", "ucvtf") and len(registers) == 2 and not registers[1].is_vector:
        return Effects("cvt_from_gpr", register_accesses(instr, "wr"))
    if m.startswith("fcvt") and not first.is_vector and len(registers) == 2 and registers[1].is_vector:
        return Effects("cvt_to_gpr", register_accesses(instr, "wr"))
    if not first.is_vector or any(not reg.is_vector for reg in registers):
        return None
    if row := SCALAR_FP.get(m):
        op_class, use, flags = row
        if m in ("fadd", "fsub", "fmul", "fdiv", "fmax", "fmin"):
            check_operand_count(instr, 3)
        elif op_class == "fmadd_s":
            check_operand_count(instr, 4)
        elif len(instr.operands) < 2:
            raise Malformed(f"`{m}` has 1 operand")
        if op_class in ("fdiv_s", "fsqrt_s") and first.view == "d":
            op_class = op_class.replace("_s", "_f64")
        return Effects(op_class, register_accesses(instr, use), "r" in flags, "w" in flags)
    if (row := VECTOR.get(m)) and row[0] not in ("movi",):
        return Effects(_class_of_size(row[0], Reg(first.name, "v", "1d")), register_accesses(instr, row[1]))
    return _zero_or_movi(instr) if m == "movi" else None


def _zero_or_movi(instr: Instr) -> Effects:
    """Return the effects of movi: zero is a class of its own, which some cores write without executing anything.

    A shifted zero (`movi v0.4s, #0, lsl #8`) is counted among other constants.
    """
    zero = len(instr.operands) == 2 and instr.operands[1] == Imm(0)
    return Effects("movi_zero" if zero else "movi", register_accesses(instr, "w"))
