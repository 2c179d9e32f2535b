"""One instruction of each class as a template, whose registers are chosen: the bricks of the loops that are timed.

Registers of all loops: x0 counts iterations, x1 points to memory, x2 to x5 and v0 to v5 are never written, the others
are free. A value passes between instructions in one of three domains: general registers, vector registers, flags.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from mavcg.hardware.instr_classes import CLASSES
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.dependences import code_of
from mavcg.passes.asm.isa.effects import FLAGS
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.syntax import parse_instr

GENERAL, VECTOR, CONDITION = "x", "v", FLAGS
WRITEBACK = "writeback"
# Classes whose example needs a label or has no effect that a loop shows otherwise.
_TEXTS = {
    "branch": "b 1f\n1:",
    "branch_cond": "b.ne 1f\n1:",
    "branch_test": "cbnz x2, 1f\n1:",
    "adr": "adr x0, .",
    WRITEBACK: "ldr d0, [x1], #0",
}
_LEFT_OUT = frozenset({"call", "branch_reg"})  # in a row they spoil the predictor of returns, or need an address each
EXTENSIONS = {  # LLVM's name of the extension that a class needs, by the begin of the class's name
    "dot_": "dotprod",
    "bfdot_": "bf16",
    "bfmmla": "bf16",
    "bfmlal": "bf16",
    "mmla": "i8mm",
    "sha_": "sha2",
    "sha1_": "sha2",
    "sha256": "sha2",
    "sha512": "sha3",
    "sha3": "sha3",
    "rax1": "sha3",
    "xar": "sha3",
    "crypto": "aes",
    "crc": "crc",
}
_TOKEN = re.compile(r"\b([xwvqdsbh])(\d{1,2})\b")


@dataclass(frozen=True)
class Template:
    """An instruction of one class.

    op_class: its instruction class; producer: the class whose latency its result has, "writeback" for an updated
    address. text: the instruction. reads: (register, role) of each operand that it waits for. writes: its result in
    each domain, by domain. lists: registers that follow one another, such as those of `ld1 {v0.4s, v1.4s}`.
    """

    op_class: str
    producer: str
    text: str
    reads: tuple[tuple[str, str], ...]
    writes: tuple[tuple[str, str], ...]
    lists: tuple[tuple[str, ...], ...]
    loads: bool = False
    stores: bool = False

    def result(self, domain: str) -> str | None:
        """Return the register of the result in a domain; None if there is none."""
        return dict(self.writes).get(domain)

    @property
    def address(self) -> str | None:
        """The register of the address; None if memory is not accessed."""
        return next((register for register, role in self.reads if role == "addr"), None)

    def with_registers(self, renamed: Mapping[str, str]) -> str:
        """Return the text with registers replaced, by their whole names: {"v0": "v16"} replaces s0 and q0 too."""

        def other(match: re.Match[str]) -> str:
            whole = domain_of(match[1]) + match[2]
            return match[1] + renamed[whole][1:] if whole in renamed else match[0]

        return _TOKEN.sub(other, self.text)


def domain_of(register: str) -> str:
    """Return the domain of a register, by any of its names."""
    if register == FLAGS:
        return CONDITION
    return GENERAL if register[0] in "xw" else VECTOR


def extension_of(op_class: str) -> str | None:
    """Return the extension that instructions of a class need; None for those of every core."""
    return next((name for start, name in EXTENSIONS.items() if op_class.startswith(start)), None)


def templates(timing: Timing, extensions: frozenset[str]) -> dict[str, Template]:
    """Return the templates of a core, by class: of all classes with a timing whose instructions the core has."""
    found = {}
    for name in CLASSES:
        needs = extension_of(name)
        if name not in _LEFT_OUT and _is_known(name, timing) and (needs is None or needs in extensions):
            made = _template(name)
            reads = tuple((reg, role) for reg, role in made.reads if not timing.independent(made.op_class, role))
            found[name] = Template(**{**made.__dict__, "reads": reads})
    return found


def _is_known(name: str, timing: Timing) -> bool:
    from mavcg.hardware.timing import MissingFact

    try:
        timing.of(name)
    except MissingFact:
        return False
    return True


@cache
def _template(name: str) -> Template:
    text = _TEXTS.get(name, CLASSES[name].example)
    instr = parse_instr(text.split("\n")[0].replace("1f", ".L"))
    known = effects(instr)
    assert known is not None, text  # the examples are of the tables themselves
    op = code_of(instr).op
    writes: dict[str, str] = {}
    for register in op.writes:
        if (register == op.writeback) == (name == WRITEBACK):
            writes.setdefault(domain_of(register), register)
    lists = tuple(tuple(found) for found in _lists(text))
    memory = known.memory
    return Template(
        op.op_class,
        WRITEBACK if name == WRITEBACK else op.op_class,
        text,
        tuple(dict.fromkeys((read.register, read.role) for read in op.reads)),
        tuple(writes.items()),
        lists,
        memory is not None and memory.load,
        memory is not None and memory.store,
    )


def _lists(text: str) -> list[list[str]]:
    found = [re.findall(r"v\d+", inside) for inside in re.findall(r"\{([^}]*)\}", text)]
    return [names for names in found if len(names) > 1]
