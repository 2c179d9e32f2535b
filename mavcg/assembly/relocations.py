"""Applies AArch64 ELF relocations to the bytes of a section, for code images (code_image.py).

Source of numbers and fields: "ELF for the Arm 64-bit Architecture (AArch64)", ARM IHI 0056, section 5.7 (relocations).
"""

from collections.abc import Callable

CALL_KINDS = frozenset({282, 283})  # JUMP26, CALL26
GOT_KINDS = frozenset({311, 312})  # ADR_GOT_PAGE, LD64_GOT_LO12_NC
_LDST128_ABS_LO12_NC = 299  # pyelftools' list lacks it


class OutOfReach(Exception):
    """Raised if an instruction or data word cannot hold the value of a relocation."""


def apply_relocation(kind: int, data: bytearray, offset: int, value: int, patch_address: int) -> None:
    """Write a relocation's value into the bytes at `offset`.

    kind: its number. value: symbol + addend. patch_address: of the bytes, for kinds that are relative to it.
    Raises: KeyError for a kind that needs a linker; OutOfReach.
    """
    _RELOCATIONS[kind](data, offset, value, patch_address)


def kind_name(kind: int) -> str:
    """Return the name of a relocation's kind, such as R_AARCH64_CALL26."""
    from elftools.elf.enums import ENUM_RELOC_TYPE_AARCH64

    return next((name for name, number in ENUM_RELOC_TYPE_AARCH64.items() if number == kind), f"type {kind}")


# A relocation writes `value` (symbol + addend), for some kinds relative to `patch_address`, into the bytes at `offset`.
_Write = Callable[[bytearray, int, int, int], None]


def _word(size: int, relative: bool) -> _Write:
    def write(data: bytearray, offset: int, value: int, patch_address: int) -> None:
        value -= patch_address if relative else 0
        if not -(1 << 8 * size - 1) <= value < 1 << 8 * size:
            raise OutOfReach
        data[offset : offset + size] = (value % (1 << 8 * size)).to_bytes(size, "little")

    return write


def _field(data: bytearray, offset: int, bits: int, at: int, value: int) -> None:
    """Set a field of the instruction at `offset`: `bits` bits from bit `at` on."""
    word = int.from_bytes(data[offset : offset + 4], "little")
    mask = ((1 << bits) - 1) << at
    data[offset : offset + 4] = (word & ~mask | value << at & mask).to_bytes(4, "little")


def _branch(bits: int, at: int) -> _Write:
    def write(data: bytearray, offset: int, value: int, patch_address: int) -> None:
        distance = value - patch_address
        if distance % 4 or not -(1 << bits - 1) <= distance >> 2 < 1 << bits - 1:
            raise OutOfReach
        _field(data, offset, bits, at, distance >> 2)

    return write


def _adr(page: bool) -> _Write:
    def write(data: bytearray, offset: int, value: int, patch_address: int) -> None:
        distance = (value >> 12) - (patch_address >> 12) if page else value - patch_address
        if not -(1 << 20) <= distance < 1 << 20:
            raise OutOfReach
        _field(data, offset, 2, 29, distance & 3)
        _field(data, offset, 19, 5, distance >> 2)

    return write


def _low12(shift: int) -> _Write:
    def write(data: bytearray, offset: int, value: int, patch_address: int) -> None:
        low = value & 0xFFF
        if low % (1 << shift):
            raise OutOfReach  # the instruction cannot say this address
        _field(data, offset, 12, 10, low >> shift)

    return write


def _mov(part: int) -> _Write:
    def write(data: bytearray, offset: int, value: int, patch_address: int) -> None:
        _field(data, offset, 16, 5, value >> 16 * part & 0xFFFF)

    return write


_RELOCATIONS: dict[int, _Write] = {
    257: _word(8, False),  # ABS64
    258: _word(4, False),  # ABS32
    260: _word(8, True),  # PREL64
    261: _word(4, True),  # PREL32
    262: _word(2, True),  # PREL16
    **{263 + number: _mov(number // 2) for number in range(7)},  # MOVW_UABS_G0, G0_NC, ... G3
    273: _branch(19, 5),  # LD_PREL_LO19
    274: _adr(page=False),  # ADR_PREL_LO21
    275: _adr(page=True),  # ADR_PREL_PG_HI21
    276: _adr(page=True),  # ADR_PREL_PG_HI21_NC
    277: _low12(0),  # ADD_ABS_LO12_NC
    278: _low12(0),  # LDST8_ABS_LO12_NC
    279: _branch(14, 5),  # TSTBR14
    280: _branch(19, 5),  # CONDBR19
    282: _branch(26, 0),  # JUMP26
    283: _branch(26, 0),  # CALL26
    284: _low12(1),  # LDST16_ABS_LO12_NC
    285: _low12(2),  # LDST32_ABS_LO12_NC
    286: _low12(3),  # LDST64_ABS_LO12_NC
    _LDST128_ABS_LO12_NC: _low12(4),
    311: _adr(page=True),  # ADR_GOT_PAGE
    312: _low12(3),  # LD64_GOT_LO12_NC
    314: _word(4, True),  # PLT32
}
