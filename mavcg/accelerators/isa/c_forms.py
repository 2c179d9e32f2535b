"""Write the layouts of all instructions as a C header, runtime/accel/forms.h.

`python -m mavcg.accelerators.isa.c_forms` does it.

The header is committed, so that the host side builds without Python; a test compares it with this module's output.
"""

from collections.abc import Iterator
from pathlib import Path

from mavcg.accelerators.isa.forms import FORMS, VERSION, InstructionForm

HEADER = Path(__file__).parents[3] / "runtime" / "accel" / "forms.h"


def c_header() -> str:
    """Return the text of forms.h."""
    return "\n".join([*_beginning(), *(line for form in FORMS.values() for line in _fields(form)), *_table(), ""])


def c_name(form: InstructionForm) -> str:
    """Return the enumerator of a form, such as CONV_DENSE."""
    return form.name.replace(".", "_").upper()


def _beginning() -> Iterator[str]:
    kinds = ", ".join(c_name(form) for form in FORMS.values())
    most = max(len(form.fields) for form in FORMS.values())
    yield "/* Layouts of the instructions. Made by `python -m mavcg.accelerators.isa.c_forms`. */"
    yield "/* clang-format off */"
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


if __name__ == "__main__":
    HEADER.write_text(c_header(), encoding="utf-8")
