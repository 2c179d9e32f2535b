"""A BLAS with --next: as libblas.so.3 it has its own routines, and those of the library that is named."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.model.blas.library import next_stub
from mavcg.model.blas.request import BlasOptions, make_blas_request
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig

PROGRAM = """
#include <stdio.h>
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
int daxpy_(void);
int main(void) {
    const int n = 1;
    const double one = 1, zero = 0, a = 3, b = 4;
    double c = 0;
    dgemm_("N", "N", &n, &n, &n, &one, &a, &n, &b, &n, &zero, &c, &n);
    printf("%g %d\\n", c, daxpy_());
    return 0;
}
"""
OTHER = "int daxpy_(void) { return 42; }\nvoid dgemm_(void) {}\n"


def test_the_path_has_to_be_whole(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="--next libblas.so.3: the loader needs its absolute path"):
        make_blas_request(tmp_path / "l.so", BlasOptions(board="host"), Path("libblas.so.3"))


def test_a_library_that_could_not_be_loaded_is_refused(tmp_path: Path) -> None:
    """Any path was taken; programs then ended in the loader's error. The file of another board may be elsewhere."""

    def next_of(board: str, path: Path) -> Path | None:
        request = make_blas_request(tmp_path / "l.so", BlasOptions(board=board), path)
        return request.next_library

    text, of_arm = tmp_path / "text.so", tmp_path / "arm.so"
    text.write_text("no library")
    (tmp_path / "empty.c").touch()
    flags = ["-target", "aarch64-linux-gnu.2.17", "-shared", "-nostdlib"]
    run_zig("cc", [*flags, "empty.c", "-o", str(of_arm)], "linking", tmp_path)
    missing = Path("/no/where/libblas.so.3")
    assert next_of("rk3588", missing) == missing and next_of("rk3588", of_arm) == of_arm
    with pytest.raises(MavcgError, match="--next .*text.so: not an ELF file"):
        next_of("rk3588", text)
    with pytest.raises(MavcgError, match="--next /no/where/libblas.so.3: "):
        next_of("host", missing)
    with pytest.raises(MavcgError, match="arm.so: is not a shared library for x86_64"):
        next_of("alder-lake", of_arm)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_an_alternative_has_all_routines(tmp_path: Path, mavcg: Any) -> None:
    """The program knows the name libblas.so.3 alone; the other library has the same name in another folder."""
    other, ours = tmp_path / "other", tmp_path / "ours"
    other.mkdir()
    ours.mkdir()
    (tmp_path / "other.c").write_text(OTHER)
    (tmp_path / "program.c").write_text(PROGRAM)
    real = other / "libblas.so.3"
    soname = "-Wl,-soname,libblas.so.3"
    subprocess.run(["gcc", "-shared", "-fPIC", soname, str(tmp_path / "other.c"), "-o", str(real)], check=True)
    subprocess.run(["gcc", str(tmp_path / "program.c"), str(real), "-o", str(tmp_path / "program")], check=True)
    ended = mavcg("blas", "build", "--cores", "generic", "--next", str(real), "-o", str(ours / "libblas.so.3"))
    assert ended.status == 0, ended.stderr

    def says(folder: Path) -> str:
        env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
        return subprocess.run([str(tmp_path / "program")], env=env, capture_output=True, text=True, check=True).stdout

    assert says(other) == "0 42\n"  # the other one multiplies nothing
    assert says(ours) == "12 42\n"
    assert str(real) in mavcg("inspect", str(ours / "libblas.so.3")).stdout


def test_the_stub_is_called_by_the_path(tmp_path: Path) -> None:
    stub = next_stub(Path("/some/where/libblas.so.3"), host_target(), tmp_path)
    assert b"/some/where/libblas.so.3\0" in stub.read_bytes()
