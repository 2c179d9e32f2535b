"""Branch protection as IR text: what clang writes for C, for IR from anywhere."""

from pathlib import Path

import pytest

from mavcg.objects.elf import protection
from mavcg.passes.ir.protection import protect
from mavcg.toolchain.codegen import CodegenJob, canonical, compile_module
from mavcg.toolchain.target import parse_target

MODULE = """\
declare i32 @outside(i32)
define i32 @"odd name)("(i32 %x) unnamed_addr {
  %y = call i32 @outside(i32 %x)
  %z = add i32 %y, 1
  ret i32 %z
}
define void @leaf(ptr byval({ i32, [2 x i32] }) %p) #0 {
  ret void
}
attributes #0 = { nounwind }
"""
FLAGGED = MODULE + '!llvm.module.flags = !{!0}\n!0 = !{i32 1, !"wchar_size", i32 4}\n'
STARTS = {"aarch64": ("hint\t#25", "hint\t#34"), "x86_64": ("endbr64", "endbr64")}
EXPECTED = {"aarch64": ["BTI", "PAC", "GCS"], "x86_64": ["IBT", "SHSTK"]}


@pytest.mark.parametrize("arch", ["aarch64", "x86_64"])
@pytest.mark.parametrize("module", [MODULE, FLAGGED, canonical(MODULE)])
def test_functions_get_landing_pads_and_the_object_its_note(arch: str, module: str, tmp_path: Path) -> None:
    target = parse_target(f"{arch}-linux-musl")
    text = protect(module, arch)
    compile_module(CodegenJob(text, target, "a", emit="asm"), tmp_path / "a.s")
    compile_module(CodegenJob(text, target, "a", emit="obj"), tmp_path / "a.o")
    compile_module(CodegenJob(module, target, "a", emit="obj"), tmp_path / "plain.o")
    asm = (tmp_path / "a.s").read_text()

    calling, leaf = STARTS[arch]
    assert asm.count("outside") and calling in asm and leaf in asm
    assert protection(tmp_path / "a.o") == EXPECTED[arch] and protection(tmp_path / "plain.o") == []
    canonical(text)  # LLVM takes it


@pytest.mark.parametrize("arch", ["aarch64", "x86_64"])
def test_a_module_with_protection_of_its_own_keeps_it(arch: str) -> None:
    once = protect(MODULE, arch)
    assert once != MODULE and protect(once, arch) == once
