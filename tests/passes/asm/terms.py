"""Instructions carried out on symbols: each result is a term of the instruction and what it read.

Two pieces of code do the same when they leave the same terms; nothing but the tables of instruction.py is believed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mavcg.passes.asm.isa.effects import FLAGS, Access
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.syntax import Instr


@dataclass
class Symbols:
    """Registers by name, each a hash of how it was made; memory as the hash of all stores so far, in order."""

    values: dict[str, int] = field(default_factory=dict)
    memory: int = 0

    def read(self, register: str) -> int:
        return self.values.setdefault(register, hash(("at the top", register)))

    def do(self, instr: Instr) -> None:
        effect = effects(instr)
        assert effect is not None, str(instr)
        registers = instr.registers()
        names = tuple("" if r.name not in ("sp", "xzr") else r.name for r in registers)
        shape = str(instr.with_registers(tuple(f"{n or r.name[0]}#" for n, r in zip(names, registers, strict=True))))
        inputs = [self.read(a.register) for a in sorted(effect.accesses, key=_place) if a.read]
        if effect.reads_flags:
            inputs.append(self.read(FLAGS))
        if effect.memory is not None and effect.memory.load:
            inputs.append(self.memory)
        term = hash((shape, *inputs))
        if effect.memory is not None and effect.memory.store:
            self.memory = hash((self.memory, term))
        for access in effect.accesses:
            if access.write:
                self.values[access.register] = hash((term, access.position))
        if effect.writes_flags:
            self.values[FLAGS] = hash((term, FLAGS))

    def run(self, code: Iterable[Instr]) -> "Symbols":
        for instr in code:
            self.do(instr)
        return self

    def left(self, registers: Iterable[str]) -> Mapping[str, int]:
        return {register: self.read(register) for register in registers} | {"memory": self.memory}


def _place(access: Access) -> int:
    return access.position
