"""IR through clang: what comes back, what refusals say, and that nothing is left behind."""

import re
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import CannotRun, MavcgError, ToolError
from mavcg.files.store import EntryStore
from mavcg.objects.elf import function_symbols
from mavcg.program.version_failures import VersionFailures, failing_alone
from mavcg.toolchain import codegen
from mavcg.toolchain.codegen import (
    AssemblyJob,
    CodegenJob,
    Failure,
    assemble,
    assemble_all,
    canonical,
    compile_all,
    compile_module,
)
from mavcg.toolchain.codegen_batch import MOST_MODULES, assembly_as_ir, batch_size
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import run_zig

ARM = parse_target("aarch64-linux-musl")
ADD = "define i32 @add(i32 %a) {\n  %r = add i32 %a, 1\n  ret i32 %r\n}\n"
DEAD = "define internal void @dead() {\n  ret void\n}\n"
# A vector register for 128 scalar bits: the backend gives up, with a message or with a crash report.
IMPOSSIBLE = 'define void @f(i128 %a) {\n  call void asm "", "{nothere}"(i128 %a)\n  ret void\n}\n'


def test_assembly_optimised_and_as_it_is() -> None:
    optimised, plain, text = compile_all(
        [
            CodegenJob(ADD + DEAD, ARM, "a"),
            CodegenJob(ADD + "define void @kept() {\n  ret void\n}\n", ARM, "a", optimise=False),
            CodegenJob(ADD + DEAD, ARM, "a", emit="ir"),
        ],
        2,
        lambda: None,
    )
    assert isinstance(optimised, str) and "add:" in optimised and "dead" not in optimised
    assert isinstance(plain, str) and "kept:" in plain
    assert isinstance(text, str) and "define" in text and "@dead" not in text and "@add" in canonical(text)


