"""A versioned module as objects: what is shared, dropped and left single, and who calls whom by which name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import ToolError
from mavcg.objects.elf import exported_symbols, function_symbols, notes
from mavcg.profiles.load import cores_for
from mavcg.program.hot_functions import match_hot
from mavcg.program.hot_symbols import parse_hot
from mavcg.program.objects import ModuleObjects, ObjectOptions, build_objects, compile_plain
from mavcg.program.version_choice import Gain, VersionLimits
from mavcg.program.version_values import VersionedModule, VersionOptions
from mavcg.program.versions import make_versions
from mavcg.runtime.coreset import CoreSet
from mavcg.toolchain.codegen import assemble
from mavcg.toolchain.target import host_target, parse_target

ARM = parse_target("aarch64-linux-musl")
KERNELS = Path(__file__).parents[2] / "passes" / "ir" / "programs" / "kernels.c"
CORE = {"x86_64": "znver3", "aarch64": "cortex-a76"}[host_target().arch]
# `mixes` differs per core and calls, as versions call versions: one that differs, one that is the same everywhere, one
# whose version is dropped, and a static one that is the same everywhere.
CALLS = """
#ifdef __cplusplus
#define TEMPLATE template <class T> __attribute__((noinline))
#else
#define TEMPLATE __attribute__((noinline))
typedef int T;
#endif
TEMPLATE T loop(const T *a, int n) { T s = 0; for (int i = 0; i < n; i++) s += a[i] * i; return s; }
TEMPLATE T same(T x) { return x + 1; }
TEMPLATE T dropped(const T *a, int n) { T s = 1; for (int i = 0; i < n; i++) s ^= a[i] * 3; return s; }
static __attribute__((noinline)) int local(int x) { return x + 2; }
int mixes(const int *a, int n) {
    int s = loop(a, n) + same(n) + dropped(a, n) + local(n);
    for (int i = 0; i < n; i++) s += a[i] * a[n - 1 - i];
    return s;
}
"""
MAIN = """
#include <stdio.h>
int mixes(const int *a, int n);
int main(void) {
    int a[40];
    for (int i = 0; i < 40; i++) a[i] = i * i % 17;
    for (int n = 0; n < 40; n += 13) printf("%d\\n", mixes(a, n));
}
"""


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("suffix", [".c", ".cpp"])
def test_versions_call_what_their_core_runs_whatever_became_of_it(
    build_versions: Callable[..., Any], suffix: str
) -> None:
    dropped = "dropped" if suffix == ".c" else "_Z7droppedIiET_PKS0_i"
    built = build_versions(
        {f"a{suffix}": CALLS, f"main{suffix}": MAIN},
        "mixes,loop,same,dropped,local",
        [CORE],
        gains={(dropped, CORE): Gain(0.001, "measured")},
        flags=("-O2", "-fno-inline-functions"),
    )
    for core in ("generic", CORE):
        assert built.run(core) == built.run(plain=True)
    choices = {c.function: c for c in built.results[0].modules[0].choices}
    assert choices[dropped].is_single and "under the required 1.0%" in choices[dropped].versions[1].dropped
    single = {name for name, choice in choices.items() if choice.is_single}
    assert len(single) == 3 and len(choices) == 5
    symbols = {name for name, _ in function_symbols(built.results[0].output)}
    assert not any(f"{name}.slow" in symbols for name in single)  # nothing at all with one version
    # A template's dispatcher goes, too, when only versions call the template: they need none.
    expected = {"loop.slow", "mixes.slow"} if suffix == ".c" else {"_Z5mixesPKii.slow"}
    assert {name for name in symbols if name.endswith(".slow")} == expected


@pytest.fixture(scope="module")
def arm_kernels(ir: Callable[..., str]) -> tuple[str, VersionedModule]:
    text = ir(KERNELS.read_text())
    hot, _ = match_hot(parse_hot("dot,gemm,softmax,mixed,int8_dot,largest"), [text])
    names = [h.name for h in hot]
    return text, make_versions(
        text, "kernels.c", "2", names, VersionOptions(cores_for(["cortex-a76", "exynos-m4"]), ARM, workers=2)
    )


def objects(made: tuple[str, VersionedModule], folder: Path, limits: VersionLimits) -> ModuleObjects:
    text, versions = made
    core_set = CoreSet(cores_for(["cortex-a76", "exynos-m4"]))
    shares = {function: 1.0 / (i + 1) for i, function in enumerate(["dot", "gemm", "softmax"])}
    plain = compile_plain(text, versions.source, "2", ARM, folder)
    return build_objects(plain, versions, "2", ObjectOptions(core_set, ARM, folder, limits, {}, shares, workers=2))


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("max_growth", [150.0, 60.0])
def test_growth_as_linked_stays_within_the_bound(arm_kernels: Any, tmp_path: Path, max_growth: float) -> None:
    free = objects(arm_kernels, tmp_path, VersionLimits(by_model=False))
    made = objects(arm_kernels, tmp_path, VersionLimits(max_growth=max_growth, by_model=False))
    assert made.single_bytes == free.single_bytes
    assert free.multi_bytes > made.multi_bytes > made.single_bytes
    assert 100 * (made.multi_bytes - made.single_bytes) <= max_growth * made.single_bytes
    why = [kept.dropped for choice in made.choices for kept in choice.versions if kept.dropped]
    assert why and all(f"would exceed --max-growth {max_growth:g} %" in reason for reason in why)
    assert not any(choice.versions[0].dropped for choice in made.choices)
    # What brings most stays longest.
    assert next(c for c in made.choices if c.function == "dot").bodies != ("generic",)


@pytest.mark.long
def test_without_room_for_growth_the_module_stays_as_it_was(arm_kernels: Any, tmp_path: Path) -> None:
    made = objects(arm_kernels, tmp_path, VersionLimits(max_growth=0.0))
    assert not made.dispatched and made.multi_bytes == made.single_bytes
    assert made.objects[0] == made.single[0]
    assert all(choice.is_single for choice in made.choices)
    assert {name for name, _ in function_symbols(made.objects[0])} == {
        "dot",
        "gemm",
        "softmax",
        "mixed",
        "converted",
        "half_sum",
        "int8_dot",
        "largest",
        "polynomial",
        "complex_product",
    }


def test_the_note_says_what_there_is(arm_kernels: Any, tmp_path: Path) -> None:
    made = objects(arm_kernels, tmp_path, VersionLimits(by_model=False))
    [note] = notes(made.objects[-1])
    assert note == made.summary
    assert note["source"] == "kernels.c" and note["multi_bytes"] == made.multi_bytes
    versions = {f["name"]: f["versions"] for f in note["functions"]}
    assert [v["core"] for v in versions["gemm"]] == ["generic", "cortex-a76", "exynos-m4"]
    bodies = {name: size for path in made.objects[1:-1] for name, size in function_symbols(path)}
    assert versions["gemm"][1]["bytes"] == bodies["gemm.cortex-a76"]


def test_versions_are_hidden_and_the_program_keeps_its_exports(arm_kernels: Any, tmp_path: Path) -> None:
    made = objects(arm_kernels, tmp_path, VersionLimits(by_model=False))
    exported = set().union(*(exported_symbols(path) for path in made.objects))
    assert exported == exported_symbols(made.single[0])


def test_assembly_that_is_refused_names_the_work(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="assembling f, generic: failed"):
        assemble("\tnot_an_instruction\n", tmp_path / "a.o", ARM, "f, generic")


def test_any_extension_of_the_architecture_assembles(tmp_path: Path) -> None:
    asm = (
        "\tsdot v0.4s, v1.16b, v2.16b\n\tfmla v0.8h, v1.8h, v2.8h\n\tbfdot v0.4s, v1.8h, v2.8h\n\tldadd x0, x1, [x2]\n"
    )
    asm += "\tsmmla v0.4s, v1.16b, v2.16b\n\taese v0.16b, v1.16b\n\tfmla z0.s, p0/m, z1.s, z2.s\n\tcrc32x w0, w0, x1\n"
    assemble(asm, tmp_path / "a.o", ARM, "all")
    assert (tmp_path / "a.o").stat().st_size > 0 and [p.name for p in tmp_path.iterdir()] == ["a.o"]
