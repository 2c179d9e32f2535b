"""A program on Eigen's matrix product, from the profile of this machine to a version per ARM core."""

import json
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mavcg.objects.elf import exported_symbols, imports_of, loaded_bytes
from mavcg.objects.library import link_shared
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, protection_flags, run_zig
from tests.machine import SYSROOT

if TYPE_CHECKING:
    from tests.pipelines.conftest import Example

CORES = "cortex-a55,cortex-a75,exynos-m4"


@pytest.mark.long
def test_from_profile_to_four_cores(eigen: "Example") -> None:
    eigen.make()
    hottest = eigen.mavcg("profile", "--import", eigen.perf_profile())["functions"][0]
    assert re.match(r"Eigen::internal::gebp_kernel<float, float, .*>::operator\(\)\(", hottest["demangled"])
    assert hottest["symbol"].startswith("_ZN5Eigen8internal11gebp_kernelI") and hottest["share"] > 0.5

    # The profile's kernel has the blocks of this machine's vectors; the board's is found by the template's name.
    report = eigen.mavcg(
        "build",
        "--compile-commands",
        eigen.folder / "compile_commands.json",
        "--only-hot",
        "--profile",
        eigen.folder / "profile.json",
        "--threshold",
        "20",
        "--cores",
        CORES,
        "--target",
        "aarch64-linux-musl",
        "-o",
        eigen.folder / "eigen.o",
    )
    (function,) = report["functions"]
    assert re.search(r"gebp_kernel<float, float, long, .*, 12, 4, false, false>", function["demangled"])
    if platform.machine() == "x86_64":
        assert any("matched by its name without template arguments" in note for note in report["notes"])
    assert [version["core"] for version in function["versions"]] == ["generic", *CORES.split(",")]
    assert not report["refused"] and not report["not_found"]

    main = eigen.arm_object("eigen_main.c")
    single = eigen.arm_link("single", main, eigen.arm_object("eigen_gemm.cpp"))
    versions = eigen.arm_link("versions", main, eigen.folder / "eigen.o")
    eigen.check_every_core(versions, eigen.emulate(single)[0], {function["name"]})


@pytest.mark.long
def test_library_for_glibc_exports_only_the_program_and_grows_as_reported(eigen: "Example") -> None:
    if not (SYSROOT / "lib").is_dir():
        pytest.skip("libc6-arm64-cross is not installed")
    target = "aarch64-linux-gnu.2.17"
    flags = [f"--flag={flag}" for flag in ("-O3", "-std=c++14", "-isystem", str(eigen.headers))]
    out = eigen.folder / "libeigen_gemm.so"
    source = Path(__file__).parents[2] / "examples/gemm_libraries/eigen_gemm.cpp"
    build = ["build", "--source", source, *flags, "--hot", "gebp_kernel", "--cores", CORES, "-o", out]
    eigen.mavcg(*build)

    # Exceptions, operator new and the unwinder come along and stay inside.
    libraries, _ = imports_of(out)
    assert set(libraries) <= {"libc.so.6", "libpthread.so.0", "libdl.so.2", "libm.so.6", "ld-linux-aarch64.so.1"}
    assert "eigen_gemm_f32" in exported_symbols(out)
    foreign = {name for name in exported_symbols(out) if "Eigen" not in name and not name.startswith("eigen_")}
    assert not foreign

    program = eigen.folder / "loader"
    shared = ["-target", target, "-O2", "-D_GNU_SOURCE", str(source.parent / "eigen_main.c"), str(out)]
    run_zig("cc", [*shared, f"-Wl,-rpath,{eigen.folder}", "-o", str(program)], "linking a user of the library")
    single, _ = eigen.emulate(
        eigen.arm_link("single", eigen.arm_object("eigen_main.c"), eigen.arm_object("eigen_gemm.cpp"))
    )
    printed, ran = eigen.emulate(program, "cortex-a75", SYSROOT)
    assert printed == single and list(ran.values()) == [{"cortex-a75"}]

    plain, plain_so = eigen.folder / "plain.o", eigen.folder / "plain.so"
    # zig's driver makes -O3 clang's -O2 and leaves out frame pointers, which makes the code 9 % smaller.
    same = ["-Xclang", "-O3", "-fno-omit-frame-pointer", *protection_flags(parse_target(target))]
    common = ["-target", target, *PLAIN_CODE_FLAGS, "-O3", *same, "-UNDEBUG", "-fPIC", "-std=c++14"]
    run_zig("c++", [*common, "-isystem", str(eigen.headers), "-c", str(source), "-o", str(plain)], "plain")
    link_shared([plain], plain_so, parse_target(target))
    counted = 100 * (loaded_bytes(out) / loaded_bytes(plain_so) - 1)
    reported = eigen.mavcg("inspect", out)["growth_percent"]
    assert reported == pytest.approx(counted, abs=0.1)


@pytest.mark.long
def test_library_is_opened_and_closed_at_run_time(eigen: "Example") -> None:
    if not (SYSROOT / "lib").is_dir():
        pytest.skip("libc6-arm64-cross is not installed")
    flags = [f"--flag={flag}" for flag in ("-O3", "-std=c++14", "-isystem", str(eigen.headers))]
    out = eigen.folder / "libeigen_gemm.so"
    source = Path(__file__).parents[2] / "examples/gemm_libraries/eigen_gemm.cpp"
    eigen.mavcg("build", "--source", source, *flags, "--hot", "gebp_kernel", "--cores", CORES, "-o", out)
    opener = eigen.folder / "opener.c"
    opener.write_text(OPENER)
    program = eigen.folder / "opener"
    options = ["-target", "aarch64-linux-gnu.2.17", "-O1", f'-DLIBRARY="{out}"']
    run_zig("cc", [*options, str(opener), "-ldl", "-o", str(program)], "compiling the opener")
    printed, ran = eigen.emulate(program, "exynos-m4", SYSROOT)
    # Eight products of one, and a bias of one.
    assert json.loads(printed) == [0, 9.0, 9.0]
    assert list(ran.values()) == [{"exynos-m4"}]


OPENER = """
#include <dlfcn.h>
#include <stdio.h>
typedef int Gemm(int, int, int, int, const float *, const float *, const float *, float, float, float *);
int main(void) {
    static float left[1024], right[1024], bias[32], out[1024];
    for (int i = 0; i < 1024; i++) left[i] = right[i] = 1;
    for (int i = 0; i < 32; i++) bias[i] = 1;
    int status = 1;
    for (int round = 0; round < 2; round++) {
        void *library = dlopen(LIBRARY, RTLD_NOW);
        if (!library) { puts(dlerror()); return 1; }
        status = ((Gemm *)dlsym(library, "eigen_gemm_f32"))(0, 32, 32, 8, left, right, bias, -100, 100, out);
        dlclose(library);
    }
    printf("[%d, %.1f, %.1f]", status, out[0], out[1023]);
    return 0;
}
"""
