"""A program on gemmlowp's 8-bit product: versions of its kernels, inline assembly on ARM, and of what is around."""

import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mavcg.toolchain.zig import run_tool

if TYPE_CHECKING:
    from tests.pipelines.conftest import Example

CORES = "cortex-a55,cortex-a75,exynos-m4"
FOLDER = Path(__file__).parents[2] / "examples/gemm_libraries"
KERNELS = {
    "_ZNK8gemmlowp39NEON_64bit_GEMM_Int8Operands_LhsNonzero3RunEPimmPKhS3_mm",
    "_ZNK8gemmlowp24NEON_64_Kernel12x8Depth23RunEPimmPKhS3_mm",
}


def flags_of(example: "Example", *more: str) -> list[str]:
    return [f"--flag={flag}" for flag in ("-O3", "-std=c++14", "-isystem", str(example.headers), *more)]


@pytest.mark.long
def test_perf_names_the_kernel_not_the_label_in_its_assembly(gemmlowp: "Example") -> None:
    gemmlowp.make()
    functions = gemmlowp.mavcg("profile", "--import", gemmlowp.perf_profile())["functions"]
    if platform.machine() == "x86_64":  # the SSE kernel's loop starts with the label outerLoop2355, a symbol
        assert functions[0]["demangled"].startswith("gemmlowp::SSE4_64_Kernel12x4Depth2::Run(")
    assert functions[0]["share"] > 0.4
    templates = [
        f["demangled"] for f in functions if "gemmlowp::UnpackResult<gemmlowp::KernelFormat<" in f["demangled"]
    ]
    assert templates


@pytest.mark.long  # the handwritten kernel and examples/edge_app go the same way in the fast suite
@pytest.mark.parametrize("cores", ["cortex-a55,exynos-m4", CORES])
def test_from_emulated_profile_to_every_core(gemmlowp: "Example", cores: str) -> None:
    main = gemmlowp.arm_object("gemmlowp_main.c")
    program = gemmlowp.arm_link("single", main, gemmlowp.arm_object("gemmlowp_gemm.cpp"))
    recorded = gemmlowp.folder / "perf-script.txt"
    recorded.write_text(
        run_tool([sys.executable, str(FOLDER / "emulated_profile.py"), str(program), "6"], "profiling in qemu")
    )
    hottest = gemmlowp.mavcg("profile", "--import", recorded, "-o", gemmlowp.folder / "p.json")["functions"][:2]
    assert {function["symbol"] for function in hottest} == KERNELS
    assert sum(function["share"] for function in hottest) > 0.5

    report = gemmlowp.mavcg(
        "build",
        "--source",
        FOLDER / "gemmlowp_gemm.cpp",
        *flags_of(gemmlowp),
        "--profile",
        gemmlowp.folder / "p.json",
        "--threshold",
        "3",
        "--cores",
        cores,
        "--target",
        "aarch64-linux-musl",
        "-o",
        gemmlowp.folder / "versions.o",
    )
    dispatched = {function["name"] for function in report["functions"] if function["dispatched"]}
    assert not report["refused"]
    assert {function["name"] for function in report["functions"]} > KERNELS  # and C++ templates around them
    assert dispatched

    versions = gemmlowp.arm_link("versions", main, gemmlowp.folder / "versions.o")
    gemmlowp.check_every_core(versions, gemmlowp.emulate(program)[0], dispatched, (*cores.split(","), "generic"))


@pytest.mark.long
def test_dot_product_kernels(gemmlowp: "Example") -> None:
    dotprod = ("-march=armv8.2-a+dotprod", "-DGEMMLOWP_DOTPROD_KERNEL")
    report = gemmlowp.mavcg(
        "build",
        "--source",
        FOLDER / "gemmlowp_gemm.cpp",
        *flags_of(gemmlowp, *dotprod),
        "--hot",
        "*dotprod*::Run",
        "--cores",
        CORES,
        "--target",
        "aarch64-linux-musl",
        "-o",
        gemmlowp.folder / "versions.o",
    )
    (function,) = report["functions"]
    assert "NEON_64_Kernel12x8Depth4_dotprod" in function["name"] and function["dispatched"]
    main = gemmlowp.arm_object("gemmlowp_main.c")
    versions = gemmlowp.arm_link("versions", main, gemmlowp.folder / "versions.o")
    without = gemmlowp.arm_link("single", main, gemmlowp.arm_object("gemmlowp_gemm.cpp"))
    gemmlowp.check_every_core(versions, gemmlowp.emulate(without)[0], {function["name"]})
