import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from mavcg.errors import MavcgError, ToolError
from mavcg.program.sources.compile_commands import CompileUnit, read_command
from mavcg.program.sources.headers import find_headers, machine_matches
from mavcg.program.sources.to_ir import Compiler, IrModule, compile_to_ir, refuse_foreign_openmp
from mavcg.toolchain.target import Target, host_target, parse_target
from mavcg.toolchain.zig import run_zig, zig_command

HOST = host_target()
ARM = parse_target("aarch64-linux-gnu.2.17")
needs_gxx = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


def unit_of(folder: Path, text: str, flags: str = "-O2", name: str = "x.c", compiler: str = "") -> CompileUnit:
    (folder / name).write_text(text)
    driver = compiler or ("g++" if name.endswith("cpp") else "gcc")
    unit = read_command([*driver.split(), *flags.split(), "-c", name], folder)
    assert isinstance(unit, CompileUnit)
    return unit


def ir(folder: Path, text: str, flags: str = "-O2", name: str = "x.c", target: Target = HOST) -> IrModule:
    module = compile_to_ir(unit_of(folder, text, flags, name), target)
    llvm.parse_assembly(module.text).verify()
    return module


def features(module: IrModule) -> set[str]:
    planned = re.search(r'"target-features"="([^"]*)"', module.text)
    return set(planned[1].split(",")) if planned else set()


def test_functions_can_be_optimised_whatever_the_program_says(tmp_path: Path) -> None:
    module = ir(tmp_path, "int twice(int x) { return 2 * x; }", "-O0 -g")

    assert "define" in module.text and "@twice" in module.text
    assert "optnone" not in module.text and "alloca" in module.text  # not optimised yet, and not barred from it
    assert (module.opt_level, module.source, module.notes) == ("0", tmp_path / "x.c", ())


def test_debug_information_on_request(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, "int f(void) { return 1; }")

    assert "DICompileUnit" not in compile_to_ir(unit, HOST).text
    assert "DICompileUnit" in compile_to_ir(unit, HOST, keep_debug=True).text


def test_the_program_keeps_its_macros(tmp_path: Path) -> None:
    text = "#include <assert.h>\nint f(int x) { assert(x > VALUE); return x; }"

    assert "__assert_fail" in ir(tmp_path, text, "-O3 -DVALUE=7").text
    assert "__assert_fail" not in ir(tmp_path, text, "-O3 -DVALUE=7 -DNDEBUG").text


@pytest.mark.parametrize("written", ["sub/x.c", "./sub/x.c", "{folder}/sub/x.c"])
def test_file_names_in_the_code_are_those_that_the_command_has(tmp_path: Path, written: str) -> None:
    text = "const char *f(void) { return __FILE__; }"
    name = written.format(folder=tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/x.c").write_text(text)
    unit = read_command(["gcc", "-c", name], tmp_path)
    assert isinstance(unit, CompileUnit)

    assert f'c"{name}\\00"' in compile_to_ir(unit, HOST).text


def test_the_same_source_in_two_folders_gives_the_same_ir(tmp_path: Path) -> None:
    text = "static int f(int x) { return 2 * x; }\nint g(int x) { return f(x) + f(x + 1); }"
    folders = [tmp_path / name for name in ("here", "there")]
    for folder in folders:
        folder.mkdir()

    here, there = (ir(folder, text) for folder in folders)
    assert here.text == there.text


def test_aliasing_rules_are_those_of_the_programs_level(tmp_path: Path) -> None:
    text = "int f(int *a, float *b) { *a = 1; *b = 2; return *a; }"

    assert "!tbaa" in ir(tmp_path, text, "-O2").text
    assert "!tbaa" not in ir(tmp_path, text, "-O1").text


def test_options_that_clang_refuses_are_dropped_and_named(tmp_path: Path) -> None:
    module = ir(tmp_path, "int f(void) { return ONE; }", "-O2 -fipa-pta -DONE=1 -fno-tree-sra -mno-such")

    assert "ret i32 1" in module.text
    assert module.notes == tuple(
        f"{o}: clang does not take it; left out" for o in "-fipa-pta -fno-tree-sra -mno-such".split()
    )


def test_what_gcc_only_warns_of_compiles(tmp_path: Path) -> None:
    assert "@undeclared" in ir(tmp_path, "int f(int *p) { long q = p; return undeclared(q); }").text


def test_a_source_that_does_not_compile_names_file_line_and_notes(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, "int f(void) {\n  return nothing;\n}", "-mcpu=cortex-a53 -O2")
    with pytest.raises(ToolError) as error:
        compile_to_ir(unit, ARM)

    assert f"{tmp_path / 'x.c'}: making LLVM IR" in str(error.value) and ":2:10: error" in str(error.value)
    assert "note: -mcpu=cortex-a53" in str(error.value)


def test_a_source_that_is_gone_is_named(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, "")
    unit.source.unlink()
    with pytest.raises(MavcgError, match=r"x\.c: is not there"):
        compile_to_ir(unit, HOST)


def test_a_compiler_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="clang-999 is not there"):
        compile_to_ir(unit_of(tmp_path, ""), HOST, Compiler(command=("clang-999",)))


