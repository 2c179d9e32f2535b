"""Fields of each instruction, with their widths, for encoder, decoder, assembler, simulators and the manual.

Fields are placed in order into little-endian 32-bit words after the header, from bit 0 upwards. A field that does not
fit into the rest of a word begins the next word, so that no field of at most 32 bits crosses a word.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

# Execution units, by the bit that each has in the masks `wait` and `signal`.
UNITS = ("load", "save", "conv", "pool", "misc")
VERSION = 2  # version of the instruction set; misc.start contains it
WORD_BYTES = 4
# Header: bits of opcode (the unit), mode, length in words, wait mask, signal mask, reserved (0).
HEADER = (("opcode", 4), ("mode", 4), ("length", 5), ("wait", 5), ("signal", 5), ("reserved", 9))


@dataclass(frozen=True)
class InstructionField:
    """A field of an instruction.

    bits: width. meaning: text for the manual. signed: True for two's complement. least: smallest value, if larger than
    that of the encoding.
    """

    name: str
    bits: int
    meaning: str
    signed: bool = False
    least: int | None = None

    @property
    def low(self) -> int:
        """Return the smallest value."""
        return self.least if self.least is not None else -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """Return the largest value."""
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    @cached_property
    def limits(self) -> tuple[int, int]:
        """Return the smallest and the largest value."""
        return self.low, self.high


@dataclass(frozen=True)
class InstructionForm:
    """The layout of an instruction: the unit that executes it, its mode and its fields."""

    unit: str
    mode: str
    mode_number: int
    fields: tuple[InstructionField, ...]

    @cached_property
    def name(self) -> str:
        """Return the mnemonic, such as conv.depthwise."""
        return f"{self.unit}.{self.mode}"

    @cached_property
    def unit_number(self) -> int:
        """Return the index of the unit in `units`."""
        return self.units.index(self.unit)

    @property
    def units(self) -> tuple[str, ...]:
        """Return the units of the machine, by their bits in masks."""
        return UNITS

    @property
    def first_bit(self) -> int:
        """Return the bit of the instruction at which its fields begin."""
        return 32

    @property
    def part_bits(self) -> int:
        """Return the size of the parts of an instruction that no field crosses."""
        return 32

    @cached_property
    def offsets(self) -> tuple[tuple[InstructionField, int], ...]:
        """Return each field with its lowest bit in the instruction; one that would cross parts begins the next."""
        at, placed, size = self.first_bit, [], self.part_bits
        for field in self.fields:
            if at // size != (at + field.bits - 1) // size:
                at = -(-at // size) * size
            placed.append((field, at))
            at += field.bits
        return tuple(placed)

    @cached_property
    def places(self) -> tuple[tuple[InstructionField, int, int], ...]:
        """Return each field with the index of its word, in which the header is word 0, and of its lowest bit."""
        return tuple((field, at // 32, at % 32) for field, at in self.offsets)

    def pack(self, values: Mapping[str, int]) -> int:
        """Return the bits of the fields' values, which are within their limits."""
        return sum((values[field.name] & ((1 << field.bits) - 1)) << at for field, at in self.offsets)

    def unpack(self, number: int) -> tuple[dict[str, int], int]:
        """Return the fields' values in the bits of an instruction, and a mask of the bits that they have."""
        values, used = dict[str, int](), 0
        for field, at in self.offsets:
            mask = (1 << field.bits) - 1
            value = number >> at & mask
            values[field.name] = value - (mask + 1) if field.signed and value >> (field.bits - 1) else value
            used |= mask << at
        return values, used

    @cached_property
    def words(self) -> int:
        """Return the length in 32-bit words, including the header."""
        return 1 + (self.places[-1][1] if self.places else 0)

    @cached_property
    def by_name(self) -> Mapping[str, InstructionField]:
        """Return the fields by name."""
        return {field.name: field for field in self.fields}


def _count(name: str, bits: int, meaning: str) -> InstructionField:
    return InstructionField(name, bits, meaning, least=1)


def _tile(prefix: str, where: str) -> tuple[InstructionField, ...]:
    return (
        InstructionField(prefix, 24, f"{where}: feature-memory address of its first word"),
        _count(f"{prefix}_row", 24, f"{where}: words from a row to the next"),
        _count(f"{prefix}_block", 24, f"{where}: words from a block of channels to the next"),
    )


def _ddr(where: str) -> tuple[InstructionField, ...]:
    return (
        InstructionField("ddr", 32, f"{where}: byte offset of its first pixel in the features segment"),
        _count("ddr_pixel", 24, f"{where}: bytes from a pixel to the next"),
        _count("ddr_row", 32, f"{where}: bytes from a row to the next"),
    )


def _zero(name: str, where: str) -> InstructionField:
    return InstructionField(name, 8, f"{where}: its zero point, subtracted from each element", signed=True)


def _factor(name: str, where: str) -> InstructionField:
    return InstructionField(name, 16, f"{where}: multiplier; 0: none; others exclude a shift to the left")


