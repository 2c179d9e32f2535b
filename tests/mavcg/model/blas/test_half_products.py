"""Products in half precision of a built BLAS against NumPy in double: sizes, strides, scalars, NaN, subnormals."""

import ctypes
import json
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given as given_by
from hypothesis import settings

from mavcg.model.blas.library import build_blas
from mavcg.model.blas.request import BlasOptions, make_blas_request
from mavcg.objects.elf import exported_symbols, notes
from mavcg.toolchain.zig import run_zig
from tests.conftest import examples
from tests.mavcg.model.blas.calls import (
    DTYPES,
    F16_SUM_TERMS,
    Product,
    fortran_gemm,
    given,
    in_double,
)
from tests.mavcg.model.blas.products import (
    assert_all_calls_agree,
    assert_names_compute,
    assert_nan_follows_the_reference,
    assert_product,
    assert_right,
    products,
)

LETTERS = ("sb", "sh", "h")


@settings(max_examples=examples(long=2000, fast=15))
@given_by(p=products(*LETTERS))
def test_products_agree_with_numpy(p: Product, blas: ctypes.CDLL) -> None:
    assert_all_calls_agree(blas, p)


@pytest.mark.sample(2)
@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("size", [(70, 90, 2203), (1300, 40, 71), (30, 4200, 65)])
def test_products_of_several_blocks(letter: str, size: tuple[int, int, int], blas: ctypes.CDLL) -> None:
    for trans_a, trans_b in ((False, False), (True, False), (False, True), (True, True)):
        assert_right(blas, Product(letter, trans_a, trans_b, *size, 1.5, -0.5, (1, 2, 3)))


@pytest.mark.parametrize("letter", LETTERS)
def test_threads_change_no_bit(letter: str, blas: ctypes.CDLL) -> None:
    p = Product(letter, True, False, 257, 263, 601, 1.5, -0.5, (1, 2, 3))
    a, b, before = p.matrices()
    results = []
    try:
        for threads in (1, 2, 3):
            blas.mavcg_blas_set_num_threads(threads)
            c = before.copy()
            fortran_gemm(blas, p, a, b, c)
            results.append(c)
    finally:
        blas.mavcg_blas_set_num_threads(0)
    assert_product(p, before, a, b, results[0])
    assert all(np.array_equal(c, results[0]) for c in results)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("size", [5, 150])
def test_nan_follows_the_reference(letter: str, size: int, blas: ctypes.CDLL) -> None:
    assert_nan_follows_the_reference(blas, letter, size)


@pytest.mark.parametrize("letter", LETTERS)
def test_infinities_and_overflow(letter: str, blas: ctypes.CDLL) -> None:
    """An infinite element reaches its row; finite products that f32 cannot hold become infinite, with their sign."""
    p = Product(letter, False, False, 17, 9, 3, 1.0, 0.0)
    a, b, c = p.matrices()
    a[0, 4] = given(letter, np.array([np.inf]))[0]
    b[:] = given(letter, np.full(b.shape, -1.0))
    fortran_gemm(blas, p, a, b, c)
    assert np.isneginf(c[:, 4]).all() and np.isfinite(np.delete(c, 4, axis=1)).all()
    if letter != "sh":
        most = 3e38 if letter == "sb" else 6e4
        large = given(letter, np.full(a.shape, most)), given(letter, np.full(b.shape, -most))
        fortran_gemm(blas, p, *large, c)
        assert np.isneginf(c).all()


@pytest.mark.parametrize("letter", ["sh", "h"])
@pytest.mark.parametrize("trans", [False, True])
def test_every_f16_is_converted_exactly(trans: bool, letter: str, blas: ctypes.CDLL) -> None:
    """A is all 65,536 values, and B is 1: C is A, subnormal values included; NaN stays NaN."""
    values = np.arange(65536, dtype=np.uint16).view(np.float16)
    one = np.ones((1, 1), np.float16)
    p = Product(letter, trans, False, 65536, 1, 1, 1.0, 0.0)
    a, c = values.reshape((65536, 1) if trans else (1, 65536)), np.zeros((1, 65536), DTYPES[letter])
    fortran_gemm(blas, p, a, one, c)
    assert np.array_equal(c[0], values.astype(DTYPES[letter]), equal_nan=True)