def test_isa_extensions_become_features(tmp_path: Path) -> None:
    text = "#ifndef __ARM_FEATURE_DOTPROD\n#error\n#endif\nint f(void) { return 1; }"
    module = ir(tmp_path, text, "-O2 -march=armv8.2-a+dotprod", target=ARM)

    assert {"+dotprod", "+v8.2a", "+lse"} <= features(module)
    assert '"target-cpu"="generic"' in module.text
    assert 'target triple = "aarch64-unknown-linux-gnu"' in module.text


@pytest.mark.skipif(HOST.arch != "x86_64", reason="options of x86")
def test_features_that_the_program_switches_off_are_off(tmp_path: Path) -> None:
    module = ir(tmp_path, "int f(void) { return 1; }", "-O2 -march=haswell -mno-avx2")

    assert "-avx2" in features(module) and "+avx" in features(module)


@pytest.mark.parametrize(
    "target", ["aarch64-linux-gnu.2.17", "aarch64-linux-musl", "x86_64-linux-musl", "aarch64-macos"]
)
def test_c_for_other_machines_has_a_c_library(tmp_path: Path, target: str) -> None:
    text = '#include <math.h>\n#include <stdio.h>\ndouble f(double x) { printf("%f", x); return floor(x); }'

    assert "@printf" in ir(tmp_path, text, target=parse_target(target)).text


def test_android_without_an_ndk_has_the_compilers_headers_and_says_so(tmp_path: Path) -> None:
    android = parse_target("aarch64-linux-android")
    module = ir(tmp_path, "#include <stdint.h>\n#include <arm_neon.h>\nint32_t f(void) { return 1; }", target=android)
    assert "name the NDK's clang" in module.notes[0]

    with pytest.raises(ToolError, match="name the NDK's clang"):
        compile_to_ir(unit_of(tmp_path, "#include <stdio.h>\n"), android)


@pytest.mark.long
def test_cxx_for_other_machines_uses_libcxx_and_says_so(tmp_path: Path) -> None:
    module = ir(tmp_path, "#include <vector>\nint f(std::vector<int> v) { return v[0]; }", name="x.cpp", target=ARM)

    assert "std::__1::vector" in module.text or "St3__1" in module.text
    assert any("libc++" in note and "cross compiler" in note for note in module.notes)


