"""Encodable offsets of loads and stores. Source: Arm ARM (DDI 0487), C3.2, load/store."""

from dataclasses import replace

from mavcg.passes.asm.isa.syntax import Instr, Mem, Reg

_SIGNED = range(-256, 256)  # unscaled, 9 bits
_SCALED = 4096  # multiples of the size, 12 bits
_PAIRED = range(-64, 64)  # multiples of one register's size, 7 bits
_UNSCALED_NAMES = {
    "ldur": "ldr",
    "stur": "str",
    "ldurb": "ldrb",
    "ldurh": "ldrh",
    "ldursw": "ldrsw",
    "ldursb": "ldrsb",
    "ldursh": "ldrsh",
    "sturb": "strb",
    "sturh": "strh",
    "prfum": "prfm",
}
STEP_LIMIT = 4096  # immediates of add, sub and cmp are below this


def reaches(offset: int, size: int) -> bool:
    """True if a load or store of one register can encode this offset, scaled or unscaled; both in bytes."""
    return offset in _SIGNED or (offset % size == 0 and 0 <= offset < _SCALED * size)


def at_offset(instr: Instr, address: Mem, size: int) -> Instr | None:
    """Return the instruction with `address` (a base and an offset) in place of its own; None if it has no encoding.

    size: bytes accessed, both registers of a pair together; 0 for a prefetch.
    """
    offset = address.offset
    if offset is None or address.index is not None or address.mode != "offset":
        return None
    name = _UNSCALED_NAMES.get(instr.mnemonic, instr.mnemonic)
    if name in ("ldp", "stp", "ldpsw", "ldnp", "stnp"):
        fits = offset % (size // 2) == 0 and offset // (size // 2) in _PAIRED
    elif name.startswith(("ldr", "str")) and isinstance(instr.operands[0], Reg):
        fits = reaches(offset, size)
    else:
        fits = reaches(offset, 8) if name == "prfm" else offset == 0
    return replace(instr, mnemonic=name, operands=(*instr.operands[:-1], address)) if fits else None
