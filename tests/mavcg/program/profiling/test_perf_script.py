"""perf script text: every usual field layout, by hand from perf-script(1) and as perf 6.1 wrote it."""

from pathlib import Path

import pytest

from mavcg.errors import ProfileError
from mavcg.program.profiling.perf_script import looks_like_perf_script, parse_frame, read_perf_script, split_object
from mavcg.program.profiling.sample_table import SampleTable


def rows(reading: SampleTable) -> dict[tuple[str, str], tuple[float, int]]:
    """(symbol, object) -> samples and records."""
    frame = reading.frame
    return {
        (symbol, object_): (samples, int(records))
        for symbol, object_, samples, records in zip(
            frame["symbol"], frame["object"], frame["samples"], frame["records"], strict=True
        )
    }


def read(text: str) -> SampleTable:
    assert looks_like_perf_script(text.splitlines())
    return read_perf_script(text.splitlines(keepends=True))


def test_recorded_by_perf_6_1_counts_each_line_once(data: Path) -> None:
    text = (data / "perf-script.txt").read_text()
    reading = read(text)
    record_rows = rows(reading)
    assert record_rows["nn::relu", "/tmp/demo/hot"] == (text.count(" nn::relu+") * 4e6, text.count(" nn::relu+"))
    gemm = text.count(" nn::Gemm<float, 3>::operator()+")
    assert gemm > 50
    assert record_rows["nn::Gemm<float, 3>::operator()", "/tmp/demo/hot"] == (gemm * 4e6, gemm)
    assert reading.event == "cpu-clock"
    assert int(reading.frame["records"].sum()) == len(text.splitlines())
    assert set(reading.frame["cpu"]) == {int(line.split("[")[1][:3]) for line in text.splitlines()}


def test_call_graph_counts_the_leaf_only(data: Path) -> None:
    text = (data / "perf-script-callgraph.txt").read_text()
    record_rows = rows(read(text))
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    leaves = [block[1].split()[1].partition("+")[0] for block in blocks]
    assert {symbol: n for (symbol, _), (_, n) in record_rows.items()} == {
        leaf: leaves.count(leaf) for leaf in set(leaves)
    }
    assert "asm_sysvec_apic_timer_interrupt" in text and "asm_sysvec_apic_timer_interrupt" not in leaves


@pytest.mark.parametrize(
    ("line", "cpu", "samples"),
    [
        ("app  4563 [002] 1396.405489:    250000 cycles:  55e0 f+0x7 (/t/app)", 2, 250000.0),
        ("app  4563 1396.405489:    250000 cycles:u:  55e0 f+0x7 (/t/app)", None, 250000.0),
        ("app  4563/4564 [002] 1396.405489: cycles:  55e0 f (/t/app)", 2, 1.0),  # perf 4.4 printed no period
        ("app  4563/4564  1396.405489: cycles:ppp:  55e0 f (/t/app)", None, 1.0),
        ("app  4563 [002]    250000 cycles:  55e0 f+0x7 (/t/app)", 2, 250000.0),  # -F without time
        ("app  4563 [002]  55e0 f+0x7 (/t/app)", 2, 1.0),
        ("app  4563  55e0 f+0x7 (/t/app)", None, 1.0),
        ("Chrome_IO Thread 4563 [002] 1396.405489: 250000 cycles:  55e0 f+0x7 (/t/app)", 2, 250000.0),
        ("my prog 12 4563 [002] 1396.405489: 250000 cycles:  55e0 f+0x7 (/t/app)", 2, 250000.0),
        (":4563  4563 [002] 1396.405489: 250000 cycles:  55e0 f+0x7 (/t/app)", 2, 250000.0),
        ("cafe 4563 [002] 1396.405489: 250000 cycles:  55e0 f+0x7 (/t/app)", 2, 250000.0),  # a name of hex digits
        ("swapper     0 [013] 1396.405489: 250000 cycles:  55e0 f+0x7 (/t/app)", 13, 250000.0),
        ("app\t4563 [007] 1396.405489:\t250000 cpu-cycles:\t55e0 f (/t/app)", 7, 250000.0),
    ],
)
def test_layouts_of_one_line(line: str, cpu: int | None, samples: float) -> None:
    reading = read(line + "\n")
    assert rows(reading) == {("f", "/t/app"): (samples, 1)}
    assert list(reading.frame["cpu"].dropna()) == ([] if cpu is None else [cpu])


def test_without_header_lines_each_line_is_a_sample() -> None:
    record_rows = rows(read("  55e0 f (/t/app)\n  55e4 f (/t/app)\n  66e0 g<int, 2>(int) (/t/app)\n"))
    assert record_rows == {("f", "/t/app"): (2.0, 2), ("g<int, 2>(int)", "/t/app"): (1.0, 1)}


def test_without_header_lines_a_block_is_a_sample() -> None:
    record_rows = rows(read("  55e0 f (/t/app)\n  66e0 main (/t/app)\n\n  55e4 g (/t/app)\n  66e0 main (/t/app)\n\n"))
    assert record_rows == {("f", "/t/app"): (1.0, 1), ("g", "/t/app"): (1.0, 1)}


