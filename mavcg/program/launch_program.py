"""Makes the short way of `mavcg launch` a program of its own, for builds of many files that have no hot functions.

A start of Python takes longer than many files take to compile. The program (csrc/cold_launch.c) decides what
cold_launch.py does, from the same notes, and leaves everything else to this mavcg.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from mavcg.files.child_python import python_command
from mavcg.files.scratch import scratch_folder
from mavcg.files.whole_file import put_in_place
from mavcg.program import cold_command, cold_launch, kept_object, launch_door
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

SOURCE = Path(__file__).with_name("csrc") / "cold_launch.c"
_START = "from mavcg.cli import main\nmain()\n"


def write_launch_program(path: Path, mavcg: Sequence[str] | None = None) -> None:
    """Compile the program for this machine, and put it at this path.

    mavcg: the command to which it leaves what it does not know; None for this mavcg.
    Raises: ToolError if it does not compile; OSError if it cannot be written.
    """
    with scratch_folder(".mavcg-", path.absolute().parent) as scratch:
        (scratch / "cold_launch.h").write_text(
            header(mavcg or python_command(_START)), encoding="utf-8", errors="surrogateescape"
        )
        made = scratch / path.name
        target = host_target().zig_name
        arguments = ["-target", target, *PLAIN_CODE_FLAGS, "-std=gnu11", "-O2", f"-I{scratch}", str(SOURCE)]
        run_zig("cc", [*arguments, "-o", str(made)], f"compiling {path.name} for {target}")
        made.chmod(0o755)
        put_in_place(made, path.absolute())


def header(mavcg: Sequence[str]) -> str:
    """Return the C of what both forms of the short way share: the words of options, names, the command of mavcg."""
    lists = {
        "COMPILERS": cold_command.COMPILERS,
        "ZIG_TOOLS": cold_command.ZIG_TOOLS,
        "LAUNCHERS": cold_command.LAUNCHERS,
        "SOURCES": cold_command.SOURCES,
        "LINKED": cold_command.LINKED,
        "NO_CODE": cold_command.NO_CODE,
        "WITH_VALUE": cold_command.WITH_VALUE,
        "ALONE": cold_command.ALONE,
        "BEGIN": cold_command.BEGIN,
        "NOT": cold_command.NOT,
        "ENVIRONMENT": kept_object.ENVIRONMENT,
        "NEVER_WITH": kept_object.NEVER_WITH,
        "STATUS": launch_door.STATUS,
        "FILES": launch_door.FILES,
        "NAMESPACES": launch_door.NAMESPACES,
        "VARIABLES": launch_door.VARIABLES,
    }
    lines = [
        f"static const char *const {name}[] = {{{', '.join(map(_c_text, words))}, 0}};" for name, words in lists.items()
    ]
    names = {
        "ZIG": cold_command.ZIG,
        "UNDER_CCACHE": cold_launch.UNDER_CCACHE,
        "CONFIG_NAME": cold_launch.FILE_NAME,
        "NOTE_HEAD": cold_launch.HEAD,
        "KEPT_HEAD": kept_object.HEAD,
        "KEPT_FOLDER": kept_object.FOLDER,
        "BOOT": kept_object.BOOT,
        "IDENTITY": launch_door.identity(),
        "SERVER_VARIABLE": launch_door.VARIABLE,
        "SERVER_FOLDER": launch_door.FOLDER,
        "MAGIC": launch_door.MAGIC.decode(),
    }
    numbers = {"DESCRIPTORS": launch_door.DESCRIPTORS, "NAME_DIGITS": launch_door.NAME_DIGITS}
    lines += [f"#define {name} {_c_text(text)}" for name, text in names.items()]
    lines += [f"#define {name} {number}" for name, number in numbers.items()]
    return "\n".join([*lines, f"#define MAVCG {', '.join(map(_c_text, mavcg))}"]) + "\n"


def _c_text(text: str) -> str:
    """Return a text as a string of C, whose escapes are JSON's for these."""
    return json.dumps(text, ensure_ascii=False)
