"""callgrind.out: the format's compressions, against a file of valgrind's and sums made another way."""

import re
from pathlib import Path

import pytest

from mavcg.errors import ProfileError
from mavcg.program.profiling.callgrind import looks_like_callgrind, read_callgrind

# Written by hand from the Valgrind manual, "Callgrind Format Specification", with all that may be shortened.
COMPRESSED = """\
# callgrind format
version: 1
cmd: ./app 3
positions: instr line
events: Cycles Ir
ob=(1) /t/app
fl=(1) app.c
fn=(1) main
0x10 5 100 10
cfn=(2) gemm
calls=1 0x40 20
+4 +1 9000 900
* * 100 10
fn=(2)
fi=(2) gemm.h
0x40 20 200 20
+4 -3 300
cob=(2) /lib/libm.so.6
cfi=(3) ???
cfn=(3) sinf
calls=2 0
* * 5000 500
ob=(2)
fn=(3)
0 0 5000 500
fn=(4) gemm'2
0 0 0 7
totals: 0 547
"""


def read(text: str) -> dict[tuple[str, str], float]:
    lines = text.splitlines(keepends=True)
    assert looks_like_callgrind(lines)
    frame = read_callgrind(lines).frame
    return {(s, o): n for s, o, n in zip(frame["symbol"], frame["object"], frame["samples"], strict=True)}


def test_self_cost_with_every_compression() -> None:
    assert read(COMPRESSED) == {
        ("main", "/t/app"): 20.0,  # 10 + 10: the line after calls= is what gemm cost
        ("gemm", "/t/app"): 20.0,  # the second line leaves out its zero Ir
        ("sinf", "/lib/libm.so.6"): 500.0,
        ("gemm", "/lib/libm.so.6"): 7.0,  # a recursion level of the same function
    }


def test_recorded_by_valgrind_sums_to_its_own_summary(data: Path) -> None:
    text = (data / "callgrind.out").read_text()
    reading = read_callgrind(text.splitlines(keepends=True))
    summary = re.search(r"^(?:summary|totals): (\d+)", text, re.M)
    assert summary is not None and float(reading.frame["samples"].sum()) == float(summary[1])
    found = dict(zip(reading.frame["symbol"], reading.frame["samples"], strict=True))
    # As callgrind_annotate 3.19 lists them.
    assert found["_ZNK2nn4GemmIfLi3EEclEPKfS3_Pfi.isra.0"] == 1_872_467
    assert found["_ZN2nn4reluEPfi"] == 1_311_040
    assert (reading.kind, reading.event, reading.command) == ("instructions", "Ir", "./hot 1")
    assert reading.frame["records"].isna().all()


def test_first_event_where_ir_was_not_counted() -> None:
    reading = read_callgrind("events: Dr Dw\nfn=f\n1 3 4\n".splitlines())
    assert (reading.event, list(reading.frame["samples"])) == ("Dr", [3.0])


def test_truncated(data: Path) -> None:
    lines = (data / "callgrind.out").read_text().splitlines()
    with pytest.raises(ProfileError, match=r"truncated: its costs sum to \d+ Ir, its own total is \d+; copy"):
        read_callgrind(lines[: len(lines) // 2])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("# callgrind format\nfn=f\n1 3\n", "line 3: costs before an events: line"),
        ("events: Ir\nfn=(7)\n1 3\n", r"line 2: fn=\(7\) is used before it is named"),
        ("events: Ir\nfn=f\n", "no samples"),
        ("events: Ir\nfn=f\n1 0\n", "no samples"),
    ],
)
def test_files_that_callgrind_does_not_write_are_refused_with_a_reason(text: str, error: str) -> None:
    with pytest.raises(ProfileError, match=error):
        read_callgrind(text.splitlines(), "out")
