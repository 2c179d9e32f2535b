"""The compiler of builds whose hot objects `mavcg build` makes: `python -m bench.corpus.replaced CC ..`.

The compiler runs as it is. Then each of its objects that the file CORPUS_OBJECTS names, by its path in CORPUS_FOLDER,
is made by `mavcg build` from the same command, as an entry of a compile_commands.json, with the mavcg.toml
MAVCG_CONFIG.

`python -m bench.corpus.replaced --ir BITCODE OBJECT ARCHIVE` makes an object of LLVM bitcode, and puts it into an
archive in place of the one object that this has, as into the .rlib of a Rust crate.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

# mavcg is imported for the few objects that it makes: its import takes longer than most files take to compile.
if TYPE_CHECKING:
    from mavcg.program.sources.compile_commands import CompileUnit


def main(command: Sequence[str]) -> int:
    """Run the compiler and replace its objects; returns the exit status of what failed, else 0."""
    if command[:1] == ["--ir"]:
        return _replace_in_archive(*map(Path, command[1:]))
    status = subprocess.run(command).returncode
    listed = Path(os.environ["CORPUS_OBJECTS"]).read_text(encoding="utf-8").splitlines()
    # An object is named by the command, or after its source.
    if status or not {PurePath(path).stem for path in listed} & {PurePath(word).stem for word in command}:
        return status
    return _replace_listed(command, listed)


def _replace_listed(command: Sequence[str], listed: Sequence[str]) -> int:
    """Make those of a command's objects that are listed. Returns: the exit status."""
    from mavcg.program.sources.compile_commands import CompileUnit, read_command
    from mavcg.program.unversioned_outputs import several_units

    one, status = read_command(command, Path.cwd()), 0
    folder = Path(os.environ["CORPUS_FOLDER"]).resolve()
    for unit in [one] if isinstance(one, CompileUnit) else several_units(command, Path.cwd()):
        if unit.output and unit.output.is_file() and os.path.relpath(unit.output.resolve(), folder) in listed:
            status = status or _replace(unit, unit.output.resolve())
    return status


def _replace(unit: "CompileUnit", output: Path) -> int:
    from mavcg.files.scratch import scratch_folder

    with scratch_folder("corpus") as scratch:
        entry = {"directory": str(unit.directory), "file": str(unit.source), "arguments": list(unit.arguments)}
        commands = scratch / "compile_commands.json"
        commands.write_text(json.dumps([entry]), encoding="utf-8")
        return _build(("--compile-commands", str(commands)), output)


def _build(inputs: Sequence[str], output: Path) -> int:
    """Build an object of these inputs. Returns: the exit status; the object stays as it is where that is not 0."""
    from mavcg.files.child_python import commands_folder
    from mavcg.files.scratch import scratch_folder

    with scratch_folder("corpus") as scratch:
        made = scratch / "made.o"
        command = [str(commands_folder() / "mavcg"), "build", os.environ["MAVCG_CONFIG"], *inputs, "-o", str(made)]
        status = subprocess.run(command, cwd=scratch).returncode
        if status == 0:
            output.write_bytes(made.read_bytes())
        return status


def _replace_in_archive(bitcode: Path, output: Path, archive: Path) -> int:
    """Make the object and put it into the archive. Returns: the exit status."""
    from mavcg.files.scratch import scratch_folder

    if status := _build(("--ir", str(bitcode.resolve())), output):
        return status
    listed = subprocess.run(["ar", "t", str(archive)], check=True, capture_output=True, text=True).stdout.split()
    (member,) = (name for name in listed if name.endswith(".o"))
    with scratch_folder("corpus") as scratch:
        (scratch / member).write_bytes(output.read_bytes())
        return subprocess.run(["ar", "r", str(archive), str(scratch / member)]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