_SIZE = (_count("rows", 20, "rows"), _count("columns", 20, "columns"), _count("channels", 20, "channels"))
_OUT = tuple(_count(f"out_{f.name}", f.bits, f"{f.name} of the result") for f in _SIZE)
_IN = (
    _count("rows", 20, "rows of the input tile; further ones are outside"),
    _count("columns", 20, "columns of the input tile; further ones are outside"),
    _count("channels", 20, "channels of the input tile"),
)
_WINDOW = (
    _count("kernel_rows", 10, "rows of the window"),
    _count("kernel_columns", 10, "columns of the window"),
    _count("stride_rows", 10, "rows between windows"),
    _count("stride_columns", 10, "columns between windows"),
    _count("dilation_rows", 10, "rows between positions of a window"),
    _count("dilation_columns", 10, "columns between positions of a window"),
    InstructionField("pad_top", 20, "rows of the first window above the input tile", signed=True),
    InstructionField("pad_left", 20, "columns of the first window left of the input tile", signed=True),
)
_FINISH = (
    InstructionField("lo", 8, "least result", signed=True),
    InstructionField("hi", 8, "greatest result", signed=True),
    InstructionField("leaky", 1, "1: negative sums are multiplied by slope / 256"),
    InstructionField("slope", 9, "multiplier of negative sums, in 1/256"),
    InstructionField("zero", 8, "zero point of the result, added to shifted sums", signed=True),
)
_SHIFT = InstructionField("shift", 7, "bits that sums are shifted right, rounded; negative: left", signed=True)
_FACTORS = (_count("factor_rows", 10, "rows of a block"), _count("factor_columns", 10, "columns of a block"))
_CONV = (
    *_tile("from", "input tile"),
    *_IN,
    *_tile("to", "result"),
    *_OUT,
    *_WINDOW,
    InstructionField("parameters", 24, "weight-memory address of the entries and weights"),
    *_FINISH,
    InstructionField("accumulate", 1, "1: sums begin at those of `sums`, not at the bias"),
    InstructionField("partial", 1, "1: sums are written to `sums` as 32-bit integers; there is no result"),
    InstructionField("outside", 8, "value of elements outside of the tile: the input's zero point", signed=True),
    InstructionField("sums", 24, "feature-memory address of 32-bit sums"),
)
_POOL = (
    *_tile("from", "input tile"),
    *_IN,
    *_tile("to", "result"),
    *_OUT[:2],
    *_WINDOW,
)

_FORMS = {
    "load": {
        "map": (*_ddr("map"), *_SIZE, *_tile("to", "tile")),
        "parameters": (
            InstructionField("ddr", 32, "byte offset in the parameters segment"),
            _count("words", 24, "words of weight memory"),
            InstructionField("to", 24, "weight-memory address of the first word"),
        ),
    },
    "save": {"map": (*_ddr("map"), *_SIZE, *_tile("from", "tile"))},
    "conv": {"dense": _CONV, "depthwise": _CONV, "transposed": _CONV},
    "pool": {
        "max": (*_POOL, _SHIFT, *_FINISH),
        "average": (
            *_POOL,
            InstructionField("multiplier", 16, "reciprocal of the divisor"),
            _SHIFT,
            *_FINISH,
            _zero("from_zero", "input"),
        ),
    },
    "misc": {
        "start": (_count("version", 8, "version of the instruction set"),),
        "end": (),
        "eltwise": (
            *_tile("from", "first operand"),
            *_tile("second", "second operand"),
            *_tile("to", "result"),
            *_SIZE,
            InstructionField("op", 3, "0 add, 1 sub, 2 mul, 3 max, 4 min, 5 copy (first operand alone)"),
            InstructionField("left", 4, "bits that the first operand is shifted left"),
            InstructionField("second_left", 4, "bits that the second operand is shifted left"),
            _SHIFT,
            *_FINISH,
            _zero("from_zero", "first operand"),
            _zero("second_zero", "second operand"),
            _factor("multiplier", "first operand"),
            _factor("second_multiplier", "second operand"),
        ),
        "upsample": (
            *_tile("from", "input tile"),
            *_tile("to", "result"),
            *_OUT[:2],
            _SIZE[2],
            *_FACTORS,
            InstructionField("phase_row", 10, "rows of the first block that lie above the result"),
            InstructionField("phase_column", 10, "columns of the first block that lie left of the result"),
            _SHIFT,
            *_FINISH,
        ),
        "reorganise": (
            *_tile("from", "input tile"),
            *_tile("to", "result"),
            *_OUT[:2],
            _count("channels", 20, "channels of the input tile"),
            *_FACTORS,
            _SHIFT,
            *_FINISH,
        ),
    },
}
ELTWISE = ("add", "sub", "mul", "max", "min", "copy")  # by the field `op`

FORMS: Mapping[str, InstructionForm] = {
    f"{unit}.{mode}": InstructionForm(unit, mode, number, fields)
    for unit, modes in _FORMS.items()
    for number, (mode, fields) in enumerate(modes.items())
}
BY_NUMBERS: Mapping[tuple[int, int], InstructionForm] = {
    (UNITS.index(form.unit), form.mode_number): form for form in FORMS.values()
}
