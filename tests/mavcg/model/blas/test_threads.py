"""Threads of a BLAS: the same bits for any number of them, several callers at once, forked children, small stacks."""

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.mavcg.model.blas.calls import Array, Product, fortran_gemm

# Shared by rows, by columns, of several blocks in each direction; the last by parts of columns and of rows that two or
# three threads pack themselves, the parts of several blocks of terms.
LARGE = (
    Product("s", False, False, 700, 300, 500, 1.0, 0.5),
    Product("d", True, False, 90, 1500, 400, -1.0, 1.0),
    Product("d", False, True, 1500, 60, 350, 2.0, 0.0),
    Product("s", True, True, 33, 4300, 60, 1.0, 1.0),
    Product("s", False, False, 96, 97, 2100, 1.0, 0.0),
    Product("d", True, True, 290, 130, 700, 1.5, -1.0),
)


def multiply(library: ctypes.CDLL, p: Product) -> Array:
    a, b, c = p.matrices()
    fortran_gemm(library, p, a, b, c)
    return c


@pytest.mark.parametrize("p", LARGE)
def test_any_number_of_threads_gives_the_same_bits(p: Product, blas: ctypes.CDLL) -> None:
    results = []
    for threads in (1, 2, 3, 8, 2, 1):
        blas.mavcg_blas_set_num_threads(threads)
        assert blas.mavcg_blas_get_num_threads() == threads
        results.append(multiply(blas, p))
    a, b, before = p.matrices()
    want, bound = p.reference(a, b, before)

    assert (np.abs(results[0].T - want) <= bound).all()
    assert all(np.array_equal(c, results[0]) for c in results)


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("size", [(100, 100, 100), (97, 112, 110), (61, 30, 520), (400, 7, 380)])
def test_calls_in_close_succession_give_the_same_bits(
    letter: str, trans_a: bool, size: tuple[int, int, int], blas: ctypes.CDLL
) -> None:
    """Products that threads share only while they poll: the first of a row is computed alone."""
    p = Product(letter, trans_a, False, *size, 1.5, 0.0)
    a, b, c = p.matrices()
    want, bound = p.reference(a, b, c)
    blas.mavcg_blas_set_num_threads(1)
    fortran_gemm(blas, p, a, b, c)
    assert (np.abs(c.T - want) <= bound).all()
    for threads in (2, 3):
        blas.mavcg_blas_set_num_threads(threads)
        results = [np.full_like(c, np.nan) for _ in range(30)]
        for result in results:
            fortran_gemm(blas, p, a, b, result)
        assert all(np.array_equal(result, c) for result in results)


def test_several_callers_at_once(blas: ctypes.CDLL) -> None:
    blas.mavcg_blas_set_num_threads(3)
    expected = [multiply(blas, p) for p in LARGE]
    wrong: list[Product] = []

    def call_all(first: int) -> None:
        for number in range(first, first + 3 * len(LARGE)):
            p = LARGE[number % len(LARGE)]
            if not np.array_equal(multiply(blas, p), expected[number % len(LARGE)]):
                wrong.append(p)

    callers = [threading.Thread(target=call_all, args=(first,)) for first in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


FORKING = """
import ctypes, os, sys, threading
sys.path[:0] = [{root!r}]
import numpy as np
from tests.mavcg.model.blas.calls import Product, fortran_gemm
library = ctypes.CDLL({library!r})
library.mavcg_blas_set_num_threads(3)
p = Product("d", False, False, 300, 300, 300, 1.0, 0.0)
def product():
    a, b, c = p.matrices()
    fortran_gemm(library, p, a, b, c)
    return c
want = product()
busy = True
def keep_busy():
    while busy:
        product()
other = threading.Thread(target=keep_busy)
other.start()
for _ in range(10):
    child = os.fork()
    if not child:
        os._exit(0 if all(np.array_equal(product(), want) for _ in range(3)) else 1)
    assert os.waitpid(child, 0)[1] == 0
busy = False
other.join()
assert np.array_equal(product(), want)
print("same")
"""


@pytest.mark.long
def test_forked_children_have_threads_of_their_own(blas_path: Path) -> None:
    """Forked while another thread is in a call: the child has its copy of the team, and none of its threads."""
    code = FORKING.format(root=str(Path(__file__).parents[4]), library=str(blas_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stderr[-1000:]


@pytest.mark.parametrize(
    ("variables", "threads"),
    [
        ({"MAVCG_BLAS_NUM_THREADS": "3", "OMP_NUM_THREADS": "5"}, 3),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"OMP_NUM_THREADS": "none"}, None),
        ({"MAVCG_BLAS_NUM_THREADS": "100000"}, 256),
    ],
)
def test_environment_sets_the_number(variables: dict[str, str], threads: int | None, blas_path: Path) -> None:
    code = f"import ctypes; print(ctypes.CDLL({str(blas_path)!r}).mavcg_blas_get_num_threads())"
    env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")} | variables
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert int(done.stdout) == (threads or len(os.sched_getaffinity(0)))


PRELOADED = """
import numpy as np
x = np.arange(90000.0).reshape(300, 300) / 90000
y = x.astype(np.float32)
assert np.abs(x @ x.T.copy() - np.einsum("ik,jk->ij", x, x)).max() < 1e-11
assert np.abs(y @ y.T.copy() - np.einsum("ik,jk->ij", x, x)).max() < 1e-3
print(np.linalg.inv(np.eye(40) * 2).trace(), np.dot(x[0], x[0]) > 0)
"""


def test_numpy_uses_it_when_preloaded(blas_path: Path) -> None:
    """The trace counts calls by version; everything else that NumPy needs comes from its own BLAS."""
    env = {**os.environ, "LD_PRELOAD": str(blas_path), "MAVCG_TRACE": "1"}
    done = subprocess.run([sys.executable, "-c", PRELOADED], env=env, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "20.0 True\n"), done.stderr[-1000:]
    traced = {line.split()[1] for line in done.stderr.splitlines() if line.startswith("mavcg: ")}
    assert {"sgemm", "dgemm"} <= traced
