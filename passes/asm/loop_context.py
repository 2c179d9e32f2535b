"""A loop with its registers: register allocation of its forms, and spills to vector registers around it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mavcg.hardware.core import LoadPolicy
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.dependences import with_effects
from mavcg.passes.asm.isa.syntax import Instr
from mavcg.passes.asm.transforms.rename_registers import NoRegister, allocate
from mavcg.passes.asm.transforms.split_loads import SplitBody
from mavcg.passes.asm.transforms.vector_spill import VectorSpill, saved_registers, spill_to_vectors

CodeParts = tuple[tuple[str, tuple[Instr, ...]], ...]  # parts of text, in order, each with the label at its top


@dataclass(frozen=True)
class LoopContext:
    """The parts of a loop that all its forms share: instructions, live registers, core, spill.

    live_in, live_out: without the spilled registers, with the vector registers that hold them. spare: registers that
    the loop may use although its instructions do not: the original loop used them, or the function has saved them.
    """

    instrs: tuple[Instr, ...]
    live_in: frozenset[str]
    live_out: frozenset[str]
    timing: Timing
    policy: LoadPolicy
    prefix: str
    spill: VectorSpill = VectorSpill()
    spare: frozenset[str] = frozenset()

    def with_vector_spill(self, form: SplitBody, released: Sequence[str] = ()) -> "LoopContext":
        """Return the loop with general registers freed for a form's scratch registers, as far as it lacks them.

        Registers of the original loop hold no spilled values either: it may run the epilogue of an unrolled form.
        released: as of spill_to_vectors, for a form that runs all iterations itself.
        """
        accessed = frozenset(reg.name for instr in (*form.instrs, *self.instrs) for reg in instr.registers())
        spill = spill_to_vectors(accessed, self.live_in, self.live_out, released) if form.scratch else VectorSpill()
        live_in, live_out = ((live - spill.registers) | spill.holders for live in (self.live_in, self.live_out))
        saved = saved_registers(accessed | self.live_in | self.live_out)
        return replace(self, live_in=live_in, live_out=live_out, spill=spill, spare=self.spare | saved)

    def has_registers_for(self, instrs: Sequence[Instr]) -> bool:
        """True if there are enough registers for the values in these instructions."""
        try:
            self.allocate(instrs)
        except NoRegister:
            return False
        return True

    def with_spill_code(self, parts: CodeParts) -> CodeParts:
        """Return the loop's parts with the spill code around them."""
        if not self.spill.before:
            return parts
        return (("", self.spill.before), *parts, ("", self.spill.after))

    def allocate(self, instrs: Sequence[Instr], carried: frozenset[str] = frozenset()) -> tuple[Instr, ...]:
        """Allocate registers to instructions. Raises: NoRegister."""
        spare = self.spill.registers | self.spare
        return allocate(with_effects(instrs), self.live_in | carried, self.live_out | carried, spare)