def test_an_object_with_its_functions(tmp_path: Path) -> None:
    compile_module(CodegenJob(ADD, ARM, "a", emit="obj"), tmp_path / "a.o")
    assert list(function_symbols(tmp_path / "a.o")) == [("add", 8)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.o"]


def test_results_come_in_order_and_each_is_told() -> None:
    told: list[str] = []
    jobs = [CodegenJob(ADD.replace("@add", f"@f{i}"), ARM, "a") for i in range(5)]
    results = compile_all(jobs, 2, lambda: told.append(threading.current_thread().name))
    assert all(isinstance(result, str) and f"f{i}:" in result for i, result in enumerate(results))
    assert len(told) == 5


def test_what_was_compiled_once_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By all that it depends on; refusals are not kept."""
    store = EntryStore(tmp_path / "kept")
    job, impossible = CodegenJob(ADD, ARM, "a"), CodegenJob(IMPOSSIBLE, ARM, "b")
    first = compile_all([job, impossible], 1, lambda: None, store)
    assert isinstance(first[0], str) and isinstance(first[1], Failure)
    assemble(first[0], tmp_path / "a.o", ARM, "a", store=store)
    compile_module(replace(job, emit="obj"), tmp_path / "b.o", store)
    made = (tmp_path / "b.o").read_bytes()

    compiled: list[str] = []
    monkeypatch.setattr(codegen, "run_zig", lambda tool, words, what: compiled.append(what))
    assert compile_all([job], 1, lambda: None, store) == first[:1]
    assemble(first[0], tmp_path / "again.o", ARM, "a", store=store)
    assert (tmp_path / "again.o").read_bytes() == (tmp_path / "a.o").read_bytes() and not compiled
    compile_module(replace(job, emit="obj"), tmp_path / "b.o", store)
    assert (tmp_path / "b.o").read_bytes() == made and not compiled
    others = (
        replace(job, opt_level="1"),
        replace(job, optimise=False),
        replace(job, emit="ir"),
        replace(job, flags=()),
        replace(job, target=parse_target("aarch64-linux-gnu.2.17")),
        replace(job, text=ADD.replace("1", "2")),
        impossible,
    )
    for other in others:
        with pytest.raises(FileNotFoundError):  # nothing is compiled now
            compile_all([other], 1, lambda: None, store)
    assert len(compiled) == len(others)


LOOP = """\
define float @f(ptr %a, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %s = phi float [ 0.0, %entry ], [ %sum, %loop ]
  %p = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %p
  %sum = fadd fast float %s, %x
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret float %sum
}
"""


@pytest.mark.parametrize("target", ["aarch64-linux-gnu.2.17", "x86_64-linux-gnu.2.36"])
def test_modules_of_one_process_are_as_those_of_their_own(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they are too many for one process."""
    texts = [LOOP, ADD + DEAD, *(ADD.replace("@add", f"@f{i}") for i in range(15)), LOOP]
    options: list[dict[str, Any]] = [{}, {"optimise": False}, {"emit": "ir"}]
    chosen = [(text, some) for some in options for text in (texts[:2] if some else texts)]
    jobs = [CodegenJob(text, parse_target(target), "a", **some) for text, some in chosen]
    few = [job for job in jobs if job.text in texts[:2]]
    alone = [compile_all([job], 1, lambda: None)[0] for job in few]
    monkeypatch.setattr(codegen, "_compile_text", lambda job: pytest.fail("a module is compiled alone"))
    told: list[int] = []
    together = compile_all(jobs, 1, lambda: told.append(1))

    def without_path(text: str | Failure) -> str:
        assert isinstance(text, str)
        return re.sub(r"^(; ModuleID|source_filename) = .*", "", text, flags=re.MULTILINE)

    found = {job: without_path(text) for job, text in zip(jobs, together, strict=True)}
    assert [found[job] for job in few] == [without_path(text) for text in alone]
    assert len(told) == len(jobs) and len(set(found.values())) == len(set(jobs))


@pytest.mark.parametrize("target", ["aarch64-linux-gnu.2.17", "x86_64-linux-gnu.2.36"])
def test_texts_of_one_process_are_assembled_to_the_objects_of_their_own(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strings of IR escape what they must; texts that LLVM would not write so are assembled by themselves."""
    goal = parse_target(target)
    ir = [f'source_filename = "x{i}.c"\n{text}' for i, text in enumerate((LOOP, ADD, DEAD.replace("internal ", "")))]
    compiled = compile_all([CodegenJob(text, goal, "a") for text in ir], 1, lambda: None)
    texts = [text for text in compiled if isinstance(text, str)]
    odd = '\t.file\t"x.c"\n\t.globl\t"q u"\n"q u":\n\t.asciz\t"\\"\\\\ \\001 é\\n"\n\t.local\tl\n\t.comm\tl,8,8\n'
    bare, twice = "\t.globl\tf\nf:\n\tnop\n", '\t.file\t"a.c"\n\t.file\t"b.c"\n'
    lines = '\t.file\t"x.c"\n\t.file\t1 "x.c"\nf:\n\t.loc\t1 3 5\n\tnop\n\t.section\t.debug_line,"",@progbits\n'
    stack = '\t.section\t".note.GNU-stack","",@progbits\n'
    alone = [odd, bare + stack, twice + stack, lines + stack]
    assert len(texts) == 3 and [assembly_as_ir(text, goal.llvm_triple) for text in alone] == [None] * 4
    jobs = [AssemblyJob(text, tmp_path / f"{i}.o", f"text {i}") for i, text in enumerate([*texts, odd + stack, *alone])]
    expected = []
    for job in jobs:
        assemble(job.asm, tmp_path / "own.o", goal, job.title)
        expected.append((tmp_path / "own.o").read_bytes())
    told: list[str] = []

    def telling(tool: str, words: list[str], what: str) -> Any:
        told.append(what)
        return run_zig(tool, words, what)

    monkeypatch.setattr(codegen, "run_zig", telling)

    assert assemble_all(jobs, goal, 1, lambda: None) == [None] * len(jobs)

    assert [job.out.read_bytes() for job in jobs] == expected
    assert len(told) == (4 if goal.arch == "x86_64" else len(jobs)), told


def test_a_text_that_does_not_assemble_is_named_and_the_others_are_there(tmp_path: Path) -> None:
    stack = '\t.section\t".note.GNU-stack","",@progbits\n'
    texts = [f'\t.file\t"{i}.c"\n\t{"nop" if i != 1 else "nonsense"}\n{stack}' for i in range(3)]
    jobs = [AssemblyJob(text, tmp_path / f"{i}.o", f"text {i}") for i, text in enumerate(texts)]
    store, told = EntryStore(tmp_path / "kept"), list[int]()

    none, error, also_none = assemble_all(jobs, parse_target("x86_64-linux-musl"), 1, lambda: told.append(1), store)

    assert none is also_none is None and "assembling text 1" in str(error) and "nonsense" in str(error)
    assert len(told) == 3 and jobs[0].out.exists() and jobs[2].out.exists() and not jobs[1].out.exists()


def test_a_compiler_that_cannot_be_started_is_no_fault_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions would lose their versions, and a build without any would end with 0."""

    def refuse(*_: object) -> str:
        raise CannotRun("clang cannot be run: Permission denied")

    monkeypatch.setattr(codegen, "run_zig", refuse)
    with pytest.raises(CannotRun):
        compile_all([CodegenJob(ADD, ARM, "a")], 1, lambda: None)
    with pytest.raises(CannotRun):
        assemble_all([AssemblyJob("\tnop\n", tmp_path / "a.o", "a text")], ARM, 1, lambda: None)
    with pytest.raises(CannotRun), failing_alone("f", "the choice of its versions"):
        refuse()
    with pytest.raises(CannotRun), VersionFailures().refusing("f", "its version"):
        refuse()


def test_workers_have_several_groups_each_and_one_worker_few() -> None:
    assert batch_size(100, 1) == MOST_MODULES and batch_size(100, 2) == 12 and batch_size(3, 2) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("define i32 @f() {\n  ret i64 0\n}\n", "value doesn't match function result type"),
        (IMPOSSIBLE, "LLVM: "),
        (ADD.replace("{", '"target-features"="+sve" {', 1).replace("i32", "<vscale x 4 x i33>"), "LLVM: "),
    ],
)
def test_what_llvm_refuses_is_a_failure_with_its_words_and_the_rest_goes_on(text: str, reason: str) -> None:
    refused, made = compile_all([CodegenJob(text, ARM, "a"), CodegenJob(ADD, ARM, "b")], 1, lambda: None)
    assert isinstance(refused, Failure) and reason in refused.message
    assert "\n" not in refused.message and "PLEASE" not in refused.message
    assert isinstance(made, str)


