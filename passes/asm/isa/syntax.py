"""Parses the text of one AArch64 instruction into operands, and prints it.

Syntax: Arm ARM, C1.2 "Structure of the A64 assembler language", and what assemblers print.
An operand that is not a register, register list, address or number stays as it was written.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

ZERO = "xzr"
CONDITIONS = tuple("eq ne cs hs cc lo mi pl vs vc hi ls ge lt gt le al nv".split())
_INVERSE = {
    "eq": "ne",
    "cs": "cc",
    "hs": "lo",
    "mi": "pl",
    "vs": "vc",
    "hi": "ls",
    "ge": "lt",
    "gt": "le",
}
INVERSE = {**_INVERSE, **{v: k for k, v in _INVERSE.items()}}

_GENERAL = re.compile(r"(x|w)(\d|[12]\d|30)$", re.ASCII)
_SCALAR = re.compile(r"([bhsdq])(\d|[12]\d|3[01])$", re.ASCII)
_VECTOR = re.compile(r"v(\d|[12]\d|3[01])(?:\.(\d{0,2}[bhsdq]))?(?:\[(0x[0-9a-f]+|\d+)\])?$", re.ASCII)
_ALIASES = {"lr": "x30", "fp": "x29", "ip0": "x16", "ip1": "x17"}
_NUMBER = re.compile(r"#?\s*([-+]?)(0x[0-9a-f]+|0b[01]+|\d+)$", re.ASCII)


class SyntaxFault(ValueError):
    """Raised for an operand that no assembler accepts; the caller adds its location."""


@dataclass(frozen=True)
class Reg:
    """A register as an operand.

    name: the whole register, "x3", "v3", "sp" or "xzr". view: the prefix in the text: "x", "w", "b", "h", "s", "d", "q"
    or "v". arrangement: of a vector, such as "4s", or "". lane: index of a single element; None for all elements.
    """

    name: str
    view: str
    arrangement: str = ""
    lane: int | None = None

    @property
    def is_vector(self) -> bool:
        return self.name[0] == "v"

    def __str__(self) -> str:
        if self.name in ("sp", ZERO):
            return self.name if self.view == "x" else {"sp": "wsp", ZERO: "wzr"}[self.name]
        text = f"{self.view}{self.name[1:]}"
        if self.arrangement:
            text += f".{self.arrangement}"
        return text if self.lane is None else f"{text}[{self.lane}]"


@dataclass(frozen=True)
class RegList:
    """Consecutive vector registers in braces, with the lane of a single-element access."""

    registers: tuple[Reg, ...]
    lane: int | None = None

    def __str__(self) -> str:
        text = "{ " + ", ".join(map(str, self.registers)) + " }"
        return text if self.lane is None else f"{text}[{self.lane}]"


@dataclass(frozen=True)
class Mem:
    """An address.

    offset: bytes added to the base, or None when it is symbolic (`symbol`). index: a register added to it, first
    extended and shifted as `extend` says, such as "lsl #4" or "sxtw". mode: "offset", "pre" or "post"; with "post" the
    offset, symbol or index is added to the base after the access.
    """

    base: Reg
    offset: int | None = 0
    symbol: str = ""
    index: Reg | None = None
    extend: str = ""
    mode: str = "offset"

    def __str__(self) -> str:
        if self.mode == "post":
            step = str(self.index) if self.index else self.symbol or f"#{self.offset}"
            return f"[{self.base}], {step}"
        inside = str(self.base)
        if self.index:
            inside += f", {self.index}" + (f", {self.extend}" if self.extend else "")
        elif self.symbol:
            inside += f", {self.symbol}"
        elif self.offset or self.mode == "pre":
            inside += f", #{self.offset}"
        return f"[{inside}]" + ("!" if self.mode == "pre" else "")


@dataclass(frozen=True)
class Imm:
    """A whole number."""

    value: int

    def __str__(self) -> str:
        return f"#{self.value}"


@dataclass(frozen=True)
class RawOperand:
    """Any other operand, as written: a label, a condition, a shift, a floating-point number, an expression."""

    text: str

    def __str__(self) -> str:
        return self.text


Operand = Reg | RegList | Mem | Imm | RawOperand


@dataclass(frozen=True)
class Instr:
    """An instruction; mnemonic in lower case."""

    mnemonic: str
    operands: tuple[Operand, ...] = ()

    def __str__(self) -> str:
        return f"{self.mnemonic}\t" + ", ".join(map(str, self.operands)) if self.operands else self.mnemonic

    def registers(self) -> tuple[Reg, ...]:
        """Return all registers of its operands, in the order of the text, zero registers included."""
        return tuple(reg for operand in self.operands for reg in _registers(operand))

    def with_registers(self, names: tuple[str, ...]) -> "Instr":
        """Return the instruction with its registers renamed; names: one for each register in registers()."""
        left = list(names)
        return replace(self, operands=tuple(_rename(operand, left) for operand in self.operands))


@lru_cache(maxsize=1 << 15)  # the versions of a function share most of their instructions
def parse_instr(text: str) -> Instr:
    """Parse an instruction from its text, without label and comment.

    Raises: SyntaxFault for brackets that do not match and operands that are cut off.
    """
    mnemonic, *rest = text.split(None, 1)
    operands: list[Operand] = []
    for piece in _split(rest[0] if rest else ""):
        previous = operands[-1] if operands else None
        step = _operand(piece)
        if isinstance(previous, Mem) and previous.mode == "offset" and not previous.index and not previous.symbol:
            stepped = _post_indexed(previous, step)
            if stepped is not None:
                operands[-1] = stepped
                continue
        operands.append(step)
    return Instr(mnemonic.lower(), tuple(operands))


def _post_indexed(address: Mem, step: Operand) -> Mem | None:
    """Return an address with the step that follows it; None where the operand is none, as after an offset."""
    if address.offset != 0:
        return None
    match step:
        case Imm():
            return replace(address, offset=step.value, mode="post")
        case Reg():
            return replace(address, index=step, mode="post")
        case RawOperand():
            return replace(address, offset=None, symbol=step.text, mode="post")
    return None


def parse_register(text: str) -> Reg | None:
    """Parse a register name or alias, such as "w3", "v3.4s[1]" or "lr"; None for other text."""
    text = text.strip().lower()
    text = _ALIASES.get(text, text)
    if text in ("sp", "wsp"):
        return Reg("sp", "w" if text == "wsp" else "x")
    if text in ("xzr", "wzr"):
        return Reg(ZERO, text[0])
    if match := _GENERAL.match(text):
        return Reg(f"x{match[2]}", match[1])
    if match := _SCALAR.match(text):
        return Reg(f"v{match[2]}", match[1])
    if match := _VECTOR.match(text):
        return Reg(f"v{match[1]}", "v", match[2] or "", None if match[3] is None else _lane(match[3]))
    return None


def _lane(text: str) -> int:
    return int(text, 16 if text.startswith("0x") else 10)


def number(text: str) -> int | None:
    """Parse a whole number, with or without #; None for other text."""
    match = _NUMBER.match(text.strip().lower())
    if match is None:
        return None
    digits = match[2]
    octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
    try:
        return int(match[1] + digits, 8 if octal else 0)
    except ValueError:  # 08 is not an octal number
        return None


