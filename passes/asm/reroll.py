"""Re-rolling: a loop whose body is the same step several times over, as a loop of one step.

    loop:  ldr  q0, [x1]              loop:  ldr  q0, [x1]
           fmla v8.4s, v0.4s, v1.s[0]        fmla v8.4s, v0.4s, v1.s[0]
           ldr  q2, [x1, #16]                add  x1, x1, #16
           fmla v8.4s, v2.4s, v1.s[0]        subs x0, x0, #1
           add  x1, x1, #32                  b.ne loop
           subs x0, x0, #2
           b.ne loop

Compilers unroll with few registers left and fix an order between steps by using them again; one step leaves a scheduler
that overlaps iterations more room, and much less to search. Found from the values: the accesses that a sum's second
step makes are those of its first, one step further on.
Source: LLVM's LoopRerollPass for the idea, there on IR.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.passes.asm.addresses import place_of, tracked
from mavcg.passes.asm.dependences import Code, known
from mavcg.passes.asm.effects import FLAGS
from mavcg.passes.asm.encoding import STEP_LIMIT, at_offset
from mavcg.passes.asm.syntax import Imm, Instr, Mem, Reg
from mavcg.passes.asm.unroll import Count, count_of

MOST_STEPS = 8  # in one body


@dataclass(frozen=True)
class Rerolled:
    """A loop of one step in place of one of `steps`: its body, the branch last, its target as it was."""

    body: tuple[Instr, ...]
    steps: int


def reroll(instrs: Sequence[Instr], live_in: frozenset[str], live_out: frozenset[str]) -> Rerolled | None:
    """One step of a loop, of as many as its body has; None where it is not seen to have several.

    instrs: one iteration, its branch last; pairs parted. live_in, live_out: registers wanted at its top and end.
    """
    code = known(instrs)
    count = count_of(code)
    if count is None or code[-1].instr.mnemonic not in ("b.ne", "cbnz") or count.step & count.step - 1:
        return None
    if FLAGS in live_in or FLAGS in live_out:
        return None
    body = _Body.of(code, count, live_out)
    if body is None or not body.bases:
        return None
    for steps in range(min(MOST_STEPS, count.step), 1, -1):
        if count.step % steps == 0 and (found := body.one_of(steps)) is not None:
            return Rerolled((*found, *_control(code, count, steps)), steps)
    return None


def moves_last(instrs: Sequence[Instr], live_out: frozenset[str]) -> tuple[Instr, ...] | None:
    """The same loop with what moves its pointers at its end, so that no load waits for a move; None where that fails.

    instrs, live_out: as of `reroll`.
    """
    code = known(instrs)
    count = count_of(code)
    body = _Body.of(code, count, live_out) if count is not None else None
    found = body.one_of(1) if body is not None else None
    return (*found, *_control(code, count, 1)) if found is not None and count is not None else None


def _control(code: Sequence[Code], count: Count, steps: int) -> tuple[Instr, ...]:
    """The count and what leads back, of one step."""
    by = (count.register, count.register, Imm(count.step // steps))
    if count.drop:  # a comparison decides
        step = Instr("add" if count.up else "sub", by)
        return (step, *(code[at].instr for at in count.drop), code[-1].instr)
    return (Instr("subs" if count.plain else "sub", by), code[-1].instr)


@dataclass(frozen=True)
class _Body:
    """What a loop's body does beside counting.

    work: indices of its instructions. sources: for each of them, who wrote what it reads, in the order of its accesses:
    an index, or None for what comes in at the top. chains: for each register that is carried on, those that change it,
    in order. moves: by how much each pointer moves in an iteration. bases: where each load loads from.
    """

    code: Sequence[Code]
    work: tuple[int, ...]
    sources: dict[int, tuple[int | None, ...]]
    chains: dict[str, tuple[int, ...]]
    moves: dict[str, int]
    bases: dict[int, tuple[str, int]]

    @staticmethod
    def of(code: Sequence[Code], count: Count, live_out: frozenset[str]) -> "_Body | None":
        """None where it stores, or does anything else that steps are not seen in."""
        values = tracked([(c.instr, c.effects) for c in code])
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
                place = place_of(memory, values[at])
                if memory.store or place.offset is None or place.index or not moves.get(place.root):
                    return None
                if any(a.read and a.role != "addr" for a in c.effects.accesses):  # only a lane is loaded
                    return None
                bases[at] = place.root, place.offset
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

    def one_of(self, steps: int) -> tuple[Instr, ...] | None:
        """One step's work and its moves of the pointers; None where the body is not so many equal steps."""
        if any(len(chain) % steps for chain in self.chains.values()):
            return None
        if any(by % steps or abs(by) >= steps * STEP_LIMIT for by in self.moves.values()):
            return None
        images = [dict[int, int]() for _ in range(steps)]
        for chain in self.chains.values():
            each = len(chain) // steps
            for step in range(steps):
                for at in range(each):
                    if not self._same(chain[at], chain[step * each + at], step, steps, images[step]):
                        return None
        covered = [at for image in images for at in image.values()]
        if sorted(covered) != list(self.work):
            return None
        found = [self._plain(at) for at in sorted(images[0])]
        if any(instr is None for instr in found):
            return None
        adds = [
            Instr("add" if by > 0 else "sub", (Reg(root, "x"), Reg(root, "x"), Imm(abs(by) // steps)))
            for root, by in sorted(self.moves.items())
            if by
        ]
        return (*(instr for instr in found if instr is not None), *adds)

    def _same(self, model: int, at: int, step: int, steps: int, image: dict[int, int]) -> bool:
        """Whether `at` does in this step what `model` does in the first; image: model -> the same in this step."""
        if model in image:
            return image[model] == at
        image[model] = at
        one, other = self.code[model].instr, self.code[at].instr
        if one.mnemonic != other.mnemonic or len(one.operands) != len(other.operands):
            return False
        if model in self.bases or at in self.bases:
            if model not in self.bases or at not in self.bases or not _loads_alike(one, other):
                return False
            (root, offset), (new_root, new_offset) = self.bases[model], self.bases[at]
            return root == new_root and new_offset - offset == step * (self.moves[root] // steps)
        names = tuple(reg.name for reg in one.registers())
        if len(names) != len(other.registers()) or other.with_registers(names) != one:
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
        self, register: str, new_register: str, source: int | None, new_source: int | None, step: int, steps: int,
        image: dict[int, int],
    ) -> bool:  # fmt: skip
        if source is None and register in self.chains:  # of the step before
            chain = self.chains[register]
            before = chain[step * (len(chain) // steps) - 1] if step else None
            return register == new_register and new_source == before
        if source is None or new_source is None:
            return source is None and new_source is None and register == new_register
        return self._same(source, new_source, step, steps, image)

    def _plain(self, at: int) -> Instr | None:
        """The instruction in a body whose pointers move at its end."""
        memory = self.code[at].effects.memory
        if memory is None:
            return self.code[at].instr
        root, offset = self.bases[at]
        instr = self.code[at].instr
        if not isinstance(instr.operands[-1], Mem):  # a register that post-indexes
            return None
        return at_offset(instr, Mem(Reg(root, "x"), offset), memory.bytes)


def _loads_alike(one: Instr, other: Instr) -> bool:
    def shape(instr: Instr) -> list[tuple[str, str]]:
        registers = Instr("", instr.operands[:-1]).registers()
        return [(reg.view, reg.arrangement) for reg in registers]

    return shape(one) == shape(other)


def _sources(code: Sequence[Code], work: Sequence[int]) -> dict[int, tuple[int | None, ...]]:
    writer: dict[str, int] = {}
    found: dict[int, tuple[int | None, ...]] = {}
    for at in work:
        found[at] = tuple(writer.get(a.register) for a in code[at].effects.accesses)
        writer.update({a.register: at for a in code[at].effects.accesses if a.write})
    return found
