"""Re-rolling: replaces a loop whose body repeats one step several times by a loop of one step.

    loop:  ldr  q0, [x1]              loop:  ldr  q0, [x1]
           fmla v8.4s, v0.4s, v1.s[0]        fmla v8.4s, v0.4s, v1.s[0]
           ldr  q2, [x1, #16]                add  x1, x1, #16
           fmla v8.4s, v2.4s, v1.s[0]        subs x0, x0, #1
           add  x1, x1, #32                  b.ne loop
           subs x0, x0, #2
           b.ne loop

Compilers unroll a loop although few registers are free, and the reuse of registers then orders the steps. A loop of one
step gives modulo scheduling more freedom and much less to search. Steps are recognised by their data flow: each step
does the same operations, with memory accesses one step further on.
Source: LLVM's LoopRerollPass for the idea, there on IR.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.passes.asm.analysis.aliasing import address_range, track_registers
from mavcg.passes.asm.analysis.dependences import Code, with_effects
from mavcg.passes.asm.analysis.loop_nest import LoopCounter, loop_counter
from mavcg.passes.asm.isa.effects import FLAGS
from mavcg.passes.asm.isa.encoding import STEP_LIMIT, at_offset
from mavcg.passes.asm.isa.syntax import Imm, Instr, Mem, Reg

MOST_STEPS = 8  # maximum of steps that are recognised in one body


@dataclass(frozen=True)
class Rerolled:
    """A loop of one step that replaces a loop of `steps` steps. body: its branch last, with the old target."""

    body: tuple[Instr, ...]
    steps: int


def reroll(instrs: Sequence[Instr], live_in: frozenset[str], live_out: frozenset[str]) -> Rerolled | None:
    """Re-roll a loop to one step; None if its body is not recognised as several equal steps.

    instrs: one iteration, its branch last, load pairs split. live_in, live_out: registers live at its top and end.
    """
    code = with_effects(instrs)
    count = loop_counter(code)
    if count is None or code[-1].instr.mnemonic not in ("b.ne", "cbnz") or count.step & count.step - 1:
        return None
    if FLAGS in live_in or FLAGS in live_out:
        return None
    body = _Body.of(code, count, live_out)
    if body is None or not body.bases:
        return None
    for steps in range(min(MOST_STEPS, count.step), 1, -1):
        if count.step % steps == 0 and (step := body.first_step(steps)) is not None:
            return Rerolled((*step, *_control(code, count, steps)), steps)
    return None


def sink_pointer_updates(instrs: Sequence[Instr], live_out: frozenset[str]) -> tuple[Instr, ...] | None:
    """Move the updates of pointers to the loop's end, so that no load waits for one; None if that is not possible.

    instrs, live_out: as in `reroll`.
    """
    code = with_effects(instrs)
    count = loop_counter(code)
    body = _Body.of(code, count, live_out) if count is not None else None
    step = body.first_step(1) if body is not None else None
    return (*step, *_control(code, count, 1)) if step is not None and count is not None else None


def _control(code: Sequence[Code], count: LoopCounter, steps: int) -> tuple[Instr, ...]:
    """Return the update of the counter and the branch of a loop of one step."""
    operands = (count.register, count.register, Imm(count.step // steps))
    if count.drop:  # a comparison decides the branch
        step = Instr("add" if count.up else "sub", operands)
        return (step, *(code[at].instr for at in count.drop), code[-1].instr)
    return (Instr("subs" if count.plain else "sub", operands), code[-1].instr)


@dataclass(frozen=True)
class _Body:
    """The body of a loop without counter, comparison, branch and pointer updates; instructions are indices into `code`.

    work: its instructions. sources: instruction -> for each of its accesses, the instruction that wrote the register;
    None for a live-in value. chains: loop-carried register -> the instructions that change it, in order. moves: pointer
    -> its increment per iteration, in bytes. bases: load -> root and offset of its address (aliasing.py).
    """

    code: Sequence[Code]
    work: tuple[int, ...]
    sources: dict[int, tuple[int | None, ...]]
    chains: dict[str, tuple[int, ...]]
    moves: dict[str, int]
    bases: dict[int, tuple[str, int]]

    @staticmethod
    def of(code: Sequence[Code], count: LoopCounter, live_out: frozenset[str]) -> "_Body | None":
        """Analyse a loop's body; None if it stores, or has other effects that rule out equal steps."""
        values = track_registers([(c.instr, c.effects) for c in code])
        counter = count.register.name
        moves = {r: by for r, (root, by) in values[-1].items() if root == r and r != counter}
        pointers = frozenset(moves)
        if "sp" in pointers:
            return None
        control = {*count.drop, len(code) - 1}
        work: list[int] = []
        bases: dict[int, tuple[str, int]] = {}
        for at, c in enumerate(code):
            writes = c.effects.writes()
            if at in control or counter in writes:
                continue
            if writes and writes <= pointers and c.effects.memory is None:
                if c.effects.op_class != "alu" or c.effects.reads() - writes:
                    return None
                continue
            touched = {a.register for a in c.effects.accesses if a.role != "addr"}
            if touched & pointers or counter in touched or FLAGS in c.effects.reads() | writes:
                return None
            memory = c.effects.memory
            if memory is not None:
                source = address_range(memory, values[at])
                if memory.store or source.offset is None or source.index or not moves.get(source.root):
                    return None
                if any(a.read and a.role != "addr" for a in c.effects.accesses):  # only a lane is loaded
                    return None
                bases[at] = source.root, source.offset
            work.append(at)
        written = {a.register for at in work for a in code[at].effects.accesses if a.write} - pointers
        chains = {
            register: tuple(at for at in work if register in code[at].effects.writes())
            for register in written & live_out
        }
        for register, chain in chains.items():
            if any(register not in code[at].effects.reads() for at in chain):
                return None
        if not chains or any(written & code[at].effects.reads() for at in control):
            return None
        return _Body(code, tuple(work), _sources(code, work), chains, moves, bases)

    def first_step(self, steps: int) -> tuple[Instr, ...] | None:
        """Return the work and pointer updates of one step; None if the body does not consist of `steps` equal steps."""
        if any(len(chain) % steps for chain in self.chains.values()):
            return None
        if any(by % steps or abs(by) >= steps * STEP_LIMIT for by in self.moves.values()):
            return None
        images = [dict[int, int]() for _ in range(steps)]
        for chain in self.chains.values():
            length = len(chain) // steps
            for step in range(steps):
                for at in range(length):
                    if not self._matches_first_step(chain[at], chain[step * length + at], step, steps, images[step]):
                        return None
        covered = [at for image in images for at in image.values()]
        if sorted(covered) != list(self.work):
            return None
        step_code = [self._plain(at) for at in sorted(images[0])]
        if any(instr is None for instr in step_code):
            return None
        adds = [
            Instr("add" if by > 0 else "sub", (Reg(root, "x"), Reg(root, "x"), Imm(abs(by) // steps)))
            for root, by in sorted(self.moves.items())
            if by
        ]
        return (*(instr for instr in step_code if instr is not None), *adds)

    def _matches_first_step(self, model: int, at: int, step: int, steps: int, image: dict[int, int]) -> bool:
        """True if instruction `at` does in this step what `model` does in the first.

        image: instruction of the first step -> its counterpart in this step; extended here.
        """
        if model in image:
            return image[model] == at
        image[model] = at
        first, second = self.code[model].instr, self.code[at].instr
        if first.mnemonic != second.mnemonic or len(first.operands) != len(second.operands):
            return False
        if model in self.bases or at in self.bases:
            if model not in self.bases or at not in self.bases or not _loads_alike(first, second):
                return False
            (root, offset), (new_root, new_offset) = self.bases[model], self.bases[at]
            return root == new_root and new_offset - offset == step * (self.moves[root] // steps)
        names = tuple(reg.name for reg in first.registers())
        if len(names) != len(second.registers()) or second.with_registers(names) != first:
            return False
        for a, b, source, new_source in zip(
            self.code[model].effects.accesses,
            self.code[at].effects.accesses,
            self.sources[model],
            self.sources[at],
            strict=True,
        ):
            if a.write and a.register in self.chains and a.register != b.register:
                return False
            if a.read and not self._same_value(a.register, b.register, source, new_source, step, steps, image):
                return False
        return True

    def _same_value(
        self,
        register: str,
        new_register: str,
        source: int | None,
        new_source: int | None,
        step: int,
        steps: int,
        image: dict[int, int],
    ) -> bool:
        if source is None and register in self.chains:  # of the step before
            chain = self.chains[register]
            before = chain[step * (len(chain) // steps) - 1] if step else None
            return register == new_register and new_source == before
        if source is None or new_source is None:
            return source is None and new_source is None and register == new_register
        return self._matches_first_step(source, new_source, step, steps, image)

    def _plain(self, at: int) -> Instr | None:
        """Return an instruction of a body that updates its pointers at the end; None if its offset has no encoding."""
        memory = self.code[at].effects.memory
        if memory is None:
            return self.code[at].instr
        root, offset = self.bases[at]
        instr = self.code[at].instr
        if not isinstance(instr.operands[-1], Mem):  # a register that post-indexes
            return None
        return at_offset(instr, Mem(Reg(root, "x"), offset), memory.bytes)


def _loads_alike(first: Instr, second: Instr) -> bool:
    def shape(instr: Instr) -> list[tuple[str, str]]:
        registers = Instr("", instr.operands[:-1]).registers()
        return [(reg.view, reg.arrangement) for reg in registers]

    return shape(first) == shape(second)


def _sources(code: Sequence[Code], work: Sequence[int]) -> dict[int, tuple[int | None, ...]]:
    writer: dict[str, int] = {}
    sources: dict[int, tuple[int | None, ...]] = {}
    for at in work:
        sources[at] = tuple(writer.get(a.register) for a in code[at].effects.accesses)
        writer.update({a.register: at for a in code[at].effects.accesses if a.write})
    return sources
