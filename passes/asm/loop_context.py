"""A loop with what its forms share, and the register allocation and spills that they need."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mavcg.hardware.core import LoadPolicy
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.dependences import with_effects
from mavcg.passes.asm.isa.syntax import Instr
from mavcg.passes.asm.transforms.rename_registers import NoRegister, allocate
from mavcg.passes.asm.transforms.split_loads import SplitBody
from mavcg.passes.asm.transforms.vector_spill import VectorSpill, saved_registers, spill_to_vectors

CodeParts = tuple[tuple[str, tuple[Instr, ...]], ...]  # (label or "", instructions), in the order of the text


@dataclass(frozen=True)
class LoopContext:
    """A loop of one block, and what all its forms share.

    instrs: one iteration, its branch last. live_in, live_out: registers live at its top and end; a spilled register is
    replaced by the vector register that holds it. timing, policy: of the core. prefix: of new labels. spill: around
    the loop. spare: registers that the loop may use although `instrs` do not: the original loop used them, or the
    function has saved them.
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
        """Return the loop with a spill that frees general registers, if a form needs scratch registers.

        Registers that the original loop uses do not hold spilled values: it may run the last iterations of an unrolled
        form. released: as in spill_to_vectors, for a form that runs all iterations itself.
        """
        accessed = frozenset(reg.name for instr in (*form.instrs, *self.instrs) for reg in instr.registers())
        spill = spill_to_vectors(accessed, self.live_in, self.live_out, released) if form.scratch else VectorSpill()
        live_in, live_out = ((live - spill.registers) | spill.holders for live in (self.live_in, self.live_out))
        saved = saved_registers(accessed | self.live_in | self.live_out)
        return replace(self, live_in=live_in, live_out=live_out, spill=spill, spare=self.spare | saved)

    def has_registers_for(self, instrs: Sequence[Instr]) -> bool:
        """True if there are enough registers for the values of these instructions."""
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
        """Allocate registers to a form's instructions. carried: further live registers. Raises: NoRegister."""
        spare = self.spill.registers | self.spare
        return allocate(with_effects(instrs), self.live_in | carried, self.live_out | carried, spare)
