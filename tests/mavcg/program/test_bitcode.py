"""Versions in LLVM bitcode, below the commands: flags, compilers of an older LLVM, modules linked as IR."""

import stat
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.objects.code_extensions import code_extensions
from mavcg.passes.ir.module_text import parse_module
from mavcg.profiles.load import load_core
from mavcg.program.bitcode import link_ir, refuse_older_llvm
from mavcg.program.lto import FULL, THIN, Lto, is_bitcode, lto_of
from mavcg.program.version_jobs import VersionJobs
from mavcg.program.version_values import VersionOptions
from mavcg.program.versions import make_versions
from mavcg.toolchain.codegen import CodegenJob, canonical, compile_module
from mavcg.toolchain.target import parse_target

ARM = parse_target("aarch64-linux-gnu.2.17")
SAXPY = """
target triple = "aarch64-unknown-linux-gnu"
define void @saxpy(ptr noalias %y, ptr noalias %x, i64 %n, float %a) #0 {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %px = getelementptr float, ptr %x, i64 %i
  %py = getelementptr float, ptr %y, i64 %i
  %vx = load float, ptr %px
  %vy = load float, ptr %py
  %sum = call float @llvm.fmuladd.f32(float %vx, float %a, float %vy)
  store float %sum, ptr %py
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
declare float @llvm.fmuladd.f32(float, float, float)
attributes #0 = { "target-features"="+lse" }
"""


@pytest.mark.parametrize(
    ("flags", "lto"),
    [
        ("-O2", None),
        ("-flto", Lto(FULL)),
        ("-flto=full", Lto(FULL)),
        ("-flto=auto", Lto(FULL)),
        ("-flto=thin", Lto(THIN)),
        ("-flto -fno-lto", None),
        ("-fno-lto -flto=thin", Lto(THIN)),
        ("-flto -ffat-lto-objects", None),
        ("-flto=thin -fsplit-lto-unit -fno-unified-lto", Lto(THIN, ("-fsplit-lto-unit", "-fno-unified-lto"))),
    ],
)
def test_flags(flags: str, lto: Lto | None) -> None:
    assert lto_of(flags.split()) == lto


@pytest.mark.parametrize("flag", ["-fwhole-program-vtables", "-fsanitize=cfi", "-fsanitize=cfi-icall"])
def test_marks_that_all_modules_of_a_link_need_are_refused(flag: str) -> None:
    with pytest.raises(MavcgError, match=f"{flag}: needs the same marks in all modules"):
        lto_of(["-flto", flag])
    assert lto_of([flag]) is None


