"""Which kernels a cost is of: digests of sources, costs of others left alone, databases from before there were any."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mavcg.choose.algorithms.costs import cost_version
from mavcg.choose.algorithms.costs.cost_version import sources_of, version_of_module
from mavcg.choose.algorithms.costs.database import Conversion, CostDb, Record, compiler_version
from mavcg.choose.algorithms.costs.database_file import open_db
from mavcg.choose.algorithms.costs.provider import IMPORTED, MEASURED, Cost
from mavcg.choose.algorithms.costs.rows import text_of
from mavcg.kernels.primitives.registry import all_primitives, find_primitive, module_of
from mavcg.specs.primitive import Layout, Scenario

REGISTER_TILE = "gemm.register_tile"
SCENARIO = Scenario(8, 6, 6, 1, 3, 8, 1)
NAME = "im2col_chw_chw"
WHAT = (SCENARIO, NAME)
TURN = Conversion(Layout.CHW, Layout.HWC, 8, 6, 6)


def record(ms: float, kernels: str = "", what: tuple[Scenario, str] | Conversion = WHAT) -> Record:
    return Record(what, Cost(ms, MEASURED, 0.1, 5), "znver3", 1, 16, kernels=kernels)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[CostDb]:
    with open_db(tmp_path / "costs.sqlite") as found:
        yield found


def found(database: CostDb) -> Cost | None:
    return database.provider("znver3", 1, 16).primitive(SCENARIO, find_primitive(NAME))


def test_every_primitive_has_the_version_of_its_family() -> None:
    versions = {module_of(p.name): cost_version.kernel_version((SCENARIO, p.name)) for p in all_primitives()}

    assert len(set(versions.values())) == len(versions) > 5
    assert all(len(version) == cost_version.DIGITS for version in versions.values())
    assert cost_version.kernel_version((SCENARIO, "there_is_none")) == ""
    assert cost_version.kernel_version(TURN) not in versions.values()


@pytest.mark.parametrize(
    ("module", "some"),
    [
        # The engine's emitters.
        ("implicit_gemm", {"conv.conv2d", "conv.blocks", "gemm.micro_kernel", "primitives.common", REGISTER_TILE}),
        ("im2.family", {"primitives.im2.patches", "primitives.im2.stages", "primitives.matrix_product", REGISTER_TILE}),
        ("winograd.family", {"primitives.winograd.input_transform", "primitives.winograd.matrices"}),
        ("convert", {"primitives.common", "builder.emit"}),
    ],
)
def test_sources_are_what_a_family_imports_at_any_depth(module: str, some: set[str]) -> None:
    names = {name.removeprefix("mavcg.kernels.") for name in sources_of(f"mavcg.kernels.primitives.{module}")}

    assert some | {f"primitives.{module}", "mavcg.runtime.machines"} <= names
    assert not names & {"tensor.softmax", "primitives.registry", "tensor.pad"}


FAMILY = "mavcg.kernels.primitives.kn2.family"


@pytest.fixture
def version_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Callable[[str], str]], str]]:
    """A function that returns FAMILY's version when one module's source is edited."""
    read = cost_version._source

    def version(module: str, edit: Callable[[str], str]) -> str:
        monkeypatch.setattr(cost_version, "_source", lambda name: edit(read(name)) if name == module else read(name))
        cost_version._code.cache_clear()
        version_of_module.cache_clear()
        return version_of_module(FAMILY)

    yield version
    cost_version._code.cache_clear()
    version_of_module.cache_clear()


SOURCES = ("mavcg.kernels.gemm.register_tile", "mavcg.kernels.primitives.kn2.taps", "mavcg.runtime.machines")


@pytest.mark.long
@pytest.mark.sample(2)
@pytest.mark.parametrize("module", SOURCES)
def test_a_change_of_code_changes_the_version(
    module: str, version_with: Callable[[str, Callable[[str], str]], str]
) -> None:
    before = version_with(module, str)

    assert version_with(module, lambda source: source + "\nONE_MORE = 1\n") != before


@pytest.mark.sample(1)
@pytest.mark.parametrize("module", SOURCES)
def test_a_change_of_words_keeps_the_version(
    module: str, version_with: Callable[[str, Callable[[str], str]], str]
) -> None:
    def reword(source: str) -> str:
        reworded = re.sub(r'^( *)"""(?=[A-Z])', r'\1"""Another sentence first. ', source, flags=re.MULTILINE)
        assert reworded != source
        return reworded.replace("\n\n\n", "\n\n\n# A comment.\n\n\n")

    assert version_with(module, reword) == version_with(module, str)


def test_a_change_of_a_module_that_is_not_imported_keeps_the_version(
    version_with: Callable[[str, Callable[[str], str]], str],
) -> None:
    module = "mavcg.kernels.tensor.softmax"

    assert version_with(module, lambda source: source + "\nONE_MORE = 1\n") == version_with(module, str)


def test_what_was_measured_of_other_kernels_is_not_used(database: CostDb) -> None:
    database.put(record(2.0, "0" * 12))
    assert found(database) is None
    assert not database.has(record(0.0))  # and is to be measured again
    assert database.outdated_costs("znver3", 1, 16, compiler_version()).measured == {text_of(WHAT)}

    database.put(record(3.0))
    assert found(database) == Cost(3.0, MEASURED, 0.1, 5)
    assert database.has(record(0.0)) and len(database) == 1
    assert not database.outdated_costs("znver3", 1, 16, compiler_version()).measured


def test_what_was_imported_is_used_and_named(database: CostDb, tmp_path: Path) -> None:
    with open_db(tmp_path / "other.sqlite") as other:
        other.put(record(4.0, "f" * 12))
        other.export(tmp_path / "costs.json")
    database.put(record(2.0, "0" * 12))  # of other kernels: the import takes its place
    assert database.import_file(tmp_path / "costs.json") == 1

    assert found(database) == Cost(4.0, IMPORTED, 0.1, 5)
    assert database.outdated_costs("znver3", 1, 16, compiler_version()).imported == {text_of(WHAT)}

    database.put(record(5.0))
    database.import_file(tmp_path / "costs.json")
    assert found(database) == Cost(5.0, MEASURED, 0.1, 5)  # of these kernels: it stays


def test_files_from_before_kernels_had_versions(tmp_path: Path) -> None:
    path, table = tmp_path / "old.sqlite", tmp_path / "old.json"
    with open_db(path) as database:
        database.put(record(2.0))
        database.put(record(0.5, what=TURN))
        database.export(table)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE costs DROP COLUMN kernels")
        connection.execute("ALTER TABLE costs DROP COLUMN turns")
        connection.execute("PRAGMA user_version = 1")
    document = json.loads(table.read_text())
    document["version"] = 1
    for cost in document["costs"]:
        del cost["kernels"], cost["turns"]
    table.write_text(json.dumps(document))

    with open_db(path) as database:
        assert len(database) == 2 and found(database) is None
        assert database.provider("znver3").conversion(Layout.CHW, Layout.HWC, 8, 6, 6) is None
        assert len(database.outdated_costs("znver3", 1, 16, compiler_version()).measured) == 2
        assert database.import_file(table) == 2
        assert found(database) == Cost(2.0, IMPORTED, 0.1, 5)
    with open_db(path) as database:
        assert len(database) == 2


def test_files_from_before_turns_are_read_and_know_of_none(tmp_path: Path) -> None:
    path, table = tmp_path / "old.sqlite", tmp_path / "old.json"
    with open_db(path) as database:
        database.put(record(2.0))
        database.export(table)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE costs DROP COLUMN turns")
        connection.execute("PRAGMA user_version = 2")
    document = json.loads(table.read_text())
    document["version"] = 2
    for cost in document["costs"]:
        del cost["turns"]
    table.write_text(json.dumps(document))

    with open_db(path) as database:
        assert found(database) == Cost(2.0, MEASURED, 0.1, 5, 0)
    with open_db(tmp_path / "new.sqlite") as database:
        assert database.import_file(table) == 1
        assert found(database) == Cost(2.0, IMPORTED, 0.1, 5, 0)
