"""Everything a C function can hang on, in one program: it prints the same with every version of its functions."""

from collections.abc import Callable
from typing import Any

import pytest

from mavcg.toolchain.target import host_target, parse_target
from tests.conftest import x86_core_of_this_machine

# name -> (code, hot functions, what drive() prints, which calls each of them: from a version of another hot function
# its version is called without its dispatcher)
CASES = {
    "static variables are one object": (
        """
        static int counter; static int table[4] = {1, 2, 3, 4};
        int bump(int x) { return table[counter++ & 3] + x; }
        int bumped(void) { return counter; }""",
        "bump",
        "bump(1) + bump(2) + 100 * bumped()",
    ),
    "function-local statics are one object": (
        """
        static int next_of(int x) { static int seen = 5; return seen += x; }
        int local_a(int x) { return next_of(x); }
        int local_b(int x) { static int own = 3; return next_of(x) * 1000 + (own += x); }""",
        "local_a,local_b",
        "local_a(1) + local_b(2) + local_a(3)",
    ),
    "hidden and protected helpers": (
        """
        __attribute__((visibility("hidden"), noinline)) int hidden_helper(int x) { return x * 3; }
        __attribute__((visibility("protected"), noinline)) int protected_helper(int x) { return x * 5; }
        __attribute__((visibility("hidden"))) int hidden_hot(int x) { return hidden_helper(x) + protected_helper(x); }
        __attribute__((visibility("protected"))) int protected_hot(int x) { return hidden_hot(x) + 1; }""",
        "hidden_hot,protected_hot",
        "protected_hot(5) + 1000 * hidden_hot(2)",
    ),
    "computed goto": (
        """
        int jumps(int x) { void *to = x > 3 ? &&a : &&b; goto *to; a: return x * 2; b: return x * 7; }
        static __attribute__((noinline)) int jumping(int x) {
            void *to = x > 3 ? &&a : &&b; goto *to; a: return x * 2; b: return x * 7; }
        int calls_jumping(int x) { return jumping(x) + jumps(x + 1); }""",
        "jumps,calls_jumping",
        "jumps(2) + 100 * jumps(5) + 10000 * calls_jumping(3)",
    ),
    "labels stored in data": (
        """
        int label_table(int x) { static void *const to[] = {&&a, &&b}; goto *to[x & 1]; a: return 2; b: return 7; }
        int uses_table(int x) { return 10 * label_table(x) + label_table(x + 1); }""",
        "label_table,uses_table",
        "uses_table(1)",
    ),
    "thread-local variables and their aliases": (
        """
        static __thread int hidden_tls; __thread int tls = 4;
        extern __thread int tls_alias __attribute__((alias("tls")));
        int set_tls(int v) { return hidden_tls = tls_alias = v; }
        int read_tls(int x) {
            static __thread int own = 2; return hidden_tls + 10 * tls + 100 * tls_alias + x + own++; }""",
        "read_tls",
        "set_tls(7) + read_tls(1) + read_tls(2)",
    ),
    "local symbols that assembly knows by name": (
        """
        static int known __attribute__((used)) = 5;
        static __attribute__((used, noinline)) int known_function(int x) { return x + known; }
        __asm__(".pushsection .data\\nknown_by_asm: .quad known\\n.globl known_by_asm\\n.quad known_function\\n"
                ".popsection\\n");
        extern int *known_by_asm;
        int uses_known(int x) { return known_function(x) + *known_by_asm + known++; }""",
        "uses_known",
        "uses_known(5) + known + *known_by_asm",
    ),
    "assembly that names a local symbol stays": (
        """
        static int named_in_asm __attribute__((used)) = 6;
        static __attribute__((noinline)) int *from_asm(void) {
            int **p; __asm__(".pushsection .data\\n1: .quad named_in_asm\\n.popsection\\n" ASM_ADDRESS : "=r"(p));
            return *p; }
        int asks_asm(int x) { return *from_asm() + x + named_in_asm; }
        int inline_asm(int x) {
            int **p; __asm__(".pushsection .data\\n1: .quad named_in_asm\\n.popsection\\n" ASM_ADDRESS : "=r"(p));
            return **p + x; }""",
        "asks_asm,inline_asm",
        "asks_asm(1) + 100 * inline_asm(2)",
    ),
    "global labels in assembly stay single": (
        """
        static __attribute__((noinline)) int has_label(int x) {
            __asm__ volatile(".globl only_once\\nonly_once:\\n"); return x + 1; }
        int calls_label(int x) { return has_label(x) * 3; }
        int own_label(int x) { __asm__ volatile(".global\\tonly_once_too\\nonly_once_too:\\n"); return x + 1; }""",
        "calls_label,own_label",
        "calls_label(4) + own_label(5)",
    ),
    "weak functions and variables": (
        """
        __attribute__((weak)) int weak_hot(int x) { return x * 3; }
        extern __attribute__((weak)) int not_there(int);
        extern __attribute__((weak)) int no_variable;
        int asks_weak(int x) { return weak_hot(x) + (not_there ? 1 : 2) + (&no_variable ? no_variable : 9); }""",
        "weak_hot,asks_weak",
        "asks_weak(5) + 1000 * weak_hot(2)",
    ),
    "a weak function that another file replaces": (
        """
        __attribute__((weak)) int replaced(int x) { return x * 3; }
        int calls_replaced(int x) { return replaced(x) + 1; }""",
        "replaced,calls_replaced",
        "calls_replaced(5)",
    ),
    "aliases": (
        """
        int aliased(int x) { return x * 3; }
        int alias_of(int) __attribute__((alias("aliased")));
        static int local_alias(int) __attribute__((alias("aliased"), used));
        int weak_alias(int) __attribute__((weak, alias("aliased")));
        int calls_aliases(int x) { return alias_of(x) + 10 * local_alias(x) + 100 * weak_alias(x); }
        static int one_object = 4; extern int second_name __attribute__((alias("one_object")));
        int compares(void) {
            second_name++;
            int equal = (alias_of == aliased) + 2 * (weak_alias == aliased);
            return equal + 4 * (&one_object == &second_name) + one_object; }""",
        "aliased,calls_aliases,compares",
        "calls_aliases(2) + 1000 * compares() + 100000 * aliased(3)",
    ),
    "function pointers are equal everywhere": (
        """
        int pointed(int x) { return x + 1; }
        static __attribute__((noinline)) int local_pointed(int x) { return x + 2; }
        int (*stored)(int) = pointed, (*stored_local)(int) = local_pointed;
        int compares_pointers(int x) {
            return (stored == pointed) + 2 * (stored_local == local_pointed) + 4 * stored(x) + 40 * stored_local(x); }
        int (*hands_out(void))(int) { return pointed; }
        int is_pointed(int (*f)(int)) { return f == pointed && f == hands_out(); }""",
        "pointed,local_pointed,compares_pointers,hands_out,is_pointed",
        "compares_pointers(3) + 1000 * is_pointed(pointed) + 10000 * is_pointed(hands_out())",
    ),
    "addresses of constants are equal everywhere": (
        """
        static const int constant[2] = {3, 4};
        const char *a_literal(void) { return "literal"; }
        const int *a_constant(void) { return constant; }
        int is_literal(const char *p, const int *q) { return (p == a_literal()) + 2 * (q == constant) + q[1]; }""",
        "a_literal,a_constant,is_literal",
        "is_literal(a_literal(), a_constant())",
    ),
    "recursion, also in turns": (
        """
        int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
        int is_odd(int); int is_even(int n) { return n ? is_odd(n - 1) : 1; }
        int is_odd(int n) { return n ? is_even(n - 1) : 0; }""",
        "fib,is_odd",
        "fib(12) + 1000 * is_even(10) + 2000 * is_odd(7)",
    ),
    "cold and noreturn helpers": (
        """
        #include <setjmp.h>
        static jmp_buf back;
        static __attribute__((cold, noinline)) int rare(int x) { static int n; return x + ++n; }
        static __attribute__((noreturn, noinline)) void leave(int x) { longjmp(back, x); }
        int leaves(int x) { if (x > 100) leave(x); return rare(x); }
        int comes_back(int x) { int r = setjmp(back); return r ? r + 1 : leaves(x); }""",
        "leaves,comes_back",
        "comes_back(5) + 1000 * comes_back(200)",
    ),
    "calls without a prototype": (
        """
        int without_prototype();
        int calls_without(int x) { return without_prototype(x, 2) + 1; }
        int without_prototype(int x, int y) { return x * y; }""",
        "without_prototype,calls_without",
        "calls_without(5)",
    ),
    "a callback handed to the library": (
        """
        int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
        int sorts(int x) { int v[5] = {5, x, 9, 1, 4}; qsort(v, 5, sizeof *v, by_value); return v[0] + 10 * v[4]; }""",
        "by_value,sorts",
        "sorts(3)",
    ),
    "C inline functions": (
        """
        inline int c_inline(int x) { return x * x + 1; }
        extern inline int c_inline(int x);
        inline __attribute__((gnu_inline, always_inline)) int forced(int x) { return x + 3; }
        int uses_inline(int x) { return c_inline(x) + forced(x); }""",
        "uses_inline,c_inline",
        "uses_inline(6) + 1000 * c_inline(3)",
    ),
    "a section and an alignment of its own": (
        """
        __attribute__((section(".text.mine"), aligned(64))) int placed(int x) { return x * 11; }
        int placed_at(void) { return (int)((unsigned long)placed % 64); }""",
        "placed,placed_at",
        "placed(3) + placed_at()",
    ),
    "variadic functions stay": (
        """
        #include <stdarg.h>
        int sum_of(int n, ...) { va_list a; va_start(a, n); int s = 0; while (n--) s += va_arg(a, int);
            va_end(a); return s; }
        int calls_variadic(int x) { return sum_of(3, x, 2, 3) + sum_of(1, x); }""",
        "sum_of,calls_variadic",
        "calls_variadic(4) + sum_of(2, 1, 2)",
    ),
    "vectors wider than the program's": (
        """
        typedef int v8 __attribute__((vector_size(32)));
        __attribute__((noinline, cold)) v8 doubled(v8 x) { return x + x; }
        v8 wide(v8 x) { return doubled(x) + x; }
        int calls_wide(int x) { v8 v = {x, 1, 2, 3, 4, 5, 6, 7}; v = wide(v) + doubled(v); return v[0] + v[7]; }
        int calls_pointer(int x) { v8 (*volatile f)(v8) = wide; v8 v = {x, 1, 2, 3, 4, 5, 6, 7}; v = f(v);
            return v[0] + v[7]; }""",
        "wide,calls_wide,calls_pointer",
        "calls_wide(3) + 1000 * calls_pointer(3)",
    ),
}
REFUSED = {
    "label_table": "addresses of its labels",
    "inline_asm": "names named_in_asm",
    "own_label": "only_once_too",
    "comes_back": "",
    "sum_of": "variadic",
}
OTHER_FILE = "int replaced(int x) { return x * 1000; }\n"
HEAD = """
#include <stdlib.h>
#if defined(__x86_64__)
#define ASM_ADDRESS "leaq 1b(%%rip), %0"
#else
#define ASM_ADDRESS "adrp %0, 1b\\nadd %0, %0, :lo12:1b"
#endif
"""
CORES = {"x86_64": (x86_core_of_this_machine(),), "aarch64": ("cortex-a76",)}
TARGETS = {"host": host_target(), "arm": parse_target("aarch64-linux-musl")}
ALL_HOT = ",".join(hot for _, hot, _ in CASES.values())


