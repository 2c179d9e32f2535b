"""Strides of 64 bits are checked as the caller gives them, not as they are after they overflowed."""

import subprocess
import sys
from pathlib import Path

from mavcg.toolchain.zig import run_zig
from tests.mavcg.model.blas.extreme_strides import ERRORS

ROOT = Path(__file__).parents[4]


def test_64_bit_strides_of_all_routines_and_doors(blas_path: Path, tmp_path: Path) -> None:
    (tmp_path / "errors.c").write_text(ERRORS)
    run_zig("cc", ["-shared", "-fPIC", "errors.c", "-o", "liberrors.so"], "building xerbla", tmp_path)
    words = ["-m", "tests.mavcg.model.blas.extreme_strides", str(tmp_path / "liberrors.so"), str(blas_path)]

    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr[-2000:]
    assert all(int(count) > 500 for count in done.stdout.split())
