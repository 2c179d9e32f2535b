"""Programs as they are, with the library: C++ on Eigen, and Debian's NumPy."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

EIGEN = Path("/usr/include/eigen3")  # of Debian's libeigen3-dev
DEBIAN_PYTHON = Path("/usr/bin/python3")
OTHER_BLAS = """
#include <stdio.h>
#include <stdlib.h>
#define STOP(name) void name(void) { puts(#name " of the other BLAS"); exit(3); }
STOP(sgemm_) STOP(dgemm_) STOP(sgemv_) STOP(dgemv_)
"""
NUMPY = """
import numpy
random = numpy.random.RandomState(0)
for dtype, bound in ((numpy.float32, 1e-4), (numpy.float64, 1e-12)):
    for m, n, k in ((40, 5, 90), (130, 150, 170), (3, 3, 3), (500, 11, 1100)):
        a, b = random.standard_normal((k, m)).astype(dtype), random.standard_normal((k, n)).astype(dtype)
        exact = numpy.einsum("ki,kj->ij", a.astype(numpy.longdouble), b.astype(numpy.longdouble))
        for found in (a.T @ b, numpy.ascontiguousarray(a.T) @ b, (b.T @ a).T):
            assert abs(found - exact).max() <= bound * k ** 0.5, (m, n, k)
        assert abs(a.T @ b[:, 0] - exact[:, 0]).max() <= bound * k ** 0.5
maps = open("/proc/self/maps").read()
assert "libmavcg_blas" in maps
print(numpy.linalg.solve(numpy.eye(3) * 2, numpy.ones(3)), "libblas.so.3" in maps or "openblas" in maps)
"""


@pytest.mark.skipif(not (shutil.which("g++") and EIGEN.is_dir()), reason="needs g++ and Debian's libeigen3-dev")
def test_eigen_with_the_library_preloaded(blas_path: Path, tmp_path: Path) -> None:
    """The program's own BLAS stops it, so products are those of the preloaded library."""
    (tmp_path / "other.c").write_text(OTHER_BLAS)
    other, program = tmp_path / "libother.so", tmp_path / "program"
    subprocess.run(["gcc", "-shared", "-fPIC", str(tmp_path / "other.c"), "-o", str(other)], check=True)
    source = Path(__file__).with_name("eigen.cpp")
    subprocess.run(["g++", "-O1", f"-I{EIGEN}", str(source), str(other), "-o", str(program)], check=True)

    alone = subprocess.run([str(program)], capture_output=True, text=True)
    environment = {**os.environ, "LD_PRELOAD": str(blas_path)}
    preloaded = subprocess.run([str(program)], capture_output=True, text=True, env=environment)

    assert alone.returncode == 3 and "of the other BLAS" in alone.stdout
    assert (preloaded.returncode, preloaded.stdout) == (0, "equal\n")


def test_debians_numpy_with_the_library_preloaded(blas_path: Path) -> None:
    if subprocess.run([str(DEBIAN_PYTHON), "-c", "import numpy"], capture_output=True).returncode:
        pytest.skip("Debian's python3-numpy is not installed")
    environment = {**os.environ, "LD_PRELOAD": str(blas_path)}
    done = subprocess.run([str(DEBIAN_PYTHON), "-c", NUMPY], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0.5 0.5 0.5] True\n"
