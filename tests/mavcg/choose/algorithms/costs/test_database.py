"""Costs in a file: what is found again, what is refused, exports and imports, two processes at once."""

import json
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.algorithms.costs import cost_version as cost_version_module
from mavcg.choose.algorithms.costs.cost_version import cost_version
from mavcg.choose.algorithms.costs.database import Conversion, CostDb, Record, compiler_version
from mavcg.choose.algorithms.costs.database_file import default_path, open_db
from mavcg.choose.algorithms.costs.provider import IMPORTED, MEASURED, SIMULATED, Cost
from mavcg.choose.algorithms.costs.rows import text_of
from mavcg.errors import MavcgError
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.profiles.load import load_core
from mavcg.specs.primitive import Layout, Scenario
from tests.conftest import examples

SCENARIO = Scenario(8, 6, 6, 1, 3, 8, 1)
FIRST, SECOND = all_primitives()[:2]
TURN = Conversion(Layout.CHW, Layout.HWC, 8, 6, 6)


def cost(ms: float) -> Cost:
    return Cost(ms, MEASURED, ms / 8, 11)


def record(ms: float = 1.0, **changes: Any) -> Record:
    given = {"what": (SCENARIO, FIRST.name), "core": "znver3", "threads": 1, "block": 16, **changes}
    return Record(cost=cost(ms), **given)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "costs.sqlite"


def test_what_was_put_is_found_by_another_reader(path: Path) -> None:
    with open_db(path) as database:
        database.put(record(1.5))
        database.put(record(0.25, what=TURN))
    with open_db(path) as database:
        provider = database.provider("znver3", 1, 16)
        assert provider.primitive(SCENARIO, FIRST) == cost(1.5)
        assert provider.conversion(Layout.CHW, Layout.HWC, 8, 6, 6) == cost(0.25)
        assert len(database) == 2


def simulated(ms: float, **changes: Any) -> Record:
    return replace(record(**changes), cost=Cost(ms, SIMULATED, ms / 100, 1))


def test_what_was_simulated_goes_behind_what_was_measured_and_imported(path: Path, tmp_path: Path) -> None:
    with open_db(path) as database:
        database.put(simulated(2.0))
        known = database.provider("znver3", 1, 16)
        assert known.primitive(SCENARIO, FIRST) == simulated(2.0).cost
        assert not database.has(record()) and database.measured_or_simulated_cost(record()) == simulated(2.0).cost
        database.put(simulated(3.0))
        assert known.primitive(SCENARIO, FIRST) == simulated(3.0).cost
        database.put(record(1.5))  # measured: takes its place
        database.put(simulated(4.0))
        assert known.primitive(SCENARIO, FIRST) == cost(1.5) and database.has(record())
        # One by another compiler is imported; the simulated one of today's code stands behind it.
        database.put(record(what=TURN, compiler="llvmlite 0.1, ziglang 0.1"))
        database.export(tmp_path / "table.json")
    with open_db(tmp_path / "other.sqlite") as other:
        other.put(simulated(9.0, what=TURN))
        other.import_file(tmp_path / "table.json")
        known = other.provider("znver3", 1, 16)
        assert known.conversion(Layout.CHW, Layout.HWC, 8, 6, 6) == replace(cost(1.0), kind=IMPORTED)
        other.put(simulated(5.0))
        assert known.primitive(SCENARIO, FIRST) == replace(cost(1.5), kind=IMPORTED)


