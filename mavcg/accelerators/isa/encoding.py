"""Encode and decode instructions: little-endian 32-bit words, with a header and the fields of the form."""

import struct
from collections.abc import Sequence

from mavcg.accelerators.isa.forms import BY_NUMBERS, HEADER, WORD_BYTES, InstructionForm
from mavcg.accelerators.isa.instruction import AccelInstruction, check_instruction
from mavcg.errors import MavcgError


def encode(instruction: AccelInstruction) -> bytes:
    """Return the bytes of an instruction whose fields have been checked."""
    form = instruction.form
    return (_header(instruction) | form.pack(instruction.values)).to_bytes(WORD_BYTES * form.words, "little")


def _header(instruction: AccelInstruction) -> int:
    parts = {
        "opcode": instruction.unit,
        "mode": instruction.form.mode_number,
        "length": instruction.form.words,
        "wait": instruction.wait,
        "signal": instruction.signal,
        "reserved": 0,
    }
    word, bit = 0, 0
    for name, bits in HEADER:
        word |= parts[name] << bit
        bit += bits
    return word


def encode_program(instructions: Sequence[AccelInstruction]) -> bytes:
    """Return the code of a program. Raises: MavcgError for a field beyond its limits."""
    for index, instruction in enumerate(instructions):
        check_instruction(instruction, f"instruction {index}")
    return b"".join(encode(instruction) for instruction in instructions)


def decode_program(code: bytes, name: str) -> list[AccelInstruction]:
    """Return the instructions of a program's code. name: name of the file, for messages.

    Raises: MavcgError naming the byte offset, for an unknown opcode or mode, a wrong length, an unused bit that is set,
    a field beyond its limits, and code that ends inside of an instruction.
    """
    instructions: list[AccelInstruction] = []
    at = 0
    while at < len(code):
        location = f"{name}: code offset {at:#x}"
        if len(code) - at < WORD_BYTES:
            raise MavcgError(
                f"{location}: {len(code) - at} bytes after the last whole word; the code is cut or damaged"
            )
        header = _split(struct.unpack_from("<I", code, at)[0])
        form = BY_NUMBERS.get((header["opcode"], header["mode"]))
        if form is None:
            wrong = f"opcode {header['opcode']} with mode {header['mode']}"
            raise MavcgError(f"{location}: {wrong} is not an instruction; the code is damaged or of another version")
        if header["length"] != form.words or header["reserved"]:
            wrong = f"length {header['length']}, reserved {header['reserved']:#x}"
            raise MavcgError(
                f"{location}: {form.name} with {wrong}; its length must be {form.words}, and reserved bits 0"
            )
        if len(code) - at < form.words * WORD_BYTES:
            raise MavcgError(
                f"{location}: {form.name} lacks {form.words * WORD_BYTES - len(code) + at} bytes; the code is cut short"
            )
        number = int.from_bytes(code[at : at + form.words * WORD_BYTES], "little")
        instruction = AccelInstruction(form, _values(form, number, location), header["wait"], header["signal"])
        check_instruction(instruction, location)
        instructions.append(instruction)
        at += form.words * WORD_BYTES
    return instructions


def _split(word: int) -> dict[str, int]:
    fields, bit = {}, 0
    for name, bits in HEADER:
        fields[name] = word >> bit & ((1 << bits) - 1)
        bit += bits
    return fields


def _values(form: InstructionForm, number: int, location: str) -> dict[str, int]:
    values, used = form.unpack(number)
    if unused := number & ~(used | 0xFFFFFFFF):  # the header is checked apart
        index = ((unused & -unused).bit_length() - 1) // 32
        word = number >> 32 * index & 0xFFFFFFFF
        raise MavcgError(f"{location}: {form.name} has unused bits set in word {index} ({word:#010x}); they must be 0")
    return values
