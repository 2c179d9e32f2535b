"""Errors against silicon that the record's rows put into a core's file."""

from collections.abc import Sequence

from bench import records
from bench.silicon.blind_table import BLIND_HEAD
from bench.silicon.core_facts import CORES, errors, recorded, recorded_blind, with_errors

MACHINE = ("processor", "cpus", "virtual")
FILE = 'name = "x"\n\n[model]\nerror = { value = 1, unit = "percent", source = "old" }\nconfidence = 1\n\n[instr]\n'


def row(modelled: float | None, kind: str = "cycles", held_out: bool = False) -> dict[str, object]:
    known = {} if modelled is None else {"modelled": modelled}
    return {"core": "x", "kind": kind, "silicon": 10.0, **known, **({"held_out": True} if held_out else {})}


ROW: dict[str, object] = {"core": "x", "kind": "cycles", "silicon": 10.0}


def lines_of(rows: Sequence[dict[str, object]]) -> Sequence[Sequence[str]]:
    """Return the rows of the record that the bench makes of its rows."""
    head = {"kind": "", "command": "", "commit": "", "date": "", "machine": dict.fromkeys(MACHINE, "")}
    (table,) = records.record_of("x", head, errors({"rows": rows})).tables
    return table.rows


def test_errors_are_means_of_each_group() -> None:
    rows = [row(11), row(8, "loop", held_out=True), row(None), row(20, "ratio"), row(9, "instruction", held_out=True)]

    lines = with_errors(FILE, lines_of(rows)).splitlines()

    assert [line.split(", source")[0].replace("{ value = ", "") for line in lines[3:13]] == [
        'error = 15.00, unit = "percent"',
        'figures = 2, unit = "figures"',
        'held_out_error = 20.00, unit = "percent"',
        'held_out_figures = 1, unit = "figures"',
        'changes_error = 100.00, unit = "percent"',
        'changes_figures = 1, unit = "figures"',
        'instructions_error = 10.00, unit = "percent"',
        'instructions_figures = 1, unit = "figures"',
        'instructions_held_out_error = 10.00, unit = "percent"',
        'instructions_held_out_figures = 1, unit = "figures"',
    ]
    assert lines[13:] == ["confidence = 1", "", "[instr]"]
    assert with_errors("\n".join(lines) + "\n", lines_of(rows)).splitlines() == lines


def test_a_core_without_figures_or_table_has_no_errors() -> None:
    assert with_errors(FILE, []) == 'name = "x"\n\n[model]\nconfidence = 1\n\n[instr]\n'
    assert with_errors('name = "x"\n', lines_of([row(11)])) == 'name = "x"\n'


def test_the_cores_files_are_those_of_the_record() -> None:
    for path in CORES.glob("*.toml"):
        text = path.read_text()
        assert with_errors(text, recorded(path.stem), recorded_blind(path.stem)) == text, path.name


def test_errors_on_blind_projects_come_first() -> None:
    row = dict(zip(BLIND_HEAD, ("x", "all", "52", "+0.7%", "18.60%", "10% missed"), strict=True))
    lines = with_errors(FILE, lines_of([{**ROW, "modelled": 11}]), tuple(row.values())).splitlines()
    assert [line.split(", source")[0].replace("{ value = ", "") for line in lines[3:6]] == [
        'blind_error = 18.60, unit = "percent"',
        'blind_figures = 52, unit = "figures"',
        'error = 10.00, unit = "percent"',
    ]