def test_what_was_simulated_with_other_facts_of_the_core_is_not_used(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = load_core("cortex-a55")
    on_core: dict[str, Any] = {"core": core.name, "block": 4}
    versions = {SIMULATED: cost_version((SCENARIO, FIRST.name), SIMULATED, core.name)}
    with open_db(path) as database:
        database.put(simulated(2.0, **on_core))
        database.put(record(1.5, what=TURN, **on_core))
        known = database.provider(core.name, 1, 4)
        assert known.primitive(SCENARIO, FIRST) == simulated(2.0).cost and not known.outdated_costs().measured
        database.export(tmp_path / "table.json")
        monkeypatch.setattr(cost_version_module, "core_version", lambda of: "other facts")
        cost_version_module._facts_version.cache_clear()
        try:
            assert cost_version((SCENARIO, FIRST.name), SIMULATED, core.name) != versions[SIMULATED]
            assert known.primitive(SCENARIO, FIRST) is None
            assert database.measured_or_simulated_cost(record(**on_core)) is None
            assert known.outdated_costs().measured == {text_of((SCENARIO, FIRST.name))}
            assert known.conversion(Layout.CHW, Layout.HWC, 8, 6, 6) == cost(1.5)  # measured: facts do not matter
            with open_db(tmp_path / "other.sqlite") as other:
                other.import_file(tmp_path / "table.json")
                assert other.provider(core.name, 1, 4).primitive(SCENARIO, FIRST) is None
            database.put(simulated(3.0, **on_core))
            assert known.primitive(SCENARIO, FIRST) == simulated(3.0).cost and len(database) == 2
        finally:
            cost_version_module._facts_version.cache_clear()


def test_simulated_figures_stay_simulated_on_their_way(path: Path, tmp_path: Path) -> None:
    with open_db(path) as database:
        database.put(simulated(2.0))
        database.export(tmp_path / "table.json")
    with open_db(tmp_path / "other.sqlite") as other:
        other.put(record(7.0, what=(SCENARIO, SECOND.name)))
        assert other.import_file(tmp_path / "table.json") == 1
        assert other.provider("znver3", 1, 16).primitive(SCENARIO, FIRST) == simulated(2.0).cost
        other.put(record(1.0))
        other.import_file(tmp_path / "table.json")
        assert other.provider("znver3", 1, 16).primitive(SCENARIO, FIRST) == cost(1.0)


def test_nothing_else_is_taken_for_it(path: Path) -> None:
    with open_db(path) as database:
        database.put(record())
        database.put(record(what=TURN))
        known = database.provider("znver3", 1, 16)
        assert known.primitive(SCENARIO, SECOND) is None
        assert known.primitive(Scenario(8, 6, 6, 1, 3, 8, 0), FIRST) is None
        assert known.conversion(Layout.HWC, Layout.CHW, 8, 6, 6) is None
        assert known.conversion(Layout.CHW, Layout.HWC, 8, 6, 7) is None
        for other in (
            database.provider("znver2", 1, 16),
            database.provider("znver3", 2, 16),
            database.provider("znver3", 1, 8),
            database.provider("znver3", 1, 16, compiler="llvmlite 0.1, ziglang 0.1"),
        ):
            assert other.primitive(SCENARIO, FIRST) is None
        assert database.provider("znver3").primitive(SCENARIO, FIRST) == cost(1.0)  # of any block


def test_a_new_figure_takes_the_place_of_the_old_one(path: Path) -> None:
    with open_db(path) as database:
        database.put(record(2.0))
        database.put(record(3.0))
        assert database.provider("znver3").primitive(SCENARIO, FIRST) == cost(3.0)
        assert len(database) == 1


def test_cold_figures_are_kept_beside_warm_ones(path: Path) -> None:
    with open_db(path) as database:
        database.put(record(9.0, cold=True))
        assert database.provider("znver3").primitive(SCENARIO, FIRST) is None
        database.put(record(2.0))
        assert database.provider("znver3").primitive(SCENARIO, FIRST) == cost(2.0)
        assert len(database) == 2


def test_export_and_import(path: Path, tmp_path: Path) -> None:
    table = tmp_path / "costs.json"
    with open_db(path) as database:
        database.put(record(2.0))
        database.put(record(0.5, what=TURN))
        database.put(record(8.0, cold=True))
        assert database.export(table) == 3
    with open_db(tmp_path / "other.sqlite") as other:
        assert other.import_file(table) == 3
        primitive_cost = other.provider("znver3", 1, 16).primitive(SCENARIO, FIRST)
        assert primitive_cost == Cost(2.0, IMPORTED, 0.25, 11)
        assert other.provider("znver3").conversion(*(TURN.layout_from, TURN.layout_to, 8, 6, 6)) is not None
        assert other.import_file(table) == 3
        assert len(other) == 3
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_what_was_measured_here_goes_before_what_is_imported(path: Path, tmp_path: Path) -> None:
    table = tmp_path / "costs.json"
    with open_db(tmp_path / "board.sqlite") as board:
        board.put(record(2.0))
        board.put(record(4.0, what=(SCENARIO, SECOND.name), compiler="llvmlite 0.1, ziglang 0.1"))
        board.export(table)
    with open_db(path) as database:
        database.put(record(3.0))
        database.import_file(table)
        provider = database.provider("znver3")
        assert provider.primitive(SCENARIO, FIRST) == cost(3.0)
        # A table that was brought here is used whatever compiler it is of; an own figure of this compiler replaces it.
        imported = provider.primitive(SCENARIO, SECOND)
        assert imported is not None and (imported.ms, imported.kind) == (4.0, IMPORTED)
        assert not database.has(record(what=(SCENARIO, SECOND.name)))
        database.put(record(5.0, what=(SCENARIO, SECOND.name)))
        assert provider.primitive(SCENARIO, SECOND) == cost(5.0)
        assert database.has(record(what=(SCENARIO, SECOND.name)))


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no database at all, but long enough to have a header of one hundred bytes. " * 4)
    with pytest.raises(MavcgError, match="cannot be used as a database of costs") as error:
        open_db(text)
    assert str(text) in str(error.value)
    assert text.read_text().startswith("no database")
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE birds (name TEXT)")
    with pytest.raises(MavcgError, match="is another application's database"):
        open_db(foreign)
    with pytest.raises(MavcgError, match="cannot be used as a database of costs .unable to open"):
        open_db(tmp_path)


def test_a_database_of_a_later_version_is_refused(path: Path) -> None:
    open_db(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(MavcgError, match="has version 99"):
        open_db(path)


def test_a_damaged_database_is_one_error(path: Path) -> None:
    with open_db(path) as database:
        for number in range(80):
            database.put(record(1.0, threads=number + 1))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(MavcgError, match="cannot be used as a database of costs"), open_db(path) as database:
        len(database)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ms = 'fast'", "'fast' and 0.125 are not times in milliseconds"),
        ("ms = -1", "-1.0 and"),
        ("spread_ms = 9e999", "1.0 and inf"),
        ("what = 'garbage', kernels = 'others'", "Expecting value"),
    ],
)
def test_a_row_that_nothing_of_ours_wrote_is_named(path: Path, tmp_path: Path, change: str, words: str) -> None:
    with open_db(path) as database:
        database.put(record())
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE costs SET {change}")
    connection.commit()
    connection.close()

    with (
        open_db(path) as database,
        pytest.raises(MavcgError, match=f"costs.sqlite: cannot be used as a database of costs .{words}"),
    ):
        known = database.provider("znver3", 1, 16)
        known.primitive(SCENARIO, FIRST)
        known.outdated_costs()


