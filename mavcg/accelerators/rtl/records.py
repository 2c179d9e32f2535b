"""Fields of instructions as values in the hardware, by the encoder's table."""

from collections.abc import Mapping
from typing import Any

from mavcg.accelerators.isa.forms import BY_NUMBERS, FORMS, InstructionForm
from mavcg.accelerators.rtl.sizes import REFUSED

EXECUTED: Mapping[tuple[int, int], InstructionForm] = {
    numbers: form for numbers, form in BY_NUMBERS.items() if form.name not in REFUSED
}
HEADER_WAIT, HEADER_SIGNAL = slice(13, 18), slice(18, 23)  # bits of the header's masks


def fields_of(mnemonic: str, instruction: Any) -> dict[str, Any]:
    """Return the fields of an instruction, by name. instruction: its words as one value, the header lowest."""
    found = {}
    for field, word, bit in FORMS[mnemonic].places:
        value = instruction[32 * word + bit : 32 * word + bit + field.bits]
        found[field.name] = value.as_signed() if field.signed else value
    return found


def mode_of(instruction: Any) -> Any:
    """Return the mode in an instruction's header."""
    return instruction[4:8]


def form_bits(unit: str) -> int:
    """Return the bits of a unit's longest instruction."""
    return max(32 * form.words for form in FORMS.values() if form.unit == unit)