# What x86-64 alone refuses, vectors, is tested of the pass itself: test_clone.py.
@pytest.fixture(scope="module", params=["arm", pytest.param("host", marks=pytest.mark.long)])
def built(request: pytest.FixtureRequest, build_versions: Callable[..., Any]) -> Any:
    target = TARGETS[request.param]
    code = HEAD + "\n".join(code for code, _, _ in CASES.values())
    calls = "\n".join(f'  printf("%d %ld\\n", {n}, (long)({c[2]}));' for n, c in enumerate(CASES.values()))
    # The driver knows only declarations: it is another file, and must not see the bodies.
    code += f"\n#include <stdio.h>\nint drive(void) {{\n{calls}\n  return 0;\n}}\n"
    files = {"a.c": code, "other.c": OTHER_FILE, "main.c": "int drive(void);\nint main(void) { return drive(); }\n"}
    flags = ("-O2", "-fno-inline-functions")
    return build_versions(files, ALL_HOT, CORES[target.arch], target=target, flags=flags, versioned=["a.c"])


@pytest.fixture(scope="module")
def printed(built: Any) -> dict[str, list[str]]:
    """Version, or "plain" -> its lines."""
    cores = ["generic", *CORES[built.target.arch]]
    return {"plain": built.run(plain=True).splitlines()} | {core: built.run(core).splitlines() for core in cores}


