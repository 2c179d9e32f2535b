"""Branch stacks on the lines of perf script, as several versions of perf print them, belong to no symbol."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.program.profiling.branch_stack import without_branches
from mavcg.program.profiling.perf_script import looks_like_perf_script, read_perf_script

# Entries as perf-script(1) and the sources of their versions have them.
STACKS = {
    "4.4 brstack": " 0x401aa0/0x5d2000/M/-/-/0  0x40062f/0x4005b0/P/-/-/0 ",
    "4.4 brstacksym": " noploop+0x0/noploop+0x0/P/-/-/0 main+0x14/noploop+0x40/M/X/A/12 ",
    "4.13 with dso": " 0x401aa0(/t/a.so)/0x5d2000(/t/app)/P/-/-/143  0x4(/t/app)/0x5(/t/app)/M/-/-/1 ",
    "6.1 with type": "  0xaaaadb350838/0xaaaadb3507a4/P/-/-/0/CALL  0x7fb57586df6b/0x7fb5758731f0/P/-/-/143/- ",
    "6.2 speculation": " 0x55ca45da59e0/0x55ca45da5a00/M/-/-/0//NON_SPEC_CORRECT_PATH [unknown]/[unknown]/P/-/-/0//- ",
    "6.2 brstacksym": " check_match+0x60/strcmp+0x0/P/-/-/0/CALL/NON_SPEC_CORRECT_PATH do+0x3/f+0x0/P/-/-/0/CALL/- ",
    "6.8 with dso": "  0x401002 (/t/a b)/0x401010 (/t/app)/M/-/-/37/CALL/ 0x4 (/t/app)/0x8 (/t/app)/P/-/-/2/COND/ ",
    "6.8 symbols, dso": "  g(int, char)+0x14 (/t/app)/operator/(A, B)+0x2 (/t/app (deleted))/P/-/-/1/RET/- ",
    "6.14 not taken": " 0xa001/0xa002/PN/-/-/10/COND/-  0xb001/0xb002/MN/-/-/4/COND/- ",
    "no prediction": " 0x401000/0x5d2000//-/-/3  main+0x4/other+0x0//-/-/0//- ",
    "unknown first": " [unknown]/main+0x4/-/-/-/0 ",
    "no event bits": "\t0x1/0x2/-/-/-/0\n".rstrip("\n"),
}
SYMBOLS = ("f", "nn::Gemm<float, 3>::operator()", "f(int) const", "(anonymous namespace)::g", "operator/(A, B)")


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("symbol", SYMBOLS)
@pytest.mark.parametrize("object_", ["/t/app", "[kernel.kallsyms]", "/t/my app (deleted)"])
def test_samples_of_one_function_are_one_row(stack: str, symbol: str, object_: str) -> None:
    lines = [
        f"app  4563 [002] 1396.40548{n}:     250000 cycles:u:      55e{n} {symbol}+0x{n} ({object_}){stack}\n"
        for n in range(1, 5)
    ] + [f"app  4563 [002] 1396.405489:     250000 cycles:u:      66e0 g+0x7 (/t/app){stack}\n"]
    assert looks_like_perf_script(lines)
    frame = read_perf_script(lines).frame
    assert dict(zip(zip(frame["symbol"], frame["object"], strict=True), frame["records"], strict=True)) == {
        (symbol, object_): 4,
        ("g", "/t/app"): 1,
    }


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_a_stack_below_a_call_graph_is_no_frame(stack: str) -> None:
    block = f"app 4563 1396.405489: 250000 cycles:\n\t55e0 f+0x7 (/t/app)\n\t55e9 main+0x7 (/t/app)\n{stack}\n\n"
    frame = read_perf_script((block * 3).splitlines(keepends=True)).frame
    assert list(frame["symbol"]) == ["f"] and int(frame["records"].sum()) == 3


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_a_frame_without_its_file(stack: str) -> None:
    assert without_branches(f"f+0x7{stack}") == "f+0x7"
    if "(" not in stack:
        assert without_branches(f"f{stack}") == "f"


@given(st.sampled_from(sorted(STACKS.values())), st.lists(st.sampled_from(sorted(STACKS.values())), max_size=4))
def test_the_number_of_entries_makes_no_difference(first: str, more: list[str]) -> None:
    assert without_branches(f"f(int)+0x7 (/t/app){first}{''.join(more)}") == "f(int)+0x7 (/t/app)"


@pytest.mark.parametrize("text", ["f+0x7 (/t/app)", "operator/(A)/P (/t/x)", "f (/t/-/-/0)", "a/P/-/b (/t/app)"])
def test_other_text_stays(text: str) -> None:
    assert without_branches(text) == text
