"""How functions are named by people and profilers, and what is found under these names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.program.hot_functions import defined_functions, match_hot, match_names
from mavcg.program.hot_symbols import HotSymbol, parse_hot

RELU = "_ZN2nn4reluEPfi"
GEMM = (
    "_ZNK2nn4GemmIfLi3EEclEPKfS3_Pfi"  # nn::Gemm<float, 3>::operator()(float const*, float const*, float*, int) const
)
GEMM_INT = "_ZNK2nn4GemmIiLi3EEclEPKiS3_Pii"
LESS = "_ZltRK1AS1_"  # operator<(A const&, A const&)
SHIFT = "_ZN1AlsEi"  # A::operator<<(int)
PLAIN = "sgemm"
NAMES = [RELU, GEMM, GEMM_INT, LESS, SHIFT, PLAIN, "_ZN12_GLOBAL__N_15innerEv"]


def found(asked: str, names: list[str] = NAMES) -> list[str]:
    return [symbol.name for symbol in match_names([HotSymbol(asked)], names)]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (RELU, [RELU]),
        ("nn::relu(float*, int)", [RELU]),
        ("nn::relu", [RELU]),
        ("relu", [RELU]),
        ("sgemm", [PLAIN]),
        ("nn::Gemm<float, 3>::operator()(float const*, float const*, float*, int) const", [GEMM]),
        ("nn::Gemm<float, 3>::operator()", [GEMM]),
        ("nn::Gemm::operator()", [GEMM, GEMM_INT]),
        ("nn::Gemm", [GEMM, GEMM_INT]),
        ("Gemm", [GEMM, GEMM_INT]),
        ("operator()", [GEMM, GEMM_INT]),
        ("operator<", [LESS]),
        ("A::operator<<", [SHIFT]),
        ("operator<<", [SHIFT]),
        ("inner", ["_ZN12_GLOBAL__N_15innerEv"]),
        ("*gemm", [PLAIN]),
        ("nn::*", [RELU, GEMM, GEMM_INT]),
        ("*Gemm*<float*", [GEMM]),
        ("?gemm", [PLAIN]),
        ("s[g]emm", [PLAIN]),
        ("*", NAMES),
        ("gemm", []),  # of sgemm only a part
        ("NN::relu", []),
        ("_ZN2nn4relu", []),
    ],
)
def test_spellings(asked: str, names: list[str]) -> None:
    assert found(asked) == names


def test_a_linkage_name_is_taken_before_any_other_reading() -> None:
    assert found("f", ["_ZN1a1fEv", "f"]) == ["f"]


def test_a_name_with_brackets_that_is_spelled_exactly_is_no_pattern() -> None:
    subscript = "_ZN1AixEi"  # A::operator[](int)
    assert found("A::operator[]", [subscript, "x"]) == [subscript]


def test_each_function_is_found_once_by_the_first_that_names_it() -> None:
    asked = [HotSymbol("relu", share=0.5), HotSymbol("nn::*", share=0.1)]
    matched = match_names(asked, NAMES)
    assert [(s.name, s.share) for s in matched] == [(RELU, 0.5), (GEMM, 0.1), (GEMM_INT, 0.1)]


IR = """\
define dso_local i32 @plain(i32 %x) #0 {
}
define linkonce_odr void @_ZN2nn4reluEPfi(ptr %a, i32 %b) comdat {
}
define internal fastcc void @"quoted name$1"(ptr %f) {
}
define available_externally i32 @elsewhere() {
}
declare i32 @declared(i32)
  call i32 @called(i32 1)
define ptr @returns_pointer(ptr noundef nonnull returned %0) unnamed_addr {
}
"""


def test_functions_of_ir_text() -> None:
    assert defined_functions(IR) == ["plain", RELU, "quoted name$1", "returns_pointer"]


def test_what_a_user_names_must_be_there() -> None:
    with pytest.raises(MavcgError, match="--hot plan: no input defines a function of that name; did you mean plain"):
        match_hot([HotSymbol("plan")], [IR])
    with pytest.raises(MavcgError, match="--hot nn::relo: .* did you mean nn::relu"):
        match_hot([HotSymbol("nn::relo")], [IR])
    with pytest.raises(MavcgError, match="--hot zzzzzz: .*; give its linkage name .*, or add its source"):
        match_hot([HotSymbol("zzzzzz")], [IR])
    with pytest.raises(MavcgError, match="--hot elsewhere: no input defines"):
        match_hot([HotSymbol("elsewhere")], [IR])


def test_what_a_profile_names_may_be_elsewhere() -> None:
    asked = [HotSymbol("plain", named_by_user=False), HotSymbol("memcpy", named_by_user=False)]
    matched, missing = match_hot(asked, ["", IR])
    assert [s.name for s in matched] == ["plain"] and [s.given_name for s in missing] == ["memcpy"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gemm", ["gemm"]),
        ("gemm,dwconv", ["gemm", "dwconv"]),
        (" gemm , dwconv ", ["gemm", "dwconv"]),
        ("gemm,gemm", ["gemm"]),
        ("nn::Gemm<float, 3>::run,relu(float*, int)", ["nn::Gemm<float, 3>::run", "relu(float*, int)"]),
        ("*gemm*,nn::*", ["*gemm*", "nn::*"]),
    ],
)
def test_lists(text: str, names: list[str]) -> None:
    assert [symbol.given_name for symbol in parse_hot(text)] == names


@pytest.mark.parametrize("text", ["", " ", ",", "a,", ",a", "a,,b"])
def test_lists_with_an_empty_name(text: str) -> None:
    with pytest.raises(MavcgError, match="holds an empty name; give functions with commas between"):
        parse_hot(text)


@given(st.lists(st.text("abc:_~*<>()[] ", min_size=1).filter(str.strip), min_size=1, unique=True))
def test_any_list_is_read_or_refused(names: list[str]) -> None:
    try:
        symbols = parse_hot(",".join(names))
    except MavcgError:
        return
    assert all(symbol.given_name == symbol.given_name.strip() for symbol in symbols)
    assert match_names(symbols, NAMES) == match_names(symbols, NAMES)
