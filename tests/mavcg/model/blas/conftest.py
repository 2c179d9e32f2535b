"""A BLAS library of the generic version and this machine's cores, built once for all tests of this folder."""

import ctypes
from pathlib import Path

import pytest

from mavcg.model.blas.library import build_blas
from mavcg.model.blas.request import BlasOptions, make_blas_request
from tests.conftest import folder_of_all_workers


@pytest.fixture(scope="session")
def blas_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library for this machine: 10 s of compiling, once for all workers."""
    with folder_of_all_workers(tmp_path_factory, "blas") as folder:
        out = folder / "libmavcg_blas.so"
        if not out.exists():
            build_blas(make_blas_request(out, BlasOptions(board="host")))
    return out


@pytest.fixture(scope="session")
def blas(blas_path: Path) -> ctypes.CDLL:
    """The same, loaded."""
    return ctypes.CDLL(str(blas_path))