@pytest.mark.parametrize(("m", "n", "k"), [(17, 5, 64), (9, 11, 130), (70, 3, 1000), (131, 23, 601)])
def test_hgemm_has_the_bits_of_its_definition(m: int, n: int, k: int, blas: ctypes.CDLL, blas_path: Path) -> None:
    """64 terms at a time in f16, by one rounding each, and these sums in f32: whatever the tiles and blocks."""
    if notes(blas_path)[0]["blas"]["blocks"]["all_f16"]["sums"] == "f32":
        pytest.skip("a core of this machine has no arithmetic of f16")
    p = Product("h", False, False, m, n, k, 0.7, -2.5)
    a, b, before = p.matrices()
    total = np.zeros((n, m), np.float32)
    for first in range(0, k, F16_SUM_TERMS):
        part = np.zeros((n, m), np.float16)
        for term in range(first, min(k, first + F16_SUM_TERMS)):
            part = (b[:, term, None].astype(np.float64) * a[term].astype(np.float64) + part).astype(np.float16)
        total += part
    alpha, beta = (np.float32(np.float16(x)) for x in (p.alpha, p.beta))
    want = (alpha * total + beta * before.astype(np.float32)).astype(np.float16)
    c = before.copy()
    fortran_gemm(blas, p, a, b, c)
    assert np.array_equal(c, want)


@pytest.mark.parametrize("trans", [False, True])
def test_every_bf16_is_read_exactly(trans: bool, blas: ctypes.CDLL) -> None:
    """The same for bfloat16, but subnormal values, which count as 0 where bf16 is multiplied in pairs."""
    values = np.arange(65536, dtype=np.uint16)
    one = given("sb", np.ones((1, 1)))
    p = Product("sb", trans, False, 65536, 1, 1, 1.0, 0.0)
    a, c = values.reshape((65536, 1) if trans else (1, 65536)), np.zeros((1, 65536), np.float32)
    fortran_gemm(blas, p, a, one, c)
    want = in_double("sb", values)
    subnormal = (values & 0x7F80) == 0
    assert np.array_equal(c[0][~subnormal], want[~subnormal].astype(np.float32), equal_nan=True)
    assert (np.abs(c[0][subnormal] - want[subnormal]) < 2.0**-126).all()


@pytest.mark.parametrize("letter", LETTERS)
def test_small_products_read_no_more_than_there_is(letter: str, blas: ctypes.CDLL) -> None:
    """Memory around A, B and C holds NaN: none of it reaches C, and none of it is overwritten."""
    for size in ((4, 4, 4), (12, 17, 19), (24, 33, 8), (3, 100, 131)):
        for trans_a, trans_b, beta in ((False, False, 0.0), (False, True, 1.0), (True, False, 0.0), (True, True, -0.5)):
            p = Product(letter, trans_a, trans_b, *size, 1.5, beta, (3, 2, 5))
            a, b, before = p.matrices()
            for matrix, rows in ((a, p.k if trans_a else p.m), (b, p.n if trans_b else p.k)):
                matrix[:, rows:] = given(letter, np.full(1, np.nan))[0]
            before[:, p.m :] = np.nan
            c = before.copy()
            fortran_gemm(blas, p, a, b, c)
            want, bound = p.reference(a, b, before)
            assert (np.abs(c[: p.n, : p.m].T - want) <= bound).all(), p
            assert np.isnan(c[:, p.m :]).all(), p


@pytest.mark.parametrize("letter", LETTERS)
def test_every_name_computes(letter: str, blas: ctypes.CDLL) -> None:
    fortran, cblas = (f"{letter}gemm_", f"{letter}gemm_64_"), (f"cblas_{letter}gemm", f"cblas_{letter}gemm64_")
    assert_names_compute(blas, letter, fortran, cblas)


