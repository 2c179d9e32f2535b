"""Compiles LLVM IR to optimised IR, assembly or an object, and assembles text, by ziglang's clang in child processes.

llvmlite has no assembly parser for foreign targets and aborts on inline assembly; clang, of the same LLVM, has one. In
a child process, a fatal error of LLVM becomes one refused function with LLVM's message.
"""

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from mavcg.errors import CannotRun, MavcgError, ToolError
from mavcg.files.scratch import scratch_folder
from mavcg.files.store import NOTHING_KEPT, EntryStore, open_store
from mavcg.toolchain.codegen_batch import assembly_as_ir, batch_size, compile_batch
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, compiler_version, run_zig

EMIT_FLAGS = {"ir": ("-S", "-emit-llvm"), "asm": ("-S",), "obj": ("-c",)}
# All extensions that any core may use, so that the assembler accepts everything that code generation has written for a
# core. Names: LLVM's AArch64TargetParser.
_ASSEMBLE_ALL = (
    "\t.arch armv9.5-a+sve2+sme2+fp16+fp16fml+bf16+i8mm+dotprod+crypto+sha3+sm4+memtag+rng+ssbs+f32mm+f64mm+ls64"
    "+rcpc+lse+rdm+crc+predres+sb+flagm+pauth\n"
)
# An error message with the place in IR text that clang's or llvmlite's parser refuses, and that line; or without.
_REASON = re.compile(
    r"(?:fatal error: error in backend|LLVM ERROR|(?:\S+:(?P<line>\d+):\d+: )?error): (?P<reason>.*)"
    r"(?:\n *(?:\d+ \| )?(?P<quoted>.*))?"
)
_SHOWN_IR = 120
SUFFIX = {"ir": ".ll", "asm": ".s", "obj": ".o"}
_MOST_KEPT_BYTES = 300_000_000


@dataclass(frozen=True)
class CodegenJob:
    """A module to be compiled.

    Args:
        text: the IR; its functions carry their CPU as attributes.
        title: of the code, for messages.
        opt_level: "0" to "3", "s" or "z".
        optimise: True to run the mid-level pipeline, False for code generation only.
        emit: "ir", "asm" or "obj".
        flags: further code generation flags, such as -ffunction-sections.
    """

    text: str
    target: Target
    what: str
    opt_level: str = "3"
    optimise: bool = True
    emit: str = "asm"
    flags: tuple[str, ...] = field(default=("-fPIC",))


class IrError(MavcgError):
    """IR that LLVM does not parse. text: the IR. line: the one that LLVM names, from 1; None if it names none."""

    def __init__(self, message: str, text: str, line: int | None) -> None:
        super().__init__(message)
        self.text = text
        self.line = line


@dataclass(frozen=True)
class Failure:
    """The result of a job that LLVM refused. message: LLVM's. line: of the IR, from 1; None if LLVM names none."""

    message: str
    line: int | None = None


def open_code() -> EntryStore:
    """Return the user's store of compiled code, for this version of the compiler."""
    version = hashlib.sha256(compiler_version().encode()).hexdigest()[:16]
    return open_store("code", version, most_bytes=_MOST_KEPT_BYTES)


def _key(words: Sequence[str], text: str) -> str:
    """Return the key of what a tool of ziglang's makes of a text. words: its name and options, without paths."""
    return hashlib.sha256("\0".join([*words, text]).encode(errors="surrogateescape")).hexdigest()


def compile_module(job: CodegenJob, out: Path, store: EntryStore = NOTHING_KEPT) -> None:
    """Compile a module into `out`. Raises: ToolError with clang's message for IR that it refuses.

    store: where objects are kept, and found again.
    """
    # The output's name is in it, as that of the source.
    key = _key([_clang(job.target), *_options(job), out.name], job.text)
    if (known := store.get(key)) is not None:
        out.write_bytes(known)
        return
    source = out.with_name(out.name + ".in.ll")
    source.write_text(job.text, encoding="utf-8", errors="surrogateescape")
    run_zig(_clang(job.target), [*_options(job), str(source), "-o", str(out)], job.what)
    source.unlink()
    if store.folder is not None:
        store.put(key, out.read_bytes())