def test_fields_comm_ip_sym_dso() -> None:
    assert rows(read("app 5612674823f3 nn::f(int) (/t/app)\n")) == {("nn::f(int)", "/t/app"): (1.0, 1)}


def test_simpleperf_report_sample_layout() -> None:
    # As simpleperf's report_sample.py prints: tabs, a header line, the chain below it, leaf first.
    text = (
        "label_image\t9001 [004] 10.000000001: 777 cpu-cycles:\n"
        "\t      7f00 gemm (/data/local/tmp/libtflite.so)\n\t      7e00 main (/data/local/tmp/label_image)\n\n"
    )
    reading = read(text)
    assert rows(reading) == {("gemm", "/data/local/tmp/libtflite.so"): (777.0, 1)}
    assert list(reading.frame["cpu"]) == [4]


def test_inlined_leaf_belongs_to_the_function_that_holds_its_code() -> None:
    text = (
        "app 1 1.0: 5 cycles: \n\t 10 dot (inlined)\n\t 10 gemm_row (inlined)\n\t 10 gemm+0x4 (/t/app)\n"
        "\t 20 main (/t/app)\n\n"
    )
    assert rows(read(text)) == {("gemm", "/t/app"): (5.0, 1)}


def test_counters_of_two_core_types_are_one_event_that_tells_the_core() -> None:
    text = (
        "app 1 [000] 1.0: 10 armv8_cortex_a55/cycles/:  10 f (/t/app)\n"
        "app 1 [006] 1.1: 30 armv8_cortex_a76/cycles/u:  10 f (/t/app)\n"
        "app 1 [007] 1.1: 50 cpu_core/cycles/:  10 f (/t/app)\n"
    )
    reading = read(text)
    assert reading.event == "cycles"
    assert dict(zip(reading.frame["core"], reading.frame["samples"], strict=True)) == {
        "cortex-a55": 10.0,
        "cortex-a76": 30.0,
        "cpu_core": 50.0,
    }


def test_of_several_events_the_one_that_is_time_counts() -> None:
    text = "a 1 1.0: 900 instructions:u:  10 f (/t/a)\na 1 1.0: 7 cycles:u:  10 g (/t/a)\n"
    reading = read(text)
    assert rows(reading) == {("g", "/t/a"): (7.0, 1)}
    assert reading.notes == ("shares are of event cycles; instructions left out",)


def test_empty_chain_and_perf_records() -> None:
    text = "a 1 1.0: 3 cycles: \n\na 1 1.1: PERF_RECORD_COMM exec: a:1/1\na 1 1.2: 4 cycles: \n\t 10 f (/t/a)\n\n"
    assert rows(read(text)) == {("[unknown]", "[unknown]"): (3.0, 1), ("f", "/t/a"): (4.0, 1)}


def test_samples_without_symbols_say_which_fields_to_print() -> None:
    with pytest.raises(ProfileError, match=r"2 samples but no symbols; .*-F comm,tid,cpu"):
        read_perf_script(["a 1 1.0: 3 cycles:\n", "a 1 1.1: 3 cycles:\n"])


def test_no_samples() -> None:
    with pytest.raises(ProfileError, match="no samples; let the program run longer"):
        read_perf_script(["# captured on: today\n", "\n"])


def test_command_from_the_header_comments() -> None:
    lines = ["# cmdline : /usr/bin/perf record -F 99 -- ./app 3\n", "a 1 1.0: 3 cycles: 10 f (/t/a)\n"]
    assert read_perf_script(lines).command == "./app 3"


@pytest.mark.parametrize(
    ("text", "symbol", "object_"),
    [
        ("f (/t/app)", "f", "/t/app"),
        ("f(int, char) (/t/app)", "f(int, char)", "/t/app"),
        ("f(int) (/t/app (deleted))", "f(int)", "/t/app (deleted)"),
        ("A::operator()(int) const (/t/my app (1))", "A::operator()(int) const", "/t/my app (1)"),
        ("(anonymous namespace)::f (/t/app)", "(anonymous namespace)::f", "/t/app"),
        ("f(int)", "f(int)", None),
        ("operator()", "operator()", None),
        (")", ")", None),
        ("", "", None),
    ],
)
def test_split_object(text: str, symbol: str, object_: str | None) -> None:
    assert split_object(text) == (symbol, object_)


def test_frame_strips_the_offset_only_at_the_end() -> None:
    frame = parse_frame("   55e0 a+0x1::b+0x10 (/t/app)")
    assert frame is not None and frame.symbol == "a+0x1::b"


@pytest.mark.parametrize("line", ["add some flour", "", "root:x:0:0:root:/root:/bin/bash", "int main(void) {", "a 1 2"])
def test_prose_is_not_perf_script(line: str) -> None:
    assert not looks_like_perf_script([line])
