"""Adds the files that versions depend on (mavcg.toml, profile, measurements) to a compiler's dependency file.

make and ninja then rebuild an object when one of them changes.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from mavcg import __version__
from mavcg.files.whole_file import write_whole
from mavcg.program.cold_launch import with_dependencies
from mavcg.program.sources.arguments import words
from mavcg.program.sources.compile_commands import CompileUnit


def dependency_file(unit: CompileUnit) -> Path | None:
    """Return the dependency file that a compile command writes; None if it writes none.

    Source: GCC manual, "Preprocessor Options", -MD, -MMD, -MF: without -MF it is the output with the suffix .d, and
    without -o the source, in the current folder.
    """
    named, writes, has_output = "", False, False
    for word in words([part for flag in unit.flags for part in _unwrap_option(flag)]):
        writes = writes or word.name in ("-MD", "-MMD")
        has_output = has_output or word.name in ("-o", "--output")
        if word.name == "-MF":
            named = word.value
    if not writes or unit.output is None:
        return None
    written = unit.output if has_output else unit.directory / unit.source.name
    return unit.directory / named if named else written.with_suffix(".d")


def _unwrap_option(flag: str) -> list[str]:
    """Split -Wp,-MD,x.d, as the Linux kernel writes it, into -MD -MF x.d."""
    parts = flag.split(",")
    if parts[0] != "-Wp" or parts[1:2] not in (["-MD"], ["-MMD"]):
        return [flag]
    return [parts[1], *(("-MF", parts[2]) if len(parts) > 2 else ())]


def add_dependencies(path: Path, files: Sequence[Path]) -> None:
    """Add files to the first rule of a dependency file, as with_dependencies does, if the file exists.

    Raises: MavcgError if the file cannot be written.
    """
    if not path.is_file():
        return
    text = path.read_text(errors="surrogateescape")
    extended = with_dependencies(text, [_escape(str(file.absolute())) for file in files])
    if extended != text:  # bytes that are not text stay unchanged
        write_whole(path, extended.encode(errors="surrogateescape"))


def add_to_preprocessed(path: Path, source: str, files: Sequence[Path]) -> None:
    """Add the files that an object depends on to preprocessed text that a ccache in front of `mavcg launch` requests.

    In its direct mode ccache compares the contents of the files in line markers; otherwise it compares the text. So
    each file gets a line marker, and a comment with a checksum of its contents.
    Source: ccache manual, "How ccache works".
    """
    digest = hashlib.sha256(__version__.encode())
    for file in files:
        digest.update(file.read_bytes() if file.is_file() else b"")
    markers = "".join(f"# 1 {json.dumps(str(file.absolute()))}\n" for file in files)
    added = f"\n{markers}/* mavcg {digest.hexdigest()} */\n# 1 {json.dumps(source)}\n"
    write_whole(path, path.read_bytes() + added.encode(errors="surrogateescape"))


def _escape(name: str) -> str:
    """Escape a path for make (GNU make manual, "What Makefiles Look Like"), as gcc does."""
    return re.sub(r"([ \t#])", r"\\\1", name).replace("$", "$$")
