"""Dispatchers hand on every kind of C argument and result: programs of generated functions, run version by version."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mavcg.toolchain.target import Target, host_target, parse_target
from tests.conftest import x86_core_of_this_machine

TYPES = """
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
typedef float v4f __attribute__((vector_size(16)));
typedef int v2i __attribute__((vector_size(8)));
typedef struct { float x, y, z; } hfa3;
typedef struct { double a, b, c, d; } hfa4;
typedef struct { v4f a, b; } hva2;
typedef struct { char c; } s1;
typedef struct { int a; short b; } s8;
typedef struct { long a; double b; } s16;
typedef struct { float f; int i; } mixed;
typedef struct { char c[17]; } s17;
typedef struct { long a, b, c, d, e; } s40;
typedef struct __attribute__((packed)) { char c; long l; } packed_s;
typedef struct __attribute__((aligned(32))) { long a; } aligned_s;
typedef struct { __int128 i; } s128;
typedef struct { _Float16 h; } half_s;
typedef union { float f; int i; } number;
typedef long double ldouble;
typedef float complex cfloat;
typedef double complex cdouble;
typedef __int128 i128;
typedef _Float16 half;
typedef void *pointer;
#if defined(__x86_64__)
enum { LDOUBLE_BYTES = 10 };
#else
enum { LDOUBLE_BYTES = 16 };
#endif
extern unsigned long last, bits, unknown;
#define COUNT_BITS(h) __atomic_fetch_add(&bits, __builtin_popcountl(h), __ATOMIC_RELAXED)
__attribute__((noinline)) static unsigned long mix(unsigned long h, const void *p, unsigned n) {
    const unsigned char *b = p;
    for (unsigned i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001b3ul;
    return h;
}
__attribute__((noinline)) static void fill(void *p, unsigned n, unsigned long h) {
    unsigned char *b = p;
    for (unsigned i = 0; i < n; i++, h = h * 31 + 1) b[i] = h >> (i % 8 * 8);
}
"""
# A bool holds 0 or 1, and a long double has bits that are no part of its value. The first half comes back in ways
# that differ; the others come back like one of these.
NAMES = (
    "int8_t uint16_t bool i128 float half ldouble cfloat cdouble v4f hfa3 hva2 s1 s16 mixed s40 "
    "uint8_t int16_t int unsigned int64_t double pointer v2i hfa4 s8 s17 packed_s aligned_s s128 half_s number"
).split()
TARGETS = {"x86_64": host_target(), "arm": parse_target("aarch64-linux-musl")}
CORE = {"x86_64": x86_core_of_this_machine(), "aarch64": "cortex-a76"}


@dataclass(frozen=True)
class Signature:
    """A C function type, result first."""

    result: str
    arguments: tuple[str, ...]

    def declaration(self, name: str) -> str:
        named = ", ".join(f"{type_} a{i}" for i, type_ in enumerate(self.arguments))
        return f"{self.result} {name}({named or 'void'})"

    def definition(self, name: str) -> str:
        """Leaves a hash of all arguments in `last`; the result is made of it. Bits are counted and added atomically,
        which is other code on other cores: equal versions would have no dispatcher."""
        lines = [f"h = mix(h, &a{i}, {bytes_of(type_, f'a{i}')});" for i, type_ in enumerate(self.arguments)]
        result = f"{self.result} r; {fill_of(self.result, 'r', 'h')} return r;" if self.result != "void" else ""
        hashed = f"unsigned long h = unknown; {' '.join(lines)} last = h;"
        return f"{self.declaration(name)} {{ {hashed} COUNT_BITS(h); {result} }}\n"

    def call(self, name: str) -> str:
        filled = [f"{type_} a{i}; {fill_of(type_, f'a{i}', 'seed++')}" for i, type_ in enumerate(self.arguments)]
        call = f"{name}({', '.join(f'a{i}' for i in range(len(self.arguments)))});"
        shown = '"%s %lx\\n"'
        if self.result == "void":
            return f'    {{ {" ".join(filled)} {call} printf({shown}, "{name}", last); }}\n'
        value = f"mix(last, &r, {bytes_of(self.result, 'r')})"
        return f'    {{ {" ".join(filled)} {self.result} r = {call} printf({shown}, "{name}", {value}); }}\n'


def bytes_of(type_: str, name: str) -> str:
    return "LDOUBLE_BYTES" if type_ == "ldouble" else f"sizeof {name}"


def fill_of(type_: str, name: str, seed: str) -> str:
    if type_ in ("ldouble", "bool"):
        return f"{name} = ({seed}) % {2 if type_ == 'bool' else 1000003};"
    return f"fill(&{name}, sizeof {name}, {seed});"


def program(signatures: Sequence[Signature]) -> dict[str, str]:
    named = {f"f{i}": signature for i, signature in enumerate(signatures)}
    code = TYPES + "".join(signature.definition(name) for name, signature in named.items())
    main = TYPES + "#include <stdio.h>\nunsigned long last, bits, unknown = 7;\n"
    main += "".join(f"{signature.declaration(name)};\n" for name, signature in named.items())
    calls = "".join(signature.call(name) for name, signature in named.items())
    main += f"int main(void) {{\n    unsigned long seed = 3;\n{calls}    return 0;\n}}\n"
    return {"a.c": code, "main.c": main}


def check(build_versions: Callable[..., Any], signatures: Sequence[Signature], target: Target) -> None:
    """Both versions and both ways through the dispatcher print what the program without versions does."""
    hot = ",".join(f"f{i}" for i in range(len(signatures)))
    built = build_versions(program(signatures), hot, [CORE[target.arch]], target=target, flags=("-O1",))
    assert built.results[0].modules[0].refused == {}
    expected = built.run(plain=True)
    assert len(expected.splitlines()) == len(signatures)
    for core in ("generic", CORE[target.arch]):
        assert built.run(core) == expected
        assert built.run(core, MAVCG_TRACE="1") == expected
    ran = built.versions_run(CORE[target.arch])
    assert ran == {f"f{i}": CORE[target.arch] for i in range(len(signatures))}


def covering(results: Sequence[str]) -> list[Signature]:
    """Every type in registers, around their end and on the stack, and these as results."""
    count = len(results) // 2
    groups = [NAMES[i::count] for i in range(count)]
    first = [Signature(result, tuple(group * 3)) for result, group in zip(results[::2], groups, strict=True)]
    around = [("int",) * 7 + tuple(group) + ("double",) * 8 + tuple(group) for group in groups]
    return [
        *first,
        *(Signature(result, arguments) for result, arguments in zip(results[1::2], around, strict=True)),
        Signature("void", ()),
    ]


# Results that come back by other rules of the two calling conventions.
TELLING = {
    "x86_64": "i128 ldouble cdouble v4f hfa3 s16 mixed s40".split(),
    "arm": "int8_t i128 half cfloat hfa3 hva2 s16 s40".split(),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("arch", TARGETS)
def test_every_type_in_every_place(build_versions: Callable[..., Any], arch: str) -> None:
    check(build_versions, covering(TELLING[arch]), TARGETS[arch])


@pytest.mark.long
@pytest.mark.parametrize("results", [NAMES[:16], NAMES[16:]])
@pytest.mark.parametrize("arch", TARGETS)
def test_every_type_as_a_result(build_versions: Callable[..., Any], arch: str, results: Sequence[str]) -> None:
    check(build_versions, covering(results), TARGETS[arch])


SIGNATURES = st.builds(
    Signature, st.sampled_from(["void", *NAMES]), st.lists(st.sampled_from(NAMES), max_size=14).map(tuple)
)


def random_programs(examples: int) -> Callable[..., Any]:
    """Given lists of signatures: a compile a list. (Shrinking would compile for minutes; the failing list is short.)"""
    some = st.lists(SIGNATURES, min_size=8, max_size=8)
    quiet = settings(
        max_examples=examples,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: quiet(given(signatures=some, arch=st.sampled_from(list(TARGETS)))(test))


@pytest.mark.long
@random_programs(40)
def test_arguments_of_random_signatures_reach_the_version(
    build_versions: Callable[..., Any], signatures: list[Signature], arch: str
) -> None:
    check(build_versions, signatures, TARGETS[arch])


FAKE_RSEQ = """
#include <stddef.h>
#include <stdio.h>
/* glibc's rseq area, as a program without one may fake it: the thread's CPU number, as far as dispatchers know. */
static __thread struct { unsigned start, cpu, rest[6]; } area __attribute__((aligned(32)));
ptrdiff_t __rseq_offset;
unsigned __rseq_size = 32;
extern char own_code[] __asm__("where.cortex-a76") __attribute__((weak)); /* the plain program has none */
int where(int *data, int count, char **at);
__attribute__((constructor(1))) static void start(void) {
    area.cpu = 4001;
    __rseq_offset = (char *)&area - (char *)__builtin_thread_pointer();
}
int main(void) {
    int data[40] = {1, 2};
    char *at;
    for (unsigned cpu = 4000; cpu < 4004; cpu++) {
        area.cpu = cpu == 4003 ? (unsigned)-1 : cpu;
        int sum = where(data, 40, &at);
        printf("%d %s\\n", sum, at >= own_code && at < own_code + 2000 ? "own" : "");
    }
}
"""
WHERE = """
int where(int *data, int count, char **at) {
    int sum = 0;
    for (int i = 0; i < count; i++) sum += data[i] * i;
    __asm__ volatile("adr %0, ." : "=r"(*at));
    return sum;
}
"""


def test_the_fast_path_follows_the_threads_rseq_area_on_arm(build_versions: Callable[..., Any]) -> None:
    files = {"a.c": WHERE, "main.c": FAKE_RSEQ}
    built = build_versions(files, "where", ["cortex-a76"], target=TARGETS["arm"], flags=("-O2",))
    # No machine here has 4000 CPUs: only who reads the faked area can find its number.
    said = built.run(MAVCG_CPU_MAP="0-4000=generic,4001=cortex-a76,4002=generic")
    assert said.splitlines() == ["2 ", "2 own", "2 ", "2 "]