@pytest.mark.long
@needs_gxx
def test_cxx_keeps_the_programs_standard_library(tmp_path: Path) -> None:
    """An object made of the IR works inside a program that g++ builds: strings, vectors, exceptions, streams."""
    text = """
        #include <iostream>
        #include <stdexcept>
        #include <string>
        #include <vector>
        std::string shout(const std::vector<int>& values) {
            std::string text;
            for (int value : values) {
                if (value < 0) throw std::runtime_error("negative");
                text += std::to_string(value) + "!";
            }
            std::cout << text << std::endl;
            return text;
        }"""
    main = """
        #include <iostream>
        #include <stdexcept>
        #include <string>
        #include <vector>
        std::string shout(const std::vector<int>& values);
        int main() {
            std::cout << shout({1, 22, 333}).size() << "\\n";
            try { shout({1, -1}); } catch (const std::runtime_error& error) { std::cout << error.what() << "\\n"; }
        }"""
    module = ir(tmp_path, text, "-O2 -std=c++17 -Wall", "shout.cpp")
    (tmp_path / "shout.ll").write_text(module.text)
    (tmp_path / "main.cpp").write_text(main)

    run_zig("c++", ["-c", "shout.ll", "-o", "shout.o", "-target", HOST.zig_name], "compiling", tmp_path)
    subprocess.run(["g++", "main.cpp", "shout.o", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert module.notes == ()
    assert done.stdout == "1!22!333!\n9\nnegative\n"


@needs_gxx
def test_the_c_librarys_headers_come_after_the_cxx_ones(tmp_path: Path) -> None:
    """libstdc++ wraps math.h: sqrt(float) is float. The C library's math.h alone would make it double."""
    text = "#include <math.h>\n#include <stdlib.h>\nstatic_assert(sizeof(sqrt(1.0f)) == 4 && sizeof(abs(1.0f)) == 4);"

    ir(tmp_path, text + "\nint f() { return 0; }", "-O2 -std=c++17", "x.cpp")


def test_the_programs_own_system_folders_come_first(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/stdlib.h").write_text("#define MINE 42\n")

    assert "ret i32 42" in ir(tmp_path, "#include <stdlib.h>\nint f(void) { return MINE; }", "-O2 -isystem mine").text


def test_clangs_intrinsics_headers_are_found_before_gccs(tmp_path: Path) -> None:
    text = {
        "x86_64": "#include <immintrin.h>\n__m128 f(__m128 a) { return _mm_add_ps(a, a); }",
        "aarch64": "#include <arm_neon.h>\nfloat32x4_t f(float32x4_t a) { return vaddq_f32(a, a); }",
    }[HOST.arch]

    assert "fadd <4 x float>" in ir(tmp_path, text).text


@needs_gxx
def test_gccs_private_folder_is_left_out() -> None:
    folders = find_headers(("g++",), (), HOST, cxx=True).folders

    assert not [f for f in folders if re.search(r"lib/gcc/.*/include(-fixed)?$", f)]
    assert all(os.path.isabs(f) for f in folders)
    assert any("c++" in f for f in folders) and any(f.endswith("ziglang/lib/include") for f in folders)


@pytest.mark.long
def test_a_program_of_zigs_uses_zigs_library_without_a_note(tmp_path: Path) -> None:
    zig = f"{sys.executable} -m ziglang c++"
    unit = unit_of(tmp_path, "#include <string>\nint f(std::string s) { return s.size(); }", "-O2", "x.cpp", zig)
    module = compile_to_ir(unit, HOST)

    assert "St3__1" in module.text and module.notes == ()


def test_a_named_clang_is_used(tmp_path: Path) -> None:
    (tmp_path / "clang-x").write_text(
        f'#!/bin/sh\necho run >> {tmp_path}/log\nexec {" ".join(zig_command("clang"))} "$@"\n'
    )
    (tmp_path / "clang-x").chmod(0o755)
    compiler = Compiler(command=(str(tmp_path / "clang-x"),))
    module = compile_to_ir(unit_of(tmp_path, "int f(void) { return 3; }", "-O2 -fipa-pta"), ARM, compiler)

    assert (tmp_path / "log").exists() and "aarch64" in module.text
    assert module.notes == (f"-fipa-pta: {compiler.name} does not take it; left out",)


@pytest.mark.long
@needs_gxx
def test_headers_of_another_compiler_than_the_programs(tmp_path: Path) -> None:
    unit = unit_of(
        tmp_path, "#include <string>\nint f(std::string s) { return s.size(); }", "-O2", "x.cpp", "/gone/c++"
    )

    assert "St3__1" in compile_to_ir(unit, HOST).text
    assert "cxx11" in compile_to_ir(unit, HOST, Compiler(headers=("g++",))).text


def test_openmp_of_gcc_is_refused_where_it_is_used(tmp_path: Path) -> None:
    plain = compile_to_ir(unit_of(tmp_path, "int f(void) { return 1; }", "-O2 -fopenmp"), HOST)
    assert not plain.foreign_openmp
    refuse_foreign_openmp(plain, "gcc")
    regions = "void f(float *x, int n) {\n#pragma omp parallel for\nfor (int i = 0; i < n; i++) x[i] = 0; }"
    module = compile_to_ir(unit_of(tmp_path, regions, "-O2 -fopenmp"), HOST)
    with pytest.raises(MavcgError, match="x.c: has OpenMP regions, and gcc links gcc's OpenMP library"):
        refuse_foreign_openmp(module, "gcc")


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_gccs_own_omp_header_is_found_and_no_other_of_its_own(tmp_path: Path) -> None:
    source = (
        "#include <omp.h>\n#include <stddef.h>\n#include <immintrin.h>\nint f(void) { return omp_get_max_threads(); }"
    )
    if HOST.arch != "x86_64":
        source = source.replace("#include <immintrin.h>\n", "")
    assert "@omp_get_max_threads" in compile_to_ir(unit_of(tmp_path, source, "-O2 -fopenmp", "x.c", "gcc"), HOST).text


@pytest.mark.parametrize(
    ("machine", "target", "same"),
    [
        ("x86_64-linux-gnu", "x86_64-linux-gnu.2.36", True),
        ("x86_64-pc-linux-gnu", "x86_64-linux-gnu", True),
        ("x86_64-alpine-linux-musl", "x86_64-linux-gnu", False),
        ("aarch64-unknown-linux-android21", "aarch64-linux-android", True),
        ("arm64-apple-darwin23.1.0", "aarch64-macos", True),
        ("aarch64-none-elf", "aarch64-linux-gnu", False),
        ("", "x86_64-linux-gnu", False),
    ],
)
def test_machine_names(machine: str, target: str, same: bool) -> None:
    assert machine_matches(machine, parse_target(target)) is same
