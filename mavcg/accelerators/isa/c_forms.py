"""Make forms.h, the layouts of all instructions for runtime/accel, when its C is compiled or written for a user."""

import sys
from collections.abc import Iterator
from pathlib import Path

from mavcg.accelerators.isa.forms import FORMS, UNITS, VERSION, InstructionForm


def c_header() -> str:
    """Return the text of forms.h."""
    return "\n".join([*_beginning(), *(line for form in FORMS.values() for line in _fields(form)), *_table(), ""])


def c_name(form: InstructionForm) -> str:
    """Return the enumerator of a form, such as CONV_DENSE."""
    return form.name.replace(".", "_").upper()


def _beginning() -> Iterator[str]:
    kinds = ", ".join(c_name(form) for form in FORMS.values())
    most = max(len(form.fields) for form in FORMS.values())
    yield "/* Layouts of the instructions, made from the encoder's table. */"
    yield "#ifndef MAVCG_ACCEL_FORMS_H"
    yield "#define MAVCG_ACCEL_FORMS_H 1"
    yield ""
    yield "#include <stdbool.h>"
    yield "#include <stdint.h>"
    yield ""
    yield "/* A field: the word that it is in (the header is word 0), its lowest bit there, and its smallest value. */"
    yield "struct field {"
    yield "    const char *name;"
    yield "    uint8_t word, bit, bits;"
    yield "    bool is_signed;"
    yield "    int64_t least;"
    yield "};"
    yield ""
    yield f"enum form_kind {{ {kinds} }};"
    yield f"enum {{ ISA_VERSION = {VERSION}, FORM_COUNT = {len(FORMS)}, MOST_FIELDS = {most} }};"
    yield f"enum {{ UNIT_COUNT = {len(UNITS)} }};"
    units = ", ".join(f'"{unit}"' for unit in UNITS)
    yield f"static const char *const unit_names[UNIT_COUNT] = {{{units}}};"
    yield ""
    yield "struct form {"
    yield "    const char *name;"
    yield "    enum form_kind kind;"
    yield "    uint8_t opcode, mode, words, field_count;"
    yield "    const struct field *fields;"
    yield "};"


def _fields(form: InstructionForm) -> Iterator[str]:
    if not form.fields:
        return
    name = c_name(form)
    yield ""
    yield f"enum {{ {', '.join(f'{name}_{field.name.upper()}' for field, _, _ in form.places)} }};"
    yield f"static const struct field {name.lower()}_fields[] = {{"
    for field, word, bit in form.places:
        signed = "true" if field.signed else "false"
        yield f'    {{"{field.name}", {word}, {bit}, {field.bits}, {signed}, {field.low}}},'
    yield "};"


def _table() -> Iterator[str]:
    yield ""
    yield "static const struct form forms[FORM_COUNT] = {"
    for form in FORMS.values():
        fields = f"{c_name(form).lower()}_fields" if form.fields else "0"
        numbers = f"{form.unit_number}, {form.mode_number}, {form.words}, {len(form.fields)}"
        yield f'    {{"{form.name}", {c_name(form)}, {numbers}, {fields}}},'
    yield "};"
    yield ""
    yield "#endif"


if __name__ == "__main__":  # for clang-tidy and editors: scripts/lint_c.sh
    Path(sys.argv[1]).write_text(c_header())
