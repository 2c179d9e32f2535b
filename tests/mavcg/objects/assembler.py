"""What LLVM's assembler says of each line of an AArch64 text."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from mavcg.toolchain.codegen import _ASSEMBLE_ALL
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import zig_program


def assembler_errors(lines: Sequence[str], target: Target, folder: Path, everything: bool = False) -> dict[int, str]:
    """Line number, from 0 -> LLVM's message. everything: with all extensions, instead of Armv8.0-A alone."""
    source = folder / "lines.s"
    head = _ASSEMBLE_ALL if everything else "\n"
    source.write_text(head + "\n".join(lines) + "\n")
    command = [zig_program(), "clang", "-target", target.llvm_triple, "-c", str(source), "-o", str(folder / "lines.o")]
    messages = subprocess.run(command, capture_output=True, text=True).stderr
    return {int(n) - 2: text for n, text in re.findall(r"lines\.s:(\d+):\d+: error: (.*)", messages)}
