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
    from mavcg.lab.simulate.program_image import constructors, read_program
    from mavcg.objects import inspection
    from mavcg.objects.code_extensions import code_extensions, function_extensions
    from mavcg.objects.elf import exported_symbols, is_static_program, undefined_symbols
    from mavcg.program.version_symbols import read_library

    path = file_with(data, "libfuzzed.so")
    looks = (
        inspection.inspect_library,
        inspection.model_of,
        inspection.blas_of,
        inspection.application_of,
        inspection.imports_of,
        inspection.loaded_bytes,
        inspection.protection,
        read_library,
    )
    of_elf = (
        code_extensions,
        function_extensions,
        exported_symbols,
        undefined_symbols,
        is_static_program,
        read_program,
        constructors,
    )
    for look in (*looks, *(of_elf if data.startswith(b"\x7fELF") else ())):
        call_target(lambda look=look: look(path))  # type: ignore[misc]
    for network in (None, "a"):
        with contextlib.redirect_stdout(io.StringIO()):
            call_target(lambda network=network: run_inspect(InspectOptions(path, network)))  # type: ignore[misc]
