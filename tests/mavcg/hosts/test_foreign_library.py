"""Libraries that `--foreign` names: found, refused, told apart."""

from pathlib import Path

import pytest

from mavcg.errors import MavcgError
from mavcg.hosts import foreign_library
from mavcg.hosts.foreign_library import find_foreign, sgemm_address
from tests.kernels.primitives.foreign_libraries import built_library, installed_openblas


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(MavcgError, match=r"--foreign openblas=/nowhere/lib.so: there is no file /nowhere/lib.so"):
        find_foreign("openblas=/nowhere/lib.so")


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(MavcgError, match="text.so cannot be loaded"):
        find_foreign(f"mine={tmp_path / 'text.so'}")


def test_a_library_without_sgemm(tmp_path: Path) -> None:
    library = built_library(tmp_path, "int answer(void) { return 42; }")
    with pytest.raises(MavcgError, match=r"exports no sgemm of CBLAS \(cblas_sgemm, scipy_cblas_sgemm"):
        find_foreign(f"mine={library}")


@pytest.mark.parametrize("text", ["", "=lib.so", "Open BLAS", "a-b=lib.so"])
def test_bad_names_are_refused_with_a_reason(text: str) -> None:
    with pytest.raises(MavcgError, match="is not a name"):
        find_foreign(text)


def test_an_unknown_name_needs_a_path() -> None:
    with pytest.raises(MavcgError, match="no library is known by this name; give its path: other=PATH"):
        find_foreign("other")


def test_one_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_library, "SONAMES", {"openblas": ("libnone.so.7",)})
    monkeypatch.setattr(foreign_library, "find_library", lambda name: None)
    monkeypatch.setattr(foreign_library, "WHEEL", "no_such_wheel")
    with pytest.raises(MavcgError, match="libnone.so.7 is not installed; install it"):
        find_foreign("openblas")


def test_openblas_says_its_version() -> None:
    library = installed_openblas()
    if library is None:
        pytest.skip("no OpenBLAS: neither libopenblas.so.0 nor the wheel scipy-openblas32 is installed")
    assert library.version[0].isdigit() and library.label == f"openblas-{library.version}-{library.digest}"
    assert sgemm_address(library) > 0
