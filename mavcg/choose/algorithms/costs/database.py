"""Costs in a file: an SQLite database that several processes may use at once, exported to and imported from JSON.

A cost is of a scenario and a primitive, or of an image and a conversion. It depends on the core, the number of threads,
the version of the compiler, and the number of channels per block. Measured costs go before imported ones, and these
before simulated ones. Each has the version of its kernels, a simulated one also that of the core's facts
(`cost_version`); measured and simulated costs of other versions are not used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.choose.algorithms.costs import statements
from mavcg.choose.algorithms.costs.cost_version import cost_version, kernel_version
from mavcg.choose.algorithms.costs.provider import IMPORTED, MEASURED, SIMULATED, Cost
from mavcg.choose.algorithms.costs.rows import (
    COLUMNS,
    KEY,
    VERSION,
    Conversion,
    Record,
    cost_of,
    read_table,
    row_of,
    table_text,
    text_of,
    what_of,
)
from mavcg.errors import MavcgError
from mavcg.files.database import Database, DatabaseKind
from mavcg.files.disk_space import with_room
from mavcg.files.whole_file import whole
from mavcg.specs.primitive import Layout, Primitive, Scenario
from mavcg.toolchain.zig import compiler_version

__all__ = ["Conversion", "CostDb", "KnownCosts", "Record", "compiler_version"]

KIND = DatabaseKind("a database of costs", 0x6D617663, VERSION, (statements.CREATE,), statements.ADDED)


class CostDb(Database):
    """Costs in a file; other processes see every `put` at once. A context manager."""

    def __init__(self, path: Path) -> None:
        """Open the file, which is created if missing. Raises: MavcgError as Database."""
        super().__init__(path, KIND)

    def put(self, record: Record) -> None:
        """Store a cost in place of one for the same key; a simulated one replaces no better one.

        Raises: MavcgError for a cost that is not a number.
        """
        version = record.kernels or cost_version(record.what, record.cost.kind, record.core)
        row = row_of(replace(record, kernels=version))
        with self.transaction() as connection:
            if record.cost.kind == SIMULATED:
                connection.execute(statements.PUT_SIMULATED, (*row, kernel_version(record.what)))
            else:
                connection.execute(statements.PUT, row)

    def has(self, record: Record) -> bool:
        """True if there is a measured cost for the record's key and kernels; the record's own cost does not matter."""
        return self.measured_cost(record) is not None

    def measured_cost(self, record: Record) -> Cost | None:
        """Return the measured cost for the record's key and kernels; None if there is none."""
        return self._cost_of_kinds(record, (MEASURED,))

    def measured_or_simulated_cost(self, record: Record) -> Cost | None:
        """Return the measured or simulated cost for the record's key and kernels; None if there is none."""
        return self._cost_of_kinds(record, (MEASURED, SIMULATED))

    def _cost_of_kinds(self, record: Record, kinds: Sequence[str]) -> Cost | None:
        where = " AND ".join(f"{column} = ?" for column in KEY)
        of_kind = ", ".join("?" * len(kinds))
        query = f"SELECT {statements.COST}, kernels FROM costs WHERE {where} AND kind IN ({of_kind})"
        with self.errors():
            for *values, kernels in self.rows(query, (*row_of(record)[: len(KEY)], *kinds)):
                cost = cost_of(values)
                if kernels == (record.kernels or cost_version(record.what, cost.kind, record.core)):
                    return cost
            return None

    def provider(self, core: str, threads: int = 1, block: int = 0, compiler: str = "") -> "KnownCosts":
        """Return the known costs of a core, in warm caches.

        block: 0 for any; compiler: this one's version by default.
        """
        return KnownCosts(self, core, threads, block, compiler or compiler_version())

    def find(
        self, operation: tuple[Scenario, str] | Conversion, core: str, threads: int, block: int, compiler: str
    ) -> Cost | None:
        """Return the best known cost: measured, else imported, else simulated.

        Measured and simulated ones are those of this compiler and of these kernels.
        """
        kernels = kernel_version(operation)
        with self.errors():
            rows = self.rows(
                statements.FIND, (text_of(operation), core, threads, compiler, kernels, block, block, compiler, kernels)
            )
            for *values, of in rows:
                cost = cost_of(values)
                if cost.kind != SIMULATED or of == cost_version(operation, SIMULATED, core):
                    return cost
            return None

    def knows(self, core: str, threads: int) -> bool:
        """True if there is any cost of a core and a number of threads."""
        with self.errors():
            return bool(self.rows("SELECT 1 FROM costs WHERE core = ? AND threads = ? LIMIT 1", (core, threads)))

    def outdated_costs(self, core: str, threads: int, block: int, current_compiler: str) -> "Outdated":
        """Return a core's costs of other kernels or another compiler than today's."""
        with self.errors():
            others = [
                (text, kind)
                for text, kind, compiler, kernels in self.rows(statements.FIND_ALL, (core, threads, block, block))
                if compiler != current_compiler or kernels != cost_version(what_of(text), kind, core)
            ]
        return Outdated(
            frozenset(text for text, kind in others if kind != IMPORTED),
            frozenset(text for text, kind in others if kind == IMPORTED),
        )

    def __len__(self) -> int:
        with self.errors():
            return int(self.rows("SELECT COUNT(*) FROM costs", ())[0][0])

    def export(self, path: Path) -> int:
        """Write all costs as JSON; return their number. Raises: MavcgError if the file cannot be written."""
        with self.errors():
            rows = self.rows(f"SELECT {', '.join(COLUMNS)} FROM costs ORDER BY {', '.join(KEY)}", ())
            text = table_text(rows)
        try:
            with whole(path) as made:
                made.write_text(text, encoding="utf-8")
        except OSError as error:
            reason = with_room(error, path, len(text))
            raise MavcgError(f"{path}: cannot be written ({reason}); name another file") from None
        return len(rows)

    def import_file(self, path: Path) -> int:
        """Import the costs of a file that `export` wrote, all or none, and return their number.

        Measured costs become "imported"; simulated costs stay simulated. A cost that this database measured is kept,
        unless it was measured with other kernels than today's. Raises: MavcgError for a file that `export` did not
        write.
        """
        rows = read_table(path)
        kind = COLUMNS.index("kind")
        with self.transaction() as connection:
            connection.executemany(
                statements.PUT_SIMULATED,
                [(*row, kernel_version(what_of(row[0]))) for row in rows if row[kind] == SIMULATED],
            )
            connection.executemany(
                statements.IMPORT, [(*row, kernel_version(what_of(row[0]))) for row in rows if row[kind] != SIMULATED]
            )
        return len(rows)


@dataclass(frozen=True)
class Outdated:
    """Costs of other kernels or another compiler, by the text of what they are of; only imported ones are used."""

    measured: frozenset[str]
    imported: frozenset[str]


@dataclass(frozen=True)
class KnownCosts:
    """The costs in a database for one core and number of threads, as a CostProvider."""

    database: CostDb
    core: str
    threads: int
    block: int
    compiler: str

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        """Implement `CostProvider.primitive`."""
        return self._find((primitive.cost_scenario(scenario), primitive.name))

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        """Implement `CostProvider.conversion`."""
        return self._find(Conversion(layout_from, layout_to, c, h, w))

    @property
    def any(self) -> bool:
        """True if there is any cost of this core and number of threads."""
        return self.database.knows(self.core, self.threads)

    def outdated_costs(self) -> Outdated:
        """Return the outdated costs in the database for this core and number of threads."""
        return self.database.outdated_costs(self.core, self.threads, self.block, self.compiler)

    def _find(self, operation: tuple[Scenario, str] | Conversion) -> Cost | None:
        return self.database.find(operation, self.core, self.threads, self.block, self.compiler)