def test_a_row_without_a_scenario_is_not_exported(path: Path, tmp_path: Path) -> None:
    with open_db(path) as database:
        database.put(record())
        database._connection.execute("UPDATE costs SET what = 'garbage'")
        with pytest.raises(MavcgError, match="cannot be used as a database of costs"):
            database.export(tmp_path / "costs.json")

    assert not (tmp_path / "costs.json").exists()


@pytest.mark.parametrize("ms", [float("nan"), float("inf"), -1.0, 1e13])
def test_no_number_is_no_cost(path: Path, ms: float) -> None:
    with open_db(path) as database, pytest.raises(MavcgError, match="milliseconds"):
        database.put(record(ms))


EXPORTED: dict[str, Any] = {
    "format": "mavcg costs",
    "version": 1,
    "costs": [
        {
            "what": {"conversion": ["CHW", "HWC", 8, 6, 6]},
            "core": "cortex-a55",
            "threads": 1,
            "compiler": "x",
            "block": 8,
            "caches": "warm",
            "ms": 1.0,
            "spread_ms": 0.0,
            "runs": 5,
            "kind": "measured",
            "date": "",
            "host": "board",
        }
    ],
}


def changed(**changes: Any) -> dict[str, Any]:
    return {**EXPORTED, "costs": [{**EXPORTED["costs"][0], **changes}]}


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {**EXPORTED, "version": 2},
        {**EXPORTED, "format": "birds"},
        changed(ms="fast"),
        changed(ms=-1.0),
        changed(ms=float("nan")),
        changed(threads=1.5),
        changed(what={"conversion": ["CHW", "WHC", 8, 6, 6]}),
        changed(what={"conversion": ["CHW", "HWC", 8]}),
        changed(what={"primitive": "p", "scenario": {"c": 1}}),
        changed(caches="lukewarm"),
        changed(core=None),
    ],
)
def test_a_table_that_is_none_changes_nothing(path: Path, tmp_path: Path, document: Any) -> None:
    table = tmp_path / "table.json"
    table.write_text(json.dumps(document))
    with open_db(path) as database:
        with pytest.raises(MavcgError, match="is not a table of costs"):
            database.import_file(table)
        assert len(database) == 0


