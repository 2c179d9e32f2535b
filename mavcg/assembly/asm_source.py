"""Reads a hand-written assembly file for the machine passes: preprocesses it if needed, and checks that it assembles.

The assembler is ziglang's clang (LLVM's integrated assembler) with all extensions enabled: which of them a file uses is
not checked, only whether it is garbled.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.assembly.repetitions import EXPANDED_LINES, check_repetitions, too_long
from mavcg.errors import MavcgError, ToolError
from mavcg.files.bounded_read import read_bounded
from mavcg.files.decode import MOST_BYTES
from mavcg.files.scratch import scratch_folder
from mavcg.objects.elf import open_elf
from mavcg.toolchain.zig import run_tool, zig_command

_ALL = (
    "fp16 fp16fml dotprod i8mm bf16 crypto aes sha3 sm4 rng memtag ls64 lse128 rcpc3 the d128 cssc mops pauth wfxt gcs "
    "fp8 faminmax lut sb ssbs predres flagm brbe f32mm f64mm sve2p1 sve2-aes sve-b16b16 sme2p1"
)
_ARCH = ".arch armv9.5-a+" + "+".join(_ALL.split())
_TRIPLE = "aarch64-linux-gnu.2.17"
_PLAIN = ("-g0", "-Qunused-arguments")
_FOR_CPP = re.compile(r"^[ \t]*#[ \t]*(?:include|define|undef|if|ifdef|ifndef|else|elif|endif|error|pragma)\b", re.M)
_MACROS = re.compile(r"^[ \t]*\.(?:macro|rept|irpc?|if\w*)\b", re.M)
# Marks of a function for a debug format that no AArch64 target has; gas reads them, LLVM's assembler does not.
_FUNCTION_MARK = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?P<before>^|[;:])[ \t]*\.(?:end)?func\b[^;\n]*', re.M)
_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"')
_MESSAGE = re.compile(r"(?P<file>.*?):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<what>.*)")
_IN_MACRO = re.compile(r"[^<].*?:(?P<line>\d+):(?P<column>\d+): note: while in macro instantiation")
_ASSEMBLER_SECONDS = 10  # limit of CPU time, because macros and repetitions may not terminate
_ALLOC = 0x2  # SHF_ALLOC
_TEMPORARY = "in.s"  # name of the assembled file, which begins with a line that enables the extensions


@dataclass(frozen=True)
class AsmSource:
    """An assembly file's text.

    origins: (file, line) of the user's source for each line of `text`; empty if `text` is the file itself.
    file: its name in messages. expanded: True if the assembler has expanded macros, repetitions and conditions, so that
    line numbers are those of the expanded text.
    """

    text: str
    file: str
    origins: tuple[tuple[str, int], ...] = ()
    expanded: bool = False

    @property
    def preprocessed(self) -> bool:
        return bool(self.origins)

    def line(self, line: int) -> int:
        """Return the line in the user's file of a line of `text`; of an included file's line, that file's."""
        return self.origins[line - 1][1] if 0 < line <= len(self.origins) else line

    def location(self, line: int) -> str:
        """Return `file:line` of a line of `text`."""
        return "{}:{}".format(*self.origins[line - 1]) if 0 < line <= len(self.origins) else f"{self.file}:{line}"

    @contextmanager
    def places_in_errors(self) -> Iterator[None]:
        """Replace line numbers of `text` in errors of the passes by locations in the user's file.

        Raises: MavcgError of the pass, with the location in the user's file.
        """
        try:
            yield
        except MavcgError as error:
            match = re.match(rf"{re.escape(self.file)}:(\d+):", str(error))
            if not match or not self.preprocessed:
                raise
            raise MavcgError(f"{self.location(int(match[1]))}:{str(error)[match.end() :]}") from error


