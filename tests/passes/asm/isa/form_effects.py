"""Encodings and effects of the forms of instructions."""

from functools import lru_cache

from mavcg.assembly.code_image import assemble_image
from mavcg.passes.asm.isa.effects import Effects
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.syntax import parse_instr
from tests.passes.asm import instr_forms


@lru_cache(maxsize=1)
def encodings() -> dict[str, bytes]:
    """All forms, assembled in one go."""
    head = ".text\n.arch armv8.6-a+fp16+fp16fml+dotprod+i8mm+bf16+crypto+sha3+rdm+crc\nfixed:\n"
    code = assemble_image(head + "\n".join(instr_forms.ALL) + "\n").sections[0].data
    assert len(code) == 4 * len(instr_forms.ALL)
    return {form: code[4 * at : 4 * at + 4] for at, form in enumerate(instr_forms.ALL)}


def effects_of(form: str) -> Effects:
    instr_effects = effects(parse_instr(form))
    assert instr_effects is not None, form
    return instr_effects