def _options(job: CodegenJob) -> list[str]:
    """Return clang's options for a job, without paths."""
    return [
        *_clang_target(job.target),  # the CPUs are in the IR
        *(f"-O{job.opt_level}", *PLAIN_CODE_FLAGS),
        *("-Wno-unused-command-line-argument", "-Wno-override-module", "-fno-crash-diagnostics"),
        *(() if job.optimise else ("-Xclang", "-disable-llvm-passes")),
        *(*job.flags, *EMIT_FLAGS[job.emit]),
    ]


def assemble(
    asm: str, out: Path, target: Target, title: str, flags: Sequence[str] = (), store: EntryStore = NOTHING_KEPT
) -> None:
    """Assemble text to an object file.

    Args:
        title: name of the code in messages, such as "kernels".
        flags: for the assembler, such as folders of included files.
        store: for text that includes no file: where objects are kept, and found again.
    """
    head, words = _assembler_head(target), _assembler_words(target, flags)
    key = _key([_clang(target), *words], head + asm)
    if (known := store.get(key)) is not None:
        out.write_bytes(known)
        return
    source = out.with_suffix(".s")
    source.write_text(head + asm, encoding="utf-8", errors="surrogateescape")
    run_zig(_clang(target), [*words, str(source), "-o", str(out)], f"assembling {title}")
    source.unlink()
    if store.folder is not None:
        store.put(key, out.read_bytes())


def _assembler_head(target: Target) -> str:
    return _ASSEMBLE_ALL if target.arch == "aarch64" else ""


def _assembler_words(target: Target, flags: Sequence[str]) -> list[str]:
    # Without -g0 the assembler writes this file's path into the object's debug information.
    return [*_clang_target(target), "-g0", *flags, "-c"]


@dataclass(frozen=True)
class AssemblyJob:
    """A text to be assembled. out: the object file. title: of the code, for messages."""

    asm: str
    out: Path
    title: str


def assemble_all(
    jobs: Sequence[AssemblyJob],
    target: Target,
    workers: int,
    progress: Callable[[], None],
    store: EntryStore = NOTHING_KEPT,
) -> list[ToolError | None]:
    """Assemble texts that include no file, `workers` at a time; return in order what is wrong with each, or None.

    progress: called once per finished job, from any thread. store: where objects are kept, and found again.
    Raises: CannotRun if the assembler cannot be started, which says nothing of the texts.
    """
    errors: list[ToolError | None] = [None] * len(jobs)
    size = batch_size(len(jobs), workers)

    def work(first: int) -> None:
        some = jobs[first : first + size]
        made = _assemble_at_once(some, target, store)
        for number, job in enumerate(some, first):
            try:
                if job not in made:
                    assemble(job.asm, job.out, target, job.title, store=store)
            except CannotRun:
                raise
            except ToolError as error:
                errors[number] = error
            progress()

    with ThreadPoolExecutor(max(1, workers)) as pool:
        list(pool.map(work, range(0, len(jobs), size)))
    return errors


def _assemble_at_once(jobs: Sequence[AssemblyJob], target: Target, store: EntryStore) -> Sequence[AssemblyJob]:
    """Assemble those texts of x86-64 that are not kept, in one process; return the jobs that are done."""
    if (target.arch, _clang(target)) != ("x86_64", "clang"):
        return ()
    keys = {job: _key(["clang", *_assembler_words(target, ())], job.asm) for job in jobs}
    absent = [job for job, key in keys.items() if store.get(key) is None]
    texts = {job: text for job in absent if (text := assembly_as_ir(job.asm, target.llvm_triple))}
    options = _options(CodegenJob("", target, "", "2", optimise=False, emit="obj", flags=("-fPIC", "-fno-addrsig")))
    made = compile_batch(list(texts.values()), options, ".o", store) if len(texts) > 1 else None
    for job, content in zip(texts, made or (), strict=False):
        job.out.write_bytes(content)
        store.put(keys[job], content)
    return tuple(texts) if made else ()


