"""Netlib's own test programs of levels 2 and 3, Fortran and CBLAS, from Debian's source package, under preload.

They are linked with the reference BLAS of Debian; the preloaded library takes its routines over, and the programs' own
xerbla sees its error exits. gfortran, its library, the reference and the source come by apt-get into a cache folder,
without installing anything.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

PACKAGES = ("gfortran-12", "libgfortran-12-dev", "libgfortran5", "libquadmath0", "libblas3")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
PROGRAMS = [(letter, level) for letter in "sd" for level in (2, 3)]

pytestmark = pytest.mark.long


def run(command: Sequence[str], folder: Path) -> None:
    """Raises: the test's skip, with what the command said: nothing here works without Debian's packages."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    except FileNotFoundError:
        pytest.skip(f"{command[0]} is not there: the test programs come from Debian")
    if done.returncode:
        pytest.skip(f"{' '.join(command[:4])}: {done.stderr.strip()[-300:]}")


@pytest.fixture(scope="module")
def netlib() -> Path:
    """A folder with root/ (packages, unpacked) and lapack-*/ (the source)."""
    home = Path(os.environ.get("MAVCG_CACHE") or Path.home() / ".cache/mavcg") / "netlib"
    if (home / "ready").exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    (home / "apt/lists/partial").mkdir(parents=True)
    (home / "apt/cache/archives/partial").mkdir(parents=True)
    run(["apt-get", "download", *PACKAGES], home)
    for package in sorted(home.glob("*.deb")):
        run(["dpkg", "-x", str(package), "root"], home)
    source = f"deb-src [signed-by={KEYS}] http://deb.debian.org/debian bookworm main\n"
    (home / "apt/sources.list").write_text(source)
    options = {
        "Dir::Etc::sourcelist": home / "apt/sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": home / "apt/lists",
        "Dir::Cache": home / "apt/cache",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    run(["apt-get", *words, "update"], home)
    run(["apt-get", *words, "source", "--download-only", "lapack=3.11.0-2"], home)
    run(["tar", "xf", "lapack_3.11.0.orig.tar.gz"], home)
    headers = home / "lapack-3.11.0/CBLAS/include"
    shutil.copy(headers / "cblas_mangling_with_flags.h.in", headers / "cblas_mangling.h")
    (home / "ready").touch()
    return home


def compiled(netlib: Path, fortran: Path, sources: Sequence[Path], out: Path) -> Path:
    """A program of one Fortran file and some of C, linked with the reference BLAS."""
    compiler, backend = (
        netlib / "root/usr/bin/x86_64-linux-gnu-gfortran-12",
        netlib / "root/usr/lib/gcc/x86_64-linux-gnu/12",
    )
    made = out.with_suffix(".o")
    words = [str(compiler), f"-B{backend}", "-w", "-std=legacy", "-c", str(fortran), "-o", str(made)]
    subprocess.run(words, check=True)
    folder = netlib / "root" / LIBRARIES
    libraries = [folder / "blas/libblas.so.3", folder / "libgfortran.so.5", folder / "libquadmath.so.0"]
    include = f"-I{netlib / 'lapack-3.11.0/CBLAS/include'}"
    words = ["gcc", "-w", include, "-DADD_", str(made), *map(str, sources), *map(str, libraries), "-lm"]
    subprocess.run([*words, "-o", str(out)], check=True)
    return out


def output(netlib: Path, program: Path, data: Path, preload: Path) -> tuple[str, str]:
    """What the program says, on stdout or in the file that its data names; and the versions that ran."""
    folder = netlib / "root" / LIBRARIES
    env = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{folder / 'blas'}:{folder}",
        "LD_PRELOAD": str(preload),
        "MAVCG_TRACE": "1",
    }
    with data.open() as stdin:
        done = subprocess.run(
            [str(program)], stdin=stdin, env=env, cwd=program.parent, capture_output=True, text=True, timeout=900
        )
    written = "".join(path.read_text() for path in sorted(program.parent.glob("*.out")))
    return done.stdout + written, done.stderr


@pytest.mark.parametrize(("letter", "level"), PROGRAMS)
def test_fortran_programs_pass(letter: str, level: int, netlib: Path, blas_path: Path, tmp_path: Path) -> None:
    tests, name = netlib / "lapack-3.11.0/BLAS/TESTING", f"{letter}blat{level}"
    program = compiled(netlib, tests / f"{name}.f", (), tmp_path / name)
    said, traced = output(netlib, program, tests / f"{name}.in", blas_path)

    routine = f"{letter}{'gemv' if level == 2 else 'gemm'}"
    assert f"mavcg: {routine} " in traced  # ours ran
    assert f"{routine.upper()}  PASSED THE TESTS OF ERROR-EXITS" in said
    assert f"{routine.upper()}  PASSED THE COMPUTATIONAL TESTS" in said
    assert "FAIL" not in said and "SUSPECT" not in said  # of the other routines too, which the reference has


@pytest.mark.parametrize(("letter", "level"), PROGRAMS)
def test_cblas_programs_pass(letter: str, level: int, netlib: Path, blas_path: Path, tmp_path: Path) -> None:
    tests, name = netlib / "lapack-3.11.0/CBLAS/testing", f"c_{letter}blat{level}"
    sources = [
        tests / f"{file}.c" for file in (f"c_{letter}blas{level}", f"c_{letter}{level}chke", "auxiliary", "c_xerbla")
    ]
    program = compiled(netlib, tests / f"{name}.f", sources, tmp_path / name)
    said, traced = output(netlib, program, tests / f"{letter}in{level}", blas_path)

    routine = f"{letter}{'gemv' if level == 2 else 'gemm'}"
    assert f"mavcg: {routine} " in traced
    for what in ("TESTS OF ERROR-EXITS", "COLUMN-MAJOR COMPUTATIONAL TESTS", "ROW-MAJOR    COMPUTATIONAL TESTS"):
        assert f"cblas_{routine}  PASSED THE {what}" in said
    assert "FAIL" not in said and "SUSPECT" not in said
