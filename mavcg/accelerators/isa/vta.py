"""VTA's instructions, micro-operations and memories: forms of 128 bits, encoded and decoded as VTA's hardware reads.

Facts: T. Moreau et al., "A Hardware-Software Blueprint for Flexible Deep Learning Specialization", IEEE Micro 39(5),
2019; Apache TVM, "VTA Hardware Guide"; field widths and codes of the published header hw_spec.h for the default
configuration (block 16, 8-bit inputs and weights, 32-bit accumulators), to which every size below belongs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mavcg.accelerators.isa.forms import InstructionField, InstructionForm
from mavcg.accelerators.isa.instruction import AccelInstruction, check_instruction
from mavcg.errors import MavcgError

VTA_UNITS = ("load", "compute", "store")  # tokens pass between neighbours only
LOAD, COMPUTE, STORE = range(3)
BLOCK = 16  # channels of a vector; a weight block is BLOCK x BLOCK
INSTRUCTION_BYTES = 16


@dataclass(frozen=True)
class VtaMemory:
    """A memory on chip. depth: its elements. element_bytes: size of one in DDR memory, the unit of dram_base there."""

    name: str
    number: int
    depth: int
    element_bytes: int


MICRO_OPS = VtaMemory("micro-op memory", 0, 8192, 4)
WEIGHTS = VtaMemory("weight memory", 1, 1024, BLOCK * BLOCK)
INPUTS = VtaMemory("input memory", 2, 2048, BLOCK)
SUMS = VtaMemory("accumulator memory", 3, 2048, 4 * BLOCK)
OUTPUTS = VtaMemory("output memory", 4, 2048, BLOCK)  # the low bytes of the accumulators, index by index
SUMS_OF_BYTES = VtaMemory("accumulator memory", 5, 2048, BLOCK)  # 8-bit vectors, extended to 32 bits by their load
ALU_OPS = ("min", "max", "add", "shr", "mul")  # by the field alu_opcode
# Operands of shr and mul have 5 and 8 bits, signed, in the hardware; a negative shift is to the left.
MOST_SHIFT, LEAST_SHIFT = 15, -16
MICRO_OP_BITS = (11, 11, 10)  # index of the accumulator, of the input (or second accumulator), of the weight block
_OPCODES = {"load": 0, "store": 1, "gemm": 2, "finish": 3, "alu": 4}


@dataclass(frozen=True)
class VtaForm(InstructionForm):
    """The layout of a VTA instruction. opcode: its first three bits. memory: number of its memory; None without one."""

    opcode: int = 0
    memory: int | None = None

    @property
    def units(self) -> tuple[str, ...]:
        """Return the units by their bits in masks."""
        return VTA_UNITS

    @cached_property
    def words(self) -> int:
        """Return the length in 32-bit words."""
        return INSTRUCTION_BYTES // 4

    @property
    def first_bit(self) -> int:
        """Return the bit at which the fields begin: after opcode and tokens, and the number of a memory."""
        return 7 + (3 if self.memory is not None else 0)

    @property
    def part_bits(self) -> int:
        """Return the size of the two halves of an instruction, which no field crosses."""
        return 8 * INSTRUCTION_BYTES // 2


def _field(name: str, bits: int, meaning: str, signed: bool = False) -> InstructionField:
    return InstructionField(name, bits, meaning, signed)


_MOVE = (
    _field("sram_base", 16, "first element on chip"),
    _field("dram_base", 32, "first element in the segment of DDR memory, counted in elements"),
    _field("y_size", 16, "rows"),
    _field("x_size", 16, "elements of a row"),
    _field("x_stride", 16, "elements from a row to the next, in DDR memory"),
    _field("y_pad_0", 4, "rows of zeros before"),
    _field("y_pad_1", 4, "rows of zeros after"),
    _field("x_pad_0", 4, "zeros before each row"),
    _field("x_pad_1", 4, "zeros after each row"),
)
_LOOPS = (
    _field("reset_reg", 1, "1: accumulators become 0"),
    _field("uop_bgn", 13, "first micro-operation"),
    _field("uop_end", 14, "micro-operation after the last"),
    _field("iter_out", 14, "iterations of the outer loop"),
    _field("iter_in", 14, "iterations of the inner loop"),
    _field("dst_factor_out", 11, "added to the accumulator's index by the outer loop"),
    _field("dst_factor_in", 11, "the same by the inner loop"),
    _field("src_factor_out", 11, "added to the input's index by the outer loop"),
    _field("src_factor_in", 11, "the same by the inner loop"),
)
_GEMM = (
    *_LOOPS,
    _field("wgt_factor_out", 10, "added to the weight block's index by the outer loop"),
    _field("wgt_factor_in", 10, "the same by the inner loop"),
)
_ALU = (
    *_LOOPS,
    _field("alu_opcode", 3, "0 min, 1 max, 2 add, 3 shr, 4 mul"),
    _field("use_imm", 1, "1: the second operand is imm"),
    _field("imm", 16, "second operand", signed=True),
)


def _move(unit: str, mode: str, memory: VtaMemory) -> VtaForm:
    opcode = _OPCODES["store" if memory is OUTPUTS else "load"]
    return VtaForm(unit, mode, memory.number, _MOVE, opcode, memory.number)


VTA_FORMS = {
    form.name: form
    for form in (
        _move("load", "inputs", INPUTS),
        _move("load", "weights", WEIGHTS),
        _move("compute", "load_uops", MICRO_OPS),
        _move("compute", "load_sums", SUMS),
        _move("compute", "load_bytes", SUMS_OF_BYTES),
        _move("store", "outputs", OUTPUTS),
        VtaForm("compute", "gemm", 0, _GEMM, _OPCODES["gemm"]),
        VtaForm("compute", "alu", 0, _ALU, _OPCODES["alu"]),
        VtaForm("compute", "finish", 0, (), _OPCODES["finish"]),
    )
}
_BY_NUMBERS = {(form.opcode, form.memory): form for form in VTA_FORMS.values()}


def encode_vta(instructions: Sequence[AccelInstruction]) -> bytes:
    """Return the code of a program. Raises: MavcgError for a field beyond its limits, and tokens of no neighbour."""
    code = bytearray()
    for index, instruction in enumerate(instructions):
        _check(instruction, f"instruction {index}")
        form = instruction.form
        assert isinstance(form, VtaForm)
        number = form.opcode | _flags(instruction) << 3 | (form.memory or 0) << 7 | form.pack(instruction.values)
        code += number.to_bytes(INSTRUCTION_BYTES, "little")
    return bytes(code)


def _check(instruction: AccelInstruction, location: str) -> None:
    check_instruction(instruction, location)
    beyond = (instruction.wait | instruction.signal) & ~_neighbours(instruction.unit)
    if beyond:
        raise MavcgError(
            f"{location}: {instruction.form.name} has a token of unit {beyond.bit_length() - 1}; tokens pass between "
            f"{', '.join(VTA_UNITS)}, each with its neighbours"
        )


def _neighbours(unit: int) -> int:
    return {LOAD: 1 << COMPUTE, COMPUTE: 1 << LOAD | 1 << STORE, STORE: 1 << COMPUTE}[unit]


def _flags(instruction: AccelInstruction) -> int:
    """Return the four bits pop_prev, pop_next, push_prev, push_next."""
    before, after = instruction.unit - 1, instruction.unit + 1
    masks = (instruction.wait, instruction.signal)
    return sum(_bit(mask, unit) << at for at, (mask, unit) in enumerate((m, u) for m in masks for u in (before, after)))


def _bit(mask: int, unit: int) -> int:
    return mask >> unit & 1 if unit >= 0 else 0


def decode_vta(code: bytes, name: str) -> list[AccelInstruction]:
    """Return the instructions of a program's code. name: the file's, for messages.

    Raises: MavcgError naming the byte offset, for an unknown opcode or memory, an unused bit that is set, a field
    beyond its limits, a token of no neighbour, and code that ends inside of an instruction.
    """
    instructions = []
    for at in range(0, len(code), INSTRUCTION_BYTES):
        location = f"{name}: code offset {at:#x}"
        piece = code[at : at + INSTRUCTION_BYTES]
        if len(piece) < INSTRUCTION_BYTES:
            raise MavcgError(f"{location}: {len(piece)} bytes of an instruction of 16; the code is cut short")
        instructions.append(_decode(int.from_bytes(piece, "little"), location))
    return instructions


def _decode(number: int, location: str) -> AccelInstruction:
    opcode, memory = number & 7, number >> 7 & 7
    form = _BY_NUMBERS.get((opcode, None)) or _BY_NUMBERS.get((opcode, memory))
    if form is None:
        wrong = f"opcode {opcode} with memory {memory}"
        raise MavcgError(f"{location}: {wrong} is not an instruction of VTA; the code is damaged")
    values, used = form.unpack(number)
    used |= (1 << form.first_bit) - 1
    if number & ~used:
        raise MavcgError(f"{location}: {form.name} has unused bits set ({number & ~used:#x}); they must be 0")
    pops, pushes = number >> 3 & 3, number >> 5 & 3
    unit = form.unit_number
    made = AccelInstruction(form, values, _mask(pops, unit), _mask(pushes, unit))
    if (pops | pushes) >> (unit == STORE) & 1 and unit in (LOAD, STORE):
        raise MavcgError(f"{location}: {form.name} has a token of a unit that is not there; the code is damaged")
    _check(made, location)
    return made


def _mask(bits: int, unit: int) -> int:
    """Return the mask of units for the bits (previous, next) of an instruction of a unit."""
    return (bits & 1) << unit >> 1 | (bits >> 1) << (unit + 1)


def pack_micro_ops(micro_ops: Sequence[tuple[int, int, int]]) -> bytes:
    """Return micro-operations as VTA reads them. micro_ops: index of accumulator, of input and of weight block."""
    first, second, _ = MICRO_OP_BITS
    return b"".join(
        (dst | src << first | weight << first + second).to_bytes(4, "little") for dst, src, weight in micro_ops
    )
