"""Writes the C code that loads foreign libraries (BLAS) into a measuring program.

Each library is loaded before main and set to one thread, because the program's threads share the rows. If a library or
its sgemm is missing, the program ends with an error message, which its reader reports.
"""

from collections.abc import Sequence

from mavcg.specs.foreign_library import ForeignLibrary
from mavcg.text.safe_text import c_string

_HEAD = """#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { NOT_LOADED = 5 };

static void *sgemm_of(const char *path, const char *symbol) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *found = library ? dlsym(library, symbol) : NULL;
    if (!found) {
        fprintf(stderr, "%s: %s\\n", path, dlerror());
        exit(NOT_LOADED);
    }
    return found;
}
"""
_CALL = """
typedef void sgemm{n}(int, int, int, {i}, {i}, {i}, float, const float *, {i}, const float *, {i}, float, float *, {i});
static sgemm{n} *loaded{n};
void {symbol}(int order, int a_turned, int b_turned, {i} m, {i} n, {i} k, float alpha, const float *a, {i} a_step,
              const float *b, {i} b_step, float beta, float *c, {i} c_step) {{
    loaded{n}(order, a_turned, b_turned, m, n, k, alpha, a, a_step, b, b_step, beta, c, c_step);
}}
"""


def foreign_text(libraries: Sequence[ForeignLibrary]) -> str:
    """Return C source with the functions that kernels call, and the code that loads the libraries."""
    text = [_HEAD]
    loads = []
    for number, library in enumerate(libraries):
        integer = "int64_t" if library.wide else "int"
        text.append(_CALL.format(n=number, i=integer, symbol=library.call_symbol))
        where = f"{c_string(library.path)}, {c_string(library.symbol)}"
        loads.append(f"    loaded{number} = (sgemm{number} *)sgemm_of({where});")
    return "\n".join(
        [
            *text,
            "__attribute__((constructor)) static void load(void) {",
            *(f'    setenv("{name}", "1", 1);' for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")),
            *loads,
            "}",
            "",
        ]
    )
