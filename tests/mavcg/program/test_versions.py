"""A module's hot functions, compiled once per core: which, for what, and what is refused."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.hardware.core import Core
from mavcg.profiles.load import cores_for
from mavcg.program.version_values import CompiledVersion, VersionedModule, VersionOptions
from mavcg.program.versions import code_level, make_versions
from mavcg.toolchain.codegen import CodegenJob, Failure, canonical, compile_all
from mavcg.toolchain.target import parse_target

ARM = parse_target("aarch64-linux-musl")
CORES = cores_for(["cortex-a53", "cortex-a76"])
# loop_sum differs per core; caller is the same code but for whose loop_sum it calls.
SOURCE = """
__attribute__((noinline)) float loop_sum(const float *a, int n) {
    float s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }
static __attribute__((noinline)) int helper(int x) { return x * 7; }
float caller(const float *a, int n) { return loop_sum(a, n) + 1; }
int plain(int x) { return x + 1; }
int with_helper(int x) { return helper(x) + 1; }
double dot(const double *a, const double *b, int n) {
    double s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s; }
inline __attribute__((gnu_inline)) int only_inlined(int x) { return x; }
extern inline __attribute__((gnu_inline)) int elsewhere(int x) { return x; }
int uses(int x) { return only_inlined(x) + elsewhere(x); }
int sum_of(int n, ...) { return n; }
"""


@pytest.fixture(scope="module")
def text(ir: Callable[..., str]) -> str:
    return ir(SOURCE)


def versions(text: str, wanted: Sequence[str], cores: Sequence[Core] = CORES, **more: Any) -> VersionedModule:
    return make_versions(text, "a.c", "2", wanted, VersionOptions(cores, ARM, **more))


@pytest.fixture(scope="module")
def made(text: str) -> VersionedModule:
    wanted = ["caller", "loop_sum", "plain", "with_helper", "nowhere", "elsewhere", "sum_of"]
    return versions(text, wanted, workers=2)


def bodies(made: VersionedModule, function: str) -> dict[str, CompiledVersion]:
    return {body.label: body for body in made.bodies_of(function)}


def test_generic_comes_first_and_every_core_has_its_version(made: VersionedModule) -> None:
    assert list(dict.fromkeys(body.function for body in made.bodies)) == ["caller", "loop_sum", "plain", "with_helper"]
    assert [body.label for body in made.bodies_of("plain")] == ["generic", "cortex-a53", "cortex-a76"]
    assert bodies(made, "plain")["cortex-a53"].symbol == "plain.cortex-a53"


def test_what_is_not_defined_is_passed_over_and_what_cannot_be_is_refused(made: VersionedModule) -> None:
    assert made.refused.keys() == {"sum_of"}
    assert "variadic" in made.refused["sum_of"]


def test_an_alias_is_refused_by_that_word(ir: Callable[..., str]) -> None:
    text = ir('int f(int x) { return x; } int g(int) __attribute__((alias("f")));')
    assert versions(text, ["g"]).refused == {"g": "it is an alias, not a function with a body"}


def test_equal_code_has_equal_keys_and_other_code_has_not(made: VersionedModule) -> None:
    plain, loops = bodies(made, "plain"), bodies(made, "loop_sum")
    assert len({body.key for body in plain.values()}) == 1
    assert len({body.key for body in loops.values()}) == 3


def test_a_caller_is_equal_only_where_the_versions_that_it_calls_are(made: VersionedModule) -> None:
    callers = bodies(made, "caller")
    assert re.search(r'bl?\t"?loop_sum\.cortex-a53', callers["cortex-a53"].asm)
    assert len({body.key for body in callers.values()}) == 3
    # Its copy of a helper is its own, whatever that is called.
    assert bodies(made, "with_helper")["cortex-a53"].key == bodies(made, "with_helper")["generic"].key


def test_without_its_callee_a_caller_is_equal_on_all_cores(text: str) -> None:
    assert len({body.key for body in versions(text, ["caller"]).bodies}) > 1  # loop_sum is copied along
    shared = text.replace("define dso_local float @loop_sum", "define weak dso_local float @loop_sum").replace(
        "define float @loop_sum", "define weak float @loop_sum"
    )
    assert len({body.key for body in versions(shared, ["caller"]).bodies}) == 1  # called, not copied


def test_needs_are_the_programs_names(ir: Callable[..., str]) -> None:
    text = ir(
        'static int s; extern int e; const char *f(int x) { s += x + e; return "text"; } int g(void) { return s; }'
    )
    [generic, *_] = versions(text, ["f"]).bodies
    assert generic.needs == {"s", "e", ".str"}
    tag = versions(text, ["f"]).hot.tag
    assert f"s.{tag}" in generic.asm and f".str.{tag}" in generic.asm and re.search(r"\be\b", generic.asm)


def test_several_workers_make_the_same(text: str) -> None:
    one, two = (versions(text, ["plain", "loop_sum"], workers=workers) for workers in (1, 2))
    assert one.bodies == two.bodies


def test_files_of_one_name_do_not_meet(text: str) -> None:
    other = text.replace("mul nsw i32 %", "mul i32 %")
    assert other != text
    assert versions(text, []).hot.tag != versions(other, []).hot.tag
    assert versions(text, []).hot.tag == versions(text, []).hot.tag


def test_what_one_version_cannot_be_compiled_for_is_refused_and_not_called(ir: Callable[..., str]) -> None:
    text = ir("__attribute__((noinline)) int odd(int x) { return x * 3; } int calls(int x) { return odd(x) + 1; }")
    at = text.index("define", text.index("@odd(") - 60)
    cut = text.index("\n", at) + 1
    text = text[:cut] + '  call void asm sideeffect "", "{nothere}"(i32 0)\n' + text[cut:]
    canonical(text)
    made = versions(text, ["odd", "calls"])
    assert made.refused["odd"].startswith("its generic version does not compile: LLVM: ")
    assert made.refused.keys() == {"odd", "calls"}  # which would hold a copy of it


def test_fast_math_is_decided_once_unless_each_core_may(ir: Callable[..., str]) -> None:
    text = ir(SOURCE, flags=("-O2", "-ffast-math"))
    once = versions(text, ["dot", "plain"])
    assert once.shared_optimisation == {"dot"}
    each = versions(text, ["dot"], per_core_rounding=True)
    assert each.shared_optimisation == frozenset()
    assert len({body.key for body in each.bodies}) == 3


@pytest.mark.long
def test_debug_information_stays_where_asked(ir: Callable[..., str], tmp_path: Any) -> None:
    source = tmp_path / "a.c"
    source.write_text(SOURCE)
    from mavcg.program.sources.compile_commands import CompileUnit
    from mavcg.program.sources.to_ir import compile_to_ir

    unit = CompileUnit(source, tmp_path, ("zig", "cc", "-g", "-O2", "-c", str(source)), None, "c")
    text = compile_to_ir(unit, ARM, keep_debug=True).text
    assert "DISubprogram" in text
    made = versions(text, ["dot", "with_helper"])
    assert made.refused == {} and len(made.bodies) == 6


def test_a_version_has_its_cores_cpu_and_the_programs_extensions(ir: Callable[..., str]) -> None:
    """Dot products: the A76 has them, the A53 has not, and a program compiled for them gets them everywhere."""
    loop = "int s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s;"
    source = f"int f(const signed char *a, const signed char *b, int n) {{ {loop} }}"
    plain = bodies(versions(ir(source), ["f"]), "f")
    assert ["sdot" in plain[label].asm for label in ("generic", "cortex-a53", "cortex-a76")] == [False, False, True]
    asked = bodies(
        versions(ir(source, flags=("-O2", "-march=armv8.2-a+dotprod")), ["f"], cores_for(["cortex-a75-r0"])), "f"
    )
    assert ["sdot" in body.asm for body in asked.values()] == [True, True]


@pytest.mark.parametrize(
    ("program", "made_at"),
    [("0", "2"), ("1", "2"), ("g", "2"), ("2", "2"), ("3", "3"), ("fast", "3"), (None, "3"), ("s", "s"), ("z", "z")],
)
def test_hot_code_of_any_build_is_optimised(program: str | None, made_at: str) -> None:
    assert code_level(program) == made_at


def test_unoptimised_ir_is_optimised(ir: Callable[..., str]) -> None:
    text = ir("int f(int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }")
    unoptimised = re.sub(r"attributes #0 = \{ ", "attributes #0 = { noinline optnone ", text)
    assert "optnone" in unoptimised
    assert all(re.search(r"add\tv\d+\.4s", body.asm) for body in versions(unoptimised, ["f"]).bodies)


# Between the call through %f and the multiply-add's symbol there is no other symbol, as in opus's tonality_analysis.
CALLBACK = """
void hot(void (*f)(const void *, float *, int, int), const void *x, float *y, int n) {
    float a = y[0];
    f(x, y, n, 0);
    y[1] = a * y[2] + y[3];
}
"""
# No register of either architecture has this name: LLVM refuses it when it generates code, and only then.
NO_REGISTER = """
define i32 @broken(i32 %x) {
  call void asm sideeffect "", "{x99}"(i32 %x)
  ret i32 %x
}
define i32 @whole(i32 %x) {
  %y = add i32 %x, 1
  ret i32 %y
}
"""
REGION = """
declare void @__kmpc_fork_call(ptr, i32, ptr, ...)
define void @parallel(ptr %p) {
  call void (ptr, i32, ptr, ...) @__kmpc_fork_call(ptr null, i32 1, ptr @parallel.omp_outlined, ptr %p)
  ret void
}
define internal void @parallel.omp_outlined(ptr %a, ptr %b, ptr %p) {
  call void asm sideeffect "", "{x99}"(i32 1)
  ret void
}
"""


def test_a_callback_before_a_multiply_add_has_versions_on_aarch64(ir: Callable[..., str]) -> None:
    made = versions(ir(CALLBACK), ["hot"], cores_for(["cortex-a75"]))
    assert not made.refused and [body.label for body in made.bodies] == ["generic", "cortex-a75"]


def test_one_functions_failure_leaves_the_others_their_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    made = versions(canonical(NO_REGISTER), ["broken", "whole"])
    assert {body.function for body in made.bodies} == {"whole"}
    assert made.refused.keys() == {"broken"} and "does not compile: LLVM: could" in made.refused["broken"]

    def failing(text: str, fused: frozenset[str]) -> str:
        return text if "@whole" in text else text.replace("ret i32 %x", "ret i64 %x")

    monkeypatch.setattr("mavcg.program.version_jobs.explicit_fmuladd", failing)
    [reason] = versions(canonical(NO_REGISTER), ["broken", "whole"]).refused.values()
    assert re.search(r"LLVM: .* in line \d+ of its IR: ret i64 %x", reason)

    monkeypatch.setattr("mavcg.program.version_jobs.explicit_fmuladd", lambda text, fused: text[1 // 0])
    made = versions(canonical(NO_REGISTER), ["whole"])
    assert "by a fault of mavcg, please report it: ZeroDivisionError" in made.refused["whole"]


def test_a_function_whose_parallel_region_fails_is_refused_with_it() -> None:
    made = versions(canonical(REGION + NO_REGISTER), ["parallel", "whole"])
    assert {body.function for body in made.bodies} == {"whole"}
    assert made.refused["parallel"].startswith("its OpenMP region cannot have versions: its generic version does not")


def test_ir_that_does_not_parse_is_named_with_file_and_line() -> None:
    with pytest.raises(MavcgError, match=r"^a\.c: LLVM: .* in line 2 of its IR: declare void %0\(\)$"):
        versions("declare void @f()\ndeclare void %0()\n", ["f"])


def test_ir_that_does_not_parse_names_the_function_and_the_line_of_the_source() -> None:
    text = (
        "define void @f() !dbg !1 {\n  ret i32 %0, !dbg !3\n}\n"
        '!1 = distinct !DISubprogram(name: "f", file: !2, line: 7)\n!2 = !DIFile(filename: "f.h", directory: "/d")\n'
        "!3 = !DILocation(line: 9, scope: !1)\n"
    )
    with pytest.raises(MavcgError, match=r"^f\.h:9: f: LLVM: .* in line 2 of its IR: ret i32 %0"):
        versions(text, ["f"])


MULTIPLY_ADD = """\
target triple = "{triple}"
define double @f(double %a, double %b, double %c) {{
  %r = call double @llvm.fmuladd.f64(double %a, double %b, double %c)
  ret double %r
}}
declare double @llvm.fmuladd.f64(double, double, double)
"""


@pytest.mark.parametrize(
    ("target", "core", "optimised_once"), [("x86_64-linux-gnu", "znver3", 0), ("aarch64-linux-gnu", "cortex-a53", 1)]
)
def test_where_no_version_fuses_a_multiply_add_the_compiler_runs_once_a_version(
    target: str, core: str, optimised_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted: list[str] = []

    def compile_counted(jobs: Sequence[CodegenJob], *options: Any) -> list[str | Failure]:
        emitted.extend(job.emit for job in jobs)
        return compile_all(jobs, *options)

    for module in ("versions", "compile_versions"):
        monkeypatch.setattr(f"mavcg.program.{module}.compile_all", compile_counted)
    machine = parse_target(target)
    options = VersionOptions(cores_for([core]), machine)
    made = make_versions(MULTIPLY_ADD.format(triple=machine.llvm_triple), "a.c", "2", ["f"], options)
    assert len(made.bodies) == 2 and sorted(emitted) == ["asm", "asm", *["ir"] * optimised_once]