@settings(max_examples=examples(60, 8))
@given(
    st.one_of(
        st.binary(max_size=60), st.recursive(st.none() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())
    )
)
def test_any_bytes_are_no_table(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    table = tmp_path_factory.getbasetemp() / "any.json"
    table.write_bytes(content)
    with open_db(tmp_path_factory.getbasetemp() / "any.sqlite") as database, pytest.raises(MavcgError):
        database.import_file(table)


def test_the_table_above_is_right(path: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    table.write_text(json.dumps(EXPORTED))
    with open_db(path) as database:
        assert database.import_file(table) == 1
        assert database.provider("cortex-a55").conversion(Layout.CHW, Layout.HWC, 8, 6, 6) == Cost(1.0, IMPORTED, 0, 5)
        with pytest.raises(MavcgError, match="cannot be read"):
            database.import_file(tmp_path / "absent.json")


WRITER = """
import sys
from pathlib import Path
from mavcg.specs.primitive import Scenario
from mavcg.choose.algorithms.costs.database import Record
from mavcg.choose.algorithms.costs.database_file import open_db
from mavcg.choose.algorithms.costs.provider import Cost
for number in range(int(sys.argv[3])):
    with open_db(Path(sys.argv[1])) as database:
        database.put(Record((Scenario(8, 6, 6, 1, 3, 8, 1), sys.argv[2]), Cost(1.0, "measured"), "c", number + 1))
"""


@pytest.mark.long
def test_two_processes_at_once(path: Path) -> None:
    count = examples(40, 8)
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, name, str(count)]) for name in ("a", "b")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    with open_db(path) as database:
        assert len(database) == 2 * count


def test_where_costs_are_kept_by_default(tmp_path: Path) -> None:
    assert default_path({"MAVCG_CACHE": str(tmp_path)}) == tmp_path / "costs.sqlite"
    with pytest.raises(MavcgError, match="--db"):
        default_path({"MAVCG_CACHE": "off", "HOME": str(tmp_path)})


def test_the_compiler_is_named_with_its_versions() -> None:
    words = compiler_version()
    assert words.startswith("llvmlite ") and ", ziglang " in words and "none" not in words


def test_a_database_is_a_context(path: Path) -> None:
    with open_db(path) as database:
        assert isinstance(database, CostDb)
    with pytest.raises(MavcgError):
        len(database)
