"""perf report --stdio text, as perf 6.1 wrote it for data/hot.cpp and in small variations of that layout."""

from pathlib import Path

import pytest

from mavcg.errors import ProfileError
from mavcg.program.profiling.perf_report import looks_like_perf_report, read_perf_report
from mavcg.program.profiling.perf_script import read_perf_script
from mavcg.program.profiling.sample_table import SampleTable

GEMM = "nn::Gemm<float, 3>::operator()"


def read(path: Path) -> SampleTable:
    lines = path.read_text().splitlines(keepends=True)
    assert looks_like_perf_report(lines)
    return read_perf_report(lines, path.name)


def shares(reading: SampleTable) -> dict[str, float]:
    by_symbol = reading.frame.groupby("symbol")["samples"].sum()
    return {str(symbol): float(value) / float(by_symbol.sum()) for symbol, value in by_symbol.items()}


@pytest.mark.parametrize(
    ("report", "script"),
    [
        ("perf-report.txt", "perf-script.txt"),
        ("perf-report-cpu.txt", "perf-script.txt"),
    ],
)
def test_agrees_with_the_samples_that_the_report_sums(data: Path, report: str, script: str) -> None:
    with open(data / script) as text:
        exact = read_perf_script(text)
    reading = read(data / report)
    assert reading.event == exact.event == "cpu-clock"
    assert shares(reading) == pytest.approx(shares(exact), abs=1e-4)  # two decimals of a percent
    assert int(reading.frame["records"].sum()) == int(exact.frame["records"].sum())
    assert float(reading.frame["samples"].sum()) == pytest.approx(float(exact.frame["samples"].sum()), rel=1e-3)


def test_cpu_column_and_trailing_columns(data: Path) -> None:
    frame = read(data / "perf-report-cpu.txt").frame
    assert frame["cpu"].notna().all()
    assert set(frame["object"]) == {"hot"} | set(frame[frame["symbol"] != GEMM]["object"])
    assert not any("-" in symbol for symbol in frame["symbol"])  # IPC columns are not part of the symbol


def test_with_children_self_counts_and_call_graph_lines_do_not(data: Path) -> None:
    fractions = shares(read(data / "perf-report-children.txt"))
    text = (data / "perf-report-children.txt").read_text()
    rows = [line.split() for line in text.splitlines() if line[:10].strip().endswith("%")]
    own = {" ".join(cells[5:]): float(cells[1].rstrip("%")) / 100 for cells in rows}
    assert own["nn::relu"] < float(next(c[0] for c in rows if c[-1] == "nn::relu").rstrip("%")) / 100
    assert {symbol: fractions.get(symbol, 0.0) for symbol in own} == pytest.approx(own, abs=2e-4)


REPORT = """\
# Samples: 2K of event 'cycles:u'
# Event count (approx.): 1000000
#
# {title}
# {dots}
#
{rows}
"""


def test_kernel_mode_stands_for_the_object_that_is_not_printed() -> None:
    text = REPORT.format(
        title="Overhead  Symbol",
        dots="........  ..............",
        rows="    60.00%  [.] f(int, char const*)\n    40.00%  [k] do_syscall_64",
    )
    frame = read_perf_report(text.splitlines()).frame
    assert dict(zip(frame["symbol"], frame["object"], strict=True)) == {
        "f(int, char const*)": "",
        "do_syscall_64": "[kernel.kallsyms]",
    }
    assert list(frame["records"]) == [1200, 800]
    assert list(frame["samples"]) == [600000.0, 400000.0]


def test_two_events_are_not_added() -> None:
    section = REPORT.format(title="Overhead  Symbol", dots="........  ......", rows="   100.00%  [.] f")
    other = section.replace("cycles:u", "instructions:u").replace("1000000", "9000000").replace("] f", "] g")
    reading = read_perf_report((other + section).splitlines())
    assert list(reading.frame["symbol"]) == ["f"]
    assert reading.notes == ("shares are of event cycles; instructions left out",)


def test_no_symbol_column() -> None:
    text = REPORT.format(title="Overhead  Command", dots="........  .......", rows="   100.00%  app")
    with pytest.raises(ProfileError, match=r"no Symbol column, it has overhead, command; .*--sort cpu,dso,symbol"):
        read_perf_report(text.splitlines())


def test_header_without_rows_is_no_samples() -> None:
    text = REPORT.format(title="Overhead  Symbol", dots="........  ......", rows="")
    with pytest.raises(ProfileError, match="no samples"):
        read_perf_report(text.splitlines())


def test_field_separator_is_refused_with_the_way_out() -> None:
    text = "# Samples: 2 of event 'cycles'\n# Overhead,Symbol\n  50.0%,f\n"
    with pytest.raises(ProfileError, match="without --field-separator"):
        read_perf_report(text.splitlines())
