"""Every version computes the same bits: kernels at several levels and rounding options, and random expressions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mavcg.toolchain.target import Target, host_target, parse_target

PROGRAMS = Path(__file__).parent / "programs"
ARM = parse_target("aarch64-linux-musl")
X86 = host_target()
KERNELS = ("dot gemm softmax mixed converted half_sum int8_dot largest polynomial complex_product").split()

x86_only = pytest.mark.skipif(X86.arch != "x86_64", reason="this machine is no x86-64")
# What a processor with AVX2 and FMA runs, whoever made it.
X86_CORES = ["haswell", "znver2", "skylake"]


def runs_avx2() -> bool:
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return all(f" {flag} " in flags for flag in ("avx2", "fma", "bmi2", "adx", "clwb", "sha_ni"))


def check_kernels(build_versions: Callable[..., Any], target: Target, cores: list[str], flags: str) -> None:
    files = {name: (PROGRAMS / name).read_text() for name in ("kernels.c", "main_kernels.c")}
    # Zig's driver takes CPUs, not ISA levels.
    plain = flags.replace("-march=armv8.2-a+fp16+dotprod", "-mcpu=generic+v8_2a+fullfp16+dotprod").split()
    built = build_versions(
        files, ",".join(KERNELS), cores, target=target, flags=flags.split(), versioned=["kernels.c"], plain_flags=plain
    )
    module = built.results[0].modules[0]
    assert module.refused == {}
    dispatched = {c.function for c in module.choices if not c.is_single}
    assert len(dispatched) > len(KERNELS) // 2, dispatched
    generic = built.run("generic").splitlines()
    for core in cores:
        assert built.run(core).splitlines() == generic
    if "fast" not in flags and "math-only" not in flags:
        assert generic == built.run(plain=True).splitlines()


EXACT = ["-O2", "-O3 -ffp-contract=off"]
LOOSE = ["-Ofast", "-O2 -ffp-contract=fast", "-O3 -ffinite-math-only -fno-signed-zeros"]
ARM_CORES = ["cortex-a53", "cortex-a55", "cortex-a75", "cortex-a76", "exynos-m4"]


@pytest.mark.parametrize("flags", ["-Ofast", pytest.param("-O2", marks=pytest.mark.long)])
def test_kernels_on_arm(build_versions: Callable[..., Any], flags: str) -> None:
    check_kernels(build_versions, ARM, ["cortex-a55", "exynos-m4"], flags)


@pytest.mark.long
@x86_only
@pytest.mark.skipif(not runs_avx2(), reason="this processor does not run the versions")
@pytest.mark.parametrize("flags", ["-O3 -ffinite-math-only -fno-signed-zeros"])
def test_kernels_on_x86(build_versions: Callable[..., Any], flags: str) -> None:
    check_kernels(build_versions, X86, X86_CORES[:2], flags)


@pytest.mark.long
@pytest.mark.parametrize(
    "flags", [*EXACT, *LOOSE, "-O1", "-Os", "-O2 -march=armv8.2-a+fp16+dotprod", "-O2 -frounding-math"]
)
def test_kernels_on_all_arm_cores(build_versions: Callable[..., Any], flags: str) -> None:
    check_kernels(build_versions, ARM, ARM_CORES, flags)


@pytest.mark.long
@x86_only
@pytest.mark.skipif(not runs_avx2(), reason="this processor does not run the versions")
@pytest.mark.parametrize("flags", [*EXACT, *LOOSE, "-O2 -mavx2 -mfma", "-Os", "-O2 -frounding-math"])
def test_kernels_on_all_x86_cores(build_versions: Callable[..., Any], flags: str) -> None:
    check_kernels(build_versions, X86, X86_CORES, flags)


VALUES = st.sampled_from(["x", "y", "z", "s", "(float)k", "(float)(double)x", "0.5f", "1.25f", "-3.0f"])
EXPRESSIONS = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "*", "/"]), inner),
        st.builds("({} > {} ? {} : {})".format, inner, VALUES, inner, inner),
        st.builds("fmaxf({}, {})".format, inner, VALUES),
        st.builds("fabsf({})".format, inner),
        st.builds("(float)(int)fminf(fmaxf({}, -1e6f), 1e6f)".format, inner),
        st.builds("(float)((double){} * {})".format, inner, inner),
    ),
    max_leaves=8,
)
# What is done with a step's value: a sum, a store, both, and a loop within.
LOOPS = {
    "sum": "s += {};",
    "difference": "s = {} - s;",
    "store": "out[i] = {};",
    "scan": "out[i] = s = {};",
    "guarded": "if (k & 1) s += {}; else out[i] = s;",
    "inner": "for (int j = 0; j < 4; j++) {{ y = b[(i + j) % n]; s += {}; }}",
}


PARAMETERS = "const float *restrict a, const float *restrict b, const int *ks, float *restrict out, int n"


def expression_program(kernels: list[tuple[str, str]]) -> dict[str, str]:
    code = ["#include <math.h>\n"]
    main = ["#include <stdio.h>\n#include <string.h>\nstatic float a[70], b[70], out[70]; static int ks[70];\n"]
    calls = []
    for number, (loop, expression) in enumerate(kernels):
        head = f"float k{number}({PARAMETERS})"
        main.append(f"{head};\n")
        calls.append(f"        show({number}, k{number}(a, b, ks, out, n), out);\n")
        step = LOOPS[loop].format(expression)
        code.append(
            f"{head} {{\n    float s = 0.25f;\n    for (int i = 0; i < n; i++) {{\n"
            f"        float x = a[i], y = b[i], z = a[n - 1 - i]; int k = ks[i]; (void)y; (void)z; (void)k; (void)x;\n"
            f"        {step}\n    }}\n    return s;\n}}\n"
        )
    main.append(
        """