def _clang(target: Target) -> str:
    """Return the ziglang tool that compiles IR and assembly.

    Neither needs headers or libraries, so that clang is run directly, without zig's cache and second process, which
    take half of the time for a small module. For macOS zig chooses the version to compile for.
    """
    return "cc" if target.system == "macos" else "clang"


def _clang_target(target: Target) -> tuple[str, str]:
    """Return the target flag of that tool."""
    return "-target", target.zig_name if _clang(target) == "cc" else target.llvm_triple


def compile_all(
    jobs: Sequence[CodegenJob], workers: int, progress: Callable[[], None], store: EntryStore = NOTHING_KEPT
) -> list[str | Failure]:
    """Compile modules to text ("ir" or "asm"), `workers` at a time; return the texts in order, a Failure for a refusal.

    progress: called once per finished job, from any thread. store: where texts are kept, and found again.
    Raises: CannotRun if the compiler cannot be started, which says nothing of the modules.
    """

    keys = [_key([_clang(job.target), *_options(job)], job.text) for job in jobs]
    known = [store.get(key) for key in keys]
    results: list[str | Failure] = [(text or b"").decode("utf-8", "surrogateescape") for text in known]
    absent = [number for number, text in enumerate(known) if text is None]

    def work(numbers: Sequence[int]) -> None:
        made = _compile_texts([jobs[number] for number in numbers], store)
        for number, result in zip(numbers, made, strict=True):
            results[number] = result
            if isinstance(result, str):
                store.put(keys[number], result.encode("utf-8", "surrogateescape"))
            progress()

    for _ in range(len(jobs) - len(absent)):
        progress()
    with ThreadPoolExecutor(max(1, workers)) as pool:
        list(pool.map(work, _batches(jobs, absent, workers)))
    return results


def _batches(jobs: Sequence[CodegenJob], numbers: Sequence[int], workers: int) -> list[list[int]]:
    """Return the numbers of jobs in groups that one process compiles; those of a group have the same options."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number in numbers:
        groups.setdefault((_clang(jobs[number].target), *_options(jobs[number])), []).append(number)
    size = batch_size(len(numbers), workers)
    return [group[at : at + size] for group in groups.values() for at in range(0, len(group), size)]


def _compile_texts(jobs: Sequence[CodegenJob], store: EntryStore) -> list[str | Failure]:
    """Compile modules with the same options, in one process if that succeeds; else each in its own."""
    first = jobs[0]
    if len(jobs) > 1 and _clang(first.target) == "clang":
        made = compile_batch([job.text for job in jobs], _options(first), SUFFIX[first.emit], store)
        if made is not None:
            return [output.decode("utf-8", "surrogateescape") for output in made]
    return [_compile_text(job) for job in jobs]


def _compile_text(job: CodegenJob) -> str | Failure:
    with scratch_folder("mavcg-") as folder:
        out = Path(folder) / f"module{SUFFIX[job.emit]}"
        try:
            compile_module(job, out)
            return out.read_text(encoding="utf-8", errors="surrogateescape")
        except CannotRun:
            raise
        except ToolError as error:
            return Failure(*_reason(str(error)))


def _reason(message: str) -> tuple[str, int | None]:
    """Return the reason in a compiler's crash report or error list, with the IR that it names, and the IR's line."""
    telling = _REASON.search(message)
    if not telling:
        return f"LLVM: {' '.join(message.split())}", None
    place, line = "", None
    if telling["line"]:
        quoted = telling["quoted"].strip()
        shown = quoted if len(quoted) <= _SHOWN_IR else quoted[:_SHOWN_IR] + "..."
        line = int(telling["line"])
        place = f" in line {line} of its IR: {shown}"
    return f"LLVM: {telling['reason'].strip()}{place}", line


def default_workers() -> int:
    """Return the number of compilers to run at a time: the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def canonical(text: str) -> str:
    """Return the IR as LLVM prints it, the form that passes.ir reads. Raises: IrError if it does not parse."""
    import llvmlite.binding as llvm

    # Bytes that are not UTF-8 occur in comments only, such as a file's name; elsewhere LLVM escapes them.
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        return str(llvm.parse_assembly(text))
    except RuntimeError as error:
        reason, line = _reason(str(error))
        raise IrError(reason, text, line) from error
