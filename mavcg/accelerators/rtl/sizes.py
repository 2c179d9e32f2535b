"""Sizes of a target's hardware, which targets it is made for, and the fields of the instructions that it executes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.isa.forms import BY_NUMBERS, FORMS, InstructionForm
from mavcg.accelerators.simulator.timing import BEAT_BYTES
from mavcg.accelerators.target import OWN, IsaTarget
from mavcg.errors import MavcgError

TOP = "mavcg_core"  # the Verilog module
REFUSED = ("conv.transposed",)  # instructions that the hardware does not execute
ADDRESS_BITS = 24  # of words on chip, as in the instructions
ENTRY_BITS = 64  # of a channel's bias and shift in weight memory
_LEAST_WORD = 4  # bytes: the entries of a block are then read while its first step is in the array
INSTRUCTION_WORDS = 20  # of the longest instruction


@dataclass(frozen=True)
class RtlSizes:
    """Sizes of one core.

    word: bytes of a word of feature memory, and channels of the array on both sides. rows: rows of the array. banks:
    banks of feature memory. feature_words, weight_words: words of the memories. port_bytes: most bytes that the memory
    port delivers in a cycle. rounding: rounding of shifts.
    """

    word: int
    rows: int
    banks: int
    feature_words: int
    weight_words: int
    port_bytes: int
    rounding: str

    @property
    def word_bits(self) -> int:
        """Return the bits of a word of feature memory."""
        return 8 * self.word

    @property
    def weight_bits(self) -> int:
        """Return the bits of a word of weight memory."""
        return 8 * self.word * self.word


def rtl_sizes(target: IsaTarget) -> RtlSizes:
    """Return the sizes of a target's core. Raises: MavcgError for a target that the hardware is not made for."""
    path = datapath(target)
    if target.isa != OWN:
        raise _refusal(target, f"isa = {target.isa}", "the hardware executes mavcg's own instructions")
    if path.oc_lanes != path.word:
        raise _refusal(
            target,
            f"ic_parallel / 2 = {path.word} and oc_parallel = {path.oc_lanes}",
            "the hardware's array has as many input channels as output channels",
        )
    if path.word < _LEAST_WORD:
        raise _refusal(target, f"ic_parallel = {target.ic_parallel}", f"the hardware needs {2 * _LEAST_WORD} or more")
    if path.banks & (path.banks - 1):
        raise _refusal(target, f"banks = {target.banks}", "the hardware needs a power of two")
    port = 1
    while port < min(BEAT_BYTES, target.port_bytes_per_cycle):
        port *= 2
    if path.weight_word % port:
        raise _refusal(
            target,
            f"a word of weight memory has {path.weight_word} bytes",
            f"it must be a multiple of the {port} bytes that the DDR memory delivers in a cycle",
        )
    return RtlSizes(path.word, path.row_lanes, path.banks, path.feature_words, path.weight_words, port, path.rounding)


def _refusal(target: IsaTarget, fault: str, remedy: str) -> MavcgError:
    return MavcgError(f"target {target.name}: {fault}; {remedy}")


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