def _split(text: str) -> list[str]:
    """Split a list of operands at the commas outside of brackets."""
    if not text.strip():
        return []
    pieces: list[str] = []
    depth: list[str] = []
    start, quoted = 0, False
    for at, sign in enumerate(text):
        if sign == '"' and text[at - 1 : at] != "'":
            quoted = not quoted
        elif quoted:
            continue
        elif sign in "[{(":
            depth.append(sign)
        elif sign in "]})":
            if not depth or "[{("["]})".index(sign)] != depth.pop():
                raise SyntaxFault(f"{sign!r} closes nothing")
        elif sign == "," and not depth:
            pieces.append(text[start:at].strip())
            start = at + 1
    if depth or quoted:
        raise SyntaxFault(f"{depth[-1] if depth else chr(34)!r} is not closed")
    pieces.append(text[start:].strip())
    if not all(pieces):
        raise SyntaxFault("an operand is missing at a comma")
    return pieces


def _operand(text: str) -> Operand:
    if text[0] == "[":
        return _address(text)
    if text[0] == "{":
        return _list(text)
    register = parse_register(text)
    if register is not None:
        return register
    value = number(text)
    return Imm(value) if value is not None else RawOperand(text)


def _address(text: str) -> Operand:
    mode = "pre" if text.endswith("!") else "offset"
    inside = text.rstrip("!").rstrip()
    if not inside.endswith("]"):
        return RawOperand(text)
    parts = _split(inside[1:-1])
    base = parse_register(parts[0]) if parts else None
    if base is None or base.view != "x":
        return RawOperand(text)
    if len(parts) == 1:
        return Mem(base, mode=mode)
    index = parse_register(parts[1])
    if index is not None:
        if index.is_vector or len(parts) > 3:
            return RawOperand(text)
        extend = " ".join(parts[2].lower().split()) if len(parts) == 3 else ""
        return Mem(base, index=index, extend=extend, mode=mode)
    offset = number(parts[1])
    if len(parts) > 2:
        return RawOperand(text)
    return Mem(base, offset=offset, symbol="" if offset is not None else parts[1], mode=mode)


def _list(text: str) -> Operand:
    match = re.match(r"\{(.*)\}\s*(?:\[\s*(0x[0-9a-f]+|\d+)\s*\])?$", text, re.DOTALL)
    if match is None:
        return RawOperand(text)
    lane = None if match[2] is None else _lane(match[2])
    registers: list[Reg] = []
    for piece in _split(match[1]):
        ends = [parse_register(end) for end in piece.split("-")]
        if len(ends) > 2 or any(end is None or not end.is_vector for end in ends):
            return RawOperand(text)
        first, last = ends[0], ends[-1]
        assert first is not None and last is not None
        count = (int(last.name[1:]) - int(first.name[1:])) % 32 + 1
        registers += [replace(first, name=f"v{(int(first.name[1:]) + i) % 32}") for i in range(count)]
    return RegList(tuple(registers), lane)


def _registers(operand: Operand) -> tuple[Reg, ...]:
    match operand:
        case Reg():
            return (operand,)
        case RegList():
            return operand.registers
        case Mem():
            return (operand.base, operand.index) if operand.index else (operand.base,)
    return ()


def _rename(operand: Operand, names: list[str]) -> Operand:
    match operand:
        case Reg():
            return replace(operand, name=names.pop(0))
        case RegList():
            return replace(operand, registers=tuple(replace(reg, name=names.pop(0)) for reg in operand.registers))
        case Mem(base, index=index):
            base = replace(base, name=names.pop(0))
            return replace(operand, base=base, index=replace(index, name=names.pop(0)) if index else None)
    return operand
