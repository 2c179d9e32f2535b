"""The compiler of builds whose hot objects `mavcg build` makes: `python -m bench.corpus.replaced CC ..`.

The compiler runs as it is. Then each of its objects that the file CORPUS_OBJECTS names, by its path in CORPUS_FOLDER,
is made by `mavcg build` from the same command, as an entry of a compile_commands.json, with the mavcg.toml
MAVCG_CONFIG.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mavcg.files.child_python import commands_folder
from mavcg.files.scratch import scratch_folder
from mavcg.program.sources.compile_commands import CompileUnit, read_command
from mavcg.program.unversioned_outputs import several_units


def main(command: Sequence[str]) -> int:
    """Run the compiler and replace its objects; returns the exit status of what failed, else 0."""
    status = subprocess.run(command).returncode
    unit = read_command(command, Path.cwd()) if not status else None
    units = [unit] if isinstance(unit, CompileUnit) else [] if status else several_units(command, Path.cwd())
    folder = Path(os.environ["CORPUS_FOLDER"]).resolve()
    listed = Path(os.environ["CORPUS_OBJECTS"]).read_text(encoding="utf-8").splitlines()
    for unit in units:
        if unit.output and unit.output.is_file() and os.path.relpath(unit.output.resolve(), folder) in listed:
            status = status or _replace(unit, unit.output.resolve())
    return status


def _replace(unit: CompileUnit, output: Path) -> int:
    with scratch_folder("corpus") as scratch:
        entry = {"directory": str(unit.directory), "file": str(unit.source), "arguments": list(unit.arguments)}
        (scratch / "compile_commands.json").write_text(json.dumps([entry]), encoding="utf-8")
        words = ["build", os.environ["MAVCG_CONFIG"], "--compile-commands", str(scratch / "compile_commands.json")]
        made = scratch / "made.o"
        status = subprocess.run([str(commands_folder() / "mavcg"), *words, "-o", str(made)], cwd=scratch).returncode
        if status == 0:
            output.write_bytes(made.read_bytes())
        return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
