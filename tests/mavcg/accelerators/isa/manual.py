"""Write the tables of docs/accelerator-isa.md, from the fields that encoder and decoder use."""

from mavcg.accelerators.isa.forms import FORMS, HEADER, UNITS, InstructionForm


def form_table(form: InstructionForm) -> str:
    """Return an instruction's section of the manual: its encoding and fields."""
    opcode = UNITS.index(form.unit)
    head = f"### {form.name}\n\nOpcode {opcode}, mode {form.mode_number}, {form.words} words.\n"
    if not form.fields:
        return head + "\nNo fields.\n"
    rows = [
        f"| {field.name} | {word} | {bit + field.bits - 1}:{bit} | {field.low} to {field.high} | {field.meaning} |"
        for field, word, bit in form.places
    ]
    return "\n".join([head, "| field | word | bits | values | meaning |", "|---|---|---|---|---|", *rows, ""])


def header_table() -> str:
    """Return the table of word 0 of every instruction."""
    rows, bit = [], 0
    for name, bits in HEADER:
        rows.append(f"| {name} | {bit + bits - 1}:{bit} |")
        bit += bits
    return "\n".join(["| field of word 0 | bits |", "|---|---|", *rows, ""])


def tables() -> str:
    """Return the header's table and the sections of all instructions."""
    return "\n".join([header_table(), *(form_table(form) for form in FORMS.values())])
