"""simpleperf report --csv: column sets written by hand from the Android Open Source Project's documentation."""

import pytest

from mavcg.errors import ProfileError
from mavcg.program.profiling.sample_table import SampleTable
from mavcg.program.profiling.simpleperf import looks_like_simpleperf, read_simpleperf

CONTEXT = """\
Cmdline: /system/bin/simpleperf record -g -- ./label_image -m m.tflite
Arch: arm64
Event: cpu-cycles (type 0, config 0)
Samples: 200
Event count: 1000000

"""


def read(table: str) -> SampleTable:
    lines = (CONTEXT + table).splitlines(keepends=True)
    assert looks_like_simpleperf(lines)
    return read_simpleperf(lines)


@pytest.mark.parametrize(
    "table",
    [
        "Overhead,Command,Pid,Tid,Shared Object,Symbol\n60.00%,a,1,1,/data/l.so,f\n40.00%,a,1,1,/data/l.so,g\n",
        "Overhead,Sample,Shared Object,Symbol\n60.00%,120,/data/l.so,f\n40.00%,80,/data/l.so,g\n",
        "Children,Self,Shared Object,Symbol\n100.00%,60.00%,/data/l.so,f\n90.00%,40.00%,/data/l.so,g\n",
        "Overhead,Symbol,Shared Object,EventCount,EventName\n"
        "60.00%,f,/data/l.so,600000,cpu-cycles\n40.00%,g,/data/l.so,400000,cpu-cycles\n",
        "Children,Self,Shared Object,Symbol,AccEventCount,SelfEventCount,EventName\n"
        "99.00%,60.00%,/data/l.so,f,990000,600000,cpu-cycles\n90.00%,40.00%,/data/l.so,g,900000,400000,cpu-cycles\n",
        "Overhead,Shared Object,Symbol\n600000,/data/l.so,f\n400000,/data/l.so,g\n",  # --raw-period
    ],
)
def test_every_set_of_columns_gives_the_same_samples(table: str) -> None:
    reading = read(table)
    frame = reading.frame
    assert dict(zip(frame["symbol"], frame["samples"], strict=True)) == {"f": 600000.0, "g": 400000.0}
    assert list(frame["records"]) == [120, 80]
    assert set(frame["object"]) == {"/data/l.so"}
    assert (reading.event, reading.command) == ("cpu-cycles", "./label_image -m m.tflite")


@pytest.mark.parametrize(
    "row",
    [
        "100.00%,/data/l.so,a::f<int, 3>(int, char),1000000,cpu-cycles",  # older versions do not quote
        '100.00%,/data/l.so,"a::f<int, 3>(int, char)",1000000,cpu-cycles',
    ],
)
def test_commas_in_names(row: str) -> None:
    frame = read(f"Overhead,Shared Object,Symbol,EventCount,EventName\n{row}\n").frame
    assert list(frame["symbol"].str.replace(" ", "")) == ["a::f<int,3>(int,char)"]
    assert list(frame["samples"]) == [1000000.0]


def test_a_table_per_event() -> None:
    second = CONTEXT.replace("cpu-cycles", "instructions").replace("1000000", "5000000").partition("Event:")
    table = "Overhead,Symbol\n100.00%,{}\n"
    reading = read(table.format("f") + "\n" + second[1] + second[2] + table.format("g"))
    assert list(reading.frame["symbol"]) == ["f"]
    assert reading.notes == ("shares are of event cpu-cycles; instructions left out",)


def test_call_graph_below_a_row_is_not_counted() -> None:
    reading = read("Children,Self,Symbol\n90.00%,60.00%,f\n       |\n       -- f\n          |--50.00%-- g\n")
    assert list(reading.frame["symbol"]) == ["f"]


def test_report_for_people_and_report_without_symbols() -> None:
    with pytest.raises(ProfileError, match=r"simpleperf report --csv$"):
        read("Overhead  Command  Pid  Symbol\n60.00%    app      1    f\n")
    with pytest.raises(ProfileError, match="no Symbol column, it has overhead, command"):
        read("Overhead,Command\n60.00%,app\n")
    with pytest.raises(ProfileError, match="no samples"):
        read("Overhead,Symbol\n")
