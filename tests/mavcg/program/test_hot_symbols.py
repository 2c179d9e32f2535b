"""The quick look for hot functions: no form of a name asks for a word that its linkage name lacks."""

from pathlib import Path

import pytest

from mavcg.objects.elf import function_symbols
from mavcg.program.hot_functions import match_names, name_forms
from mavcg.program.hot_symbols import HotSymbol, certain_word, may_define
from mavcg.toolchain.zig import run_zig

NAMES = """
dot  spx_drft_forward  _start  f.part.0  hot.constprop.1.isra.0  memcpy@@GLIBC_2.14
_ZN3FooC1Ev  _ZN3FooD2Ev  _ZN3FooC2ERKS_  _ZN3FoocviEv  _ZlsRSoRK3Foo  _ZN3FoopLERKS_
_ZN12_GLOBAL__N_13runEi  _ZNKSt6vectorIiSaIiEE4sizeEv  _ZNSsC1Ev  _ZNSs6appendEPKc  _ZNSaIcEC1Ev  _ZNSolsEi
_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm
_ZN5Eigen8internal11gebp_kernelIffNS0_12dgemm_traitsEEclEPfS4_  _Z3addIiET_S0_S0_  _Z1fIiESt6vectorIT_SaIS1_EES1_
_ZZ4mainENKUlvE_clEv  _ZN1aUt_1bEv  _ZSt4sortIPiEvT_S1_  _Z41__static_initialization_and_destruction_0v
_ZN4core3fmt9Formatter3pad17h0123456789abcdefE  _RNvCs1234_7mycrate3foo
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_the_word_of_each_form_is_in_the_linkage_name(name: str) -> None:
    for form in name_forms(name):
        assert certain_word(form) in name, form


@pytest.mark.parametrize(
    ("given_name", "word"),
    [
        ("dot", "dot"),
        ("Eigen::internal::gebp_kernel<float, 4>::operator()", "gebp_kernel"),
        ("Foo::operator()", ""),
        ("void ns::gemm<float>(float*, int)", "gemm"),
        ("gemm<*>", "gemm"),
        ("(anonymous namespace)::run(int)", "run"),
        ("conv.part.0", "conv"),
        ("std::string::append", "append"),
        ("std::vector<int> f<int>()", "vector"),
        ("int (*pick(int))(float)", ""),
        ("std::string", ""),
        ("dot_*", ""),
        ("größe", ""),
    ],
)
def test_the_word_is_the_last_that_every_linkage_name_has(given_name: str, word: str) -> None:
    assert certain_word(given_name) == word


def test_an_object_is_searched_for_the_words(tmp_path: Path) -> None:
    source, made = tmp_path / "a.cpp", tmp_path / "a.o"
    source.write_text("namespace ns { template <class T> T twice(T x) { return x + x; } template int twice(int); }\n")
    run_zig("c++", ["-O2", "-c", str(source), "-o", str(made)], "compiling a template")
    names = [name for name, _ in function_symbols(made)]
    for given_name in ("twice", "ns::twice", "int ns::twice<int>(int)", "_ZN2ns5twiceIiEET_S1_", "tw*"):
        assert match_names([HotSymbol(given_name)], names) and may_define(made, [HotSymbol(given_name)])
    for given_name in ("thrice", "ns::thrice", "int ns::thrice<int>(int)", "_ZN2ns6thriceIiEET_S1_"):
        assert not match_names([HotSymbol(given_name)], names) and not may_define(made, [HotSymbol(given_name)])
    assert not may_define(made, [])
