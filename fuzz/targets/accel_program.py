"""Programs for accelerators: ELF files of `mavcg accel build`, and their assembly."""

import random

from fuzz.mutation import mutator
from fuzz.mutation.images import changed_image
from fuzz.mutation.lines import changed_lines
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = ("mavcg.accelerators.image", "mavcg.accelerators.isa", "mavcg.apps.service.program_file")
_WORDS = ".code .version .parameters .network wait signal conv load 0x10 -1 & #"


def _change(source: random.Random, data: bytes) -> bytes:
    if data.startswith(b"\x7fELF"):
        return changed_image(source, data)
    return changed_lines(source, data.decode(), _WORDS.split()).encode("utf-8", "surrogateescape")


mutate = mutator(_change)


def run(data: bytes) -> None:
    """Read the program; what is read is written, read and printed again, and is the same."""
    from mavcg.accelerators.image.assembly import assemble, disassemble
    from mavcg.accelerators.image.elf_file import elf_bytes, parse_elf
    from mavcg.apps.service.program_file import read_program_file

    def read() -> None:
        if data.startswith(b"\x7fELF"):
            program = parse_elf(data, "fuzzed.elf")
            text = "\n".join(disassemble(program))
            assert "\n".join(disassemble(parse_elf(elf_bytes(program), "again.elf"))) == text
        else:
            text = "\n".join(disassemble(assemble(data.decode("utf-8", "replace"), "fuzzed.s")))
        assert "\n".join(disassemble(assemble(text, "printed.s"))) == text, "printing and assembling changes a program"

    if data.startswith(b"\x7fELF"):
        path = file_with(data, "fuzzed.elf")
        call_target(lambda: read_program_file(path))
    call_target(read)
