"""The dynamic path of a call: the instructions that one run of a function executes, in order, as the models' input.

The function runs in an emulator from described arguments (mavcg/assembly/argument_states.py); each executed word is
disassembled once. A 128-bit access whose address is not a multiple of 16 is marked. Matrix products, which the emulator
lacks, are computed beside it.
"""

import importlib
import re
from dataclasses import dataclass, replace
from typing import Any

from bench.silicon.matrix_products import matrix_product
from mavcg.assembly.argument_states import described_state, parse_arguments
from mavcg.assembly.code_image import PAGE_BYTES, CodeImage
from mavcg.assembly.emulated_memory import EmulatedMemory
from mavcg.assembly.emulation import RETURN_ADDRESS, State
from mavcg.errors import MavcgError
from mavcg.passes.asm.analysis.dependences import Code
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.isa.source import parse_source

SEED = 2  # of memory and unnamed registers; the same for every figure
_WIDE = 16  # bytes of a q register
# Hints on cores without pointer authentication, and a micro-operation or two on those that have it.
_HINTS = re.compile(r"^(paciasp|autiasp)\b.*$")
# A load of a constant from beside the code waits for no register; nothing in a loop here writes the stack pointer.
_LITERAL = re.compile(r"^(ldr(?:sw)? \w+), #0x[0-9a-f]+$")
_TARGET = re.compile(r"^(b|bl|b\.[a-z]{2}|cbn?z|tbn?z)\b(.*?)#?0x[0-9a-f]+$")


class NotModelled(MavcgError):
    """Raised if a model cannot compute a figure; the message is the reason in the row."""


@dataclass(frozen=True)
class Step:
    """One executed instruction.

    address: in the image. unaligned: True for a 16-byte access that is not at a multiple of 16.
    """

    address: int
    unaligned: bool = False


def executed(image: CodeImage, function: str, arguments: str, most: int) -> tuple[Step, ...]:
    """Run the function once with these arguments and return the executed instructions, at most this many.

    Raises: NotModelled if the image has no such function, or the run does not return.
    """
    if function not in image.symbols:
        raise NotModelled(f"no function {function} in the file")
    described = parse_arguments([f"{function}: {arguments}"])[function][0]
    return _Tracer(image).run(image.symbols[function], described_state(SEED, described), most)


def ops_of(image: CodeImage, steps: tuple[Step, ...]) -> tuple[Op, ...]:
    """Return the executed instructions as ops. Raises: NotModelled for an instruction that the models do not know."""
    known = _decoded(image, sorted({step.address for step in steps}))
    wide = {address: replace(op, unaligned=True) for address, op in known.items()}
    return tuple((wide if step.unaligned else known)[step.address] for step in steps)


def _decoded(image: CodeImage, addresses: list[int]) -> dict[int, Op]:
    import capstone

    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    ops = {}
    for address in addresses:
        section = next(s for s in image.sections if s.address <= address < s.address + len(s.data))
        word = section.data[address - section.address : address - section.address + 4]
        decoded = next(decoder.disasm_lite(word, address, 1), None)
        if decoded is None:
            raise NotModelled(f"{image.location(address)}: the disassembler does not know {word[::-1].hex()}")
        text = f"{decoded[2]} {decoded[3]}"
        text = _HINTS.sub("nop", text)
        text = _LITERAL.sub(r"\1, [sp]", text)
        text = _TARGET.sub(r"\1\2.Ltarget", text)
        (statement,) = parse_source(f"\t{text}\n")[:1]
        effect = effects(statement.instr) if statement.instr is not None else None
        if statement.instr is None or effect is None:
            raise NotModelled(f"{image.location(address)}: `{text}` is not known to the models")
        ops[address] = Code(statement.instr, effect).op
    return ops


