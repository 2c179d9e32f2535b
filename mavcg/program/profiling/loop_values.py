"""Follows values through one pass of a loop: what is loaded, multiplied, summed up, stored."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mavcg.program.profiling.code_loops import Instruction

_MEMORY = re.compile(r"(?<![\w.])\[((?:x\d+|sp|[re]?[a-z]{2}|r\d+|rip)\b[^\]]*)\]")
_STACK = re.compile(r"(?:rsp|rbp|sp)(?:(?: [+-] |, #)-?(?:0x[0-9a-f]+|\d+))?")
_VECTOR = re.compile(r"[xyz]mm(\d+)|[vqdshb](\d+)(?:\..*)?")
_GENERAL = re.compile(r"[wx](\d+)|r?([abcd])[xlh]|e([abcd])x|[re]?([sd]i|bp)l?|r(\d+)[dwb]?")

# SSE instructions that keep a part of their first operand.
_MERGES = re.compile(r"unpck|punpck|shufp|pack|palignr|blend|p?insr|mov[lh]")

# Kinds of instructions by mnemonic, x86-64 (with or without the v of AVX) and AArch64; the first that matches counts.
_KINDS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("fused", r"vfn?m(add|sub)(132|213|231)[sp][sdh]"),
        ("into", r"vpdp\w+|fml[as]l?2?|ml[as]|[su]ml[as]l2?|su?dot|us?dot|[su]s?mmla|bfdot|bfmmla|bfmlal[bt]"),
        ("added", r"fn?m(add|sub)|m(add|sub)|[su]m(add|sub)l"),
        ("mul", r"v?mul[sp][sdh]|v?pmul\w+|v?pmadd\w+|imul|fn?mulx?|[su]mull2?|mul"),
        (
            "add",
            r"v?(add|sub)[sp][sdh]|v?p(add|sub)\w+|v?h?add\w*|f?(add|sub)p?|[su](add|sub)[wl]2?"
            r"|[su]adalp|[su]addlp",
        ),
        ("max", r"v?(max|min)[sp][sdh]|v?p(max|min)\w+|f(max|min)(nm)?p?|[su](max|min)p?"),
        ("select", r"fcsel|csel|cmov\w+|v?blendv\w+|v?pblendvb|bsl|bif|bit"),
        ("divide", r"v?(div|sqrt|rcp|rsqrt)\w+|v?rsqrt\w+|f(div|sqrt)|fr(ecp|sqrt)[es]"),
        (
            "move",
            r"v?mov\w*|v?p?shuf\w*|v?p?unpck\w*|v?punpck\w+|v?p?broadcast\w*|v?p?perm\w*|v?p?inse?rt\w*"
            r"|v?p?extr\w*|v?pack\w+|v?palignr|v?p?blend(p[sd]|[wd])|v?pmov[sz]x\w+|v?psra[wdq]|v?lddqu|cdqe"
            r"|dup|zip[12]|uzp[12]|trn[12]|ext|rev\d*|[us]xtl2?|[us]shll2?|fmov|ins|xtn2?|[us]xt[bhw]|[us]mov|mvn?",
        ),
        ("load", r"ldu?r\w*|ldn?p\w*|ld[1-4]r?"),
        ("store", r"stu?r\w*|stn?p|st[1-4]"),
        ("call", r"call|bl|blr"),
        ("string", r"rep \w+"),
        ("nothing", r"cmp|test|v?u?comis[sd]|fcmpe?|cmn|tst|j\w+|b|b\.\w+|cbn?z|tbn?z|nop|push|pop|ret|prfm|endbr64"),
    )
)


@dataclass(frozen=True)
class LoopValue:
    """A register's value in one pass.

    loads: places it was computed from. carried: registers of the pass's begin that it adds to. added: places in memory
    whose value it adds to. products: multiply-adds in it. square, constant: a product is of a value by itself, or by
    one that this loop does not load. changed: some arithmetic was done. compared: by max, min or a choice.
    """

    loads: frozenset[str] = frozenset()
    carried: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    products: int = 0
    square: bool = False
    constant: bool = False
    changed: bool = False
    compared: int = 0


@dataclass
class LoopFacts:
    """The effects of one pass of a loop.

    stores: (place, value), without those whose address is computed from what is loaded: these are scattered.
    decisions: comparisons of loaded values. vectors: floating-point or vector registers are used.
    frame: registers of the stack frame in this loop.
    """

    registers: dict[str, LoopValue] = field(default_factory=dict)
    stores: list[tuple[str, LoopValue]] = field(default_factory=list)
    loads: int = 0
    multiply_adds: int = 0
    calls: int = 0
    divides: int = 0
    strings: int = 0
    scattered: int = 0
    decisions: int = 0
    vectors: bool = False
    frame: tuple[str, ...] = ("rsp", "rbp", "sp")

    def is_local(self, place: str) -> bool:
        """True for an address of the stack frame that is the same in each pass."""
        return _STACK.fullmatch(place) is not None and place.startswith(self.frame)

    def reductions(self) -> dict[str, LoopValue]:
        """Return register -> value for those that sum up, or keep the largest of, what is loaded."""
        return {name: value for name, value in self.registers.items() if name in value.carried and value.loads}


def kind_of(mnemonic: str) -> str:
    """Return the kind of an instruction; "other" for one that no table has."""
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(mnemonic)), "other")


def operands_of(text: str) -> list[str]:
    """Split operands at commas outside of brackets and braces."""
    return [part.strip(" {}") for part in re.split(r",(?![^\[]*\])", text)] if text else []


def register_of(operand: str) -> str:
    """Return one name for all widths of a register; "" for something else."""
    if vector := _VECTOR.fullmatch(operand):
        return "v" + (vector[1] or vector[2])
    general = _GENERAL.fullmatch(operand)
    return next((f"g{group}" for group in general.groups() if group), "") if general else ""


def loop_facts(body: Sequence[Instruction]) -> LoopFacts:
    """Follow the values through the instructions of a loop, in the order of addresses.

    What one pass loads for the next (a loop that was pipelined) counts as loaded: so a first pass is followed before.
    """
    ahead = {name: v for name, v in _pass(body, {}).registers.items() if v.loads and not v.changed and not v.carried}
    return _pass(body, ahead)


def _pass(body: Sequence[Instruction], registers: Mapping[str, LoopValue]) -> LoopFacts:
    # Without a frame pointer, rbp is a register as others: a loop that moves it along an array says so.
    moved = any(operands_of(i.operands)[:1] == ["rbp"] for i in body)
    facts = LoopFacts(dict(registers), frame=("rsp", "sp") if moved else ("rsp", "rbp", "sp"))
    facts.vectors = any(register_of(o).startswith("v") for i in body for o in operands_of(i.operands))
    for instruction in body:
        _step(facts, instruction)
    return facts


def _place(operand: str) -> str:
    """Return the address that an operand names; "" for none."""
    memory = _MEMORY.search(operand)
    return memory[1] if memory else ""


def _read(facts: LoopFacts, operand: str) -> LoopValue:
    place = _place(operand)
    if place:
        if facts.is_local(place):
            return facts.registers.get(place, LoopValue(carried=frozenset((place,))))
        if place.startswith("rip"):
            return LoopValue()  # a constant
        facts.loads += 1
        return LoopValue(loads=frozenset((place,)), added=frozenset((place,)))
    name = register_of(operand)
    return facts.registers.get(name, LoopValue(carried=frozenset((name,)))) if name else LoopValue()


def _of_registers(facts: LoopFacts, place: str) -> LoopValue:
    """Return what an address is computed from."""
    return _union([_read(facts, name) for name in re.findall(r"\w+", place)], changed=True)


def _write(facts: LoopFacts, operand: str, value: LoopValue) -> None:
    place = _place(operand)
    if place and not facts.is_local(place):
        if _of_registers(facts, place).loads:
            facts.scattered += 1
        else:
            facts.stores.append((place, value))
    elif name := place or register_of(operand):
        facts.registers[name] = value


def _step(facts: LoopFacts, instruction: Instruction) -> None:
    kind, operands = kind_of(instruction.mnemonic), operands_of(instruction.operands)
    if kind in ("call", "divide", "string"):
        facts.calls += kind == "call"
        facts.divides += kind == "divide"
        facts.strings += kind == "string"
    if instruction.mnemonic.lstrip("vuf").startswith(("cmp", "test", "comis")):
        facts.decisions += any(bool(_read(facts, operand).loads) for operand in operands)
    if kind in ("nothing", "call", "string") or not operands:
        return
    if kind in ("load", "store"):
        at = next((n for n, operand in enumerate(operands) if _place(operand)), 0)
        for operand in operands[:at]:
            if kind == "load":
                _write(facts, operand, _read(facts, operands[at]))
            else:
                _write(facts, operands[at], _read(facts, operand))
        return
    first, sources = operands[0], operands[1:]
    if instruction.mnemonic in ("lea", "adr", "adrp"):
        value = _of_registers(facts, _place(operands[-1]))
        _write(facts, first, value if value.loads else LoopValue())
    elif "xor" in instruction.mnemonic and len(set(sources or [first])) == 1 and sources[-1] == first:
        _write(facts, first, LoopValue())
    elif kind == "move":
        read = [first, *sources] if _MERGES.match(instruction.mnemonic) else sources
        values = [_read(facts, source) for source in read if not source.startswith("0x")] or [LoopValue()]
        _write(facts, first, _union(values, changed=False))
    else:
        _write(facts, first, _result(facts, kind, instruction.mnemonic, operands))


def _result(facts: LoopFacts, kind: str, mnemonic: str, operands: list[str]) -> LoopValue:
    two_operands = len(operands) <= 2  # x86: the first is read too
    names = operands if two_operands or kind in ("fused", "into") else operands[1:]
    values = [_read(facts, name) for name in names]
    if kind == "into":  # first += second * third
        return _sum(facts, values[0], _product(values[1], values[-1]))
    if kind == "added":
        return _sum(facts, values[2], _product(values[0], values[1]))
    if kind == "fused":
        a, b, c = values
        order = re.search(r"\d{3}", mnemonic)
        factors = {"231": (b, c, a), "213": (b, a, c), "132": (a, c, b)}[order[0] if order else "231"]
        return _sum(facts, factors[2], _product(factors[0], factors[1]))
    if kind == "mul":
        return _product(values[0], values[1]) if len(values) > 1 else _union(values, changed=True)
    if kind == "add" and len(values) > 1:
        return _sum(facts, values[0], values[1])
    if kind in ("max", "select"):
        joined = _union(values, changed=True)
        return replace(
            joined,
            carried=frozenset().union(*(value.carried for value in values)),
            compared=1 + sum(value.compared for value in values),
        )
    return _union(values, changed=True)


def _product(a: LoopValue, b: LoopValue) -> LoopValue:
    """Return a product.

    Sums of products times a constant remain such sums; times what is loaded, as in Horner's rule, they do not.
    """
    loads = a.loads | b.loads
    summed = a.products + b.products
    products = (summed if not (a.loads and b.loads) else 0) if summed else int(bool(loads))
    return LoopValue(
        loads,
        products=products,
        square=bool(loads) and a == b,
        constant=not (a.loads and b.loads),
        changed=True,
    )


def _sum(facts: LoopFacts, a: LoopValue, b: LoopValue) -> LoopValue:
    facts.multiply_adds += 1 if a.products or b.products else 0
    return LoopValue(
        a.loads | b.loads,
        a.carried | b.carried,
        a.added | b.added,
        a.products + b.products,
        a.square or b.square,
        a.constant or b.constant,
        True,
        max(a.compared, b.compared),
    )


def _union(values: Sequence[LoopValue], changed: bool) -> LoopValue:
    loads = frozenset().union(*(value.loads for value in values))
    of_one = values[0] if len(values) == 1 else None
    return LoopValue(
        loads,
        of_one.carried if of_one and not changed else frozenset(),
        of_one.added if of_one and not changed else frozenset(),
        max(value.products for value in values),
        any(value.square for value in values),
        any(value.constant for value in values),
        changed or any(value.changed for value in values),
        max(value.compared for value in values),
    )