def test_a_crash_of_the_compiler_leaves_no_report_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    calls = "define ptr @f() {\n  %r = call ptr @llvm.thread.pointer.p0()\n  ret ptr %r\n}\n"
    text = f"declare ptr @llvm.thread.pointer.p0()\n{calls}"  # which code generation for macOS on x86 does not know
    [result] = compile_all([CodegenJob(text, parse_target("x86_64-macos"), "a")], 1, lambda: None)
    assert isinstance(result, Failure) and "thread_pointer" in result.message
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_names_the_work(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="compiling odd.c"):
        compile_module(CodegenJob("define i32 @f() {\n  ret i64 0\n}\n", ARM, "compiling odd.c"), tmp_path / "a.s")


def test_canonical_ir_is_what_llvm_prints_and_bad_ir_an_error() -> None:
    text = canonical("define i32 @f(){ret i32 1}")
    assert "define i32 @f() {\n  ret i32 1\n}" in text and canonical(text) == text
    with pytest.raises(MavcgError, match="LLVM: "):
        canonical("define i32 @f( {")


def test_a_file_name_that_is_no_utf8_is_no_fault() -> None:
    """clang copies it raw into a comment; it was read with surrogates in place of bytes."""
    text = b"; ModuleID = '/caf\xe9.c'\n".decode("utf-8", "surrogateescape") + ADD
    assert "@add" in canonical(text)
    [asm] = compile_all([CodegenJob(text, ARM, "a")], 1, lambda: None)
    assert isinstance(asm, str)
