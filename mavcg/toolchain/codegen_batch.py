"""Compiles several modules of LLVM IR, or assembles several texts, in one process of clang.

The start of one takes as long as a small function.

clang's driver starts a process for each file; its compiler proper, `clang -cc1`, takes any number of files and writes
an output beside each. Its options are those that the driver prints for one of the files (clang's manual, "-###"). The
modules share nothing in it: each has its own LLVM context, and its output is that of a process of its own.

`clang -cc1as` takes one file. So assembly is compiled as the module assembly of IR without anything else, which LLVM
assembles by the same parser and writer (LangRef, "Module-Level Inline Assembly").
"""

import re
import shlex
import subprocess
from collections.abc import Sequence

from mavcg.errors import ToolError
from mavcg.files.scratch import scratch_folder
from mavcg.files.store import EntryStore
from mavcg.toolchain.zig import run_tool, zig_program

# Modules of one process: what LLVM keeps of them is only freed at its end.
MOST_MODULES = 16
# Options that name the current folder, for debug information that IR brings along.
_PLACES = ("-fdebug-compilation-dir=", "-fcoverage-compilation-dir=")
# The source's name, of which an object has a symbol: of IR it is that of source_filename.
_FILE = re.compile(rb'^\t\.file\t("[ !#-\[\]-~]*")\n', re.MULTILINE)
_UNPRINTABLE = re.compile(rb"[^ -~\n]")


def batch_size(jobs: int, workers: int) -> int:
    """Return the number of modules to compile in a process, so that none of several workers waits long for another."""
    return MOST_MODULES if workers <= 1 else max(1, min(MOST_MODULES, jobs // (4 * workers)))


def compile_batch(texts: Sequence[str], options: Sequence[str], suffix: str, store: EntryStore) -> list[bytes] | None:
    """Compile modules of IR with the same options of clang's; return the outputs, None if anything fails.

    What fails is compiled again by itself, by the caller: a crash of LLVM ends the process for all modules, and
    messages name none of them. suffix: of the outputs of these options: ".s", ".ll" or ".o". store: where the
    compiler's options are kept.
    """
    words = _compiler_words(options, store)
    if not words:
        return None
    with scratch_folder("mavcg-") as folder:
        # A name that LLVM writes where the IR has none. An output of IR replaces its input.
        sources = [folder / str(number) / f"module{suffix}.in.ll" for number in range(len(texts))]
        for source, text in zip(sources, texts, strict=True):
            source.parent.mkdir()
            source.write_text(text, encoding="utf-8", errors="surrogateescape")
        try:
            run_tool([zig_program(), *words, *map(str, sources)], "compiling modules")
            return [source.with_suffix(suffix).read_bytes() for source in sources]
        except (ToolError, OSError):
            return None


def assembly_as_ir(asm: str, triple: str) -> str | None:
    """Return IR that compiles to the object to which a text of x86-64 is assembled; None for one where it might not.

    That is a text which does not name its source once and say what stack it needs, as LLVM writes both for IR, or which
    has line numbers: those of IR come from its metadata.
    """
    text = asm.encode("utf-8", "surrogateescape")
    named = _FILE.findall(text)
    if len(named) != 1 or text.count(b".file") != 1 or b"\t.loc\t" in text or b".note.GNU-stack" not in text:
        return None
    text = _FILE.sub(b"", text).replace(b"\\", b"\\5C").replace(b'"', b"\\22").replace(b"\t", b"\\09")
    text = _UNPRINTABLE.sub(lambda match: b"\\%02X" % match[0][0], text)
    lines = 'module asm "' + text.decode().replace("\n", '"\nmodule asm "') + '"\n'
    return f'source_filename = {named[0].decode()}\ntarget triple = "{triple}"\n{lines}'


def _compiler_words(options: Sequence[str], store: EntryStore) -> list[str]:
    """Return the words after the program with which clang's driver compiles IR, without files; [] if they are unknown.

    They are kept in the store, for the files of a build that follow.
    """
    key = "\0".join(["clang -cc1", zig_program(), *options])
    words = store.read(key, list[str])
    if words is None:
        words = _driver_words(options)
        store.write(key, words)
    return words


def _driver_words(options: Sequence[str]) -> list[str]:
    with scratch_folder("mavcg-") as folder:
        source, output = folder / "module.ll", folder / "module.out"
        source.touch()
        command = [zig_program(), "clang", "-###", *options, str(source), "-o", str(output)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")  # it prints on stderr
    commands = [line for line in done.stderr.splitlines() if line.startswith(' "')]
    words = shlex.split(commands[0]) if done.returncode == 0 and len(commands) == 1 else []
    files = ["-o", str(output), "-x", "ir", str(source)]
    if words[1:2] != ["-cc1"] or words[-len(files) :] != files:
        return []
    return [word for word in words[1 : -len(files)] if not word.startswith(_PLACES)] + ["-x", "ir"]