@pytest.mark.parametrize("name", CASES)
def test_every_version_computes_what_the_plain_program_does(printed: dict[str, list[str]], name: str) -> None:
    number = list(CASES).index(name)
    found = {version: lines[number] for version, lines in printed.items()}
    assert set(found.values()) == {found["plain"]}


def test_only_what_cannot_be_cloned_is_refused(built: Any) -> None:
    refused = built.results[0].modules[0].refused
    if built.target.arch == "x86_64":
        wide = {name: refused.pop(name) for name in ("wide", "calls_wide", "calls_pointer")}
        assert all("256-bit vector" in reason for reason in wide.values()), wide
    expected = {name: reason for name, reason in REFUSED.items() if reason}
    assert refused.keys() == expected.keys(), refused
    assert all(reason in refused[name] for name, reason in expected.items()), refused


@pytest.mark.parametrize("core", ["generic", "own"])
def test_every_hot_function_ran_the_version_of_its_core(built: Any, core: str) -> None:
    core = CORES[built.target.arch][0] if core == "own" else core
    # Those whose bodies differ: the others are called directly. How many do depends on the core: 4 on a Skylake.
    choices = [choice for module in built.results[0].modules for choice in module.choices]
    dispatched = {choice.function for choice in choices if any(v.body != "generic" for v in choice.versions)}
    assert len(dispatched) >= (8 if built.target.arch == "aarch64" else 1)
    assert built.versions_run(core) == dict.fromkeys(dispatched, core)