class _Tracer:
    """Unicorn with hooks that record every instruction and the alignment of its accesses."""

    def __init__(self, image: CodeImage) -> None:
        unicorn = importlib.import_module("unicorn")
        arm = importlib.import_module("unicorn.arm64_const")
        self.image, self.arm, self.error = image, arm, unicorn.UcError
        self.uc: Any = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self.uc.ctl_set_cpu_model(arm.UC_CPU_ARM64_MAX)
        self.uc.ctl_set_tlb_mode(unicorn.UC_TLB_VIRTUAL)
        self.memory = EmulatedMemory(self.uc, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        for section in image.sections:
            size = -(-len(section.data) // PAGE_BYTES) * PAGE_BYTES
            access = unicorn.UC_PROT_READ | (unicorn.UC_PROT_EXEC if section.executable else 0)
            self.memory.fix(section.address, size, access | (unicorn.UC_PROT_WRITE if section.writable else 0))
        self.path: list[int] = []
        self.unaligned: set[int] = set()  # places in the path
        self.uc.hook_add(unicorn.UC_HOOK_CODE, self._on_instruction)
        self.uc.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, self._on_access)
        self.uc.hook_add(unicorn.UC_HOOK_MEM_READ_UNMAPPED | unicorn.UC_HOOK_MEM_WRITE_UNMAPPED, self._on_unmapped)

    def _on_instruction(self, uc: Any, address: int, size: int, data: Any) -> None:
        self.path.append(address)

    def _on_access(self, uc: Any, kind: int, address: int, size: int, value: int, data: Any) -> None:
        # A q register may arrive as one access of 16 bytes or as two of 8, the first at its own address.
        if size >= _WIDE // 2 and address % _WIDE not in (0, _WIDE // 2):
            self.unaligned.add(len(self.path) - 1)
        elif size >= _WIDE and address % _WIDE:
            self.unaligned.add(len(self.path) - 1)

    def _on_unmapped(self, uc: Any, kind: int, address: int, size: int, value: int, data: Any) -> bool:
        return self.memory.grow(address)

    def run(self, entry: int, state: State, most: int) -> tuple[Step, ...]:
        arm = self.arm
        self.path.clear()
        self.unaligned.clear()
        self.memory.begin(state.memory_seed, state.given)
        for section in self.image.sections:
            self.uc.mem_write(section.address, section.data)
        for number, value in enumerate(state.x[:29]):
            self.uc.reg_write(arm.UC_ARM64_REG_X0 + number, value)
        self.uc.reg_write(arm.UC_ARM64_REG_X29, state.x[29])
        for number, value in enumerate(state.v):
            self.uc.reg_write(arm.UC_ARM64_REG_V0 + number, value)
        for register, value in (
            (arm.UC_ARM64_REG_X30, RETURN_ADDRESS),
            (arm.UC_ARM64_REG_SP, state.sp),
            (arm.UC_ARM64_REG_NZCV, state.nzcv << 28),
        ):
            self.uc.reg_write(register, value)
        start = entry
        while (start := self._run_from(start, most - len(self.path))) != RETURN_ADDRESS and len(self.path) < most:
            pass
        if start != RETURN_ADDRESS:
            raise NotModelled(f"a call of more than {most} instructions")
        return tuple(Step(address, index in self.unaligned) for index, address in enumerate(self.path))

    def _run_from(self, start: int, most: int) -> int:
        """Run from an address to the return, to the end of `most` instructions, or past an instruction that was
        computed here; return where it stopped. Raises: NotModelled where it cannot go on.
        """
        program_counter = self.arm.UC_ARM64_REG_PC
        try:
            self.uc.emu_start(start, RETURN_ADDRESS, count=most)
        except self.error as error:
            at = int(self.uc.reg_read(program_counter))
            if self._computes(at):
                return at + 4
            raise NotModelled(f"{self.image.location(at)}: the run ends there ({error})") from None
        return int(self.uc.reg_read(program_counter))

    def _computes(self, at: int) -> bool:
        """Compute the matrix product at an address; return False for any other instruction."""
        if not any(s.executable and s.address <= at < s.address + len(s.data) for s in self.image.sections):
            return False
        first = self.arm.UC_ARM64_REG_V0
        word = int.from_bytes(self.uc.mem_read(at, 4), "little")
        result = matrix_product(word, lambda number: int(self.uc.reg_read(first + number)))
        if result is not None:
            self.uc.reg_write(first + result[0], result[1])
            if not self.path or self.path[-1] != at:
                self.path.append(at)
        return result is not None
