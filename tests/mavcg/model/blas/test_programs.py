"""Programs as they are, with the library: C++ on Eigen, and Debian's NumPy."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mavcg.model.blas.library import build_blas
from mavcg.model.blas.request import BlasOptions, make_blas_request

pytestmark = pytest.mark.long

EIGEN = Path("/usr/include/eigen3")  # of Debian's libeigen3-dev
DEBIAN_PYTHON = Path("/usr/bin/python3")
PACKAGES = ("python3-numpy", "libblas3", "liblapack3", "libgfortran5")
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
print(numpy.linalg.solve(numpy.eye(3) * 2, numpy.ones(3)), open("/proc/self/maps").read())
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


@pytest.fixture(scope="module", name="debian")
def debian_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Debian's NumPy and the reference BLAS, out of their packages, without installing them."""
    if not DEBIAN_PYTHON.exists():
        pytest.skip(f"{DEBIAN_PYTHON} is not there")
    folder = tmp_path_factory.mktemp("debian")
    for command in (["apt-get", "download", *PACKAGES], ["sh", "-c", "for f in *.deb; do dpkg -x $f root; done"]):
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        except (OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"{command[0]}: {error}")
        if done.returncode:
            pytest.skip(f"{command[0]}: {done.stderr.strip()}")
    return folder / "root/usr/lib"


def run_numpy(debian: Path, folders: list[Path], **variables: str) -> str:
    """Run the products above on Debian's NumPy. folders: where libraries are looked for first."""
    (machine,) = debian.glob("*-linux-gnu")
    paths = [*folders, machine / "blas", machine / "lapack", machine]
    environment = {"PYTHONPATH": str(debian / "python3/dist-packages"), "LD_LIBRARY_PATH": ":".join(map(str, paths))}
    done = subprocess.run(
        [str(DEBIAN_PYTHON), "-c", NUMPY],
        capture_output=True,
        text=True,
        env={**os.environ, **environment, **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_debians_numpy_with_the_library_preloaded(debian: Path, blas_path: Path) -> None:
    computed = run_numpy(debian, [], LD_PRELOAD=str(blas_path))

    assert computed.startswith("[0.5 0.5 0.5]") and blas_path.name in computed and "blas/libblas.so.3" in computed


def test_debians_numpy_with_the_library_as_alternative(debian: Path, tmp_path: Path) -> None:
    """As libblas.so.3, with the reference for all other routines."""
    (reference,) = debian.glob("*-linux-gnu/blas/libblas.so.3")
    ours = tmp_path / "libblas.so.3"
    build_blas(make_blas_request(ours, BlasOptions(board="host"), reference))

    computed = run_numpy(debian, [tmp_path])

    assert computed.startswith("[0.5 0.5 0.5]") and str(ours) in computed and str(reference.resolve()) in computed
