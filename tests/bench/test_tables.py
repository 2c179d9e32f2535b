"""Tables of records: printed whole, and what pages of text say of them."""

import re
from pathlib import Path

import pytest

import bench.record
from bench import records
from bench.record import facts, write
from bench.records import RESULTS, ROOT
from bench.rows import measured, measured_or_none
from bench.tables.__main__ import main
from bench.tables.catalogue import TABLES, summary
from bench.tables.selection import STRICT_CHECK_SINCE
from mavcg.errors import MavcgError

RUN = {"rounds": 3, "rseq": True, "ways": {"direct": {}, "built": {"over_direct_ns": 0.64}}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bench.record, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(bench.record, "ROWS", tmp_path / "rows")
    monkeypatch.setattr("bench.rows.ROWS", tmp_path / "rows")
    return tmp_path


def test_a_bench_writes_its_rows_and_their_record(folder: Path) -> None:
    rows = {**facts("measured", "bench.dispatch --record"), "runs": [RUN]}
    path = write("dispatch", rows)

    assert path == folder / "results/dispatch.json" and measured("dispatch") == rows == measured_or_none("dispatch")
    record = records.read(path)
    assert record.cell("built", "*with rseq") == "0.6 ns"
    assert (record.title, record.command, record.commit) == (
        "What choosing a version costs",
        "python -m bench.dispatch --record",
        rows["commit"],
    )


def test_rows_of_another_machine_are_not_there(folder: Path) -> None:
    assert measured_or_none("dispatch") == {}
    with pytest.raises(MavcgError, match="no measured rows of dispatch on this machine; run `python -m bench.disp"):
        measured("dispatch")


def test_records_are_printed_by_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    main(["growth", "dispatch"])
    said = capsys.readouterr().out

    assert said.startswith("### Code growth of six ARM clones\n\nCounted: ")
    assert "### What choosing a version costs" in said
    assert "| edge_app: " in said and f"commit {records.read(RESULTS / 'growth.json').commit}; `python" in said


def test_a_record_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["nothing"])
    assert "nothing.json" in capsys.readouterr().err


def test_every_record_can_be_made_anew() -> None:
    assert {path.stem for path in RESULTS.glob("*.json")} <= set(TABLES)


def test_a_page_says_how_many_primitives_the_present_check_saw() -> None:
    (table,) = records.read(RESULTS / "primitive_scenarios.json").tables
    page = " ".join((ROOT / "docs/what-works.md").read_text().split())
    words = re.search(
        r"8 bits\. (\d+) of them were checked on 200 generated scenarios each \((\d+) by the present", page
    )

    assert STRICT_CHECK_SINCE
    counts = [sum(int(row[at]) for row in table.rows) for at in (1, 2)]
    assert words is not None and [int(words[1]), int(words[2])] == counts


def test_times_over_a_runtime_leave_out_what_computes_something_else() -> None:
    def row(threads: int, other: dict[str, object]) -> dict[str, object]:
        ours = {"ms": 1.0, "agrees": True, "version": "1"}
        return {"network": "a", "threads": threads, "rounds": 4, "runtimes": {"mavcg": ours, "other": other}}

    same, wrong = {"ms": 2.0, "agrees": True, "version": "2"}, {"ms": 9.0, "agrees": False, "version": "2"}
    rows = [{**row(1, same), "ratio": 0.5}, row(2, wrong)]
    record = summary("networks", {**facts("measured", "x"), "runtimes": ["mavcg", "other"], "rows": rows})

    assert [record.cell("other", f"{n} thread*") for n in (1, 2)] == ["0.50", "none"]
    assert [record.cell("f32", f"{n} thread*") for n in (1, 2)] == ["0.50", "none"]
    assert record.cell("8 bits", "1 thread") == "none"


def test_the_speed_of_a_core_that_is_not_known_is_not_stated() -> None:
    ways = {"mavcg generic": {"median_us": 2.0, "same_bits_as_generic": True, "speed_over_generic": 1.0}}
    rows = {"rounds": 1, "rows": [{"kernel": "k", "work": "1", "ways": ways}]}
    unknown = summary("versions", {**facts("measured", "x"), **rows, "cores": []})
    assert unknown.cell("this core's version", "over generic") == "none: the core is not known"

    own = {"median_us": 1.0, "same_bits_as_generic": True, "speed_over_generic": 2.0}
    rows["rows"] = [{"kernel": "k", "work": "1", "ways": {**ways, "mavcg znver3": own}}]
    known = summary("versions", {**facts("measured", "x"), **rows, "cores": ["znver3"]})
    cells = [known.cell("this core's version", column) for column in ("over generic", "over gcc -O3")]
    assert cells == ["2.00", "no gcc"]