def _compiler(path: Path, macros: str) -> tuple[str, ...]:
    path.write_text(f"#!/bin/sh\n{macros}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return (str(path),)


@pytest.mark.parametrize(
    ("macros", "wrong"),
    [
        ("echo '#define __clang_major__ 14'", "is of LLVM 14, and its link cannot read bitcode with versions"),
        ("echo '#define __clang_major__ 99'; echo '#define __apple_build_version__ 1'", "does not say of which LLVM"),
        ("echo '#define __GNUC__ 12'", "does not say of which LLVM"),
        ("exit 1", "does not say of which LLVM"),
    ],
)
def test_a_compiler_whose_link_cannot_read_the_bitcode(tmp_path: Path, macros: str, wrong: str) -> None:
    with pytest.raises(MavcgError, match=wrong):
        refuse_older_llvm(_compiler(tmp_path / "cc", macros))


def test_a_compiler_of_the_same_llvm_or_a_later_one(tmp_path: Path) -> None:
    refuse_older_llvm(_compiler(tmp_path / "cc", "echo '#define __clang_major__ 99'"))


def test_the_first_bytes_tell_bitcode(tmp_path: Path) -> None:
    for name, data in (
        ("bare", b"BC\xc0\xde.."),
        ("wrapped", b"\xde\xc0\x17\x0b.."),
        ("elf", b"\x7fELF"),
        ("empty", b""),
    ):
        (tmp_path / name).write_bytes(data)
    assert [is_bitcode(tmp_path / name) for name in ("bare", "wrapped", "elf", "empty")] == [True, True, False, False]


def test_modules_are_linked_with_assembly_at_the_top() -> None:
    calls = "define void @f() {\n  call void @g()\n  ret void\n}\ndeclare void @g()\n"
    first = f'target triple = "aarch64-unknown-linux-gnu"\n{calls}'
    second = 'target triple = "aarch64-unknown-linux5.10"\ndefine hidden void @g() {\n  ret void\n}\n'
    linked = parse_module(canonical(link_ir([first, second], ['\t.section a,"a"\n\t.asciz "x\\y"\n'])))
    assert linked.definitions() == ["f", "g"]
    assert linked.module_asm == ('module asm "\\09.section a,\\22a\\22"', 'module asm "\\09.asciz \\22x\\\\y\\22"')
    with pytest.raises(MavcgError, match="LLVM"):
        link_ir([first, first], [])


def test_versions_in_bitcode_carry_their_cpu() -> None:
    """The A55's loads are split in the IR, the A75's are whole."""
    cores = [load_core(name) for name in ("cortex-a55", "cortex-a75")]
    versions = make_versions(SAXPY, "saxpy.ll", "2", ["saxpy"], VersionOptions(cores, ARM, in_bitcode=True))
    little, big = (versions.ir["saxpy", core.name] for core in cores)
    assert '"target-cpu"="cortex-a55"' in little and 'asm "", "=r,0"' in little and "load <4 x float>" not in little
    assert '"target-cpu"="cortex-a75"' in big and 'asm "", "=r,0"' not in big and "load <4 x float>" in big


COUNT = """
target triple = "{arch}-unknown-linux-gnu"
define i64 @count(ptr %p, i64 %x) {{
  %old = atomicrmw add ptr %p, i64 %x monotonic
  %bits = call i64 @llvm.ctpop.i64(i64 %x)
  %both = add i64 %old, %bits
  ret i64 %both
}}
declare i64 @llvm.ctpop.i64(i64)
"""


@pytest.mark.parametrize(
    ("core", "function", "needs", "used"),
    [
        ("cortex-a55", "count", [], set()),
        ("cortex-a55", "count", ["lse"], {"lse"}),
        ("znver4", "count", [], set()),
        ("znver4", "count", ["popcnt"], {"popcnt"}),
        ("znver4", "saxpy", [], set()),
        ("znver4", "saxpy", ["avx2"], {"avx", "avx2"}),
        ("znver4", "saxpy", ["avx512f"], {"avx", "avx2", "avx512f"}),
    ],
)
def test_a_link_may_use_no_more_than_was_recorded(
    core: str, function: str, needs: list[str], used: set[str], tmp_path: Path
) -> None:
    """Code is generated for attributes of fewer needs than the version has, which vectors of the IR would suggest."""
    known = load_core(core)
    target = ARM if known.arch == "aarch64" else parse_target("x86_64-linux-gnu.2.17")
    text = COUNT.format(arch=known.arch) if function == "count" else SAXPY.replace("aarch64", known.arch)
    text = text.replace('"target-features"="+lse"', "nounwind")
    options = VersionOptions([known], target, in_bitcode=True)
    versions = make_versions(text, "k.ll", "2", [function], options)
    limited = VersionJobs(versions.hot, target, "2", False).limited_to(
        needs, function, known, versions.ir[function, core]
    )
    compile_module(CodegenJob(limited, target, "", "2", False, "obj"), tmp_path / "k.o")
    assert code_extensions(tmp_path / "k.o") == frozenset(used)


def test_machine_code_needs_no_ir_of_versions() -> None:
    versions = make_versions(SAXPY, "saxpy.ll", "2", ["saxpy"], VersionOptions([load_core("cortex-a55")], ARM))
    assert not versions.ir


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("--target", "aarch64-macos"), "versions in bitcode are made for Linux and Android only"),
        (("--runtime", "shared"), "--runtime shared is for machine code"),
    ],
)
def test_what_bitcode_cannot_have(mavcg: Any, here: Path, words: tuple[str, ...], wrong: str) -> None:
    (here / "x.c").write_text("int f(int x) { return x; }")
    done = mavcg("build", "--source", "x.c", "--hot", "f", "--cores", "cortex-a55", "-o", "x.bc", *words)
    assert done.status == 2 and wrong in done.stderr and not (here / "x.bc").exists()
