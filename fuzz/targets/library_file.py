"""Built libraries and objects, ELF and Mach-O: notes, symbols, sizes, extensions of code, images for emulation."""

import contextlib
import io

from fuzz.mutation.images import image_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = (
    "mavcg.objects",
    "mavcg.cli.inspect",
    "mavcg.program.version_symbols",
    "mavcg.assembly.code_image",
    "mavcg.lab.simulate.program_image",
)
mutate = image_mutator()


def run(data: bytes) -> None:
    """Look at the file as `mavcg inspect`, `measure`, `simulate`, the drop-ins and the choice of versions do."""
    from mavcg.cli.inspect import InspectOptions, run_inspect
    from mavcg.lab.simulate.program_image import constructors
    from mavcg.objects import inspection
    from mavcg.objects.code_extensions import code_extensions, function_extensions
    from mavcg.objects.elf import exported_symbols, is_static_program, undefined_symbols
    from mavcg.program.version_symbols import read_library

    path = file_with(data, "libfuzzed.so")
    shown = list[bool]()

    def inspect(network: str | None) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            run_inspect(InspectOptions(path, network))
        shown.append(True)

    call_target(lambda: inspect(None))
    if shown:
        call_target(lambda: inspect("a"))
    # What is shown was looked at by these: pyelftools takes 3 ms to open a file.
    looks = (
        inspection.inspect_library,
        inspection.model_of,
        inspection.blas_of,
        inspection.application_of,
        inspection.imports_of,
        inspection.loaded_bytes,
        inspection.protection,
    )
    of_elf = (
        code_extensions,
        function_extensions,
        exported_symbols,
        undefined_symbols,
        is_static_program,
        constructors,  # by read_program
    )
    for look in (*(() if shown else looks), read_library, *(of_elf if data.startswith(b"\x7fELF") else ())):
        call_target(lambda look=look: look(path))  # type: ignore[misc]