static void show(int number, float value, const float *out) {
    unsigned long hash = 7;
    for (int i = 0; i < 70; i++) {
        unsigned bits = 0x7fc00000; /* any NaN */
        if (out[i] == out[i]) memcpy(&bits, &out[i], 4);
        hash = (hash ^ bits) * 0x100000001b3ul;
    }
    if (value != value) printf("%d nan %lx\\n", number, hash);
    else printf("%d %a %lx\\n", number, (double)value, hash);
}
int main(void) {
    unsigned seed = 12345;
    for (int i = 0; i < 70; i++) {
        a[i] = (float)(seed = seed * 1664525u + 1013904223u) / 4e8f - 5.0f;
        b[i] = (float)(seed = seed * 1664525u + 1013904223u) / 3e8f - 7.0f;
        ks[i] = (int)(seed = seed * 1664525u + 1013904223u) >> 20;
    }
    for (int n = 1; n < 70; n += 17) {
"""
    )
    return {"a.c": "".join(code), "main.c": "".join(main) + "".join(calls) + "    }\n}\n"}


def check_expressions(build_versions: Callable[..., Any], kernels: list[tuple[str, str]], flags: str) -> None:
    hot = ",".join(f"k{i}" for i in range(len(kernels)))
    built = build_versions(expression_program(kernels), hot, X86_CORES, target=X86, flags=flags.split())
    generic = built.run("generic")
    for core in X86_CORES:
        assert built.run(core) == generic
    # LLVM folds an fmuladd of constants as if fused, also where it fuses none at run time: plain code is no judge then.
    if "contract=off" in flags:
        assert built.run(plain=True) == generic


def random_kernels(examples: int) -> Callable[..., Any]:
    quiet = settings(
        max_examples=examples,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    some = st.lists(st.tuples(st.sampled_from(list(LOOPS)), EXPRESSIONS), min_size=6, max_size=6)
    flags = st.sampled_from(["-O2", "-O3 -ffp-contract=off", "-Ofast", "-O2 -ffp-contract=fast", "-O3 -mavx2 -mfma"])
    return lambda test: quiet(given(kernels=some, flags=flags)(test))


@x86_only
@pytest.mark.skipif(not runs_avx2(), reason="this processor does not run the versions")
@random_kernels(1)
def test_random_expressions_have_one_answer_in_all_versions(
    build_versions: Callable[..., Any], kernels: list[tuple[str, str]], flags: str
) -> None:
    check_expressions(build_versions, kernels, flags)


@pytest.mark.long
@x86_only
@pytest.mark.skipif(not runs_avx2(), reason="this processor does not run the versions")
@random_kernels(20)
def test_more_random_expressions(
    build_versions: Callable[..., Any], kernels: list[tuple[str, str]], flags: str
) -> None:
    check_expressions(build_versions, kernels, flags)
