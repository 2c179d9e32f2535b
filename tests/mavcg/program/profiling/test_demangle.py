"""Names for people, and the way back to linkage names."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.program.profiling import demangle as under_test
from mavcg.program.profiling.demangle import base_symbol, demangle, linkage_names, without_parameters
from mavcg.program.profiling.names import short_names
from mavcg.program.profiling.symbols import function_symbols

# Of a program on Debian's Eigen 3.4: its matrix product, as TFLite's fp32 path calls it.
GEBP = (
    "_ZN5Eigen8internal11gebp_kernelIfflNS0_16blas_data_mapperIflLi0ELi0ELi1EEELi8ELi4ELb0ELb0EEclERKS3_PKfS7_llllfllll"
)


@pytest.mark.parametrize(
    ("symbol", "base"),
    [
        ("f", "f"),
        ("f.isra.0", "f"),
        ("f.constprop.0.isra.1", "f"),
        ("f.part.0.cold", "f"),
        ("f.llvm.1234", "f"),
        ("f.cortex-a55", "f"),
        ("f.generic", "f"),
        ("f.1f2e3d4c.znver3", "f"),  # a static function's version
        ("f.sapphirerapids", "f"),
        ("_ZN1a1fEv.cold.3", "_ZN1a1fEv"),
        ("_ZN1a1fEv.exynos-m4", "_ZN1a1fEv"),
        ("memcpy@@GLIBC_2.14", "memcpy"),
        ("memcpy@plt", "memcpy@plt"),
        ("a::f [clone .part.0] [clone .cold]", "a::f"),
        ("main.main", "main.main"),  # Go
        ("main.(*T).Do", "main.(*T).Do"),
        ("[unknown]", "[unknown]"),
        (".isra.0", ".isra"),
    ],
)
def test_base_symbol(symbol: str, base: str) -> None:
    assert base_symbol(symbol) == base


@pytest.mark.parametrize(
    ("symbol", "name", "printed"),
    [
        ("_ZN2nn4reluEPfi", "nn::relu(float*, int)", "nn::relu"),
        ("_ZNK2nn4GemmIfLi3EEclEPKfS3_Pfi.isra.0", None, "nn::Gemm<float, 3>::operator()"),
        ("_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo()", "(anonymous namespace)::foo"),
        ("_ZNK1AltERKS_", "A::operator<(A const&) const", "A::operator<"),
        ("_ZN1AptEv", "A::operator->()", "A::operator->"),
        ("_ZN1AcvfEv", "A::operator float()", "A::operator float"),
        ("_Znwm", "operator new(unsigned long)", "operator new"),
        ("_Z3maxIiET_S0_S0_", "int max<int>(int, int)", "max<int>"),
        ("_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
        ("_ZZN1a1fEiENKUlvE_clEv", None, "a::f(int)::{lambda()#1}::operator()"),
        (
            GEBP,
            None,
            "Eigen::internal::gebp_kernel<float, float, long, Eigen::internal::blas_data_mapper<float, long, "
            "0, 0, 1>, 8, 4, false, false>::operator()",
        ),
        ("main", "main", "main"),
        ("i", "i", "i"),  # a C function, not the type int
        ("_Zgarbage", "_Zgarbage", "_Zgarbage"),
    ],
)
def test_demangled_and_as_perf_prints_it(symbol: str, name: str | None, printed: str) -> None:
    assert name is None or demangle(symbol) == name
    assert without_parameters(demangle(symbol)) == printed


def test_works_without_binutils(monkeypatch: pytest.MonkeyPatch) -> None:
    demangle.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert demangle(GEBP).startswith("Eigen::internal::gebp_kernel<float, float, long,")
    demangle.cache_clear()


def test_names_past_the_runtimes_limit() -> None:
    long = "_Z1fI" + "1a" * 1200 + "Evv"
    if shutil.which("c++filt") is None:
        assert demangle(long) == long
    else:
        assert demangle(long).startswith("void f<a, a, a")


def test_no_runtime_at_all_keeps_the_symbol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "_cxa_demangle", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    demangle.cache_clear()
    assert demangle("_ZN2nn4reluEPfi") == "_ZN2nn4reluEPfi"
    demangle.cache_clear()


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="c++filt is not installed")
def test_every_function_of_a_cxx_library_is_found_again_by_what_perf_prints() -> None:
    contourpy = pytest.importorskip("contourpy", reason="contourpy (of matplotlib) is not installed")
    library = next(Path(contourpy.__path__[0]).glob("_contourpy*.so"))
    symbols = sorted(s for s in function_symbols(library) if s.startswith("_Z"))
    if len(symbols) < 100:
        pytest.skip("this build of contourpy has no symbol table")
    done = subprocess.run(["c++filt", "-p"], input="\n".join(symbols), capture_output=True, text=True, check=True)
    printed = done.stdout.splitlines()
    names = linkage_names(printed, symbols)
    for name, symbol in zip(printed, symbols, strict=True):
        if printed.count(name) == 1:
            assert names[name] == base_symbol(symbol)


def test_linkage_names() -> None:
    linkage = ["_ZN2nn4reluEPfi", "_ZN2nn4reluEPfi.cold", "_ZNK2nn4GemmIfLi3EEclEPKfS3_Pfi.isra.0"]
    linkage += ["_Z1fi", "_Z1fv", "g", "_ZN1AC1Ei", "_ZN1AC2Ei"]
    printed = ["nn::relu", "nn::Gemm<float,3>::operator()", "f", "f(int)", "g", "A::A", "h", "_ZN2nn4reluEPfi"]
    assert linkage_names(printed, linkage) == {
        "nn::relu": "_ZN2nn4reluEPfi",
        "nn::Gemm<float,3>::operator()": "_ZNK2nn4GemmIfLi3EEclEPKfS3_Pfi",
        "f(int)": "_Z1fi",  # `f` alone may be either overload
        "g": "g",
        "A::A": "_ZN1AC1Ei",
        "_ZN2nn4reluEPfi": "_ZN2nn4reluEPfi",
    }


def test_short_names_fit_and_stay_distinct() -> None:
    names = [demangle(GEBP), "f(int)", "f(char)", "a" * 90, "$x$", "ns::" * 30 + "last()"]
    short = short_names(names, 40)
    assert short[0] == "…::internal::gebp_kernel<…>::operator()"
    assert short[1:3] == ["f #1", "f #2"]
    assert short[4] == "$x$" and short[5].endswith("::last")
    assert all(len(name) <= 40 for name in short)
    assert len(set(short)) == len(short)


@given(st.text(max_size=60) | st.text("_ZNKSt1aIfLi3EEclPR0_.<>()[]{}: operator-&", max_size=80))
def test_any_text_is_a_name(text: str) -> None:
    assert isinstance(without_parameters(demangle("_Z" + text)), str)
    assert isinstance(without_parameters(text), str)
    assert isinstance(base_symbol(text), str)
    (short,) = short_names([text], 30)
    assert len(short) <= 30