def read_asm_source(
    path: Path,
    defines: Sequence[str] = (),
    includes: Sequence[Path] = (),
    flags: Sequence[str] = (),
    target: str = _TRIPLE,
) -> AsmSource:
    """Return an AArch64 assembly file, preprocessed if it is named .S, and checked to assemble.

    Macros, repetitions and conditions (.macro, .rept, .if, ...) are expanded, because the passes do not read them.
    defines, includes: for the preprocessor's -D and -I. flags: further flags for the preprocessor. target: zig's name
    of the target whose macros it defines.
    Raises: MavcgError with file, line and column if the file does not preprocess or assemble, or is not text.
    """
    folders = [f"-I{folder}" for folder in (*includes, path.parent)]
    source = preprocess(path, [*(f"-D{name}" for name in defines), *flags, *folders], target)
    check_repetitions(source.text, source.file)
    code = assemble(source, folders)
    if not _MACROS.search(source.text):
        return source
    expanded = AsmSource(_expand_macros(source, folders), source.file, expanded=True)
    if (lines := expanded.text.count("\n")) > EXPANDED_LINES:
        raise too_long(source.file, f"its macros and repetitions expand to {lines} lines")
    if assemble(expanded, folders) != code:
        raise MavcgError(f"{path}: the code after expansion of its macros differs; give the expanded text")
    return expanded


def preprocess(path: Path, flags: Sequence[str], target: str = _TRIPLE) -> AsmSource:
    """Return an assembly file's text, preprocessed if it is named .S or .sx and has lines for the preprocessor.

    .func and .endfunc, which say nothing about code, are left out; lines keep their numbers.
    flags: for the preprocessor; if one is -D or -include, such a file is preprocessed in any case.
    Raises: MavcgError with file, line and column if the file does not preprocess or is not text.
    """
    try:
        content = read_bounded(path, MOST_BYTES)
    except OSError as error:
        raise MavcgError(f"{path}: {error.strerror}; name an assembly file") from error
    if b"\0" in content:
        raise MavcgError(f"{path}: holds zero bytes and is not text; name an assembly file")
    # Comments of any encoding are preserved byte for byte.
    text = content.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    source = AsmSource(text, str(path))
    has_definitions = any(flag.startswith(("-D", "-include")) for flag in flags)
    if path.suffix not in (".S", ".sx") or not (has_definitions or _FOR_CPP.search(text)):
        return _without_function_marks(source)
    with scratch_folder("mavcg-asm-") as folder:
        out = Path(folder) / "out.s"
        words = ["-target", target, *_PLAIN, *flags, "-E", "-x", "assembler-with-cpp", str(path), "-o", str(out)]
        _run("cc", words, source, "preprocessing")
        text = out.read_text(encoding="utf-8", errors="surrogateescape")
        return _without_function_marks(_remove_markers(text, str(path)))


def _without_function_marks(source: AsmSource) -> AsmSource:
    text = _FUNCTION_MARK.sub(lambda m: m[0] if m["before"] is None else m["before"], source.text)
    return replace(source, text=text)


def assemble(source: AsmSource, flags: Sequence[str] = ()) -> dict[str, bytes]:
    """Assemble a text; return section -> contents, for the sections that are loaded.

    Raises: MavcgError with file, line, column and the assembler's message.
    """
    with scratch_folder("mavcg-asm-") as folder:
        path, out = Path(folder) / _TEMPORARY, Path(folder) / "out.o"
        path.write_text(f"{_ARCH}\n{source.text}", encoding="utf-8", errors="surrogateescape")
        _run("cc", ["-target", _TRIPLE, *_PLAIN, *flags, "-c", str(path), "-o", str(out)], source, "assembling")
        return {
            section.name: section.data() for section in open_elf(out).iter_sections() if section["sh_flags"] & _ALLOC
        }


