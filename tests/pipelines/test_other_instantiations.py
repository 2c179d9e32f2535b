"""A profile that names another instantiation than the input has, and samples that perf gave to a label."""

import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from mavcg.errors import MavcgError
from mavcg.program.hot_functions import inexact_notes, match_hot
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.profiling.sample_table import SampleTable
from mavcg.program.profiling.symbols import with_linkage_names

GEBP_8 = "_ZN4gemm4gebpIfLi8EEclEi"  # gemm::gebp<float, 8>::operator()(int)
GEBP_12 = "_ZN4gemm4gebpIfLi12EEclEi"
PACK_12 = "_ZN4gemm4packIfLi12EEclEi"


def module(*names: str) -> str:
    return "".join(f"define void @{name}(ptr %0, i32 %1) {{\n  ret void\n}}\n" for name in names)


def test_the_same_template_with_other_arguments() -> None:
    found, missing = match_hot([HotSymbol(GEBP_8, named_by_user=False, why="60 %")], [module(GEBP_12, PACK_12)])
    assert [(symbol.name, symbol.inexact, symbol.why) for symbol in found] == [(GEBP_12, True, "60 %, by its name")]
    assert not missing
    (note,) = inexact_notes(found)
    assert "gemm::gebp<float, 8>::operator()(int)" in note and "gemm::gebp<float, 12>::operator()(int)" in note


def test_other_parameters_of_another_standard_library() -> None:
    theirs = "_ZN2nn4loadERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    ours = "_ZN2nn4loadERKNSt3__112basic_stringIcNS0_11char_traitsIcEENS0_9allocatorIcEEEE"
    found, _ = match_hot([HotSymbol(theirs)], [module(ours)])
    assert [symbol.name for symbol in found] == [ours]


def test_an_exact_match_stands_alone() -> None:
    found, _ = match_hot([HotSymbol(GEBP_8)], [module(GEBP_12), module(GEBP_8)])
    assert [(symbol.name, symbol.inexact) for symbol in found] == [(GEBP_8, False)]
    assert not inexact_notes(found)


def test_what_another_symbol_matches_exactly_is_not_taken_for_it() -> None:
    hot = [HotSymbol(GEBP_8, share=0.6, named_by_user=False), HotSymbol(GEBP_12, share=0.2, named_by_user=False)]
    found, missing = match_hot(hot, [module(GEBP_12)])
    assert [(symbol.name, symbol.share, symbol.inexact) for symbol in found] == [(GEBP_12, 0.2, False)]
    assert [symbol.given_name for symbol in missing] == [GEBP_8]


def test_c_names_have_no_other_instantiation() -> None:
    found, missing = match_hot([HotSymbol("sgemm", named_by_user=False)], [module("sgemm2")])
    assert not found and [symbol.given_name for symbol in missing] == ["sgemm"]
    with pytest.raises(MavcgError, match="no input defines"):
        match_hot([HotSymbol("_ZN5other4gebpIfLi8EEclEi")], [module(GEBP_12)])


LABELS = """
__attribute__((noinline)) int labelled(int x) {
    __asm__ volatile("inner_loop:\\n\\tnop\\n\\tnop" ::: "memory");
    return x + 1;
}
__attribute__((noinline)) int plain(int x) { return labelled(x) * 3; }
__asm__(".text\\n.globl handwritten\\nhandwritten:\\n\\tret\\n");
int main(int argc, char **argv) { (void)argv; return plain(argc); }
"""


def test_a_label_in_inline_assembly_counts_for_its_function(tmp_path: Path) -> None:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    (tmp_path / "labels.c").write_text(LABELS)
    program = str(tmp_path / "labels")
    subprocess.run(["gcc", "-O1", "-o", program, str(tmp_path / "labels.c")], check=True)
    symbols = ["inner_loop", "plain", "handwritten", "nowhere"]
    frame = pd.DataFrame({"symbol": symbols, "object": program})
    named = with_linkage_names(SampleTable(frame, "samples", "cycles"))
    assert list(named.frame["symbol"]) == ["labelled", "plain", "handwritten", "nowhere"]
