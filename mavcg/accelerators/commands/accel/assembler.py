"""The verbs `mavcg accel assemble` and `mavcg accel disassemble`: programs as ELF files and as assembly text."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.shared_options import AccelProgramFile, AccelProgramOutput
from mavcg.errors import MavcgError


def disassemble(
    program: AccelProgramFile,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="File for the text; default: stdout.")
    ] = None,
) -> None:
    """Print a program as assembly text, with its parameters and description; `assemble` turns it into the same file.

    \b
    mavcg accel disassemble resnet50.elf | less
    mavcg accel disassemble resnet50.elf | mavcg accel assemble - -o again.elf
    """
    from mavcg.accelerators.image.assembly import disassemble as lines_of
    from mavcg.accelerators.image.elf_file import read_elf
    from mavcg.files.whole_file import write_whole
    from mavcg.text.terminal import show_line

    lines = lines_of(read_elf(program))
    if output is not None:
        write_whole(output, "".join(lines), "-o")
        return
    for line in lines:
        show_line(line.rstrip("\n"))


def assemble(
    source: Annotated[str, typer.Argument(metavar="FILE|-", help="File of assembly text; - for stdin.")],
    output: AccelProgramOutput,
) -> None:
    """Assemble a program's text into an ELF file.

    \b
    mavcg accel assemble resnet50.s -o resnet50.elf
    mavcg accel disassemble resnet50.elf | mavcg accel assemble - -o again.elf
    """
    from mavcg.accelerators.image.assembly import assemble as program_of
    from mavcg.accelerators.image.elf_file import write_elf

    name = "stdin" if source == "-" else source
    try:
        content = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        text = content.decode()
    except OSError as error:
        raise MavcgError(
            f"{name}: cannot be read ({error.strerror}); name a file of `mavcg accel disassemble`"
        ) from error
    except UnicodeDecodeError as error:
        raise MavcgError(
            f"{name}: is not text in UTF-8 ({error.reason} at byte {error.start}); give assembly text"
        ) from error
    write_elf(program_of(text, name), output)