def _expand_macros(source: AsmSource, flags: Sequence[str]) -> str:
    """Return the text with macros, repetitions and conditions expanded, as the assembler prints it."""
    with scratch_folder("mavcg-asm-") as folder:
        path, out = Path(folder) / _TEMPORARY, Path(folder) / "out.s"
        path.write_text(f"{_ARCH}\n{source.text}", encoding="utf-8", errors="surrogateescape")
        words = ["-cc1as", "-triple", "aarch64-unknown-linux-gnu", "-filetype", "asm"]
        words += [word for flag in flags for word in ("-I", flag.removeprefix("-I"))]
        _run("clang", [*words, str(path), "-o", str(out)], source, "expanding the macros of")
        text = out.read_text(encoding="utf-8", errors="surrogateescape")
    return re.sub(r"\A\s*\.arch\s.*\n", "", text)  # the line that enables the extensions


def _run(tool: str, arguments: Sequence[str], source: AsmSource, action: str) -> None:
    """Run zig's compiler driver; raise its first error as MavcgError. action: for messages, such as "assembling"."""
    try:
        limited = f'ulimit -t {_ASSEMBLER_SECONDS}; exec "$@"'
        run_tool(["/bin/sh", "-c", limited, "sh", *zig_command(tool), *arguments], f"{action} {source.file}")
    except ToolError as error:
        rows = str(error).splitlines()
        errors = [match for line in rows if (match := _MESSAGE.match(line.strip()))]
        if not errors and ", no message" in rows[-1]:
            within = f"{action} takes more than {_ASSEMBLER_SECONDS} seconds of CPU time, or ends without a word"
            raise too_long(source.file, f"{within}: its macros or repetitions may expand without end") from error
        if not errors and (label := re.search(r"Undefined temporary symbol (\S+)", str(error))):
            line, column = _first_use(label[1], source.text)
            fault = f"the label {label[1]} is nowhere in the file; is the file whole?"
            raise MavcgError(f"{source.location(line)}:{column}: {fault}") from error
        if not errors:
            raise
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        first, fault = errors[0], f"{_message(errors[0], rows)}{more}"
        location = f"{first['file']}:{first['line']}"
        calls = [match for line in str(error).splitlines() if (match := _IN_MACRO.match(line.strip()))]
        if first["file"].startswith("<"):  # <instantiation>: the user's line is the outermost call, if it is named
            fault = f"in a macro: {fault}"
            if not calls:
                raise MavcgError(f"{source.file}: {fault}; mend the macro") from error
            first = calls[0]
            location = source.location(int(first["line"]) - 1)
        elif Path(first["file"]).name == _TEMPORARY and first["file"] != source.file:
            location = source.location(int(first["line"]) - 1)
        raise MavcgError(f"{location}:{first['column']}: {fault}; mend the line") from error


def _message(message: re.Match[str], rows: Sequence[str]) -> str:
    """Return the assembler's message, with the name of an unknown directive from the line that it shows."""
    text = message["what"]
    at = next(i for i, row in enumerate(rows) if row.strip() == message[0])
    shown = rows[at + 1].strip() if at + 1 < len(rows) else ""
    directive = re.search(r"(?<![\w.])\.[A-Za-z_]\w*", shown)
    return f"{text} {directive[0]}" if text == "unknown directive" and directive else text


def _first_use(label: str, text: str) -> tuple[int, int]:
    """Return the line and column, from 1, of the first use of a label."""
    match = re.search(rf"(?<![\w.$]){re.escape(label)}(?![\w.$])", text)
    at = match.start() if match else 0
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _remove_markers(text: str, file: str) -> AsmSource:
    """Remove the preprocessor's line markers from preprocessed text; they become the origins."""
    lines: list[str] = []
    origins: list[tuple[str, int]] = []
    name, line = file, 0
    for row in text.splitlines(keepends=True):
        if mark := _MARKER.match(row):
            name, line = re.sub(r"\\(.)", r"\1", mark[2]), int(mark[1])
            continue
        if not name.startswith("<"):  # <built-in> and <command line>, whose lines are blank
            lines.append(row)
            origins.append((name, line))
        line += 1
    return AsmSource("".join(lines), file, tuple(origins))
