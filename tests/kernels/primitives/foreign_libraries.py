"""Shared libraries for tests of the foreign family: a small CBLAS written here, and an OpenBLAS where there is one."""

from functools import cache
from pathlib import Path

import numpy as np

from mavcg.errors import MavcgError
from mavcg.hosts.foreign_library import find_foreign
from mavcg.specs.foreign_library import ForeignLibrary
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig

SMALL_CBLAS = """
void cblas_sgemm(int order, int a_turned, int b_turned, int m, int n, int k, float alpha, const float *a, int a_step,
                 const float *b, int b_step, float beta, float *c, int c_step) {
    if (order != 101) __builtin_trap();
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int l = 0; l < k; l++)
                sum += (a_turned == 112 ? a[l * a_step + i] : a[i * a_step + l]) *
                       (b_turned == 112 ? b[j * b_step + l] : b[l * b_step + j]);
            c[i * c_step + j] = alpha * sum + (beta == 0 ? 0 : beta * c[i * c_step + j]);
        }
}
"""


def built_library(folder: Path, text: str = SMALL_CBLAS) -> Path:
    """Compile C into a shared library for this machine."""
    source, library = folder / "small.c", folder / "libsmall.so"
    source.write_text(text)
    words = ["-target", host_target().zig_name, "-O2", "-shared", "-fPIC", str(source), "-o", str(library)]
    run_zig("cc", words, "a test's library", folder)
    return library


@cache
def installed_openblas() -> ForeignLibrary | None:
    """OpenBLAS by its name, or the one of NumPy's wheel, whose integers have 64 bits; None if there is neither."""
    try:
        return find_foreign("openblas")
    except MavcgError:
        folder = Path(np.__file__).parent.parent / "numpy.libs"
        files = sorted(folder.glob("libscipy_openblas64_*"))
        return find_foreign(f"openblas={files[0]}") if files else None
