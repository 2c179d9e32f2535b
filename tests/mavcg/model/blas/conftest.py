"""A BLAS library of the generic version and this machine's cores, built once for all tests of this folder."""

import ctypes
import fcntl
import os
from pathlib import Path

import pytest

from mavcg.model.blas.library import build_blas
from mavcg.model.blas.request import BlasOptions, make_blas_request


@pytest.fixture(scope="session")
def blas_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library for this machine: 10 s of compiling, once for all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "blas"
    folder.mkdir(exist_ok=True)
    out = folder / "libmavcg_blas.so"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            build_blas(make_blas_request(out, BlasOptions(board="host")))
    return out


@pytest.fixture(scope="session")
def blas(blas_path: Path) -> ctypes.CDLL:
    """The same, loaded."""
    return ctypes.CDLL(str(blas_path))
