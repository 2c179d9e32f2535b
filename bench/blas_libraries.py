"""The BLAS libraries that bench/blas_peers.py compares: ours, NumPy's OpenBLAS, BLIS of Debian, MKL of PyPI."""

import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np

from bench.wheels import cache_folder, pip
from mavcg.errors import MavcgError
from mavcg.model.blas.library import build_blas
from mavcg.model.blas.request import BlasOptions, make_blas_request

BLIS_PACKAGE = "libblis4-pthread"
MKL_PACKAGES = ("mkl==2026.2.0", "intel-openmp==2026.2.0")
# Core types of OpenBLAS with kernels of their own for machines of today, and the feature (LLVM's name) that each needs.
OPENBLAS_NEEDS = {"SkylakeX": "avx512vl", "Sapphirerapids": "avx512bf16", "Haswell": "avx2", "Zen": "avx2"}


@dataclass(frozen=True)
class BlasLibrary:
    """A BLAS library: its file, prefix and suffix of its CBLAS names, and whether its integers have 64 bits.

    environment: variables of its process; "{threads}" is replaced by the number of threads.
    """

    name: str
    path: Path
    version: str
    prefix: str = ""
    suffix: str = ""
    wide: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


def our_library(folder: Path) -> BlasLibrary:
    """Build mavcg's BLAS for this machine."""
    path = folder / "libmavcg_blas.so"
    build_blas(make_blas_request(path, BlasOptions(board="host")))
    return BlasLibrary("mavcg", path, "", environment={"MAVCG_BLAS_NUM_THREADS": "{threads}"})


def openblas_core_types() -> list[str]:
    """Return the core types of OpenBLAS whose kernels this machine can run: a forced one that it cannot is a SIGILL."""
    features = llvm.get_host_cpu_features()
    return [name for name, feature in OPENBLAS_NEEDS.items() if features.get(feature)]


def openblas(core_type: str | None) -> BlasLibrary:
    """Return NumPy's OpenBLAS.

    core_type: an OpenBLAS core name such as SkylakeX; None: as it detects. Raises: MavcgError if NumPy uses another
    library.
    """
    libraries = sorted((Path(np.__file__).parent.parent / "numpy.libs").glob("libscipy_openblas64_*"))
    if not libraries:
        raise MavcgError("numpy: has no OpenBLAS of its own; install numpy from PyPI")
    forced = {} if core_type is None else {"OPENBLAS_CORETYPE": core_type}
    name = "OpenBLAS" if core_type is None else f"OpenBLAS {core_type}"
    return BlasLibrary(
        name,
        libraries[0],
        f"of numpy {np.__version__}",
        "scipy_",
        "64_",
        True,
        environment={"OPENBLAS_NUM_THREADS": "{threads}", **forced},
    )


def blis() -> BlasLibrary:
    """Return Debian's BLIS, unpacked from its package without installing it.

    Raises: MavcgError if it cannot be downloaded.
    """
    home = cache_folder().parent / "blas" / BLIS_PACKAGE
    libraries = sorted(home.glob("usr/lib/*/blis-pthread/libblas.so.3"))
    if not libraries:
        home.mkdir(parents=True, exist_ok=True)
        for command in (["apt-get", "download", BLIS_PACKAGE], ["sh", "-c", "dpkg -x ./*.deb ."]):
            try:
                done = subprocess.run(command, cwd=home, capture_output=True, text=True)
            except OSError as error:
                raise MavcgError(f"{command[0]}: cannot be run ({error.strerror}); BLIS comes from Debian") from error
            if done.returncode:
                raise MavcgError(f"{BLIS_PACKAGE}: cannot be had ({done.stderr.strip()}); run apt-get update")
        libraries = sorted(home.glob("usr/lib/*/blis-pthread/libblas.so.3"))
    package = next(iter(sorted(home.glob("*.deb"))), None)
    version = package.name.split("_")[1] if package is not None else ""
    return BlasLibrary("BLIS", libraries[0], version, environment={"BLIS_NUM_THREADS": "{threads}"})


def mkl() -> BlasLibrary:
    """Return MKL, unpacked from its wheels on PyPI. Raises: MavcgError if they cannot be downloaded."""
    home = cache_folder().parent / "blas" / MKL_PACKAGES[0]
    if not list(home.rglob("libmkl_rt.so*")):
        home.mkdir(parents=True, exist_ok=True)
        pip("download", "--no-deps", "--only-binary=:all:", "-d", str(home), *MKL_PACKAGES)
        for wheel in home.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(home)
            wheel.unlink()
    runtime = next(iter(sorted(home.rglob("libmkl_rt.so*"))))
    folders = ":".join(sorted({str(path.parent) for path in home.rglob("*.so*")}))
    return BlasLibrary(
        "MKL",
        runtime,
        MKL_PACKAGES[0].partition("==")[2],
        environment={"MKL_NUM_THREADS": "{threads}", "MKL_DYNAMIC": "FALSE", "LD_LIBRARY_PATH": folders},
    )
