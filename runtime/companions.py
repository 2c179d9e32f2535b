"""Write the files beside a model library: a C and a C++ header, a pkg-config file and a CMake file."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole
from mavcg.runtime.application_text import ApplicationProgram, application_header
from mavcg.runtime.cpp_header import cpp_header_text, sized_cpp_header_text
from mavcg.runtime.drop_in_text import sized_header
from mavcg.runtime.model_header import api_name, header_text, renaming_reason
from mavcg.specs.model_program import Program
from mavcg.text.safe_text import c_identifier, cmake_string, cmake_target, comment, pkg_config_flag, printable

# The beginning of a file that this version or an earlier one wrote.
_MARK = re.compile(
    rb"/\* (?:Model|Application) [^\n]*\. Made by mavcg\.$"
    rb"|Name: [^\n]*\nDescription: (?:Model|Application) [^\n]*, built by mavcg$"
    rb"|if\(NOT TARGET mavcg::",
    re.MULTILINE,
)
_READ_BYTES = 1 << 20
HEADER_SUFFIXES = frozenset((".h", ".hpp"))  # of the files that programs include


def companion_paths(name: str, output: Path, cpp: bool = True) -> tuple[Path, ...]:
    """Return the paths of the C header, the pkg-config file and the CMake file of a library, and of the C++ header.

    name: the model's name. cpp: False for an application's library, which has no C++ header.
    """
    stem = library_stem(output)
    names = [f"{api_name(name)}.h", f"{stem}.pc", f"{stem}Config.cmake", *([f"{api_name(name)}.hpp"] if cpp else [])]
    return tuple(output.with_name(companion) for companion in names)


def companions_sentence(name: str, companions: Sequence[Path]) -> str:
    """Return the names of the written files, and why the header has not the library's name. name: the model's."""
    names, reason = ", ".join(path.name for path in companions), renaming_reason(name)
    return f"{names} (not {c_identifier(name, 'model')}.h: {reason})" if reason else names


def check_companions(name: str, output: Path, cpp: bool = True) -> None:
    """Check that the files of companion_paths can be written.

    Raises: MavcgError if a file exists there that mavcg did not write, and for names that these files cannot contain.
    """
    if not output.name.isprintable():
        raise MavcgError(f"-o {printable(str(output))}: has control characters in its name; name another output")
    for path in companion_paths(name, output, cpp):
        if path.is_file() and not _is_own_file(path):
            raise MavcgError(
                f"{path}: exists and was not written by mavcg; it would be replaced by the library's "
                "own: move it away, or name another output"
            )


def _is_own_file(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return bool(_MARK.match(file.read(_READ_BYTES)))
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); move it away, or name another output") from error


def write_companions(program: Program, output: Path, threads: int = 1) -> tuple[Path, ...]:
    """Write the C and C++ header, the pkg-config file and the CMake file beside a library, and return their paths.

    The headers are <name>.h and <name>.hpp, with the model's name as a C identifier. The other files have the library's
    name: for libresnet.so resnet.pc (`pkg-config resnet`) and resnetConfig.cmake (`find_package(resnet)`, target
    mavcg::resnet). Raises: MavcgError as check_companions, and if a file cannot be written.
    """
    return _write(program, header_text(program, threads), output, cpp_header_text(program))


def write_application_companions(application: ApplicationProgram, output: Path, threads: int = 1) -> tuple[Path, ...]:
    """Write the same files for an application's library, whose header also has the API of each network.

    Returns, Raises: as write_companions.
    """
    return _write(application, application_header(application, threads), output)


def write_sized_companions(programs: Sequence[Program], output: Path, threads: int = 1) -> tuple[Path, ...]:
    """Write the same files for a library with one model in several sizes. programs: the program of each size.

    Returns, Raises: as write_companions.
    """
    return _write(programs[0], sized_header(programs, threads), output, sized_cpp_header_text(programs))


def _write(program: Program | ApplicationProgram, header: str, output: Path, cpp_header: str = "") -> tuple[Path, ...]:
    check_companions(program.name, output, bool(cpp_header))
    stem = library_stem(output)
    paths = companion_paths(program.name, output, bool(cpp_header))
    texts = (
        header,
        pkg_config_text(stem, program, output),
        cmake_text(stem, output),
        *([cpp_header] if cpp_header else []),
    )
    for path, text in zip(paths, texts, strict=True):
        write_whole(path, text)
    return paths


def library_stem(output: Path) -> str:
    """Return the library's name for -l: libresnet.so -> resnet."""
    return output.name.removesuffix(".so").removeprefix("lib") or output.name


def pkg_config_text(stem: str, program: Program | ApplicationProgram, output: Path) -> str:
    """Return the text of the .pc file, which refers to the library by its own folder."""
    named = f"lib{stem}.so" == output.name
    kind = "Model" if isinstance(program, Program) else "Application"
    link = f"-L${{pcfiledir}} -l{pkg_config_flag(stem)}" if named else f"${{pcfiledir}}/{pkg_config_flag(output.name)}"
    return (
        f"Name: {comment(stem)}\nDescription: {kind} {comment(program.name)}, built by mavcg\n"
        f"Version: {program_version(program)}\nCflags: -I${{pcfiledir}}\nLibs: {link}\n"
    )


def cmake_text(stem: str, output: Path) -> str:
    """Return the text of <stem>Config.cmake: an imported target for the library in the same folder."""
    target = f"mavcg::{cmake_target(stem)}"
    name = cmake_string(output.name)[1:-1]
    return (
        f"if(NOT TARGET {target})\n"
        f"  add_library({target} SHARED IMPORTED)\n"
        f"  set_target_properties({target} PROPERTIES\n"
        f'    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/{name}"\n'
        f'    IMPORTED_SONAME "{name}"\n'
        '    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}")\n'
        "endif()\n"
    )


def program_version(*programs: Program | ApplicationProgram) -> str:
    """Return a version for pkg-config and prefab, which require one: a digest of the programs of a library, since
    models have no versions."""
    return "0." + str(int(hashlib.sha256("".join(map(repr, programs)).encode()).hexdigest()[:8], 16))