@pytest.mark.parametrize(("letter", "name"), [("sb", "SBGEMM"), ("sh", "SHGEMM"), ("h", "HGEMM ")])
def test_bad_arguments_are_reported(letter: str, name: str, blas_path: Path) -> None:
    code = f"""
import ctypes
f, s = lambda x: ctypes.byref(ctypes.c_int32(x)), ctypes.byref(ctypes.c_uint64(0))
x = (ctypes.c_double * 16)()
ctypes.CDLL({str(blas_path)!r}).{letter}gemm_(b"N", b"N", f(4), f(4), f(4), s, x, f(3), x, f(4), s, x, f(4))
print("went on")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    message = f" ** On entry to {name} parameter number  8 had an illegal value\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_inspect_names_types_and_routines(blas_path: Path, mavcg: Any) -> None:
    note = json.loads(mavcg("inspect", str(blas_path), "--json").stdout)["blas"]
    assert {"sbgemm_", "sbgemm_64_", "cblas_sbgemm", "cblas_shgemm64_", "hgemm_"} <= set(note["routines"])
    assert set(note["blocks"]) == {"f32", "f64", "bf16", "f16", "all_f16"}
    assert note["blocks"]["bf16"]["step_terms"] in (1, 2) and note["blocks"]["f16"]["step_terms"] == 1
    assert "scipy_sbgemm_" not in exported_symbols(blas_path)


def test_a_c_program_gets_the_same_bits_from_all_versions(blas_path: Path, tmp_path: Path) -> None:
    """OpenBLAS's declarations; each version of the library is chosen in turn, as if each were this machine's core."""
    program = tmp_path / "program"
    source = Path(__file__).parent / "half_calls.c"
    words = ["-O1", "-frounding-math", str(source), str(blas_path), f"-Wl,-rpath,{blas_path.parent}", "-lm"]
    run_zig("cc", [*words, "-o", str(program)], "linking the program")
    versions = notes(blas_path)[0]["blas"]["versions"]
    said = {}
    for version in versions:
        env = {**os.environ, "MAVCG_CPU_MAP": f"0-1023={version}", "MAVCG_TRACE": "1"}
        done = subprocess.run([str(program)], env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert all(f"mavcg: {letter}gemm {version} " in done.stderr for letter in LETTERS)
        said[version] = done.stdout
    assert len(set(said.values())) == 1, said
    assert said[versions[0]].endswith(" near\n")


@pytest.mark.parametrize("letter", LETTERS)
def test_products_without_memory_for_a_buffer(letter: str, blas_path: Path) -> None:
    """The address space is full: panels are on the stack, and the result is right."""
    code = f"""
import ctypes, resource, sys
import numpy as np
from tests.mavcg.model.blas.calls import Product, fortran_gemm
library = ctypes.CDLL({str(blas_path)!r})
library.mavcg_blas_set_num_threads(1)
products = [Product({letter!r}, ta, tb, 301, 95, 611, 1.5, -0.5, (1, 2, 3)) for ta in (0, 1) for tb in (0, 1)]
tiny = Product({letter!r}, False, False, 3, 3, 3, 1.0, 0.0)
fortran_gemm(library, tiny, *tiny.matrices())  # all that is loaded on demand
calls = [(p, *p.matrices()) for p in products]
results = [c.copy() for _, _, _, c in calls]
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used, resource.RLIM_INFINITY))
for (p, a, b, _), c in zip(calls, results):
    fortran_gemm(library, p, a, b, c)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for (p, a, b, before), c in zip(calls, results):
    buffered = before.copy()
    fortran_gemm(library, p, a, b, buffered)
    assert {letter!r} == "h" or not np.array_equal(c, buffered)  # other blocks of terms: there was no buffer indeed
    want, bound = p.reference(a, b, before)
    assert (np.abs(c[: p.n, : p.m].T - want) <= bound).all(), p
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the library is for a core of x86-64")
def test_hgemm_of_cores_without_f16_is_shgemm_rounded(tmp_path: Path) -> None:
    """A and B are converted to f32: one block of terms has the bits of shgemm's sums, rounded with alpha and beta."""
    options = BlasOptions(cores="haswell", target="x86_64-linux-gnu", tune="off")
    built = build_blas(make_blas_request(tmp_path / "libhaswell.so", options))
    assert built.note["blas"]["blocks"]["all_f16"]["sums"] == "f32"
    library = ctypes.CDLL(str(built.output))
    for trans_a, trans_b, m, n, k in ((False, False, 33, 7, 71), (True, False, 5, 90, 2), (True, True, 2100, 2050, 3)):
        p = Product("h", trans_a, trans_b, m, n, k, 1.5, -0.5, (1, 2, 3))
        a, b, before = p.matrices()
        sums, c = np.zeros(before.shape, np.float32), before.copy()
        fortran_gemm(library, replace(p, letter="sh", alpha=1.0, beta=0.0), a, b, sums)
        fortran_gemm(library, p, a, b, c)
        want = (np.float32(1.5) * sums - np.float32(0.5) * before.astype(np.float32)).astype(np.float16)
        assert np.array_equal(c[:, :m], want[:, :m]) and np.array_equal(c[:, m:], before[:, m:])
    for size in ((70, 90, 2203), (1300, 40, 71)):
        assert_right(library, Product("h", False, True, *size, 1.5, -0.5, (1, 2, 3)))
